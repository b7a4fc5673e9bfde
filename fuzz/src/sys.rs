//! The messages between processes of a node, from `src/sys`.

/// Hints that change nothing.
pub mod cache {
    pub fn make_room<T>(_: &mut Vec<T>, _: usize) {}
    pub fn prefetch_at<T>(_: &[T], _: usize) {}
}

/// How children end.
#[path = "../../src/sys/fork"]
pub mod fork {
    mod ended;

    pub use ended::{End, Ended};
}

/// What jails are to be, and what is said of them.
#[path = "../../src/sys/jail"]
pub mod jail {
    mod description;
    mod message;
    mod paths;
    #[path = "seccomp/lists.rs"]
    mod seccomp;

    pub use description::{Capability, DESCRIPTOR_MAX, Group, Identity, Jail, Limits, Part, Program, WORDS_MAX};
    pub use message::{End, Order, Said};
    pub use paths::Paths;
}

/// What the kernel's messages about routes say.
#[path = "../../src/sys/netlink"]
pub mod netlink {
    #[allow(dead_code, reason = "those who read from the kernel use the rest")]
    mod news;

    pub use news::{RouteNews, each_route};
}
