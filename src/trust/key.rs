//! Principals' keys: made, kept in a file that only its owner reads, used to sign.
//!
//! The file is one line of text, `anode-key ed25519 ` and the 32-byte secret seed as hexadecimal
//! digits (RFC 8032 §5.1.5), with mode 0600. Reading refuses a file that others can read, since
//! such a secret is none. There is no passphrase: keep the file where a passphrase guards it.

use core::fmt;
use core::str::FromStr;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const LABEL: &str = "anode-key ed25519 ";

/// What the file of a secret of neighbours begins with.
pub(super) const SECRET_LABEL: &str = "anode-secret ";

/// What stands before the digits of a principal.
const SCHEME: &str = "ed25519:";

/// Who signs: an ed25519 public key, written `ed25519:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrincipalId(pub [u8; 32]);

/// An ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

/// A principal's secret key.
pub struct PrincipalKey(SigningKey);

impl PrincipalKey {
    /// A new key from the operating system's random numbers.
    pub fn new() -> Result<PrincipalKey, KeyError> {
        let mut seed = [0; 32];
        random(&mut seed)?;
        Ok(PrincipalKey::from_seed(seed))
    }

    /// The key of a 32-byte secret seed: the same seed, the same key.
    pub fn from_seed(seed: [u8; 32]) -> PrincipalKey {
        PrincipalKey(SigningKey::from_bytes(&seed))
    }

    /// Reads a key file; refuses one that others than its owner may read.
    pub fn load(path: &Path) -> Result<PrincipalKey, KeyError> {
        let text = read_private(path, KeyKind::Signing)?;
        let mut seed = [0; 32];
        text.trim_end()
            .strip_prefix(LABEL)
            .and_then(|digits| hex::decode_to_slice(digits, &mut seed).ok())
            .ok_or_else(|| KeyKind::Signing.not_in(path, &text))?;
        Ok(PrincipalKey::from_seed(seed))
    }

    /// Writes a new key file with mode 0600; an existing file is never overwritten.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        write_private(path, &format!("{LABEL}{}\n", hex::encode(self.0.to_bytes())))
    }

    /// Who this key is.
    pub fn id(&self) -> PrincipalId {
        PrincipalId(self.0.verifying_key().to_bytes())
    }

    /// The secret seed, for the library that signs credentials.
    pub(super) fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

/// Fills bytes from the operating system's random numbers.
pub(super) fn random(bytes: &mut [u8]) -> Result<(), KeyError> {
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(bytes)).map_err(KeyError::Random)
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// To sign, and to grant roles.
    Signing,
    /// Shared by two neighbours.
    Neighbours,
    /// Shared by a PLAN principal and a node.
    Plan,
}

impl KeyKind {
    /// What it is, and how one is made.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            KeyKind::Signing => ("signing key", "anode cred new FILE"),
            KeyKind::Neighbours => {
                ("secret of two neighbours", "anode cred secret FILE, and give the neighbour a copy")
            }
            KeyKind::Plan => ("secret of a PLAN principal", "umask 077; openssl rand -hex 32 > FILE"),
        }
    }

    /// The error for a text that is no such key.
    pub(super) fn not_in(self, path: &Path, text: &str) -> KeyError {
        let begins = [(LABEL, KeyKind::Signing), (SECRET_LABEL, KeyKind::Neighbours)];
        let found = begins.iter().find(|(label, kind)| *kind != self && text.starts_with(label));
        KeyError::Format { path: path.into(), kind: self, found: found.map(|(_, kind)| *kind) }
    }
}

/// Reads a short file that nobody but its owner may read.
pub(crate) fn read_private(path: &Path, kind: KeyKind) -> Result<String, KeyError> {
    let unreadable = |cause| KeyError::Unreadable { path: path.into(), kind, cause };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.into(), mode: mode & 0o777 });
    }
    let mut text = String::new();
    file.take(1024).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Writes a new file that nobody but its owner may read; an existing one is never overwritten.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), KeyError> {
    let unwritable = |cause| KeyError::Unwritable { path: path.into(), cause };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(unwritable)
}

impl fmt::Debug for PrincipalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrincipalKey({})", self.id())
    }
}

impl PrincipalId {
    /// Whether this principal signed `message`. Total: keys and signatures that are no points of
    /// the curve, or of small order, verify nothing.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.0) else { return false };
        key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature.0)).is_ok()
    }

    /// The 64 hexadecimal digits alone, as in manifests.
    pub fn digits(&self) -> String {
        hex::encode(self.0)
    }

    /// Reads what [`PrincipalId::digits`] writes.
    pub fn from_digits(digits: &str) -> Option<PrincipalId> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(PrincipalId(bytes))
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.digits())
    }
}

