//! `[entry]`: the share of the node for one neighbour, or for all strangers of a port together, while others are there.

use crate::node::entry::EntryLimits;
use serde::{Deserialize, Serialize};

/// `[entry]` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EntryFile {
    /// Of a worker, at most.
    pub share: f64,
    /// Worker time at once, in milliseconds.
    pub burst_ms: u32,
    /// Bytes a second; 0: half of the port's capacity, or of 10 Gbit/s where that is not stated.
    pub bytes_per_second: u64,
}

impl Default for EntryFile {
    fn default() -> EntryFile {
        EntryFile { share: 0.5, burst_ms: 5, bytes_per_second: 0 }
    }
}

impl EntryFile {
    /// The same for the node, or what cannot be.
    pub fn limits(&self) -> Result<EntryLimits, String> {
        if !(0.001..=1.0).contains(&self.share) {
            return Err(format!("[entry] share = {}: from 0.001 to 1, of a worker", self.share));
        }
        if !(1..=1000).contains(&self.burst_ms) {
            return Err(format!("[entry] burst_ms = {}: from 1 to 1000", self.burst_ms));
        }
        if (1..1500).contains(&self.bytes_per_second) {
            return Err(format!("[entry] bytes_per_second = {}: 0, or 1500 at least", self.bytes_per_second));
        }
        let permille = (self.share * 1000.0).round() as u32;
        Ok(EntryLimits { permille, burst_us: self.burst_ms * 1000, bytes_per_second: self.bytes_per_second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_and_the_default_is_half() {
        assert_eq!(EntryFile::default().limits(), Ok(EntryLimits::default()));
        for (text, named) in [("share = 0.0", "share"), ("share = 1.5", "share"), ("share = nan", "share")] {
            assert!(toml::from_str::<EntryFile>(text).unwrap().limits().unwrap_err().contains(named), "{text}");
        }
        for text in ["burst_ms = 0", "burst_ms = 1001", "bytes_per_second = 1499"] {
            assert!(toml::from_str::<EntryFile>(text).unwrap().limits().is_err(), "{text}");
        }
        assert!(toml::from_str::<EntryFile>("shares = 0.5").is_err());
    }
}
