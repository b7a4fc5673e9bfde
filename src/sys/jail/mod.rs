//! Jails: processes limited to the files, calls and resources of a [`Jail`] value. Every process of the node with
//! others' code is started here.
//!
//! ```text
//! starter (has the privilege) ── Jail, descriptors ──▶ helper: control groups, uid, namespaces ── clone3 ──▶ init
//!    ▲                                                                                                      │ root, uid, no capability
//!    └──────────────── one socket: "runs", what is weaker; at the end how it ended ◀────────────────────────┤ fork
//!                                                              program: limits, Landlock, seccomp, exec ◀───┘
//! ```
//!
//! The model is Firecracker's jailer. The helper is this program again ([`ARGUMENT`]), so nothing of a node with many threads is
//! inherited and nothing runs between fork and exec that may not. *init* is process 1 of the jail: it passes on that the program
//! is to end, tells how it has ended, and takes everything in the jail with it when it goes, which it does when the other end of its
//! socket is closed. So nothing in a jail outlives whoever holds that end, and no signal is needed across uids.
//!
//! A [`Jail`] is a plain value that can be sent to whoever has the privilege. What a host lacks is a [`Part`] that is
//! *weaker*: named in the answer, or an error if it is [required](Jail::required).

mod confine;
mod description;
mod enter;
mod failure;
pub mod groups;
mod host;
mod identity;
mod init;
mod message;
mod paths;
mod program;
mod root;
mod seccomp;
mod start;

use description::check_name;
pub use description::{Capability, DESCRIPTOR_MAX, Group, Identity, Jail, Limits, Part, Program, WORDS_MAX};
pub use enter::{ARGUMENT, Own, serve};
pub use groups::{Groups, Meter, Parent, Unread, Weights, remove_all_left as remove_left};
pub use host::lacks;
pub use identity::{
    Place, hold_more, hold_places, is_held, let_go, place_of_interface, share as share_user, take_to_share as take_user,
};
pub use message::{End, Order, Said};
pub use paths::Paths;
pub use seccomp::{Filters, apply as apply_seccomp, is_there as has_seccomp, load as load_seccomp};
pub use start::{Jailed, Starter};

#[cfg(test)]
mod tests;
