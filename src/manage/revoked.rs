//! Revocations of a running node, from its operator and from neighbours: decided, carried out by the worker, and kept
//! in a file.
//!
//! The file is `revoked` in the store, a line for each: `operator` or `key`, then the revocation in hexadecimal digits
//! as on the wire (docs/wire.md). An unsigned one has its kind, subject and time. The file is replaced whole, so an
//! interrupted write leaves the old one. A node without a store forgets its revocations at its end, and says so.
//!
//! The operator's revocation is on disk before the answer. Neighbours' revocations cost a node less than their senders:
//! a thread of its own writes them once in `PAUSE` at most. Those of roots, which are few, are written and synced at
//! once. Neighbours repeat what a killed node had not written.

use super::control::Handle;
use crate::clean::shown;
use crate::code::fetch::Source;
use crate::node::revoking::RevokedCodes;
use crate::sys::own;
use crate::sys::threads::{self, Duty};
use crate::trust::{CurrentRoles, Kept, PrincipalId, Rank, Revocation, Subject};
use crate::wire::Digest;
use crate::wire::revocation::Repr;
use model::revoked::Revoked;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The name of the file.
pub const NAME: &str = "revoked";
/// The most bytes of it that are read: more than its table holds.
const FILE_MAX: u64 = 4 << 20;
/// Time between two writes of what neighbours say.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two looks of a thread that has nothing to do.
const IDLE: Duration = Duration::from_secs(3600);

/// Who remembers.
pub struct Revocations {
    roles: CurrentRoles,
    file: Option<Arc<OnDisk>>,
    /// Tells the thread that there is something to write.
    news: Option<SyncSender<News>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that writes is told: no other may, by its list of system calls.
enum News {
    /// A neighbour has said something.
    Heard,
    /// The operator has, and waits until it is on disk, or cannot be.
    Said(SyncSender<io::Result<()>>),
}

/// The file.
struct OnDisk {
    roles: CurrentRoles,
    path: PathBuf,
    writing: Mutex<()>,
    /// Whether something is to be written that must outlive a fall of the system.
    lasting: AtomicBool,
    writes: AtomicU64,
    /// Whether the last write failed, so that each failure is said once.
    failing: AtomicBool,
}

impl Revocations {
    /// Reads what was revoked before. Lines that are none are left out with a word in the log: to refuse to start would be no safer.
    pub fn open(store: Option<&Path>, roles: CurrentRoles) -> io::Result<Revocations> {
        let path = store.map(|store| store.join(NAME));
        let Some(path) = path else { return Ok(Revocations { roles, file: None, news: None, thread: None }) };
        for (_, revocation, operator) in store.map(read).transpose()?.unwrap_or_default() {
            roles.now().revoke(revocation, operator);
        }
        let file = Arc::new(OnDisk {
            roles: roles.clone(),
            path,
            writing: Mutex::new(()),
            lasting: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            failing: AtomicBool::new(false),
        });
        let (news, inbox) = sync_channel(1);
        let writer = file.clone();
        let thread = threads::start("anode-revoked", Duty::Store, move || writer.serve(&inbox))?;
        Ok(Revocations { roles, file: Some(file), news: Some(news), thread: Some(thread) })
    }

    /// All that was taken back, for people and programs.
    pub fn list(&self) -> Vec<Revoked> {
        let words = self.roles.now().revocations();
        words.iter().map(|(revocation, rank)| describe(revocation, *rank == Rank::Operator, None)).collect()
    }

    /// What neighbours are told.
    pub fn signed(&self) -> Vec<Repr> {
        self.roles.now().revocations().iter().filter_map(|(revocation, _)| revocation.wire()).collect()
    }

    /// A neighbour has said so: nothing if it is forged.
    pub fn hear(&self, repr: &Repr) -> Option<Kept> {
        let revocation = Revocation::of_wire(repr);
        if !revocation.verify() {
            return None;
        }
        let kept = self.roles.now().revoke(revocation, false);
        if let (Kept::New(_), Some(news)) = (kept, &self.news) {
            let rooted = revocation.signer().is_some_and(|signer| self.roles.now().of_root(&signer).next().is_some());
            if let (true, Some(file)) = (rooted, &self.file) {
                file.lasting.store(true, Ordering::Relaxed);
            }
            // If it is full, the thread is about to look, and finds this too.
            let _ = news.try_send(News::Heard);
        }
        Some(kept)
    }

    /// The operator says so: ends what runs by it, then remembers it.
    pub fn order(&self, handle: &Handle, revocation: Revocation) -> Result<RevokedCodes, String> {
        if revocation.signed.is_some() && !revocation.verify() {
            return Err("the revocation is not signed by its key".into());
        }
        if self.roles.now().revoke(revocation, true) == Kept::Full {
            return Err(format!("the operator has revoked {} already", crate::trust::OPERATOR_MAX));
        }
        // Also if it was known: what it takes may have come by another way.
        let ended = handle.with_node(move |node, turn| node.revoke(turn, &revocation, true, None::<Source>))?;
        if let Some(half) = handle.kernel_half() {
            // Not behind a code that the kernel verifies just now.
            let code = if let Subject::Code(code) = revocation.subject { Some(code) } else { None };
            ended
                .names
                .iter()
                .chain(&code)
                .try_for_each(|code| half.remove_code(code))
                .map_err(|error| error.to_string())?;
        }
        self.remember()?;
        Ok(ended)
    }

