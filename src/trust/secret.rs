//! Secrets that two neighbours share, to prove the origin of packets to each other.
//!
//! The file is one line of text, `anode-secret `, the secret's number as hexadecimal digits, a blank, and its 32 bytes
//! as 64 more, with mode 0600. Reading refuses a file that others can read. Both neighbours have a copy; the number in
//! a packet names the secret.

use super::key::{KeyError, KeyKind, SECRET_LABEL as LABEL, random, read_private, write_private};
use std::path::Path;

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
        let text = read_private(path, KeyKind::Neighbours)?;
        let parse = || {
            let (id, digits) = text.trim_end().strip_prefix(LABEL)?.split_once(' ')?;
            let id = u32::from_str_radix(id, 16).ok().filter(|_| id.len() == 8)?;
            let mut bytes = [0; 32];
            hex::decode_to_slice(digits, &mut bytes).ok()?;
            Some(LinkSecret { id, bytes })
        };
        parse().ok_or_else(|| KeyKind::Neighbours.not_in(path, &text))
    }

    /// Writes a new file with mode 0600; an existing file is never overwritten.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        write_private(path, &format!("{LABEL}{:08x} {}\n", self.id, hex::encode(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::PrincipalKey;
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

    #[test]
    fn who_gives_another_key_or_none_is_told_how_the_right_one_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let [signing, shared, none] = ["signing", "shared", "none"].map(|name| dir.path().join(name));
        PrincipalKey::from_seed([1; 32]).save(&signing).unwrap();
        LinkSecret { id: 1, bytes: [1; 32] }.save(&shared).unwrap();
        let of_neighbours = |path| LinkSecret::load(path).map(drop).unwrap_err().to_string();
        let to_sign = |path| PrincipalKey::load(path).map(drop).unwrap_err().to_string();
        for (said, what, make) in [
            (
                of_neighbours(&signing),
                "this is a signing key, not a secret of two neighbours",
                "anode cred secret FILE",
            ),
            (of_neighbours(&none), "No such file", "anode cred secret FILE"),
            (to_sign(&shared), "this is a secret of two neighbours, not a signing key", "anode cred new FILE"),
            (to_sign(&none), "No such file", "anode cred new FILE"),
        ] {
            assert!(said.contains(what) && said.contains(make), "{said}");
        }
    }
}
