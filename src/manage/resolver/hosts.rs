//! The host's own names, from its file of them (hosts(5)): they are answered at once, whatever look-ups wait for servers.
//!
//! The file is read again when it has changed. Lines that mean nothing are passed over, as the system's resolver does.

use crate::wire::Addr;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Bytes of a file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// Names and their first addresses.
pub(super) struct Hosts {
    path: PathBuf,
    /// Of the file that was read: when it was changed, and its length.
    seen: Option<(SystemTime, u64)>,
    names: HashMap<String, Addr>,
}

impl Hosts {
    /// Those of a file, which is read when it is needed.
    pub(super) fn new(path: PathBuf) -> Hosts {
        Hosts { path, seen: None, names: HashMap::new() }
    }

    /// The address of a name, if the file has it.
    pub(super) fn find(&mut self, name: &str) -> Option<Addr> {
        let facts = std::fs::metadata(&self.path).ok();
        let seen = facts.and_then(|facts| Some((facts.modified().ok()?, facts.len())));
        if seen.is_some() && seen != self.seen {
            self.seen = seen;
            let fits = seen.is_some_and(|(_, length)| length <= BYTES_MAX);
            let text = if fits { std::fs::read_to_string(&self.path).unwrap_or_default() } else { String::new() };
            self.names = read(&text);
        }
        self.names.get(&name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()).copied()
    }

    /// Those of a text.
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Hosts {
        Hosts { names: read(text), ..Hosts::new(PathBuf::new()) }
    }
}

fn read(text: &str) -> HashMap<String, Addr> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(Ok(addr)) = words.next().map(str::parse::<Addr>) else { continue };
        for name in words {
            names.entry(name.to_ascii_lowercase()).or_insert(addr);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_first_address_and_lines_that_mean_nothing_are_passed_over() {
        let mut hosts =
            Hosts::of("# 192.0.2.9 no\n127.0.0.1 localhost Here # there\nnonsense here\n::1 localhost six\n\n9\n");
        let found = ["localhost", "HERE", "here.", "six", "there", "no", "nonsense"].map(|name| hosts.find(name));
        let (four, six) = (Some(Addr::v4([127, 0, 0, 1])), "::1".parse().ok());
        assert_eq!(found, [four, four, four, six, None, None, None]);
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let path = std::env::temp_dir().join(format!("anode-hosts-{}", std::process::id()));
        let mut hosts = Hosts::new(path.clone());
        assert_eq!(hosts.find("a"), None, "there is none");
        for (text, last) in [("192.0.2.1 a\n", 1), ("192.0.2.22 a b\n", 22)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(hosts.find("a"), Some(Addr::v4([192, 0, 2, last])));
        }
        std::fs::write(&path, "192.0.2.1 a\n".repeat(BYTES_MAX as usize / 10)).unwrap();
        assert_eq!(hosts.find("a"), None, "it is too long");
        std::fs::remove_file(path).unwrap();
    }
}
