//! Frames of all workers are captured, each with its story.

use super::{capture, packets, place, told};
use crate::running::{guest, sockets};
use crate::workers::{COUNT, cross, two_queues, with_workers};
use std::collections::HashSet;

#[test]
fn a_capture_has_the_packets_of_every_worker_with_what_became_of_them() {
    for (name, xdp) in [("seenw", false), ("seenwx", true)] {
        let Some(mut net) = two_queues(name) else { return };
        let adjust = move |node: &str, config: &mut toml::Table| {
            if xdp {
                sockets(false)(node, config);
            }
        };
        net.start(&with_workers(2, adjust));
        let code = net.control("r").add_code(&guest("state")).unwrap();
        assert_eq!(cross(&net, code), COUNT);
        let folder = tempfile::tempdir().unwrap();
        let frames = 2 * COUNT;
        let client = capture(&net, "r", &place(&folder), &["code=state", "--count", &frames.to_string()]);
        assert_eq!(cross(&net, code), COUNT);
        assert_eq!(client.last(), format!("{frames} packets, 0 missed"), "{name}");
        let seen = packets(&place(&folder));
        let came = seen.iter().filter(|packet| packet.inward == Some(true)).count() as u32;
        assert_eq!((came, seen.len() as u32), (COUNT, frames), "{name}");
        let titles: HashSet<_> = seen.iter().map(|packet| told(packet).2.contains("(state)")).collect();
        assert_eq!(titles, HashSet::from([true]), "{name}: each is of the code's domain by one name");
        let onwards = seen.iter().filter(|packet| told(packet).2.contains("forwarded by to-b")).count() as u32;
        assert_eq!(onwards, COUNT, "{name}");
    }
}
