//! An environment in the node's process, from its file to the end of its main function.

use crate::code::run::trusted::TrustedProgram;
use crate::manage::ee::{Entrance, ObjectHost};
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use libanode::here;
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the largest object.
const OBJECT_BYTES_MAX: u64 = 64 << 20;

/// The first argument by which this program knows that it is to run an object as a process of its own.
pub const ARGUMENT: &str = "object-as-process";

/// Runs an object's main function in this process, as that of a process of its own: its status. The words are those behind [`ARGUMENT`].
pub fn run(words: impl Iterator<Item = OsString>) -> io::Result<i32> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let path = words.first().ok_or(io::ErrorKind::InvalidInput)?;
    load(path).map(|program| program.run(&words)).map_err(io::Error::other)
}

/// How an object has ended: its status, or why it did not begin.
pub(super) type Outcome = Result<i32, String>;

/// An object that was started.
pub(super) struct Object {
    ended: Waker,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

impl Object {
    /// Loads an object and runs its main function, in a thread of its own.
    pub fn start(words: &[String], host: Arc<ObjectHost>) -> io::Result<Object> {
        let object = Object { ended: Waker::new()?, outcome: Arc::default() };
        let (words, ended, outcome) = (words.to_vec(), object.ended.clone(), object.outcome.clone());
        threads::start("anode-object", Duty::Operators, move || {
            let done = load(&words[0]).map(|program| {
                let status = here::within(Arc::new(Entrance(host.clone())), || program.run(&words));
                // Before the program goes, nobody may be in it any more.
                host.finish();
                status
            });
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            ended.wake();
        })?;
        Ok(object)
    }

    /// What can be read when it has ended.
    pub fn watch(&self) -> io::Result<std::os::fd::OwnedFd> {
        self.ended.descriptor()
    }

    /// How it has ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn load(path: &str) -> Result<TrustedProgram, String> {
    let at = crate::broker::reach(path.as_ref());
    let size = std::fs::metadata(&at).map_err(|error| format!("{path}: {error}"))?.len();
    if size > OBJECT_BYTES_MAX {
        return Err(format!("{path}: {size} bytes, {OBJECT_BYTES_MAX} at most"));
    }
    let bytes = std::fs::read(at).map_err(|error| format!("{path}: {error}"))?;
    TrustedProgram::load(&bytes).map_err(|why| format!("{path}: {why}"))
}
