//! Which packets are wanted: words that all must hold. Example: `port=east code=ping dropped`.
//!
//! | word | holds for |
//! |---|---|
//! | `port=NAME` | frames of this port |
//! | `code=NAME` | capsules of this code, by its title or the beginning of its digest |
//! | `domain=NAME` | packets that this domain pays for, by its title or number |
//! | `host=ADDRESS` | packets from or to this address |
//! | `packet=IDENTITY` | frames of this identity, as captures show it |
//! | `dropped` | packets that were dropped |

use super::join::{End, Seen};
use super::words::{Names, Naming as _};
use crate::wire::Addr;
use std::str::FromStr;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Port(String),
    Code(String),
    Domain(String),
    Host(Addr),
    Packet(String),
    Dropped,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Word>);

/// The known words.
const KNOWN: &str = "known are port=NAME, code=NAME, domain=NAME, host=ADDRESS, packet=IDENTITY and dropped";

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Word, String> {
        let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
        let value = value.filter(|value| !value.is_empty());
        match (key, value) {
            ("port", Some(name)) => Ok(Word::Port(name.into())),
            ("code", Some(name)) => Ok(Word::Code(name.into())),
            ("domain", Some(name)) => Ok(Word::Domain(name.into())),
            ("host", Some(addr)) => match addr.parse() {
                Ok(addr) => Ok(Word::Host(addr)),
                Err(_) => Err(format!("host={addr}: this is no address of IPv4 or IPv6")),
            },
            ("packet", Some(identity)) => Ok(Word::Packet(identity.into())),
            ("dropped", None) if !text.contains('=') => Ok(Word::Dropped),
            ("port" | "code" | "domain" | "host" | "packet", None) => {
                Err(format!("{key}: what it is to be is missing; {KNOWN}"))
            }
            _ => Err(format!("the filter does not know '{text}'; {KNOWN}")),
        }
    }
}

impl Filter {
    /// What these words say.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Filter, String> {
        words.iter().map(|word| word.as_ref().parse()).collect::<Result<_, _>>().map(Filter)
    }

    /// Frames of one port.
    pub fn of_port(name: &str) -> Filter {
        Filter(vec![Word::Port(name.into())])
    }

    /// The first port that it names and the node does not have.
    pub fn unknown_port(&self, names: &Names) -> Option<&str> {
        let ports = self.0.iter().filter_map(|word| if let Word::Port(name) = word { Some(name) } else { None });
        ports.map(String::as_str).find(|name| !names.ports.iter().any(|port| port.name == *name))
    }

    /// Whether all words hold.
    pub fn holds(&self, seen: &Seen, names: &Names) -> bool {
        self.0.iter().all(|word| match word {
            Word::Port(name) => names.port(seen.port) == name,
            Word::Code(wanted) => seen.look.code.is_some_and(|code| {
                names.title(&code).is_some_and(|title| title == wanted) || is_beginning(&code.to_string(), wanted)
            }),
            Word::Domain(wanted) => names.domain_of(seen).is_some_and(|domain| {
                domain.to_string() == *wanted || names.domains.get(&domain).is_some_and(|title| title == wanted)
            }),
            Word::Host(addr) => seen.look.ends.is_some_and(|(from, to)| from == *addr || to == *addr),
            Word::Packet(wanted) => seen.look.identity.is_some_and(|identity| identity.to_string() == *wanted),
            Word::Dropped => matches!(seen.story.end, End::Dropped(_)),
        })
    }
}

/// Whether so many digits of a digest are meant to be it.
fn is_beginning(digest: &str, wanted: &str) -> bool {
    wanted.len() >= 8 && digest.starts_with(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_refused_by_name() {
        assert!(
            Filter::parse(&["port=a", "code=ping", "domain=7", "host=10.0.0.1", "host=fd00::1", "dropped"]).is_ok()
        );
        for (words, why) in [
            ("prot=a", "the filter does not know 'prot=a'; known are port="),
            ("dropped=1", "the filter does not know 'dropped=1'"),
            ("udp", "the filter does not know 'udp'"),
            ("port=", "port: what it is to be is missing"),
            ("host=ten", "host=ten: this is no address"),
            ("", "the filter does not know ''"),
        ] {
            let refused = Filter::parse(&[words]).unwrap_err();
            assert!(refused.starts_with(why), "{refused}");
        }
    }
}
