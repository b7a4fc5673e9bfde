//! A frame that somebody gives: in hexadecimal, or of a file with captured ones.

use crate::port::pcap;
use anyhow::Context;
use std::fs::File;
use std::io::Read;

/// Bytes of a file that is read.
const FILE_MAX: u64 = 256 << 20;

/// The frame that is meant.
pub(super) fn read(given: &str, number: u32) -> anyhow::Result<Vec<u8>> {
    if let Some(bytes) = from_text(given) {
        anyhow::ensure!(number == 1, "there is one frame, not {number}");
        return Ok(bytes);
    }
    let mut bytes = Vec::new();
    let file = File::open(given).with_context(|| format!("{given}: no frame in hexadecimal, and no file"))?;
    file.take(FILE_MAX).read_to_end(&mut bytes).with_context(|| given.to_owned())?;
    let frames = frames(&bytes);
    anyhow::ensure!(!frames.is_empty(), "{given}: neither a capture (pcap, pcapng) nor text in hexadecimal");
    let count = frames.len();
    let frame = frames.into_iter().nth(number as usize - 1);
    frame.with_context(|| format!("{given}: it has {count} frames, not {number}"))
}

fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let captured = pcap::packets(bytes);
    if !captured.is_empty() {
        return captured.into_iter().map(|packet| packet.bytes).collect();
    }
    let old = old_capture(bytes);
    if !old.is_empty() {
        return old;
    }
    std::str::from_utf8(bytes).ok().and_then(from_text).into_iter().collect()
}

/// Bytes in hexadecimal, with spaces and colons between them.
fn from_text(text: &str) -> Option<Vec<u8>> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    hex::decode(digits).ok().filter(|bytes| !bytes.is_empty())
}

/// The frames of a capture in the old format (pcap), of either byte order, as far as it is whole.
fn old_capture(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some((magic, mut rest)) = bytes.split_first_chunk::<4>().filter(|_| bytes.len() >= 24) else {
        return Vec::new();
    };
    let number: fn([u8; 4]) -> u32 = match u32::from_be_bytes(*magic) {
        0xa1b2_c3d4 | 0xa1b2_3c4d => u32::from_be_bytes,
        0xd4c3_b2a1 | 0x4d3c_b2a1 => u32::from_le_bytes,
        _ => return Vec::new(),
    };
    rest = &rest[20..];
    let mut frames = Vec::new();
    while let Some((record, behind)) = rest.split_first_chunk::<16>() {
        let length = number([record[8], record[9], record[10], record[11]]) as usize;
        let Some(frame) = behind.get(..length) else { break };
        frames.push(frame.to_vec());
        rest = &behind[length..];
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_from_all_that_has_some() {
        assert_eq!(from_text("00:ff 1a\n2B"), Some(vec![0, 255, 0x1a, 0x2b]));
        assert_eq!([from_text(""), from_text("0"), from_text("xy")], [None, None, None]);
        let mut old = vec![0xd4, 0xc3, 0xb2, 0xa1];
        old.extend([0; 20]);
        for frame in [&[1u8, 2][..], &[], &[3]] {
            old.extend([0; 8]);
            old.extend((frame.len() as u32).to_le_bytes());
            old.extend((frame.len() as u32).to_le_bytes());
            old.extend(frame);
        }
        assert_eq!(frames(&old), [vec![1, 2], vec![], vec![3]]);
        // What is cut off is left out.
        assert_eq!(frames(&old[..old.len() - 1]).len(), 2);
        let swapped: Vec<u8> =
            [&[0xa1, 0xb2, 0xc3, 0xd4][..], &[0; 20], &[0; 8], &[0, 0, 0, 1, 0, 0, 0, 1, 9]].concat();
        assert_eq!(frames(&swapped), [vec![9]]);
        let mut new = Vec::new();
        let interfaces = [("a".to_owned(), pcap::Beginning::Ethernet)];
        let mut capture = pcap::Capture::begin(&mut new, &interfaces).unwrap();
        let packet = pcap::Captured { interface: 0, at: 1, inward: None, bytes: &[7, 8], comment: "" };
        capture.packet(&packet).unwrap();
        capture.end(0, 0).unwrap();
        assert_eq!(frames(&new), [vec![7, 8]]);
        assert_eq!(frames(b"no frame"), Vec::<Vec<u8>>::new());
    }
}
