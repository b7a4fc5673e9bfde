//! Payloads of capsules: fields at fixed offsets, in network byte order.

use crate::wire::Addr;

/// The `N` bytes at `offset`, or nothing if the payload ends before.
pub(super) fn bytes<const N: usize>(payload: &[u8], offset: usize) -> Option<[u8; N]> {
    payload.get(offset..)?.first_chunk().copied()
}

/// 8 bits.
pub(super) fn u8(payload: &[u8], offset: usize) -> Option<u8> {
    payload.get(offset).copied()
}

/// 16 bits.
pub(super) fn u16(payload: &[u8], offset: usize) -> Option<u16> {
    bytes(payload, offset).map(u16::from_be_bytes)
}

/// 32 bits.
pub(super) fn u32(payload: &[u8], offset: usize) -> Option<u32> {
    bytes(payload, offset).map(u32::from_be_bytes)
}

/// 64 bits.
pub(super) fn u64(payload: &[u8], offset: usize) -> Option<u64> {
    bytes(payload, offset).map(u64::from_be_bytes)
}

/// An address.
pub(super) fn addr(payload: &[u8], offset: usize) -> Option<Addr> {
    bytes(payload, offset).map(Addr)
}

/// A node's name, without its padding; bytes that are no text are shown as such.
pub(super) fn name(payload: &[u8], offset: usize) -> Option<String> {
    let name: [u8; 16] = bytes(payload, offset)?;
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..length]).into_owned())
}

/// Writes `value` at `offset`; what does not fit is left out, so the caller sizes the payload.
pub(super) fn put(payload: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = payload.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_end_are_absent() {
        let payload = [0, 1, 2, 3, 4];
        assert_eq!(u32(&payload, 1), Some(0x0102_0304));
        assert_eq!(u32(&payload, 2), None);
        assert_eq!(u16(&payload, 9), None);
        assert_eq!(addr(&payload, 0), None);
    }

    #[test]
    fn names_end_at_the_first_zero_or_after_sixteen_bytes() {
        assert_eq!(name(b"a\0bbbbbbbbbbbbbbb", 0).as_deref(), Some("a"));
        assert_eq!(name(b"0123456789abcdefXYZ", 0).as_deref(), Some("0123456789abcdef"));
    }
}
