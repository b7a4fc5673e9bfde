//! Secrets that two neighbours share, to prove to each other what they send.
//!
//! The file is one line of text, `anode-secret `, the secret's number as hexadecimal digits, a blank, and its 32 bytes as 64 more, with mode
//! 0600. Reading refuses a file that others can read. Both neighbours have a copy; the number says in packets which secret it is.

use super::key::{KeyError, random, read_private, write_private};
use std::path::Path;

const LABEL: &str = "anode-secret ";

/// A secret and its number.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkSecret {
    /// Says in packets which secret it is.
    pub id: u32,
    /// The secret.
    pub bytes: [u8; 32],
}

impl LinkSecret {
    /// A new one from the operating system's random numbers.
    pub fn new() -> Result<LinkSecret, KeyError> {
        let mut id = [0; 4];
        let mut bytes = [0; 32];
        random(&mut id)?;
        random(&mut bytes)?;
        Ok(LinkSecret { id: u32::from_be_bytes(id), bytes })
    }

    /// Reads a secret's file; refuses one that others than its owner may read.
    pub fn load(path: &Path) -> Result<LinkSecret, KeyError> {
        let text = read_private(path)?;
        let parse = || {
            let (id, digits) = text.trim_end().strip_prefix(LABEL)?.split_once(' ')?;
            let id = u32::from_str_radix(id, 16).ok().filter(|_| id.len() == 8)?;
            let mut bytes = [0; 32];
            hex::decode_to_slice(digits, &mut bytes).ok()?;
            Some(LinkSecret { id, bytes })
        };
        parse().ok_or_else(|| KeyError::Format { path: path.into() })
    }

    /// Writes a new file with mode 0600; an existing file is never overwritten.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        write_private(path, &format!("{LABEL}{:08x} {}\n", self.id, hex::encode(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_survives_its_file_and_others_must_not_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let secret = LinkSecret::new().unwrap();
        secret.save(&path).unwrap();
        assert!(LinkSecret::load(&path).unwrap() == secret && secret.save(&path).is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(LinkSecret::load(&path), Err(KeyError::Exposed { .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "anode-secret 1 00", "anode-secret +0000001 00", "anode-key ed25519 00"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(LinkSecret::load(&path), Err(KeyError::Format { .. })), "{text}");
        }
    }
}
