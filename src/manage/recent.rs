//! Recently used codes, for the next process: it prepares them before it takes packets.
//!
//! A file of names in the store, the last used first. It is written every few seconds if it has changed, and when the
//! node stops. It gives no rights: the objects come from the store under their digests, and are judged anew.

use super::control::Handle;
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const FILE: &str = "codes";
const FRESH: &str = "codes.new";

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(5);

/// Bytes of a name and the end of its line.
const LINE: usize = 65;

/// Looks after the file as long as this is there.
pub struct Recent {
    last: Sender<Vec<Digest>>,
    thread: JoinHandle<()>,
}

impl Recent {
    /// Starts a thread that writes down which codes of a node have run.
    pub fn watch(store: &Path, handle: Handle) -> io::Result<Recent> {
        let (last, end) = channel();
        let dir = store.to_owned();
        let thread = threads::start("anode-recent", Duty::Store, move || serve(&dir, &handle, &end))?;
        Ok(Recent { last, thread })
    }

    /// The last word of a node that stops: it is on disk when this thread has ended, which may wait for the worker to be gone.
    pub fn conclude(self, codes: Vec<Digest>) -> JoinHandle<()> {
        // A thread that is gone writes nothing any more.
        let _ = self.last.send(codes);
        self.thread
    }
}

fn serve(dir: &Path, handle: &Handle, end: &Receiver<Vec<Digest>>) {
    let mut last = Vec::new();
    loop {
        match end.recv_timeout(EVERY) {
            Ok(codes) => return write_or_say(dir, &codes),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Of a worker that has stopped the last word comes yet.
        if let Ok(codes) = handle.with_node(|node, _| node.recent_codes())
            && codes != last
        {
            write_or_say(dir, &codes);
            last = codes;
        }
    }
}

fn write_or_say(dir: &Path, codes: &[Digest]) {
    if let Err(error) = write(dir, codes) {
        tracing::debug!(%error, "which codes have run is not written down");
    }
}

fn write(dir: &Path, codes: &[Digest]) -> io::Result<()> {
    let lines: Vec<String> = codes.iter().map(|code| format!("{code}\n")).collect();
    fs::write(dir.join(FRESH), lines.concat())?;
    fs::rename(dir.join(FRESH), dir.join(FILE))
}

/// What a process before this one has written down; whatever is no name is passed over.
pub fn read(dir: &Path) -> Vec<Digest> {
    let mut text = String::new();
    let most = (crate::node::RECENT_MAX * LINE) as u64;
    let read = fs::File::open(dir.join(FILE)).and_then(|file| file.take(most).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_their_order_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_empty());
        let codes: Vec<Digest> = (0..300u32).map(|number| Digest::of(&number.to_be_bytes())).collect();
        write(dir.path(), &codes[..20]).unwrap();
        assert_eq!(read(dir.path()), codes[..20]);
        write(dir.path(), &codes).unwrap();
        assert_eq!(read(dir.path()), codes[..crate::node::RECENT_MAX], "no more than are prepared");
        fs::write(dir.path().join(FILE), format!("x\n../{}\n{}\n", codes[0], codes[1])).unwrap();
        assert_eq!(read(dir.path()), [codes[1]]);
    }
}
