//! Words that rules may use beside those of protocols: hosts with their addresses, and constants. Example: `db` is 10.0.0.7 and fd00::7,
//! and `APP_PORT` is 2001, so that `[ip (src = db) | udp (dport = APP_PORT) | *]` means something.
//!
//! Who runs a node says them. So nobody who asks for a channel has names looked up that the operator does not know of.

use super::constants::constant;
use super::pattern::HostNames;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Hosts, and constants, of a node.
pub const WORDS_MAX: usize = 256;
/// Addresses of a host: a rule has 64 cases at most.
pub const HOST_ADDRESSES_MAX: usize = 16;
/// Bytes of a name.
const NAME_MAX: usize = 253;

/// What words mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleWords {
    hosts: BTreeMap<String, Vec<IpAddr>>,
    constants: BTreeMap<String, u64>,
}

impl RuleWords {
    /// These hosts and constants, or what is wrong with them.
    pub fn new(hosts: &BTreeMap<String, Vec<IpAddr>>, constants: &BTreeMap<String, u64>) -> Result<RuleWords, String> {
        for (what, count) in [("hosts", hosts.len()), ("constants", constants.len())] {
            if count > WORDS_MAX {
                return Err(format!("at most {WORDS_MAX} {what}, not {count}"));
            }
        }
        for (name, addresses) in hosts {
            if !is_host(name) {
                return Err(format!(
                    "'{name}' is no name of a host: letters, digits, '-', '_' and '.', and no address"
                ));
            }
            if addresses.is_empty() || addresses.len() > HOST_ADDRESSES_MAX {
                return Err(format!("{name} has {} addresses: 1 to {HOST_ADDRESSES_MAX}", addresses.len()));
            }
        }
        for name in constants.keys() {
            if !is_constant(name) {
                return Err(format!("'{name}' is no name of a constant: capital letters, digits and '_', 64 at most"));
            }
            if constant(name).is_some() {
                return Err(format!("{name} is known, and means the same everywhere: choose another name"));
            }
        }
        Ok(RuleWords { hosts: hosts.clone(), constants: constants.clone() })
    }
}

fn is_host(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins
        && name.len() <= NAME_MAX
        && name.bytes().all(fits)
        && !name.contains("..")
        && name.parse::<IpAddr>().is_err()
        && !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_constant(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 64 && name.bytes().all(fits) && name.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase())
}

/// Reads what rules say by these words, and notes whether one says anything by them.
pub struct WordsOf<'a> {
    words: &'a RuleWords,
    /// Whether a word was used.
    pub is_used: bool,
}

impl<'a> WordsOf<'a> {
    /// By these.
    pub fn by(words: &'a RuleWords) -> WordsOf<'a> {
        WordsOf { words, is_used: false }
    }
}

impl HostNames for WordsOf<'_> {
    fn addresses(&mut self, name: &str) -> Vec<IpAddr> {
        let found = self.words.hosts.get(name).cloned().unwrap_or_default();
        self.is_used |= !found.is_empty();
        found
    }

    fn constant(&mut self, name: &str) -> Option<u64> {
        let found = self.words.constants.get(name).copied();
        self.is_used |= found.is_some();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_bounds_and_mistakes_are_named() {
        let address: IpAddr = "10.0.0.7".parse().unwrap();
        let host = |name: &str, count| {
            RuleWords::new(&BTreeMap::from([(name.to_owned(), vec![address; count])]), &BTreeMap::new())
        };
        let number = |name: &str| RuleWords::new(&BTreeMap::new(), &BTreeMap::from([(name.to_owned(), 7)]));
        for name in ["db", "www.example.org", "a-b_c", "7up"] {
            assert!(host(name, 1).is_ok() && host(name, HOST_ADDRESSES_MAX).is_ok(), "{name}");
        }
        let long = "x".repeat(NAME_MAX + 1);
        for name in ["", "-a", "a b", "10.0.0.1", "10.0", "a..b", "a/b", "é", &long] {
            assert!(host(name, 1).unwrap_err().contains("no name of a host"), "{name}");
        }
        assert_eq!(host("db", 0).unwrap_err(), "db has 0 addresses: 1 to 16");
        assert_eq!(host("db", 17).unwrap_err(), "db has 17 addresses: 1 to 16");
        for (name, why) in
            [("app", "no name of a constant"), ("7A", "no name"), ("", "no name"), ("TH_SYN", "is known")]
        {
            assert!(number(name).unwrap_err().contains(why), "{name}");
        }
        let many = (0..=WORDS_MAX).map(|at| (format!("h{at}"), vec![address])).collect();
        assert_eq!(RuleWords::new(&many, &BTreeMap::new()).unwrap_err(), "at most 256 hosts, not 257");
        let many = (0..=WORDS_MAX as u64).map(|at| (format!("C{at}"), at)).collect();
        assert_eq!(RuleWords::new(&BTreeMap::new(), &many).unwrap_err(), "at most 256 constants, not 257");
        let words = RuleWords::new(
            &BTreeMap::from([("db".to_owned(), vec![address])]),
            &BTreeMap::from([("APP_PORT".to_owned(), 2001)]),
        )
        .unwrap();
        let mut said = WordsOf::by(&words);
        assert_eq!((said.addresses("dc"), said.constant("APP"), said.is_used), (vec![], None, false));
        assert_eq!((said.constant("APP_PORT"), said.is_used), (Some(2001), true));
        assert_eq!(WordsOf::by(&words).addresses("db"), [address]);
    }
}
