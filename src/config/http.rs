//! `[http]`: from which hosts extensions may fetch code.
//!
//! ```toml
//! [http]
//! hosts = { "mirror.example" = "10.0.2.2:8000" }     # as URLs name it, and where it is
//! ```
//!
//! Nobody is asked where a host is: so no answer of a name server leads a node to where nobody has meant it to go.

use crate::code::http::HOST_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Hosts of one node.
const HOSTS_MAX: usize = 64;

/// Milliseconds that one fetch may take, at most.
const WALL_MAX: u32 = 600_000;

/// The section `[http]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpFile {
    /// Hosts as URLs name them, with the port if that is not 80, and where they are.
    pub hosts: BTreeMap<String, SocketAddr>,
    /// Milliseconds that one fetch may take, redirections included.
    pub wall_ms: u32,
}

impl Default for HttpFile {
    fn default() -> HttpFile {
        HttpFile { hosts: BTreeMap::new(), wall_ms: 10_000 }
    }
}

impl HttpFile {
    /// Refuses what is no host, or nowhere.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.hosts.len() > HOSTS_MAX {
            return Err(format!("[http] hosts: {} are more than {HOSTS_MAX}", self.hosts.len()));
        }
        if !(1..=WALL_MAX).contains(&self.wall_ms) {
            return Err(format!("[http] wall_ms = {}: from 1 to {WALL_MAX}", self.wall_ms));
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | ':' | '[' | ']');
        for (name, at) in &self.hosts {
            let shown = name.escape_debug();
            if name.is_empty() || name.len() > HOST_MAX || !name.chars().all(plain) || name.ends_with(":80") {
                return Err(format!(
                    "[http] hosts: \"{shown}\" is no host as URLs name it: mirror.example, 10.0.2.2:8000, [fd00::1]; without :80"
                ));
            }
            if at.port() == 0 || at.ip().is_unspecified() || at.ip().is_multicast() {
                return Err(format!("[http] hosts: \"{shown}\" is at {at}, where nobody is"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_as_urls_have_them_with_an_address() {
        let checked = |text: &str| {
            toml::from_str::<HttpFile>(text)
                .map_err(|why| why.to_string())
                .and_then(|file| file.check().map_err(|why| why.to_string()))
        };
        for good in [
            "",
            "hosts = { \"mirror.example\" = \"10.0.2.2:8000\", \"[fd00::1]:81\" = \"[fd00::1]:81\" }",
            "wall_ms = 1",
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (wrong, why) in [
            ("hosts = { \"A\" = \"10.0.2.2:80\" }", "\"A\" is no host"),
            ("hosts = { \"a:80\" = \"10.0.2.2:80\" }", "without :80"),
            ("hosts = { \"a/b\" = \"10.0.2.2:80\" }", "is no host"),
            ("hosts = { \"a\" = \"0.0.0.0:80\" }", "where nobody is"),
            ("hosts = { \"a\" = \"10.0.0.1:0\" }", "where nobody is"),
            ("hosts = { \"a\" = \"b:80\" }", "invalid socket address"),
            ("wall_ms = 0", "wall_ms = 0: from 1"),
            ("host = 3", "unknown field"),
        ] {
            let said = checked(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
