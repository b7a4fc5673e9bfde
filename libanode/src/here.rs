//! Trusted programs in the node's own process, as shared objects. They call the functions of this library. Their calls
//! reach the node by its [`Host`] and [`crate::link::Link`], without messages and without copies.

use crate::error::Error;
use crate::link::Link;
use crate::message::DomainSpec;
use std::cell::RefCell;
use std::sync::Arc;

/// A node that runs programs in its process.
pub trait Host: Send + Sync {
    /// Connects a program: its first domain, and the way to the node.
    fn connect(&self, spec: &DomainSpec) -> Result<(u32, Box<dyn Link>), Error>;
}

thread_local! {
    static HOST: RefCell<Option<Arc<dyn Host>>> = const { RefCell::new(None) };
}

/// Does something, a program's main function, on whose behalf this thread connects to a node of this process.
pub fn within<R>(host: Arc<dyn Host>, work: impl FnOnce() -> R) -> R {
    let before = HOST.replace(Some(host));
    let result = work();
    HOST.set(before);
    result
}

/// The node of this process on whose behalf the calling thread runs a program.
pub fn host() -> Option<Arc<dyn Host>> {
    HOST.with_borrow(Option::clone)
}
