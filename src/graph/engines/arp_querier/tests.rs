//! What becomes of packets whose receivers are not known yet.

use crate::frame::{FRAME, Frame, FramePool, PortId};
use crate::graph::load::load;
use crate::graph::scratch::Scratch;
use crate::graph::table::Graph;

const SECOND: u64 = 1_000_000_000;

struct Rig(Graph, FramePool, Scratch);

impl Rig {
    fn new(arguments: &str) -> Rig {
        let text = format!(
            "FromDevice(a) -> MarkIPHeader(0) -> [0] q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01, {arguments}); \
             FromDevice(b) -> [1] q; q -> Queue -> ToDevice(a);"
        );
        let graph = load(&text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        Rig(graph, FramePool::new(FRAME, 16), Scratch::default())
    }

    /// A packet to 10.0.1.`to`; the link addresses of what leaves, and what has been dropped.
    fn send(&mut self, to: u8, now: u64) -> (Vec<Vec<u8>>, usize) {
        let Rig(graph, pool, scratch) = self;
        let mut bytes = vec![0; 20];
        (bytes[0], bytes[3], bytes[16], bytes[18], bytes[19]) = (0x45, 20, 10, 1, to);
        let mut frame = Frame::from_bytes(&bytes);
        frame.port = PortId(0);
        graph.receive(frame, now, pool, scratch);
        while graph.work(now, pool, scratch) {}
        let out = scratch.out.drain(..).map(|frame| frame.bytes()[..6].to_vec()).collect();
        (out, scratch.dropped.drain(..).count())
    }

    fn write(&mut self, value: &str) -> Result<(), String> {
        self.0.write(self.0.find("q").unwrap(), "insert", value).unwrap()
    }
}

#[test]
fn who_is_inserted_is_known_and_what_waited_for_him_leaves_first() {
    let mut rig = Rig::new("TIMEOUT 0, CAPACITY 2");
    assert_eq!(rig.send(2, SECOND).0, [[255; 6]], "a question");
    for (wrong, why) in [("", "as 10.0.0.2"), ("10.0.1.2", "as"), ("10.0.1.2 02:00:00:00:00:02 x", "as")] {
        assert!(rig.write(wrong).unwrap_err().contains(why), "{wrong}");
    }
    rig.write("10.0.1.2 02:00:00:00:00:02").unwrap();
    let known = vec![2, 0, 0, 0, 0, 2];
    assert_eq!(rig.send(2, 2 * SECOND).0, [known.clone(), known.clone()]);
    assert_eq!((rig.send(2, 10_000 * SECOND).0, rig.0.held()), (vec![known], 0), "with no timeout for ever");
    rig.write("10.0.1.3 02:00:00:00:00:03").unwrap();
    assert!(rig.write("10.0.1.4 02:00:00:00:00:04").unwrap_err().contains("2 addresses, which are all"));
}

#[test]
fn a_full_table_makes_room_when_somebody_has_not_answered_for_long_enough() {
    let mut rig = Rig::new("CAPACITY 3");
    (1..=3).for_each(|to| assert_eq!(rig.send(to, u64::from(to) * SECOND).1, 0));
    assert_eq!(rig.send(4, 3 * SECOND), (vec![], 1), "all three are still asked for");
    assert_eq!(rig.send(4, 4 * SECOND), (vec![vec![255; 6]], 1), "what waited for the first is given up");
    assert_eq!(rig.send(5, 4 * SECOND + 1), (vec![], 1));
    assert_eq!(rig.send(5, 5 * SECOND), (vec![vec![255; 6]], 1));
}
