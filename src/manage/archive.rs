//! What the loader must not wait for either: the disk. Objects that came with capsules are written behind its back.
//!
//! They are in the store's memory before, so nobody misses them. Whoever asks something of the store as a whole waits until
//! all is written.

use crate::code::store::Store;
use crate::wire::Digest;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};

/// Objects that can wait to be written.
const OBJECTS_MAX: usize = 256;

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
        let of_thread = store.clone();
        std::thread::Builder::new().name("anode-store".into()).spawn(move || serve(&of_thread, &inbox))?;
        Ok(Archive { store, jobs })
    }

    /// Keeps an object: in memory now, on disk soon.
    pub fn put(&self, bytes: &Arc<[u8]>) {
        match self.store.keep(bytes) {
            Ok((digest, true)) => {
                if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
                    self.jobs.try_send(Job::Write(digest, bytes.clone()))
                {
                    carry_out(&self.store, job);
                }
            }
            Ok((_, false)) => {}
            Err(error) => tracing::warn!(%error, "code is not kept"),
        }
    }

    /// Waits until all that was put is on disk.
    pub fn settle(&self) {
        let (done, all) = channel();
        if self.jobs.send(Job::Settle(done)).is_ok() {
            // A thread that is gone has nothing left.
            let _ = all.recv();
        }
    }
}

fn serve(store: &Store, inbox: &Receiver<Job>) {
    while let Ok(job) = inbox.recv() {
        carry_out(store, job);
    }
}

fn carry_out(store: &Store, job: Job) {
    match job {
        Job::Write(digest, bytes) => {
            if let Err(error) = store.write(&digest, &bytes) {
                tracing::warn!(%error, "code is kept in memory only");
            }
        }
        Job::Settle(done) => {
            // Whoever asked may have gone away meanwhile.
            let _ = done.send(());
        }
    }
}
