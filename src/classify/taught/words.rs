//! Words that rules may use beside those of protocols: hosts with their addresses, and constants. Example: `db` is 10.0.0.7 and fd00::7,
//! and `APP_PORT` is 2001, so that `[ip (src = db) | udp (dport = APP_PORT) | *]` means something.
//!
//! Who runs a node says them. So nobody who asks for a channel has names looked up that the operator does not know of. Of some hosts he
//! says the names alone: their addresses are found off the packet path, and change. Whether a rule is right does not depend on them.

use super::constants::constant;
use super::pattern::HostNames;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Hosts, and constants, of a node.
pub const WORDS_MAX: usize = 256;
/// Addresses of a host: a rule has 64 cases at most.
pub const HOST_ADDRESSES_MAX: usize = 16;
/// Hosts whose addresses are followed.
pub const FOLLOWED_MAX: usize = 64;
/// Addresses of each family that count of them: the lowest.
pub const FOLLOWED_ADDRESSES_MAX: usize = 4;
/// Bytes of a name.
const NAME_MAX: usize = 253;

/// What words mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleWords {
    hosts: BTreeMap<String, Vec<IpAddr>>,
    constants: BTreeMap<String, u64>,
    /// Hosts that are followed, with what is known of them.
    followed: BTreeMap<String, Vec<IpAddr>>,
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
        Ok(RuleWords { hosts: hosts.clone(), constants: constants.clone(), followed: BTreeMap::new() })
    }

    /// The same with hosts whose addresses are followed; none is known yet.
    pub fn and_followed(self, names: &[String]) -> Result<RuleWords, String> {
        if names.len() > FOLLOWED_MAX {
            return Err(format!("at most {FOLLOWED_MAX} hosts are followed, not {}", names.len()));
        }
        for (at, name) in names.iter().enumerate() {
            if !is_host(name) {
                return Err(format!(
                    "'{name}' is no name of a host: letters, digits, '-', '_' and '.', and no address"
                ));
            }
            if self.hosts.contains_key(name) || names[..at].contains(name) {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(RuleWords { followed: names.iter().map(|name| (name.clone(), Vec::new())).collect(), ..self })
    }

    /// The same with what is known of the hosts that are followed.
    pub fn with_found(&self, found: &BTreeMap<String, Vec<IpAddr>>) -> RuleWords {
        let known = |name: &String| (name.clone(), found.get(name).map_or(Vec::new(), |all| lowest(all)));
        RuleWords { followed: self.followed.keys().map(known).collect(), ..self.clone() }
    }
}

/// The addresses that count, so that what a rule means is the same in whatever order they come.
pub fn lowest(all: &[IpAddr]) -> Vec<IpAddr> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let (v4, v6): (Vec<_>, Vec<_>) = sorted.into_iter().partition(IpAddr::is_ipv4);
    let first = |family: Vec<IpAddr>| family.into_iter().take(FOLLOWED_ADDRESSES_MAX);
    first(v4).chain(first(v6)).collect()
}

/// As many addresses as a host that is followed may have.
fn any() -> Vec<IpAddr> {
    let v4 = (1..=FOLLOWED_ADDRESSES_MAX as u32).map(|at| IpAddr::V4(Ipv4Addr::from_bits(at)));
    let v6 = (1..=FOLLOWED_ADDRESSES_MAX as u128).map(|at| IpAddr::V6(Ipv6Addr::from_bits(at)));
    v4.chain(v6).collect()
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
    /// A host of which nothing is known yet.
    pub waits: Option<String>,
    /// Whether hosts that are followed have any addresses.
    has_any: bool,
}

impl<'a> WordsOf<'a> {
    /// By these, as they are known now.
    pub fn by(words: &'a RuleWords) -> WordsOf<'a> {
        WordsOf { words, is_used: false, waits: None, has_any: false }
    }

    /// By these, whatever the addresses of hosts that are followed: whether a rule is right.
    pub fn whatever(words: &'a RuleWords) -> WordsOf<'a> {
        WordsOf { has_any: true, ..WordsOf::by(words) }
    }
}

impl HostNames for WordsOf<'_> {
    fn addresses(&mut self, name: &str) -> Vec<IpAddr> {
        let Some(found) = self.words.hosts.get(name).or_else(|| self.words.followed.get(name)) else {
            return Vec::new();
        };
        self.is_used = true;
        if found.is_empty() {
            self.waits = Some(name.to_owned());
        }
        if found.is_empty() || self.has_any && self.words.followed.contains_key(name) { any() } else { found.clone() }
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
        for (names, why) in [
            (vec!["10.0.0.1"], "no name of a host"),
            (vec!["a", "b", "a"], "a is there twice"),
            (vec!["db"], "db is there twice"),
            (vec!["a"; FOLLOWED_MAX + 1], "at most 64 hosts are followed, not 65"),
        ] {
            let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
            assert!(words.clone().and_followed(&names).unwrap_err().contains(why), "{why}");
        }
        let mut said = WordsOf::by(&words);
        assert_eq!((said.addresses("dc"), said.constant("APP"), said.is_used), (vec![], None, false));
        assert_eq!((said.constant("APP_PORT"), said.is_used), (Some(2001), true));
        assert_eq!(WordsOf::by(&words).addresses("db"), [address]);
    }

    #[test]
    fn of_hosts_that_are_followed_the_lowest_addresses_count_in_any_order() {
        let words = RuleWords::default().and_followed(&["www".to_owned()]).unwrap();
        let mut said = WordsOf::by(&words);
        assert_eq!((said.addresses("www").len(), said.waits.as_deref()), (2 * FOLLOWED_ADDRESSES_MAX, Some("www")));
        let all = ["10.0.0.9", "::9", "10.0.0.1", "10.0.0.4", "10.0.0.1", "10.0.0.3", "10.0.0.2"];
        let mut all: Vec<IpAddr> = all.iter().map(|addr| addr.parse().unwrap()).collect();
        let found = words.with_found(&[("www".to_owned(), all.clone()), ("other".to_owned(), all.clone())].into());
        all.reverse();
        assert_eq!(found, words.with_found(&[("www".to_owned(), all)].into()));
        let (mut said, mut any) = (WordsOf::by(&found), WordsOf::whatever(&found));
        let known: Vec<_> = said.addresses("www").iter().map(ToString::to_string).collect();
        assert_eq!(
            (&known[..], said.waits.is_none()),
            (&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "::9"].map(str::to_owned)[..], true)
        );
        assert_eq!((any.addresses("www").len(), said.addresses("other").len()), (2 * FOLLOWED_ADDRESSES_MAX, 0));
    }
}
