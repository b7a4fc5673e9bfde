//! The credentials that travel with a code: one object beside its manifest.
//!
//! ```text
//! "ANC1" | code name (32) | for each credential: length of the token (16, big endian), root key (32), token
//! ```
//!
//! The code name is in it, so the object's own name follows from the code's, and whoever has one can ask for
//! the other. Unlike every other object it is not named by all of its bytes: it can be renewed, and
//! what is in it counts by its signatures alone.

use super::credential::{CREDENTIAL_MAX, Credential, CredentialRefusal};
use super::key::PrincipalId;
use crate::wire::Digest;

/// The most credentials that travel with one code: of so many roots.
pub const CREDENTIALS_MAX: usize = 4;

/// The most bytes of a set.
pub const SET_MAX: usize = HEADER + CREDENTIALS_MAX * (2 + Digest::LENGTH + CREDENTIAL_MAX);

const MAGIC: &[u8; 4] = b"ANC1";
const HEADER: usize = MAGIC.len() + Digest::LENGTH;

/// The credentials of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSet {
    /// The code.
    pub code: Digest,
    /// At most [`CREDENTIALS_MAX`].
    pub credentials: Vec<Credential>,
}

impl CredentialSet {
    /// Reads a set; total. The credentials are not verified.
    pub fn parse(bytes: &[u8]) -> Result<CredentialSet, CredentialRefusal> {
        if bytes.len() > SET_MAX {
            return Err(CredentialRefusal::Oversized { bytes: bytes.len() });
        }
        let cut = || CredentialRefusal::Form("the set ends early");
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        if magic != MAGIC {
            return Err(CredentialRefusal::Form("the set does not begin with ANC1"));
        }
        let (code, mut rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let mut credentials = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (root, after) = after.split_first_chunk().ok_or_else(cut)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (token, after) = after.split_at_checked(length).ok_or_else(cut)?;
            if length == 0 {
                // It would have no text.
                return Err(CredentialRefusal::Form("a credential of the set is empty"));
            }
            if length > CREDENTIAL_MAX {
                return Err(CredentialRefusal::Oversized { bytes: length });
            }
            if credentials.len() == CREDENTIALS_MAX {
                return Err(CredentialRefusal::Limit { what: "credentials", limit: CREDENTIALS_MAX });
            }
            credentials.push(Credential::of_parts(PrincipalId(*root), token.to_vec()));
            rest = after;
        }
        match (rest, credentials.len()) {
            ([], 1..) => Ok(CredentialSet { code: Digest(*code), credentials }),
            ([], 0) => Err(CredentialRefusal::Form("the set is empty")),
            _ => Err(cut()),
        }
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &self.code.0].concat();
        for credential in &self.credentials {
            let (root, token) = credential.parts();
            // At most CREDENTIAL_MAX bytes, by construction.
            out.extend_from_slice(&(token.len() as u16).to_be_bytes());
            out.extend_from_slice(&root.0);
            out.extend_from_slice(token);
        }
        out
    }

    /// The name of the object that holds the credentials of this code.
    pub fn name_for(code: &Digest) -> Digest {
        Digest::of(&[&MAGIC[..], &code.0].concat())
    }
}

/// The name of an object: the SHA-256 of its bytes, or of the head alone if it is a set of credentials.
pub fn object_name(bytes: &[u8]) -> Digest {
    match bytes.first_chunk::<HEADER>() {
        Some(head) if bytes.starts_with(MAGIC) => Digest::of(head),
        _ => Digest::of(bytes),
    }
}
