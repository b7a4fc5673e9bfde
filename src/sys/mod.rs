//! Every call to the operating system that is not in the standard library, behind small types.
//!
//! Nothing here decides anything: each function is one system call or a handful that belong together, with its
//! arguments checked and its errors named.
#![allow(unsafe_code)]

pub mod bpf;
pub mod cache;
pub mod clock;
pub mod dir;
pub mod discovery;
pub mod ethtool;
pub mod files_of_node;
pub mod fork;
pub mod hook;
pub mod jail;
pub mod landlock;
pub mod lock;
pub use libanode::mapping;
pub mod mmsg;
pub mod netdev;
pub mod netlink;
pub mod netns;
pub mod notify;
mod option;
pub mod own;
pub mod owners;
pub mod packet;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod realtime;
mod ring;
pub use libanode::seqpacket;
pub mod shared_object;
pub mod tcp;
pub mod threads;
pub mod udp;
pub mod watch;
pub mod xsk;
mod xsk_ring;
