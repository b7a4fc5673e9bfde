//! Code by HTTP: one process in a jail talks to a server, and can do nothing else.
//!
//! ```text
//! node ── request, an open connection, a file ──▶ jailed process ── fork ──▶ child: asks, reads the answer ──▶ the file
//!   ▲                                                │ waits for its end                                         │
//!   └── how it ended ◀───────────────────────────────┘ ◀────── read when nobody can write it any more ───────────┘
//! ```
//!
//! It is a function of this program, called [`ARGUMENT`], in a jail (`crate::sys::jail`): a user of its own, no capability, no files, no
//! network. The broker opens the connection, to an address that the configuration names, and the child has no system call that opens or
//! connects another one. So what a server says to it can at most spoil this one answer. The node believes neither: the bytes are code only
//! if they come to the name that was asked for (`manage/http`). Requests are of HTTP/1.0, so that an answer ends with its connection.

mod ask;
mod job;
mod place;
mod server;
mod totals;

pub use ask::hear;
pub use job::{ANSWER, Answer, BYTES_MAX, HttpJob, answered, found};
pub use place::{HOST_MAX, HttpPlace, URL_MAX};
pub use server::serve;
pub use totals::HttpTotals;

/// What it is called among the functions of this program that run in jails.
pub const ARGUMENT: &str = "http-fetcher";
