//! Code that extensions have fetched by HTTP: who talks to servers is in a jail, and what comes is code only if it has the name that was
//! asked for.
//!
//! ```text
//! a call of an extension ─▶ waits ─▶ one of a few threads: host of [http]? ─▶ the broker's connection ─▶ the jailed process
//!                                       ▲ elsewhere, a few times                                          │
//!                                       └─────────────────────────────────────────────────────────────────┤
//!                                                    the store ◀── a bundle of that name ◀── bytes ───────┘
//! ```
//!
//! Nobody waits for it: the call gets a number, and asks with that. Everything has a bound: hosts, waiting fetches, fetches at a time, the
//! time of one, its bytes, redirections, and the numbers that are remembered.

mod states;

use super::extensions::Extensions;
use crate::broker::{self, Helper, HelpersJail};
use crate::code::bundle::Bundle;
use crate::code::extension::built_in::FetchesCode;
use crate::code::http::{ANSWER, Answer, BYTES_MAX, HttpJob, HttpPlace, HttpTotals, answered, found};
use crate::config::http::HttpFile;
use crate::sys::clock::Clock;
use crate::sys::lock::lock;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use states::States;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Fetches at a time.
const AT_ONCE: usize = 4;

/// Fetches that wait.
const WAITING_MAX: usize = 16;

/// Redirections of one fetch.
const REDIRECTIONS_MAX: usize = 4;

/// Added to a fetch's time, after which the process counts as dead: the kernel ends its child before.
const GRACE: Duration = Duration::from_secs(2);

/// What puts a bundle into the node's store.
pub type Keep = Box<dyn Fn(Bundle) -> Result<(), String> + Send + Sync>;

/// A fetch that waits.
struct Waiting {
    number: u64,
    place: HttpPlace,
    name: Digest,
}

/// What is behind the calls of extensions.
struct HttpDesk {
    waiting: SyncSender<Waiting>,
    states: Arc<Mutex<States>>,
}

/// What the threads share.
struct Shared {
    file: HttpFile,
    clock: Clock,
    keep: Keep,
    states: Arc<Mutex<States>>,
    waiting: Mutex<Receiver<Waiting>>,
    process: Mutex<Option<Process>>,
}

/// The process in its jail.
struct Process {
    /// Nothing: it is the broker's.
    _jail: Option<HelpersJail>,
    socket: SeqPacket,
}

/// Has code fetched for extensions, from the hosts of a configuration. Without any there is no thread and no process. Whoever keeps
/// extensions ends with the last who can ask him, which `keep` must not be: he asks these threads.
pub fn start(
    file: &HttpFile,
    (extensions, totals): (&Extensions, Arc<HttpTotals>),
    keep: Keep,
    clock: Clock,
) -> io::Result<()> {
    let states = Arc::new(Mutex::new(States::new(totals)));
    let (waiting, inbox) = sync_channel(WAITING_MAX);
    extensions.fetch_by(Arc::new(HttpDesk { waiting, states: states.clone() }));
    if file.hosts.is_empty() {
        return Ok(());
    }
    let (waiting, process) = (Mutex::new(inbox), Mutex::new(None));
    let shared = Arc::new(Shared { file: file.clone(), clock, keep, states, waiting, process });
    for _ in 0..AT_ONCE {
        let shared = shared.clone();
        threads::start("anode-http", Duty::Sessions, move || shared.serve())?;
    }
    Ok(())
}

impl FetchesCode for HttpDesk {
    fn begin(&self, url: &str, name: &str) -> u64 {
        let mut states = lock(&self.states);
        let number = states.begin();
        let read = || {
            let name: Digest = name
                .parse()
                .map_err(|why: crate::wire::DigestError| format!("'{}': {why}", crate::clean::shown(name)))?;
            Ok(Waiting { number, place: HttpPlace::of(url)?, name })
        };
        let waits = read().and_then(|waiting| {
            // Without hosts nobody is there who would take it.
            self.waiting.try_send(waiting).map_err(|unsent| match unsent {
                std::sync::mpsc::TrySendError::Full(_) => format!("{WAITING_MAX} fetches wait already"),
                std::sync::mpsc::TrySendError::Disconnected(_) => {
                    "this node's configuration has no [http] hosts".into()
                }
            })
        });
        if let Err(why) = waits {
            states.refuse(number, why);
        }
        number
    }

    fn state(&self, number: u64) -> Option<String> {
        lock(&self.states).words(number)
    }
}

/// Why there is no code.
enum Failed {
    /// It leads where the node fetches nothing from.
    Refused(String),
    /// Something went wrong on the way.
    Broken(String),
}

