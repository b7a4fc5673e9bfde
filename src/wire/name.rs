//! SHA-256 digests: the names of code and of everything else that is fetched by content.
//!
//! A *code name* is the digest of a bundle's canonical manifest (`docs/bundle.md`); a
//! *representation* is named by the digest of its bytes. Written as 64 hexadecimal digits, with an
//! optional `sha256:` before them as the OCI image specification writes digests.

use core::fmt;
use core::str::FromStr;
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl core::hash::Hash for Digest {
    /// By words: bytes in a row take a call and a loop.
    #[inline]
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.as_chunks().0.iter().for_each(|word| state.write_u64(u64::from_ne_bytes(*word)));
    }
}

impl Digest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The first eight hexadecimal digits: for people, never for look-ups.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..4])
    }

    /// `sha256:` and the digits, as OCI writes it.
    pub fn oci(&self) -> String {
        format!("sha256:{self}")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// The text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestError;

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name is 64 hexadecimal digits, optionally after 'sha256:'")
    }
}

impl core::error::Error for DigestError {}

impl FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.strip_prefix("sha256:").unwrap_or(text), &mut bytes).map_err(|_| DigestError)?;
        Ok(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_with_and_without_the_oci_prefix() {
        let name = Digest::of(b"abc");
        assert_eq!(name.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(name.to_string().parse(), Ok(name));
        assert_eq!(name.oci().parse(), Ok(name));
        assert_eq!("sha256:12".parse::<Digest>(), Err(DigestError));
    }
}
