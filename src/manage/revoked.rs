//! Revocations of a running node, from its operator and from neighbours: decided, carried out by the worker, and kept in a file.
//!
//! The file is `revoked` in the store, a line for each: `operator` or `key`, then what was revoked in hexadecimal digits as on the wire (docs/wire.md), or, if
//! nobody has signed it, its kind, its subject and the time. It is replaced whole, so an interrupted write leaves the old one. What a
//! node without a store revokes is forgotten with it, and it says so.

use super::control::Handle;
use crate::clean::shown;
use crate::code::fetch::Source;
use crate::node::revoking::Revoked;
use crate::trust::{Kept, PrincipalId, Rank, Revocation, Roles, Subject};
use crate::wire::Digest;
use crate::wire::revocation::Repr;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the file.
pub const NAME: &str = "revoked";
/// The most bytes of it that are read: more than its table holds.
const FILE_MAX: u64 = 4 << 20;

/// Who remembers.
pub struct Revocations {
    roles: Arc<Roles>,
    path: Option<PathBuf>,
    writing: Mutex<()>,
}

impl Revocations {
    /// Reads what was revoked before. Lines that are none are left out with a word in the log: to refuse to start would be no safer.
    pub fn open(store: Option<&Path>, roles: Arc<Roles>) -> io::Result<Revocations> {
        let path = store.map(|store| store.join(NAME));
        let this = Revocations { roles, path, writing: Mutex::new(()) };
        for (_, revocation, operator) in store.map(read).transpose()?.unwrap_or_default() {
            this.roles.revoke(revocation, operator);
        }
        Ok(this)
    }

    /// All that was taken back, for people and programs.
    pub fn list(&self) -> Vec<Value> {
        let words = self.roles.revocations();
        words.iter().map(|(revocation, rank)| describe(revocation, *rank == Rank::Operator, None)).collect()
    }

    /// What neighbours are told.
    pub fn signed(&self) -> Vec<Repr> {
        self.roles.revocations().iter().filter_map(|(revocation, _)| revocation.wire()).collect()
    }

    /// A neighbour has said so: nothing if it is forged.
    pub fn hear(&self, repr: &Repr) -> Option<Kept> {
        let revocation = Revocation::of_wire(repr);
        if !revocation.verify() {
            return None;
        }
        let kept = self.roles.revoke(revocation, false);
        if matches!(kept, Kept::New(_)) {
            self.keep();
        }
        Some(kept)
    }

    /// The operator says so: ends what runs by it, then remembers it.
    pub fn order(&self, handle: &Handle, revocation: Revocation) -> Result<Revoked, String> {
        if revocation.signed.is_some() && !revocation.verify() {
            return Err("the revocation is not signed by its key".into());
        }
        if self.roles.revoke(revocation, true) == Kept::Full {
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
        self.keep();
        Ok(ended)
    }

    /// Whether what is revoked is remembered over restarts.
    pub fn are_kept(&self) -> bool {
        self.path.is_some()
    }

    fn keep(&self) {
        let Some(path) = &self.path else { return };
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: String = self.roles.revocations().iter().map(|(revocation, rank)| line(revocation, *rank)).collect();
        let beside = path.with_extension("new");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(lines.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        if let Err(error) = write() {
            tracing::error!(file = %path.display(), %error, "what is revoked is forgotten with this process");
        }
    }
}

/// What the file of a store says: the number of each line, what it takes back, and whether the operator says so.
pub fn read(store: &Path) -> io::Result<Vec<(usize, Revocation, bool)>> {
    let path = store.join(NAME);
    let text = match File::open(&path) {
        Ok(file) => io::read_to_string(io::Read::take(file, FILE_MAX))?,
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

/// One word, for people and programs: what it takes back, who has signed it, when, whether the operator says so, and in which line of the file it is.
pub fn describe(revocation: &Revocation, operator: bool, line: Option<usize>) -> Value {
    let (what, name) = parts(&revocation.subject);
    let by = revocation.signer().map(|signer| signer.to_string());
    json!({"what": what, "name": name, "by": by, "operator": operator, "unix_s": revocation.unix_s, "line": line})
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
    use crate::trust::PrincipalKey;

    #[test]
    fn what_is_revoked_survives_in_its_file_with_its_rank() {
        let folder = tempfile::tempdir().unwrap();
        let roles = Arc::new(Roles::default());
        let key = PrincipalKey::from_seed([1; 32]);
        let signed = Revocation::sign(&key, Subject::Code(Digest([5; 32])), 7);
        let plain = Revocation::by_operator(Subject::Principal(key.id()), 8);
        let first = Revocations::open(Some(folder.path()), roles.clone()).unwrap();
        assert!(matches!(first.hear(&signed.wire().unwrap()), Some(Kept::New(None))));
        let forged = Repr { subject: [6; 32], ..signed.wire().unwrap() };
        assert_eq!(first.hear(&forged), None);
        roles.revoke(plain, true);
        first.keep();
        let path = folder.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}key 00\nnonsense\u{1b}\noperator code x 1\n")).unwrap();
        let again = Arc::new(Roles::default());
        let second = Revocations::open(Some(folder.path()), again.clone()).unwrap();
        assert_eq!(again.revocations(), [(signed, Rank::Stranger), (plain, Rank::Operator)]);
        assert_eq!(second.signed(), [signed.wire().unwrap()]);
        let listed: Vec<Value> =
            read(folder.path()).unwrap().iter().map(|(at, word, by)| describe(word, *by, Some(*at))).collect();
        let field = |at: usize, key: &str| listed[at][key].clone();
        assert_eq!((listed.len(), second.list().len()), (2, 2));
        assert_eq!(
            (field(0, "what"), field(0, "by"), field(0, "unix_s")),
            ("code".into(), key.id().to_string().into(), 7.into())
        );
        assert_eq!(
            (field(1, "name"), field(1, "by"), field(1, "operator")),
            (key.id().to_string().into(), Value::Null, true.into())
        );
        assert_eq!((field(0, "line"), field(1, "line")), (1.into(), 2.into()));
    }
}
