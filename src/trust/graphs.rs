//! What a role's programs may do to the graphs that run in it: how often they change them, how large they become, where they lead.
//!
//! Example: `edits_per_second = 10` and `devices = ["eth0"]` let an environment re-plumb a graph of its role between two packets, ten
//! times a second, and send what it likes by `eth0`. What a graph takes stays the operator's word, and so does
//! whether it may be in the kernel. A role that says nothing changes none.

use serde::{Deserialize, Serialize};

/// Changes in a second, at most.
pub const EDITS_MAX: u16 = 1000;

/// Engines of a graph that programs change, at most.
pub const ENGINES_MAX: u16 = 4096;

/// Bytes of its text, at most: those of one message.
pub const TEXT_MAX: u32 = 64 << 10;

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
}

impl Default for GraphGrants {
    /// No changes.
    fn default() -> GraphGrants {
        GraphGrants { edits_per_second: 0, engines: 64, text_bytes: 16 << 10, devices: Vec::new() }
    }
}

impl GraphGrants {
    /// Whether graphs may be changed, and looked at, at all.
    pub fn edits(&self) -> bool {
        self.edits_per_second > 0
    }

    /// Whether packets may leave by this device.
    pub fn has_device(&self, name: &str) -> bool {
        self.devices.iter().any(|device| device == name)
    }

    /// Says what is more than a node has at all, or means nothing.
    pub fn check(&self) -> Result<(), String> {
        if self.devices.len() > DEVICES_MAX {
            return Err(format!("graphs.devices: {} are more than {DEVICES_MAX}", self.devices.len()));
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
        Ok(())
    }

    /// What of these others lack, if they lack anything.
    pub fn exceed(&self, others: &GraphGrants) -> Option<String> {
        if !self.edits() {
            return None;
        }
        if let Some(device) = self.devices.iter().find(|device| !others.has_device(device)) {
            return Some(format!("graphs.devices has {device}"));
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
    }
}