impl Shared {
    fn serve(&self) {
        loop {
            // The others wait for the lock meanwhile, and have it when this one has something to do.
            let Ok(waiting) = lock(&self.waiting).recv() else { return };
            let fetched = self.fetch(&waiting);
            let mut states = lock(&self.states);
            match fetched {
                Ok(bytes) => states.store(waiting.number, &waiting.name, bytes),
                Err(Failed::Refused(why)) => states.refuse(waiting.number, why),
                Err(Failed::Broken(why)) => states.fail(waiting.number, why),
            }
            let words = states.words(waiting.number).unwrap_or_default();
            tracing::info!(event = "code", code = %waiting.name.short(), url = %waiting.place, "fetch by HTTP: {words}");
        }
    }

    /// Fetches a bundle and puts it into the store; how many bytes it had.
    fn fetch(&self, waiting: &Waiting) -> Result<usize, Failed> {
        let bytes = self.bytes(&waiting.place)?;
        let broken = |why: String| Failed::Broken(why);
        let bundle = Bundle::read(&bytes).map_err(|error| broken(format!("what came is no bundle: {error}")))?;
        if bundle.name() != waiting.name {
            return Err(broken(format!("what came is the code {}", bundle.name())));
        }
        (self.keep)(bundle).map_err(broken)?;
        Ok(bytes.len())
    }

    /// What is at a place, or where that leads.
    fn bytes(&self, place: &HttpPlace) -> Result<Vec<u8>, Failed> {
        let ends = self.clock.now() + u64::from(self.file.wall_ms) * 1_000_000;
        let mut place = place.clone();
        for _ in 0..=REDIRECTIONS_MAX {
            match self.ask(&place, ends)? {
                Answer::Body(bytes) => return Ok(bytes),
                Answer::Failed(why) => return Err(Failed::Broken(why)),
                Answer::Elsewhere(location) => {
                    lock(&self.states).count_redirection();
                    place = place.redirected(&location).map_err(Failed::Refused)?;
                }
            }
        }
        Err(Failed::Broken(format!("more than {REDIRECTIONS_MAX} redirections")))
    }

    /// Asks one host.
    fn ask(&self, place: &HttpPlace, ends: u64) -> Result<Answer, Failed> {
        let broken = |error: io::Error| Failed::Broken(error.to_string());
        let at = self.file.hosts.get(&place.host);
        let at = *at
            .ok_or_else(|| Failed::Refused(format!("[http] hosts has no \"{}\"", crate::clean::shown(&place.host))))?;
        let left_ms = u32::try_from(ends.saturating_sub(self.clock.now()) / 1_000_000).unwrap_or(u32::MAX);
        if left_ms == 0 {
            return Err(Failed::Broken(format!("the server was too slow: [http] wall_ms = {}", self.file.wall_ms)));
        }
        let unreached = |error| Failed::Broken(format!("the server cannot be reached: {error}"));
        let connection = broker::connect(at).map_err(unreached)?;
        // The child waits in the calls that read and write: it has no other that waits.
        fcntl_setfl(&connection, OFlags::empty()).map_err(|error| broken(error.into()))?;
        let file = File::from(memfd_create("anode-http", MemfdFlags::CLOEXEC).map_err(|error| broken(error.into()))?);
        let told = self.hand_over(&HttpJob::new(place, left_ms), connection, &file).map_err(broken)?;
        answered(&told, self.file.wall_ms).map_err(Failed::Broken)?;
        read(file).map(found).map_err(broken)
    }

    /// Has the process do a request; its words about how that ended.
    fn hand_over(&self, job: &HttpJob, connection: OwnedFd, file: &File) -> io::Result<Vec<u8>> {
        let (own, other) = SeqPacket::pair()?;
        let sent = {
            let mut process = lock(&self.process);
            let send = |process: &Process| {
                process.socket.send_with(&job.encode(), &[other.as_fd(), connection.as_fd(), file.as_fd()])
            };
            match process.as_ref().map(send) {
                Some(Ok(())) => Ok(()),
                // There is none, or none any more.
                _ => {
                    *process = None;
                    send(process.insert(Process::start()?))
                }
            }
        };
        drop((other, connection));
        sent?;
        let told = own.wait(Duration::from_millis(job.wall_ms.into()) + GRACE)?;
        let mut words = [0; ANSWER];
        let length = if told { own.receive(&mut words)? } else { 0 };
        if length == 0 {
            // What there is of it goes: the next fetch has another one.
            *lock(&self.process) = None;
            return Err(io::Error::other("the process that fetches has gone"));
        }
        Ok(words[..length].to_vec())
    }
}

impl Process {
    fn start() -> io::Result<Process> {
        let (jail, socket) = broker::helper(Helper::Fetcher, Path::new("/proc/self/exe"))?;
        Ok(Process { _jail: jail, socket: SeqPacket::of(socket) })
    }
}

/// What a child has left, which nobody changes any more.
fn read(mut file: File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut left = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut left)?;
    Ok(left)
}
