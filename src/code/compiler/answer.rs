//! Answers of a compiler: how its child ended, and the file that it left.

use super::job::Failure;
use crate::sys::fork::{End, Ended};
use std::io::{self, Write};

/// Bytes of an answer.
pub(super) const ANSWER: usize = 24;

/// Bytes of what a compiler says where it refuses a module.
pub const WORDS: usize = 1024;

/// First byte of what a child leaves: machine code follows, or the compiler's words.
const CODE: u8 = 0;
const REFUSAL: u8 = 1;

/// How a child ended, its CPU time in microseconds, its memory in kibibytes: a word each.
pub fn encode(ended: &Ended) -> [u8; ANSWER] {
    let (end, status): (u32, i32) = match ended.end {
        End::Done => (0, 0),
        End::Cpu => (1, 0),
        End::Memory => (2, 0),
        End::File => (3, 0),
        End::Wall => (4, 0),
        End::Broken(status) => (5, status),
    };
    let words = [u64::from(end) << 32 | u64::from(status as u32), ended.cpu_us, ended.peak_kib];
    let mut answer = [0; ANSWER];
    answer.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_ne_bytes());
    answer
}

/// Reads an answer.
pub fn decode(answer: &[u8]) -> Option<Ended> {
    let answer: &[u8; ANSWER] = answer.try_into().ok()?;
    let words: &[[u8; 8]; 3] = answer.as_chunks().0.try_into().ok()?;
    let [first, cpu_us, peak_kib] = words.map(u64::from_ne_bytes);
    let end = match (first >> 32, first as u32 as i32) {
        (0, 0) => End::Done,
        (1, 0) => End::Cpu,
        (2, 0) => End::Memory,
        (3, 0) => End::File,
        (4, 0) => End::Wall,
        (5, status) => End::Broken(status),
        _ => return None,
    };
    Some(Ended { end, cpu_us, peak_kib })
}

/// What a child leaves: machine code, or why there is none, of which it leaves [`WORDS`] bytes.
pub fn leave(done: Result<&[u8], &str>, output: &mut impl Write) -> io::Result<()> {
    let (first, rest) = match done {
        Ok(code) => (CODE, code),
        Err(why) => (REFUSAL, &why.as_bytes()[..why.floor_char_boundary(WORDS)]),
    };
    output.write_all(&[first])?;
    output.write_all(rest)
}

/// Reads what a child has left, which may be anything.
pub fn found(mut left: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let first = if left.is_empty() { None } else { Some(left.remove(0)) };
    match first {
        Some(CODE) => Ok(left),
        Some(REFUSAL) => {
            left.truncate(WORDS);
            Err(Failure::Refused(String::from_utf8_lossy(&left).into_owned()))
        }
        _ => Err(Failure::Broken(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_child_ended_survives_the_way() {
        for end in [End::Done, End::Cpu, End::Memory, End::File, End::Wall, End::Broken(-1), End::Broken(31)] {
            let ended = Ended { end, cpu_us: 1 << 40, peak_kib: 7 };
            assert_eq!(decode(&encode(&ended)), Some(ended));
        }
        assert!(
            decode(&[0; ANSWER - 1]).is_none() && decode(&[0; ANSWER + 1]).is_none() && decode(&[9; ANSWER]).is_none()
        );
    }

    #[test]
    fn what_a_child_leaves_is_found_and_a_long_refusal_is_cut_between_letters() {
        let pass = |done| {
            let mut left = Vec::new();
            leave(done, &mut left).unwrap();
            found(left)
        };
        assert_eq!(pass(Ok(b"code")), Ok(b"code".to_vec()));
        assert_eq!(pass(Err("why")), Err(Failure::Refused("why".into())));
        let long = "x".to_owned() + &"\u{e9}".repeat(WORDS);
        assert_eq!(pass(Err(&long)), Err(Failure::Refused(long[..WORDS - 1].into())));
        assert_eq!(found(Vec::new()), Err(Failure::Broken(0)));
        assert_eq!(found(vec![2, 3]), Err(Failure::Broken(0)));
    }
}
