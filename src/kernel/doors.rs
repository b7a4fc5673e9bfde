//! The way from the ingress to programs that look for channels: a map of programs that nobody pins.
//!
//! It empties itself when its last holder in user space goes, so what is behind it ends with this process, however that ends, while the
//! ingress outlives it. A jump to a program that is not there is patched out of the ingress by the kernel.

use crate::sys::bpf::{Map, MapKind, MapShape, Program};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Programs behind it.
pub const DOORS: usize = 2;

/// The way from the ingress to programs that end with this process: `doors_map`.
#[derive(Debug)]
pub struct Doors {
    map: Map,
    /// Whether they are to be open.
    open: Mutex<bool>,
}

impl Doors {
    /// Closed ones.
    pub(super) fn new() -> io::Result<Doors> {
        let shape = MapShape { kind: MapKind::Programs, key: 4, value: 4, entries: DOORS as u32 };
        Ok(Doors { map: Map::create("anode_doors", shape)?, open: Mutex::new(false) })
    }

    /// Opens them to these programs.
    pub(super) fn open(&self, programs: &[Program; DOORS]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // What the first one jumps to comes first.
        for (number, program) in (0u32..).zip(programs).collect::<Vec<_>>().into_iter().rev() {
            self.map.set(&number.to_ne_bytes(), &program.as_fd().as_raw_fd().to_ne_bytes())?;
        }
        *open = true;
        Ok(())
    }

    /// Closes them. The kernel waits until no program is on its way through a door that closes: so that is not done where packets wait.
    pub(super) fn close(self: &Arc<Doors>) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let doors = self.clone();
        let closing = move || {
            let open = doors.open.lock().unwrap_or_else(PoisonError::into_inner);
            if !*open {
                // Not there: nothing was opened since the last time.
                (0..DOORS as u32).for_each(|number| drop(doors.map.remove(&number.to_ne_bytes())));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("anode-doors".into()).spawn(closing) {
            tracing::warn!(%error, "ordinary packets are looked at for channels that are no more");
        }
    }
}

impl AsFd for Doors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
