//! A request for the jailed process, and what comes of it.

use super::place::HttpPlace;
use crate::clean;
use crate::sys::fork::{End, Ended};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Bytes of the longest body: more than any bundle has.
pub const BYTES_MAX: usize = 1 << 20;

/// Bytes of the longest message of the node's.
pub(super) const MESSAGE: usize = 8 << 10;

/// Bytes of an answer of the process.
pub const ANSWER: usize = 64;

/// Bytes of a location, and of words about a failure.
pub(super) const WORDS: usize = 2 << 10;

/// Bytes of the file that a child leaves.
pub(super) const FILE_MAX: usize = BYTES_MAX + 1;

const BODY: u8 = 0;
const WHY: u8 = 1;
const ELSEWHERE: u8 = 2;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpJob {
    /// The host as it is named.
    pub host: String,
    /// Its path there.
    pub path: String,
    /// Milliseconds that it may take.
    pub wall_ms: u32,
}

/// What a server has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Body(Vec<u8>),
    /// It is there.
    Elsewhere(String),
    /// Nothing that is of use.
    Failed(String),
}

impl HttpJob {
    /// A place, within so many milliseconds.
    pub fn new(place: &HttpPlace, wall_ms: u32) -> HttpJob {
        HttpJob { host: place.host.clone(), path: place.path.clone(), wall_ms }
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // A value of this shape can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a message of the node's.
    pub(super) fn decode(message: &[u8]) -> Option<HttpJob> {
        serde_json::from_slice(message).ok()
    }
}

/// How a child ended, in the process's words.
pub(super) fn told(ended: &Ended) -> String {
    match ended.end {
        End::Done => "done".into(),
        End::Wall => "wall".into(),
        End::File => "file".into(),
        End::Cpu | End::Memory | End::Broken(_) => format!("broken {:?}", ended.end),
    }
}

/// What these words of the process mean; nothing: the child has done its work.
pub fn answered(words: &[u8], wall_ms: u32) -> Result<(), String> {
    match words {
        b"done" => Ok(()),
        b"wall" => Err(format!("the server was too slow: [http] wall_ms = {wall_ms}")),
        b"file" => Err(format!("it is longer than {BYTES_MAX} bytes")),
        other => Err(format!("the process that fetches ended: {}", String::from_utf8_lossy(other).escape_debug())),
    }
}

/// What a child leaves.
pub(super) fn leave(answer: &Answer, output: &mut impl Write) -> io::Result<()> {
    let cut = |text: &str| text.as_bytes()[..text.floor_char_boundary(WORDS)].to_vec();
    let (first, rest) = match answer {
        Answer::Body(body) => (BODY, body.clone()),
        Answer::Failed(why) => (WHY, cut(why)),
        Answer::Elsewhere(location) => (ELSEWHERE, cut(location)),
    };
    output.write_all(&[first])?;
    output.write_all(&rest)
}

/// Reads what a child has left, which may be anything.
pub fn found(mut left: Vec<u8>) -> Answer {
    let first = if left.is_empty() { None } else { Some(left.remove(0)) };
    let words = |left: &[u8]| String::from_utf8_lossy(&left[..left.len().min(WORDS)]).into_owned();
    match first {
        Some(BODY) if left.len() <= BYTES_MAX => Answer::Body(left),
        Some(WHY) => Answer::Failed(clean::line(&words(&left))),
        Some(ELSEWHERE) => Answer::Elsewhere(words(&left)),
        _ => Answer::Failed("the process that fetches has left nothing of sense".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_leaves_is_found_and_anything_else_is_a_failure() {
        for answer in [
            Answer::Body(vec![1; 99]),
            Answer::Body(Vec::new()),
            Answer::Failed("why".into()),
            Answer::Elsewhere("/x".into()),
        ] {
            let mut left = Vec::new();
            leave(&answer, &mut left).unwrap();
            assert_eq!(found(left), answer);
        }
        for left in [vec![], vec![3], vec![BODY; FILE_MAX + 1]] {
            assert!(matches!(found(left), Answer::Failed(_)));
        }
        let job = HttpJob { host: "a".into(), path: "/".into(), wall_ms: 5 };
        assert_eq!(HttpJob::decode(&job.encode()), Some(job));
        assert!(HttpJob::decode(b"{}").is_none());
        assert!(answered(b"done", 1).is_ok() && answered(b"wall", 7).unwrap_err().contains("wall_ms = 7"));
        assert!(answered(b"", 1).is_err() && answered(b"file", 1).unwrap_err().contains("longer"));
    }
}
