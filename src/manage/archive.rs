//! Writing of received objects to disk, by a thread of its own, so that the loader need not wait.
//!
//! They are in the store's memory before, so nobody misses them. A question about the whole store waits until all is
//! written. Objects refused by a full disk are tried again later, as long as they are in memory; the log has one line
//! for all.

use crate::code::store::{Error, Store};
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

/// Objects that can wait to be written, and those that wait since the disk refused them.
const OBJECTS_MAX: usize = 256;
const REFUSED_MAX: usize = 1024;

/// Time until what the disk refused is tried again; it doubles each time, up to 64-fold.
const AGAIN: Duration = Duration::from_secs(1);

enum Job {
    Write(Digest, Arc<[u8]>),
    Settle(Sender<()>),
}

/// The way to the thread; it ends with this value.
pub struct Archive {
    store: Arc<Store>,
    jobs: SyncSender<Job>,
}

impl Archive {
    /// Starts the thread.
    pub fn start(store: Arc<Store>) -> std::io::Result<Archive> {
        let (jobs, inbox) = sync_channel(OBJECTS_MAX);
        let writer = Writer { store: store.clone(), refused: VecDeque::new(), tries: 0 };
        threads::start("anode-store", Duty::Store, move || writer.serve(&inbox))?;
        Ok(Archive { store, jobs })
    }

    /// Keeps an object: in memory now, on disk soon. Waits if very many are to be written.
    pub fn put(&self, bytes: &Arc<[u8]>) {
        match self.store.keep(bytes) {
            Ok((digest, true)) => {
                if let Err(TrySendError::Full(job)) = self.jobs.try_send(Job::Write(digest, bytes.clone())) {
                    // A thread that is gone leaves memory alone.
                    let _ = self.jobs.send(job);
                }
            }
            Ok((_, false)) => {}
            Err(error) => tracing::warn!(%error, "code is not kept"),
        }
    }

    /// Waits until all that was put is on disk, or refused.
    pub fn settle(&self) {
        let (done, all) = channel();
        if self.jobs.send(Job::Settle(done)).is_ok() {
            // A thread that is gone has nothing left.
            let _ = all.recv();
        }
    }
}

/// Writes objects.
struct Writer {
    store: Arc<Store>,
    /// What the disk has refused, oldest first.
    refused: VecDeque<Digest>,
    /// How often in a row it has.
    tries: u32,
}

impl Writer {
    fn serve(mut self, inbox: &Receiver<Job>) {
        loop {
            let wait = if self.refused.is_empty() { Duration::MAX } else { AGAIN * (1 << self.tries.min(6)) };
            match inbox.recv_timeout(wait) {
                Ok(Job::Write(digest, bytes)) => self.write(digest, &bytes),
                Ok(Job::Settle(done)) => {
                    // Whoever asked may have gone away meanwhile.
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.try_again(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write(&mut self, digest: Digest, bytes: &[u8]) {
        if let Err(error) = self.store.write(&digest, bytes) {
            self.refuse(digest, &error);
        }
    }

    fn refuse(&mut self, digest: Digest, error: &Error) {
        if self.refused.is_empty() {
            tracing::warn!(%error, "code is kept in memory only; the disk is tried again, and this is not said of each object");
        }
        if self.refused.len() == REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.push_back(digest);
    }

    /// Writes what was refused, as far as memory has it, until the disk refuses again.
    fn try_again(&mut self) {
        while let Some(digest) = self.refused.front() {
            if let Some(bytes) = self.store.in_memory(digest)
                && self.store.write(digest, &bytes).is_err()
            {
                self.tries += 1;
                return;
            }
            self.refused.pop_front();
        }
        self.tries = 0;
        tracing::info!("the disk takes code again");
    }
}
