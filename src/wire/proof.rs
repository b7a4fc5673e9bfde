//! Proofs of neighbours: an ANEP authentication option by which a packet proves its last sender, hop by hop.
//!
//! ```text
//!  0: FLG, type 4 (16) | length 9 (16)          ANEP's own, in words
//!  4: scheme (32) = "hmac"
//!  8: key id (32) | counter (64)                which key of the link, which packet
//! 20: HMAC-SHA-256, its first 128 bits          over the whole ANEP packet, but for this field (RFC 2104, RFC 6234)
//! ```
//!
//! It is the first option of its packet. It is taken off where it is checked and put on anew for the next hop, so what is inside stays as
//! it was: an integrity checksum is right on both sides of it. What a counter means, and which are too old, is [`crate::node`]'s business.

use super::anep::{self, HEADER};
use super::anep_option::option_type;
use super::{Error, Result, field, put};

/// Length in bytes of the option.
pub const PROOF: usize = 36;
/// Bytes of the code at its end.
pub const CODE: usize = 16;
/// The scheme of the authentication option.
pub const SCHEME: u32 = u32::from_be_bytes(*b"hmac");

const WORDS: u16 = (PROOF / 4) as u16;
const KEY: usize = 8;
const COUNTER: usize = 12;
const CODE_AT: usize = 20;

/// Where the code stands in its packet.
pub const CODE_IN_PACKET: usize = HEADER + CODE_AT;

/// What a proof says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Which key of the link.
    pub key: u32,
    /// Which packet of its sender's.
    pub counter: u64,
    /// The code.
    pub code: [u8; CODE],
}

impl Repr {
    /// Reads the proof of an ANEP packet whose form has been checked; nothing if its first option is none.
    #[inline]
    pub fn of(packet: &anep::Packet<'_>) -> Option<Repr> {
        let option = packet.bytes().get(HEADER..packet.header_len())?.first_chunk::<PROOF>()?;
        let [kind, words] = [field::<0, _, _>(option), field::<2, _, _>(option)].map(u16::from_be_bytes);
        let scheme = u32::from_be_bytes(field::<4, _, _>(option));
        // The bits before the type say what who does not know it does; they are no part of it.
        if kind & 0x3fff != option_type::AUTHENTICATION || kind & 0x8000 != 0 || words != WORDS || scheme != SCHEME {
            return None;
        }
        Some(Repr {
            key: u32::from_be_bytes(field::<KEY, _, _>(option)),
            counter: u64::from_be_bytes(field::<COUNTER, _, _>(option)),
            code: field::<CODE_AT, _, _>(option),
        })
    }

    /// Puts a proof into `packet`, whose basic header is [`PROOF`] bytes behind its beginning: moves that to the front
    /// and says there that the option follows. `Length` if the packet is too long with it.
    pub fn put(&self, packet: &mut [u8]) -> Result<()> {
        let front = packet.first_chunk_mut::<{ PROOF + HEADER }>().ok_or(Error::Truncated)?;
        let header: [u8; HEADER] = field::<PROOF, _, _>(front);
        put::<0, _, _>(front, resized(header, |length| length.checked_add(PROOF as u16))?);
        put::<HEADER, _, _>(front, option_type::AUTHENTICATION.to_be_bytes());
        put::<{ HEADER + 2 }, _, _>(front, WORDS.to_be_bytes());
        put::<{ HEADER + 4 }, _, _>(front, SCHEME.to_be_bytes());
        put::<{ HEADER + KEY }, _, _>(front, self.key.to_be_bytes());
        put::<{ HEADER + COUNTER }, _, _>(front, self.counter.to_be_bytes());
        put::<CODE_IN_PACKET, _, _>(front, self.code);
        Ok(())
    }

    /// Takes the proof off: the packet begins [`PROOF`] bytes later from now on. The caller has seen that there is one.
    pub fn take_off(packet: &mut [u8]) -> Result<()> {
        let front = packet.first_chunk_mut::<{ PROOF + HEADER }>().ok_or(Error::Truncated)?;
        let header: [u8; HEADER] = field::<0, _, _>(front);
        put::<PROOF, _, _>(front, resized(header, |length| length.checked_sub(PROOF as u16))?);
        Ok(())
    }
}

/// A basic header whose two lengths, of the header in words and of the packet in bytes, are changed by so many bytes.
fn resized(mut header: [u8; HEADER], change: impl Fn(u16) -> Option<u16>) -> Result<[u8; HEADER]> {
    let words = u16::from_be_bytes(field::<4, _, _>(&header));
    let bytes = u16::from_be_bytes(field::<6, _, _>(&header));
    let words = words.checked_mul(4).and_then(&change).ok_or(Error::Length)? / 4;
    let bytes = change(bytes).ok_or(Error::Length)?;
    put::<4, _, _>(&mut header, words.to_be_bytes());
    put::<6, _, _>(&mut header, bytes.to_be_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF_OF: Repr = Repr { key: 7, counter: 0x0102_0304_0506_0708, code: *b"0123456789abcdef" };

    /// A packet with a checksum, behind room for a proof.
    fn packet() -> Vec<u8> {
        let inner = anep::Repr {
            type_id: 0x0ac0,
            discard_if_unknown: false,
            source: None,
            destination: None,
            authentication: None,
            checksum: true,
            payload: b"payload",
        };
        let mut bytes = vec![0; PROOF + inner.len()];
        inner.emit(&mut bytes[PROOF..]).unwrap();
        bytes
    }

    #[test]
    fn what_is_put_on_is_read_and_comes_off_without_a_trace() {
        let mut bytes = packet();
        let before = bytes[PROOF..].to_vec();
        PROOF_OF.put(&mut bytes).unwrap();
        let whole = anep::Packet::new_checked(&bytes).unwrap();
        assert_eq!(Repr::of(&whole), Some(PROOF_OF));
        assert_eq!((whole.payload(), whole.bytes().len()), (&b"payload"[..], bytes.len()));
        assert!(!whole.unknown_option_discards());
        assert_eq!(&bytes[CODE_IN_PACKET..CODE_IN_PACKET + CODE], &PROOF_OF.code);
        Repr::take_off(&mut bytes).unwrap();
        assert_eq!(&bytes[PROOF..], before);
        assert!(anep::Packet::new_checked(&bytes[PROOF..]).unwrap().verify_checksum());
    }

    #[test]
    fn other_options_are_no_proof() {
        let bytes = packet();
        assert_eq!(Repr::of(&anep::Packet::new_checked(&bytes[PROOF..]).unwrap()), None);
        let mut good = packet();
        PROOF_OF.put(&mut good).unwrap();
        for at in HEADER..HEADER + 8 {
            let mut bent = good.clone();
            bent[at] ^= if at == HEADER { 0x80 } else { 1 };
            let found = anep::Packet::new_checked(&bent).ok().and_then(|packet| Repr::of(&packet));
            assert_eq!(found, None, "byte {at}");
        }
        for length in 0..PROOF + HEADER {
            assert_eq!(PROOF_OF.put(&mut vec![0; length]), Err(Error::Truncated));
            assert_eq!(Repr::take_off(&mut vec![0; length]), Err(Error::Truncated));
        }
        let mut long = vec![0; 65_535];
        anep::emit_basic(&mut long[PROOF..], 1, 65_535 - HEADER).unwrap();
        assert_eq!(PROOF_OF.put(&mut long), Err(Error::Length));
    }
}
