//! What traffic says of a program before a link: the node's own packets speak for it, others' bytes against.
//!
//! A look compares counters of the interface and of the node with those of the look before. Others' packets count by their
//! bytes: a program costs them about a microsecond for each packet that these would fill, and short ones next to nothing
//! (`anode bench presence`). So a stream counts alike whether its segments come joined or one by one.

/// Packets of a look from which it says something.
const LEAST: u64 = 200;

/// Looks in a row that must speak against what is, and looks for which a change stays at least.
const IN_A_ROW: u8 = 2;
const CALM: u8 = 5;

/// Bytes of an Ethernet header with a tag.
const HEADERS: u64 = 18;

/// What traffic has said in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Weighing {
    against: u8,
    calm: u8,
}

impl Weighing {
    /// Of so many packets of the node's own, and those that others' bytes would fill; says whether the choice is the other one now.
    fn turns(&mut self, with: bool, own: u64, others: u64) -> bool {
        self.calm = self.calm.saturating_sub(1);
        let all = own + others;
        let speaks_against = all >= LEAST && if with { own * 4 < all } else { own * 2 > all };
        self.against = if speaks_against { self.against.saturating_add(1) } else { 0 };
        if self.against < IN_A_ROW || self.calm > 0 {
            return false;
        }
        *self = Weighing { against: 0, calm: CALM };
        true
    }
}

/// What is so at all ports that traffic decides on: the kernel half sends on only between ports that have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Together {
    /// Whether the kernel half is to stand there; nothing: there is no such port yet.
    pub with: Option<bool>,
    /// A process before this one has left it there.
    pub was_left: bool,
    weighing: Weighing,
    /// Packets of the last look that said something: the node's own, and those that others' bytes would fill.
    pub last: Option<[u64; 2]>,
}

impl Together {
    /// So many packets have come since the last look.
    pub fn weigh(&mut self, own: u64, others: u64) {
        if own + others >= LEAST {
            self.last = Some([own, others]);
        }
        if let Some(with) = &mut self.with
            && self.weighing.turns(*with, own, others)
        {
            *with = !*with;
        }
    }
}

/// Counters of a port at a look: of its interface, and of the node.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Frames that have come in, whoever's, and their bytes.
    pub received: [u64; 2],
    /// Those of the node's user half.
    pub own: [u64; 2],
    /// Capsules of its kernel half.
    pub in_kernel: u64,
}

/// Packets of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The node's own.
    pub own: u64,
    /// Those that others' bytes would fill, each as long as the link carries.
    pub others: u64,
    /// Frames were longer than the link carries.
    pub joined: bool,
}

impl Counted {
    /// What has come since an earlier look by a link that carries `mtu` bytes.
    pub fn since(&self, before: &Counted, mtu: u64) -> Seen {
        let less = |[now, was]: [u64; 2]| now.saturating_sub(was);
        let [frames, bytes] = [0, 1].map(|at| less([self.received[at], before.received[at]]));
        let [user, user_bytes] = [0, 1].map(|at| less([self.own[at], before.own[at]]));
        let in_kernel = less([self.in_kernel, before.in_kernel]);
        // The kernel half counts no bytes: its capsules are as long as all frames on the mean.
        let kernel_bytes = bytes / frames.max(1) * in_kernel;
        let others = if frames > user + in_kernel { bytes.saturating_sub(user_bytes + kernel_bytes) } else { 0 };
        Seen { own: user + in_kernel, others: others / mtu.max(1), joined: bytes > frames * (mtu + HEADERS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_must_have_said_it_for_some_seconds_and_a_change_stays() {
        let (mut weighing, mut with, mut changes) = (Weighing::default(), false, Vec::new());
        // Own packets, then long ones of others, ever faster: nothing, then one change a calm time at most.
        for look in 0..60u64 {
            let own_turn = if look < 30 { look < 15 } else { look % 4 < 2 };
            let (own, others) = if own_turn { (1000, 10) } else { (10, 1000) };
            if weighing.turns(with, own, others) {
                with = !with;
                changes.push(look);
            }
        }
        assert_eq!(changes[..2], [1, 16]);
        assert!(changes.windows(2).all(|pair| pair[1] - pair[0] >= u64::from(CALM)), "{changes:?}");
    }

    #[test]
    fn what_is_even_or_little_changes_nothing() {
        for (own, others) in [(LEAST / 2, LEAST / 2), (LEAST - 1, 0), (0, LEAST - 1), (400, 600)] {
            for with in [false, true] {
                let mut weighing = Weighing::default();
                assert!((0..9).all(|_| !weighing.turns(with, own, others)), "{own} {others} {with}");
            }
        }
    }

    #[test]
    fn others_count_by_their_bytes() {
        let none = Counted { received: [0; 2], own: [0; 2], in_kernel: 0 };
        let since = |received, own, in_kernel| Counted { received, own, in_kernel }.since(&none, 1500);
        // Joined segments of 64 kB, and the same in single packets.
        let joined = since([100, 6_400_000], [0, 0], 0);
        assert_eq!(joined, Seen { own: 0, others: 4266, joined: true });
        assert_eq!(since([4266, 6_400_000], [0, 0], 0), Seen { joined: false, ..joined });
        // Acknowledgements, and the mix of an internet: 400 bytes on the mean.
        assert_eq!(since([9000, 600_000], [0, 0], 0).others, 400);
        assert_eq!(since([9300, 3_630_000], [300, 30_000], 0), Seen { own: 300, others: 2400, joined: false });
        // The node's own are not among them, whichever half has had them.
        assert_eq!(since([5000, 7_000_000], [1000, 1_400_000], 4000), Seen { own: 5000, others: 0, joined: false });
    }
}
