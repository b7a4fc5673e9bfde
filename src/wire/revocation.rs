//! Revocations on the wire: a key takes back what it has issued, and every node tells its neighbours once.
//!
//! ```text
//!  0: version (8) = 1 | what (8): 1 token, 2 principal, 3 code | zero (16)
//!  4: time (64), seconds since 1970
//! 12: subject (256): SHA-256 of a token's revocation id; the principal; the code's name
//! 44: signer (256): an ed25519 key
//! 76: signature (512), over "anode-revoke-1" and a zero byte, and bytes 0 to 75
//! ```
//!
//! It is the payload of an ANEP packet with type id [`REVOCATION`](super::anep::type_id::REVOCATION), from neighbour to
//! neighbour. Nothing here verifies the signature, or knows whose word counts for what: [`crate::trust`] does.

use super::{Error, Result, field, put};

/// Length in bytes.
pub const LENGTH: usize = 140;
/// Bytes in front of the signature: what is signed, behind [`LABEL`].
pub const SIGNED: usize = 76;
/// What stands before the signed bytes, so that they mean nothing else.
pub const LABEL: &[u8] = b"anode-revoke-1\0";
/// The version this implementation speaks.
pub const VERSION: u8 = 1;

const WHAT: usize = 1;
const ZERO: usize = 2;
const TIME: usize = 4;
const SUBJECT: usize = 12;
const SIGNER: usize = 44;

/// What kind of thing is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum What {
    /// A credential, and all that are made of it.
    Token = 1,
    /// A principal: what it has signed, and what it was granted.
    Principal = 2,
    /// A code.
    Code = 3,
}

/// A revocation whose form was checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a>(&'a [u8; LENGTH], What);

impl<'a> View<'a> {
    /// Checks length, version and fields. It fills `bytes`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<View<'a>> {
        let whole = bytes.first_chunk::<LENGTH>().ok_or(Error::Truncated)?;
        if bytes.len() != LENGTH {
            return Err(Error::Length);
        }
        if whole[0] != VERSION {
            return Err(Error::Version);
        }
        let what = match whole[WHAT] {
            1 => What::Token,
            2 => What::Principal,
            3 => What::Code,
            _ => return Err(Error::Malformed),
        };
        if field::<ZERO, 2, _>(whole) != [0; 2] {
            return Err(Error::Malformed);
        }
        Ok(View(whole, what))
    }

    /// What kind of thing is revoked.
    pub fn what(&self) -> What {
        self.1
    }

    /// Whose word it is, and about what: of two with the same, the second says nothing new.
    pub fn key(&self) -> Key {
        (self.1, field::<SUBJECT, _, _>(self.0), field::<SIGNER, _, _>(self.0))
    }
}

/// What kind, which subject, which signer.
pub type Key = (What, [u8; 32], [u8; 32]);

/// A revocation as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// What kind of thing is revoked.
    pub what: What,
    /// When it was signed, in seconds since 1970.
    pub unix_s: u64,
    /// Which one.
    pub subject: [u8; 32],
    /// Whose word it is.
    pub signer: [u8; 32],
    /// The signature.
    pub signature: [u8; 64],
}

impl Repr {
    /// Reads a revocation that fills `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Repr> {
        let View(whole, what) = View::new_checked(bytes)?;
        Ok(Repr {
            what,
            unix_s: u64::from_be_bytes(field::<TIME, _, _>(whole)),
            subject: field::<SUBJECT, _, _>(whole),
            signer: field::<SIGNER, _, _>(whole),
            signature: field::<SIGNED, _, _>(whole),
        })
    }

    /// Writes it at the beginning of `buf` and returns [`LENGTH`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let whole = buf.first_chunk_mut::<LENGTH>().ok_or(Error::Truncated)?;
        *whole = self.bytes();
        Ok(LENGTH)
    }

    /// As bytes.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut whole = [0; LENGTH];
        (whole[0], whole[WHAT]) = (VERSION, self.what as u8);
        put::<TIME, _, _>(&mut whole, self.unix_s.to_be_bytes());
        put::<SUBJECT, _, _>(&mut whole, self.subject);
        put::<SIGNER, _, _>(&mut whole, self.signer);
        put::<SIGNED, _, _>(&mut whole, self.signature);
        whole
    }

    /// The bytes that are signed.
    pub fn said(&self) -> Vec<u8> {
        [LABEL, &self.bytes()[..SIGNED]].concat()
    }

    /// Whose word it is, and about what.
    pub fn key(&self) -> Key {
        (self.what, self.subject, self.signer)
    }
}
