//! Captures in the older format (pcap), of either byte order, with microseconds or nanoseconds. They are only read.

/// The packets of a capture with their times in nanoseconds, as far as it is whole; nothing if it is of another format.
pub(super) fn packets(bytes: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let magic = bytes.first_chunk::<4>()?;
    let (number, unit): (fn([u8; 4]) -> u32, u64) = match u32::from_be_bytes(*magic) {
        0xa1b2_c3d4 => (u32::from_be_bytes, 1_000),
        0xa1b2_3c4d => (u32::from_be_bytes, 1),
        0xd4c3_b2a1 => (u32::from_le_bytes, 1_000),
        0x4d3c_b2a1 => (u32::from_le_bytes, 1),
        _ => return None,
    };
    let (mut rest, mut found) = (bytes.get(24..)?, Vec::new());
    while let Some((record, behind)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| number([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let Some((frame, behind)) = behind.split_at_checked(word(8) as usize) else { break };
        let at = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * unit;
        found.push((at, frame.to_vec()));
        rest = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_of_either_byte_order_are_read_as_far_as_they_are_whole() {
        let mut old = vec![0xd4, 0xc3, 0xb2, 0xa1];
        old.extend([0; 20]);
        for frame in [&[1u8, 2][..], &[], &[3]] {
            old.extend(7u32.to_le_bytes());
            old.extend(5u32.to_le_bytes());
            old.extend((frame.len() as u32).to_le_bytes());
            old.extend((frame.len() as u32).to_le_bytes());
            old.extend(frame);
        }
        let read = packets(&old).unwrap();
        assert_eq!(read.iter().map(|(_, bytes)| &**bytes).collect::<Vec<_>>(), [&[1u8, 2][..], &[], &[3]]);
        assert_eq!(read[0].0, 7_000_005_000);
        assert_eq!(packets(&old[..old.len() - 1]).unwrap().len(), 2, "what is cut off is left out");
        let swapped = [&[0xa1, 0xb2, 0x3c, 0x4d][..], &[0; 20], &[0; 7], &[9, 0, 0, 0, 1, 0, 0, 0, 1, 9]].concat();
        let read = packets(&swapped).unwrap();
        assert_eq!((read[0].1.clone(), read[0].0), (vec![9], 9), "nanoseconds");
        assert_eq!(packets(b"no capture, and long enough to be one").map(|it| it.len()), None);
    }
}
