//! What calls of extensions may have done outside of them, and who does it. Example: a file is fetched by HTTP, which takes seconds, and a
//! call does not wait.
//!
//! Only instances that operators call have this: a packet has nothing fetched. Arguments and results are laid out as those of other
//! extensions' calls, so a module imports these as it imports them.

use super::call_type::put_blob;
use std::sync::{Arc, OnceLock};

/// It says no.
pub const REFUSED: i32 = -2;
/// There is none of that number, or what was given means nothing.
const UNKNOWN: i32 = -1;

/// Who fetches code.
pub trait FetchesCode: Send + Sync {
    /// Begins to fetch the code of a name from a URL; the number by which it is asked about, whatever is wrong with it.
    fn begin(&self, url: &str, name: &str) -> u64;
    /// How it stands, in words; nothing: there is none of that number any more.
    fn state(&self, number: u64) -> Option<String>;
}

/// Them, as soon as there is somebody.
pub type Desk = Arc<OnceLock<Arc<dyn FetchesCode>>>;

/// A call: arguments to result.
pub type Work = fn(&dyn FetchesCode, &[u8]) -> Result<Vec<u8>, i32>;

/// The calls that modules may import from `anode`.
pub const CALLS: [(&str, Work); 2] = [("an_fetch", fetch), ("an_fetch_state", state)];

/// Has a call's work done, if there is somebody.
pub fn carry_out(desk: Option<&Desk>, work: Work, given: &[u8]) -> Result<Vec<u8>, i32> {
    let desk = desk.and_then(|desk| desk.get()).ok_or(REFUSED)?;
    work(&**desk, given)
}

/// `(string, string) -> int`: a URL and a code's name, to the number of a fetch.
fn fetch(desk: &dyn FetchesCode, given: &[u8]) -> Result<Vec<u8>, i32> {
    let read = || {
        let (url, rest) = string(given)?;
        let (name, rest) = string(rest)?;
        rest.is_empty().then_some((url, name))
    };
    let (url, name) = read().ok_or(UNKNOWN)?;
    Ok(desk.begin(url, name).to_le_bytes().to_vec())
}

/// `int -> string`: how a fetch stands.
fn state(desk: &dyn FetchesCode, given: &[u8]) -> Result<Vec<u8>, i32> {
    let number = given.try_into().map(u64::from_le_bytes).map_err(|_| UNKNOWN)?;
    let words = desk.state(number).ok_or(UNKNOWN)?;
    let mut result = Vec::new();
    put_blob(&mut result, words.as_bytes());
    Ok(result)
}

/// A string and what is behind it.
fn string(given: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = given.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= rest.len())?;
    let (bytes, rest) = rest.split_at_checked(length.next_multiple_of(8))?;
    Some((core::str::from_utf8(&bytes[..length]).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl FetchesCode for Echo {
        fn begin(&self, url: &str, name: &str) -> u64 {
            (url.len() * 100 + name.len()) as u64
        }
        fn state(&self, number: u64) -> Option<String> {
            (number == 7).then(|| "seven".into())
        }
    }

    #[test]
    fn arguments_are_read_whole_or_not_at_all() {
        let mut given = Vec::new();
        put_blob(&mut given, b"http://a/");
        put_blob(&mut given, b"abc");
        assert_eq!(fetch(&Echo, &given), Ok(903u64.to_le_bytes().to_vec()));
        for end in 0..given.len() {
            assert_eq!(fetch(&Echo, &given[..end]), Err(UNKNOWN), "{end}");
        }
        let long = [&u64::MAX.to_le_bytes()[..], &[0; 16]].concat();
        assert_eq!(fetch(&Echo, &long), Err(UNKNOWN));
        let mut seven = Vec::new();
        put_blob(&mut seven, b"seven");
        assert_eq!(state(&Echo, &7u64.to_le_bytes()), Ok(seven));
        assert_eq!((state(&Echo, &8u64.to_le_bytes()), state(&Echo, &[7])), (Err(UNKNOWN), Err(UNKNOWN)));
    }
}
