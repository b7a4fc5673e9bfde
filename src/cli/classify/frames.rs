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
    std::str::from_utf8(bytes).ok().and_then(from_text).into_iter().collect()
}

/// Bytes in hexadecimal, with spaces and colons between them.
fn from_text(text: &str) -> Option<Vec<u8>> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    hex::decode(digits).ok().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_from_all_that_has_some() {
        assert_eq!(from_text("00:ff 1a\n2B"), Some(vec![0, 255, 0x1a, 0x2b]));
        assert_eq!([from_text(""), from_text("0"), from_text("xy")], [None, None, None]);
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
