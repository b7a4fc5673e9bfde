//! What a role's programs may do to the graphs that run in it: how often they change them, how large they become, where they lead.
//!
//! Example: `edits_per_second = 10` and `devices = ["eth0"]` let an environment re-plumb a graph of its role between two packets, ten
//! times a second, and send what it likes by `eth0`. What a graph takes stays the operator's word, and so does
//! whether it may be in the kernel. A role that says nothing changes none.

use super::edits::{NamedEdit, check_edits};
use serde::{Deserialize, Serialize};

/// Changes in a second, at most.
pub const EDITS_MAX: u16 = 1000;

/// Engines of a graph that programs change, at most.
pub const ENGINES_MAX: u16 = 4096;

/// Bytes of its text, at most: those of one message.
pub const TEXT_MAX: u32 = 64 << 10;

/// Fields that one role locks, at most.
pub const LOCKED_MAX: usize = 32;

/// Devices of one role.
pub const DEVICES_MAX: usize = 64;

/// What programs may do to graphs of their role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphGrants {
    /// Changes in a second, of all graphs of the role together; those that are refused count too. 0: none.
    pub edits_per_second: u16,
    /// Engines of a graph after a change.
    pub engines: u16,
    /// Bytes of its text then.
    pub text_bytes: u32,
    /// The devices by which packets may leave it.
    pub devices: Vec<String>,
    /// The ports whose other end is the host's: graphs of the role may have `FromHost` and `ToHost` of these.
    pub host: Vec<String>,
    /// Fields of packets that no other place than a graph of the role sees: PROTOCOL.FIELD of the taught protocols.
    pub locked: Vec<String>,
    /// Edits that code of its capsules may wish for.
    #[serde(rename = "edits")]
    pub named: Vec<NamedEdit>,
}

impl Default for GraphGrants {
    /// No changes.
    fn default() -> GraphGrants {
        GraphGrants {
            edits_per_second: 0,
            engines: 64,
            text_bytes: 16 << 10,
            devices: Vec::new(),
            host: Vec::new(),
            locked: Vec::new(),
            named: Vec::new(),
        }
    }
}

impl GraphGrants {
    /// Whether graphs may be changed, and looked at, at all.
    pub fn edits(&self) -> bool {
        self.edits_per_second > 0
    }

    /// The edits that code of its capsules may wish for, as bits.
    pub fn wishes(&self) -> u64 {
        if self.edits() { self.named.iter().fold(0, |all, edit| all | edit.bit()) } else { 0 }
    }

    /// The edit with a number.
    pub fn edit(&self, number: u32) -> Option<&NamedEdit> {
        self.named.iter().find(|edit| edit.number == number)
    }

    /// Whether packets may leave by this device.
    pub fn has_device(&self, name: &str) -> bool {
        self.devices.iter().any(|device| device == name)
    }

    /// Whether packets may come from the host, and go to it, by this port.
    pub fn has_host(&self, name: &str) -> bool {
        self.host.iter().any(|port| port == name)
    }

    /// Says what is more than a node has at all, or means nothing.
    pub fn check(&self) -> Result<(), String> {
        if self.devices.len() > DEVICES_MAX {
            return Err(format!("graphs.devices: {} are more than {DEVICES_MAX}", self.devices.len()));
        }
        if self.host.len() > DEVICES_MAX {
            return Err(format!("graphs.host: {} are more than {DEVICES_MAX}", self.host.len()));
        }
        if self.locked.len() > LOCKED_MAX {
            return Err(format!("graphs.locked: {} are more than {LOCKED_MAX}", self.locked.len()));
        }
        let numbers = [
            ("edits_per_second", u32::from(self.edits_per_second), (0, EDITS_MAX.into())),
            ("engines", self.engines.into(), (1, ENGINES_MAX.into())),
            ("text_bytes", self.text_bytes, (1, TEXT_MAX)),
        ];
        for (name, given, (least, most)) in numbers {
            if given < least || given > most {
                return Err(format!("graphs.{name}: {given} is not from {least} to {most}"));
            }
        }
        check_edits(&self.named, self.edits_per_second, self.text_bytes)
    }

