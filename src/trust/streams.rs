//! TCP streams that a role's domains may have: where they may listen, where they may connect to, and how many.
//!
//! Example: `connect = ["10.0.2.0/24:80"]` lets a domain reach web servers of one network, and nobody else. A role that says nothing has
//! none. The broker knows these places too, so a node that is taken over reaches no others.

use crate::wire::{Addr, Prefix};
use core::fmt;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Streams of one domain at the same time, at most.
pub const STREAMS_MAX: u16 = 1024;

/// Streams that a domain may begin in a second, at most.
pub const PER_SECOND_MAX: u16 = 10_000;

/// Places in one list.
pub const PLACES_MAX: usize = 64;

/// Which streams a domain may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamGrants {
    /// Where it may listen: addresses of this host, and ports.
    pub listen: Vec<StreamPlace>,
    /// Where it may connect to.
    pub connect: Vec<StreamPlace>,
    /// Streams, and channels that listen, at the same time.
    pub streams: u16,
    /// Streams that may begin in a second, of both kinds.
    pub per_second: u16,
}

impl Default for StreamGrants {
    /// Nowhere.
    fn default() -> StreamGrants {
        StreamGrants { listen: Vec::new(), connect: Vec::new(), streams: 16, per_second: 100 }
    }
}

/// A block of addresses and a range of ports: `10.0.2.0/24:80`, `[fd00::1]:8000-8099`, `*:443`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamPlace {
    addresses: Prefix,
    first: u16,
    last: u16,
}

const ANYWHERE: Prefix = Prefix { addr: Addr([0; 16]), length: 0 };

impl StreamPlace {
    /// Whether an address and port are in it.
    pub fn holds(&self, at: &SocketAddr) -> bool {
        (self.first..=self.last).contains(&at.port()) && self.addresses.contains(at.ip().into())
    }

    /// Whether all of it is in another one.
    fn is_within(&self, other: &StreamPlace) -> bool {
        let addresses =
            other.addresses.length <= self.addresses.length && other.addresses.contains(self.addresses.addr);
        addresses && other.first <= self.first && self.last <= other.last
    }
}

impl TryFrom<String> for StreamPlace {
    type Error = String;
    fn try_from(text: String) -> Result<StreamPlace, String> {
        let read = || {
            let (addresses, ports) = text.rsplit_once(':')?;
            let addresses = match addresses.strip_prefix('[') {
                Some(inner) => inner.strip_suffix(']')?,
                // An IPv6 address without brackets would swallow its port.
                None if addresses.contains(':') => return None,
                None => addresses,
            };
            let addresses = if addresses == "*" { ANYWHERE } else { addresses.parse().ok()? };
            let (first, last) = match (ports, ports.split_once('-')) {
                ("*", _) => (1, u16::MAX),
                (_, Some((first, last))) => (first.parse().ok()?, last.parse().ok()?),
                (port, None) => (port.parse().ok()?, port.parse().ok()?),
            };
            (1 <= first && first <= last).then_some(StreamPlace { addresses, first, last })
        };
        read().ok_or_else(|| {
            format!("'{text}' is no place of streams: 10.0.2.0/24:80, [fd00::1]:8000-8099 or *:443 are some")
        })
    }
}