impl fmt::Debug for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PrincipalId {
    type Err = PrincipalError;
    fn from_str(text: &str) -> Result<PrincipalId, PrincipalError> {
        text.strip_prefix(SCHEME).and_then(PrincipalId::from_digits).ok_or_else(|| PrincipalError(text.into()))
    }
}

impl TryFrom<String> for PrincipalId {
    type Error = PrincipalError;
    fn try_from(text: String) -> Result<PrincipalId, PrincipalError> {
        text.parse()
    }
}

impl From<PrincipalId> for String {
    fn from(id: PrincipalId) -> String {
        id.to_string()
    }
}

/// Text that names no principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalError(String);

impl fmt::Display for PrincipalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no principal: write {SCHEME} and 64 hexadecimal digits", crate::clean::shown(&self.0))
    }
}

impl core::error::Error for PrincipalError {}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Signature {
    type Err = hex::FromHexError;
    fn from_str(text: &str) -> Result<Signature, hex::FromHexError> {
        let mut bytes = [0; 64];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Signature(bytes))
    }
}

/// Why a key cannot be made, read or written.
#[derive(Debug)]
pub enum KeyError {
    /// The operating system gives no random numbers.
    Random(io::Error),
    /// The file cannot be read.
    Unreadable {
        /// The key file.
        path: PathBuf,
        /// What should be there.
        kind: KeyKind,
        /// What the operating system says.
        cause: io::Error,
    },
    /// The file cannot be created.
    Unwritable {
        /// The key file.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// Others than the owner may read the secret.
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds something else.
    Format {
        /// The file.
        path: PathBuf,
        /// What should be there.
        kind: KeyKind,
        /// What is there, if it is another key.
        found: Option<KeyKind>,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Random(cause) => write!(f, "no random numbers for a key: /dev/urandom: {cause}"),
            KeyError::Unreadable { path, kind, cause } => {
                write!(f, "key {}: {cause}; make one with: {}", path.display(), kind.words().1)
            }
            KeyError::Unwritable { path, cause } if cause.kind() == io::ErrorKind::AlreadyExists => {
                write!(f, "key {}: exists already and is not overwritten; choose another name", path.display())
            }
            KeyError::Unwritable { path, cause } => write!(f, "key {}: {cause}", path.display()),
            KeyError::Exposed { path, mode } => write!(
                f,
                "key {}: mode {mode:03o} lets others read the secret; if they did not: chmod 600 it, else make a new key",
                path.display()
            ),
            KeyError::Format { path, kind, found: Some(found) } => {
                let (wanted, make) = kind.words();
                write!(
                    f,
                    "key {}: this is a {}, not a {wanted}; make one with: {make}",
                    path.display(),
                    found.words().0
                )
            }
            KeyError::Format { path, kind, found: None } => {
                let (wanted, make) = kind.words();
                write!(f, "key {}: this is no {wanted}; make one with: {make}", path.display())
            }
        }
    }
}

impl core::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = PrincipalKey::new().unwrap();
        key.save(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(PrincipalKey::load(&path).unwrap().id(), key.id());
        assert!(matches!(PrincipalKey::new().unwrap().save(&path), Err(KeyError::Unwritable { .. })));
        assert_eq!(PrincipalKey::load(&path).unwrap().id(), key.id());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        PrincipalKey::new().unwrap().save(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = PrincipalKey::load(&path).unwrap_err();
        assert!(refused.to_string().contains("640"), "{refused}");
    }

    #[test]
    fn a_file_that_is_no_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for text in ["", "anode-key ed25519 00", "ssh-ed25519 AAAA", "anode-key ed25519 \u{e9}"] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(PrincipalKey::load(&path), Err(KeyError::Format { .. })), "{text}");
        }
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let (alice, bob) = (PrincipalKey::from_seed([1; 32]), PrincipalKey::from_seed([2; 32]));
        let signature = alice.sign(b"ping");
        assert!(alice.id().verify(b"ping", &signature));
        assert!(!alice.id().verify(b"pong", &signature));
        assert!(!bob.id().verify(b"ping", &signature));
        assert!(!PrincipalId([0; 32]).verify(b"ping", &Signature([0; 64])), "small order");
        assert!(!PrincipalId([0xff; 32]).verify(b"ping", &signature), "no point of the curve");
    }
}