    /// What of these others lack, if they lack anything.
    pub fn exceed(&self, others: &GraphGrants) -> Option<String> {
        if let Some(port) = self.host.iter().find(|port| !others.has_host(port)) {
            return Some(format!("graphs.host has {port}"));
        }
        if !self.edits() {
            return None;
        }
        if let Some(device) = self.devices.iter().find(|device| !others.has_device(device)) {
            return Some(format!("graphs.devices has {device}"));
        }
        if let Some(field) = others.locked.iter().find(|field| !self.locked.contains(field)) {
            return Some(format!("graphs.locked lacks {field}"));
        }
        let numbers = [
            ("edits_per_second", u32::from(self.edits_per_second), others.edits_per_second.into()),
            ("engines", self.engines.into(), others.engines.into()),
            ("text_bytes", self.text_bytes, others.text_bytes),
        ];
        let (name, own, other) = numbers.into_iter().find(|(_, own, other)| own > other)?;
        Some(format!("graphs.{name} is {own}, not {other}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> GraphGrants {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn who_says_nothing_changes_none_and_nobody_gives_more_than_he_has() {
        let none = GraphGrants::default();
        assert!(!none.edits() && none.check().is_ok());
        let much = grants("edits_per_second = 10\nengines = 8\ntext_bytes = 100\ndevices = [\"a\", \"b\"]");
        assert!(much.edits() && much.has_device("a") && !much.has_device("c") && much.check().is_ok());
        assert_eq!((none.exceed(&much), much.exceed(&much)), (None, None));
        assert_eq!(grants("engines = 9").exceed(&much), None, "of nothing");
        for (text, what) in [
            ("host = [\"h\"]", "graphs.host has h"),
            ("edits_per_second = 11", "graphs.edits_per_second is 11, not 10"),
            ("edits_per_second = 1\nengines = 9", "graphs.engines is 9, not 8"),
            ("edits_per_second = 1\nengines = 8\ntext_bytes = 101", "graphs.text_bytes is 101, not 100"),
            ("edits_per_second = 1\nengines = 8\ntext_bytes = 100\ndevices = [\"c\"]", "graphs.devices has c"),
        ] {
            assert_eq!(grants(text).exceed(&much).as_deref(), Some(what));
        }
    }

    #[test]
    fn what_is_more_than_a_node_has_is_refused_by_its_name() {
        for (text, why) in [
            ("edits_per_second = 1_001", "graphs.edits_per_second: 1001 is not from 0 to 1000"),
            ("engines = 0", "graphs.engines: 0 is not from 1 to 4096"),
            ("text_bytes = 65_537", "graphs.text_bytes: 65537 is not from 1 to 65536"),
        ] {
            assert_eq!(grants(text).check().unwrap_err(), why);
        }
        let many = GraphGrants { devices: vec!["a".into(); DEVICES_MAX + 1], ..GraphGrants::default() };
        assert_eq!(many.check().unwrap_err(), "graphs.devices: 65 are more than 64");
        let many = GraphGrants { host: vec!["a".into(); DEVICES_MAX + 1], ..GraphGrants::default() };
        assert_eq!(many.check().unwrap_err(), "graphs.host: 65 are more than 64");
        let many = GraphGrants { locked: vec!["a".into(); LOCKED_MAX + 1], ..GraphGrants::default() };
        assert_eq!(many.check().unwrap_err(), "graphs.locked: 33 are more than 32");
        let (locks, none) = (grants("edits_per_second = 1\nlocked = [\"ip.src\"]"), grants("edits_per_second = 1"));
        assert_eq!(none.exceed(&locks).as_deref(), Some("graphs.locked lacks ip.src"));
        assert_eq!((locks.exceed(&none), locks.exceed(&locks)), (None, None));
    }
}