impl fmt::Display for StreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses {
            ANYWHERE => f.write_str("*")?,
            block if block.is_v4() => write!(f, "{block}")?,
            block => write!(f, "[{block}]")?,
        }
        match (self.first, self.last) {
            (1, u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

impl From<StreamPlace> for String {
    fn from(place: StreamPlace) -> String {
        place.to_string()
    }
}

impl StreamGrants {
    /// Whether there are any.
    pub fn gives_any(&self) -> bool {
        !self.listen.is_empty() || !self.connect.is_empty()
    }

    /// Whether a domain may listen there.
    pub fn may_listen(&self, at: &SocketAddr) -> bool {
        self.listen.iter().any(|place| place.holds(at))
    }

    /// Whether a domain may connect there.
    pub fn may_connect(&self, at: &SocketAddr) -> bool {
        self.connect.iter().any(|place| place.holds(at))
    }

    /// Says what is more than a node has at all, or means nothing.
    pub fn check(&self) -> Result<(), String> {
        for (name, list) in [("listen", &self.listen), ("connect", &self.connect)] {
            if list.len() > PLACES_MAX {
                return Err(format!("streams.{name}: {} places are more than {PLACES_MAX}", list.len()));
            }
        }
        for (name, given, most) in
            [("streams", self.streams, STREAMS_MAX), ("per_second", self.per_second, PER_SECOND_MAX)]
        {
            if given == 0 || given > most {
                return Err(format!("streams.{name}: {given} is not from 1 to {most}"));
            }
        }
        Ok(())
    }

    /// What of these others lack, if they lack anything.
    pub fn exceed(&self, others: &StreamGrants) -> Option<String> {
        for (name, own, other) in
            [("listen", &self.listen, &others.listen), ("connect", &self.connect, &others.connect)]
        {
            if let Some(place) = own.iter().find(|place| !other.iter().any(|other| place.is_within(other))) {
                return Some(format!("streams.{name} has {place}"));
            }
        }
        if !self.gives_any() {
            return None;
        }
        let numbers = [("streams", self.streams, others.streams), ("per_second", self.per_second, others.per_second)];
        let (name, own, other) = numbers.into_iter().find(|(_, own, other)| own > other)?;
        Some(format!("streams.{name} is {own}, not {other}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> StreamGrants {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn places_are_read_and_written_alike_and_hold_what_they_say() {
        for (text, inside, outside) in [
            ("10.0.2.0/24:80", "10.0.2.9:80", ["10.0.3.9:80", "10.0.2.9:81", "[::1]:80"]),
            ("10.0.2.7/32:8000-8099", "10.0.2.7:8099", ["10.0.2.8:8000", "10.0.2.7:7999", "10.0.2.7:8100"]),
            ("[fd00::/64]:443", "[fd00::5]:443", ["[fd00:0:0:1::5]:443", "10.0.0.1:443", "[fd00::5]:444"]),
            ("*:443", "10.0.0.1:443", ["10.0.0.1:442", "[::1]:80", "10.0.0.1:0"]),
            ("*:80", "0.0.0.0:80", ["0.0.0.0:81", "[::]:81", "[::1]:8080"]),
            ("*:81", "[::]:81", ["0.0.0.0:80", "[::]:80", "[::1]:8080"]),
            ("0.0.0.0/0:80", "0.0.0.0:80", ["[::]:80", "[::1]:80", "0.0.0.0:81"]),
            ("10.0.0.0/8:80", "10.0.0.1:80", ["0.0.0.0:80", "[::]:80", "[::1]:80"]),
            ("*:*", "[::1]:65535", ["10.0.0.1:0", "[::1]:0", "0.0.0.0:0"]),
        ] {
            let place = StreamPlace::try_from(text.to_owned()).unwrap();
            let written = place.to_string();
            assert_eq!(StreamPlace::try_from(written.clone()), Ok(place), "{text}: {written}");
            assert!(place.holds(&inside.parse().unwrap()), "{text} {inside}");
            for at in outside {
                assert!(!place.holds(&at.parse().unwrap()), "{text} {at}");
            }
        }
        for bad in [
            "",
            "80",
            "10.0.0.1",
            "10.0.0.1:",
            "10.0.0.1:0",
            "*:9-8",
            "*:0-9",
            "fd00::1:80",
            "[fd00::1:80",
            "*:65536",
            "a:1",
            "*:-",
        ] {
            assert!(StreamPlace::try_from(bad.to_owned()).unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn who_says_nothing_has_none_and_nobody_gives_more_than_he_has() {
        let none = StreamGrants::default();
        let at = "10.0.0.1:80".parse().unwrap();
        assert!(!none.may_listen(&at) && !none.may_connect(&at) && none.check().is_ok());
        let much = grants("connect = [\"10.0.0.0/8:1-100\", \"*:443\"]\nlisten = [\"10.0.0.1:8000\"]\nstreams = 4");
        assert!(much.may_connect(&at) && !much.may_listen(&at) && much.may_listen(&"10.0.0.1:8000".parse().unwrap()));
        assert_eq!((none.exceed(&much), much.exceed(&much)), (None, None));
        assert_eq!(grants("streams = 9").exceed(&much), None, "of nothing");
        for (text, what) in [
            ("connect = [\"10.1.0.0/16:80\"]\nstreams = 5", "streams.streams is 5, not 4"),
            ("connect = [\"10.1.0.0/16:80-101\"]", "streams.connect has 10.1.0.0/16:80-101"),
            ("connect = [\"8.0.0.0/7:80\"]", "streams.connect has 8.0.0.0/7:80"),
            ("listen = [\"*:8000\"]", "streams.listen has *:8000"),
        ] {
            assert_eq!(grants(text).exceed(&much).as_deref(), Some(what));
        }
        assert_eq!(grants("connect = [\"10.1.0.0/16:80\"]\nstreams = 4").exceed(&much), None);
        for (text, why) in [("streams = 0", "streams.streams: 0"), ("per_second = 10_001", "streams.per_second: 10001")]
        {
            assert!(grants(text).check().unwrap_err().contains(why));
        }
    }
}