    /// Waits until all that is known is on disk.
    fn remember(&self) -> Result<(), String> {
        let Some(news) = &self.news else { return Ok(()) };
        let (done, written) = sync_channel(1);
        let gone = || "what remembers revocations has ended: this one is forgotten with the process".to_owned();
        news.send(News::Said(done)).map_err(|_| gone())?;
        written.recv().map_err(|_| gone())?.map_err(|error| {
            format!("it holds, but is not on disk yet ({error}): make room in the store, or it is forgotten with the process")
        })
    }

    /// Whether what is revoked is remembered over restarts.
    pub fn are_kept(&self) -> bool {
        self.file.is_some()
    }
}

/// What has been heard is written before the process ends.
impl Drop for Revocations {
    fn drop(&mut self) {
        drop(self.news.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl OnDisk {
    /// Writes what was heard, until there is nobody who hears.
    fn serve(&self, news: &Receiver<News>) {
        let (mut wanted, mut next) = (false, Instant::now());
        loop {
            let wait = match wanted {
                true if self.lasting.load(Ordering::Relaxed) => Duration::ZERO,
                true => next.saturating_duration_since(Instant::now()),
                false => IDLE,
            };
            match news.recv_timeout(wait) {
                Ok(News::Heard) => wanted = true,
                Ok(News::Said(done)) => {
                    let written = self.write(true);
                    (wanted, next) = (written.is_err(), Instant::now() + PAUSE);
                    self.lasting.store(false, Ordering::Relaxed);
                    // Whoever waits may have gone away meanwhile.
                    let _ = done.send(written);
                }
                Err(RecvTimeoutError::Timeout) if wanted => {
                    // What could not be written is tried again, until it can.
                    let written = self.write(self.lasting.swap(false, Ordering::Relaxed));
                    (wanted, next) = (written.is_err(), Instant::now() + PAUSE);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if wanted => return drop(self.write(true)),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes all that is known; `lasting`: and waits until it is on disk, with its name.
    fn write(&self, lasting: bool) -> io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = &self.path;
        let lines: String =
            self.roles.now().revocations().iter().map(|(revocation, rank)| line(revocation, *rank)).collect();
        let beside = path.with_extension("new");
        // What should have been on disk before is, with this.
        let lasting = lasting || self.failing.load(Ordering::Relaxed);
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(lines.as_bytes())?;
            if lasting {
                file.sync_all()?;
            }
            std::fs::rename(&beside, path)?;
            match path.parent().filter(|_| lasting) {
                Some(store) => File::open(store)?.sync_all(),
                None => Ok(()),
            }
        };
        self.writes.fetch_add(1, Ordering::Relaxed);
        let written = write();
        if let (Err(error), false) = (&written, self.failing.swap(written.is_err(), Ordering::Relaxed)) {
            tracing::error!(file = %path.display(), %error, "what is revoked is forgotten with this process, unless it \
                                                             can be written later");
        }
        written
    }
}

/// What the file of a store says: the number of each line, what it takes back, and whether the operator says so.
pub fn read(store: &Path) -> io::Result<Vec<(usize, Revocation, bool)>> {
    let path = store.join(NAME);
    // The store may be that of a node whose user has put something else there.
    let text = match own::open(&path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, FILE_MAX), &mut bytes)?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let word = |(at, line): (usize, &str)| match parse(line) {
        Some((revocation, operator)) => Some((at + 1, revocation, operator)),
        None => {
            tracing::warn!(file = %path.display(), line = %shown(line), "no revocation: left out");
            None
        }
    };
    Ok(text.lines().enumerate().filter_map(word).collect())
}

/// One word, for people and programs: what it takes back, who has signed it, when, whether the operator says so, and in
/// which line of the file it is.
pub fn describe(revocation: &Revocation, operator: bool, line: Option<usize>) -> Revoked {
    let (what, name) = parts(&revocation.subject);
    Revoked {
        by: revocation.signer().map(|signer| signer.to_string()),
        line: line.map(|line| line as u64),
        name,
        operator,
        unix_s: revocation.unix_s,
        what: what.into(),
    }
}

fn line(revocation: &Revocation, rank: Rank) -> String {
    let who = if rank == Rank::Operator { "operator" } else { "key" };
    match revocation.wire() {
        Some(repr) => format!("{who} {}\n", hex::encode(repr.bytes())),
        None => format!("{who} {} {}\n", subject(&revocation.subject), revocation.unix_s),
    }
}

/// As the command line and the file have it.
fn subject(of: &Subject) -> String {
    let (what, name) = parts(of);
    format!("{what} {name}")
}

fn parts(of: &Subject) -> (&'static str, String) {
    match of {
        Subject::Token(id) => ("token", id.to_string()),
        Subject::Principal(principal) => ("principal", principal.to_string()),
        Subject::Code(code) => ("code", code.to_string()),
    }
}

/// Reads a kind and a name.
pub fn subject_of(kind: &str, name: &str) -> Option<Subject> {
    let digest = || name.parse::<Digest>().ok();
    match kind {
        "token" => digest().map(Subject::Token),
        "code" => digest().map(Subject::Code),
        "principal" => name.parse::<PrincipalId>().ok().map(Subject::Principal),
        _ => None,
    }
}

/// What was revoked, and whether the operator says so.
fn parse(line: &str) -> Option<(Revocation, bool)> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["operator", kind, name, time] => {
            Some((Revocation::by_operator(subject_of(kind, name)?, time.parse().ok()?), true))
        }
        [who @ ("operator" | "key"), digits] => {
            let revocation = Revocation::of_wire(&Repr::parse(&hex::decode(digits).ok()?).ok()?);
            revocation.verify().then_some((revocation, who == "operator"))
        }
        _ => None,
    }
}

/// Seconds since 1970.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::watch;
    use crate::trust::{PrincipalKey, Roles};

    #[test]
    fn what_is_revoked_survives_in_its_file_with_its_rank() {
        let folder = tempfile::tempdir().unwrap();
        let roles = Arc::new(Roles::default());
        let key = PrincipalKey::from_seed([1; 32]);
        let signed = Revocation::sign(&key, Subject::Code(Digest([5; 32])), 7);
        let plain = Revocation::by_operator(Subject::Principal(key.id()), 8);
        let first = Revocations::open(Some(folder.path()), roles.clone().into()).unwrap();
        // Before what is heard, since that may be written at once.
        roles.revoke(plain, true);
        assert!(matches!(first.hear(&signed.wire().unwrap()), Some(Kept::New(None))));
        let forged = Repr { subject: [6; 32], ..signed.wire().unwrap() };
        assert_eq!(first.hear(&forged), None);
        drop(first);
        let path = folder.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        let nonsense = b"key 00\nnonsense\x1b\n\xff\xfe\noperator code x 1\n";
        std::fs::write(&path, [text.as_bytes(), nonsense].concat()).unwrap();
        let again = Arc::new(Roles::default());
        let second = Revocations::open(Some(folder.path()), again.clone().into()).unwrap();
        assert_eq!(again.revocations(), [(plain, Rank::Operator), (signed, Rank::Stranger)]);
        assert_eq!(second.signed(), [signed.wire().unwrap()]);
        let listed: Vec<_> =
            read(folder.path()).unwrap().iter().map(|(at, word, by)| describe(word, *by, Some(*at))).collect();
        assert_eq!((listed.len(), second.list().len()), (2, 2));
        let Revoked { by, line, what, unix_s, .. } = &listed[1];
        assert_eq!((&**what, by.as_ref(), *unix_s, *line), ("code", Some(&key.id().to_string()), 7, Some(2)));
        let Revoked { by, line, name, operator, .. } = &listed[0];
        assert_eq!((&**name, by.as_ref(), *operator, *line), (&*key.id().to_string(), None, true, Some(1)));
    }

    #[test]
    fn what_cannot_be_written_is_told_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let roles = Arc::new(Roles::default());
        let all = Revocations::open(Some(folder.path()), roles.clone().into()).unwrap();
        roles.revoke(Revocation::by_operator(Subject::Code(Digest([5; 32])), 8), true);
        // What a full disk does, this does too.
        let trap = folder.path().join(NAME).with_extension("new");
        std::fs::create_dir(&trap).unwrap();
        let told = all.remember().unwrap_err();
        assert!(told.starts_with("it holds, but is not on disk yet ("), "{told}");
        std::fs::remove_dir(&trap).unwrap();
        // By its own, without another word.
        let file = folder.path().join(NAME);
        watch::until(&file, None, Duration::from_secs(180), || file.exists().then_some(())).unwrap();
        assert_eq!(all.remember(), Ok(()));
        assert_eq!(read(folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn what_strangers_say_is_written_together() {
        let folder = tempfile::tempdir().unwrap();
        let roles = Arc::new(Roles::default());
        let all = Revocations::open(Some(folder.path()), roles.clone().into()).unwrap();
        let count = 300u16;
        for number in 0..count {
            let mut seed = [0; 32];
            seed[..2].copy_from_slice(&number.to_be_bytes());
            let word = Revocation::sign(&PrincipalKey::from_seed(seed), Subject::Code(Digest([5; 32])), 7);
            assert!(matches!(all.hear(&word.wire().unwrap()), Some(Kept::New(None))));
        }
        let file = all.file.clone().unwrap();
        drop(all);
        // One at once, one at the end, and one for each second: how many those are is the machine's matter.
        let writes = file.writes.load(Ordering::Relaxed);
        assert!(writes < u64::from(count), "{writes} writes of {count} words");
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(text.lines().count(), usize::from(count), "and none is lost");
    }
}
