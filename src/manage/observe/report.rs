//! What the control socket tells of events, of the configuration without its keys, and of processes of this node that fell.

use crate::log::{self, Happened};
use crate::manage::control::Handle;
use model::events::{Event, Events, Kind, Who};
use model::health::Report;
use std::path::{Path, PathBuf};

/// What stands in the place of a key.
const BLANK: &str = "(blanked)";

/// Words in the names of settings that are secret.
const SECRET: [&str; 4] = ["key", "secret", "password", "token"];

/// The configuration of a node, as far as it may be shown, and where falls of its processes are kept.
#[derive(Debug, Default)]
pub struct Configured {
    shown: String,
    store: Option<PathBuf>,
}

/// The text of a configuration with all its keys blanked; of one that cannot be read, nothing.
pub fn blanked(toml: &str) -> String {
    let Ok(mut table) = toml.parse::<toml::Table>() else { return String::new() };
    blank(&mut table);
    table.to_string()
}

fn blank(table: &mut toml::Table) {
    for (name, value) in table.iter_mut() {
        let secret = SECRET.iter().any(|word| name.to_ascii_lowercase().contains(word));
        match value {
            // Whatever is in it.
            value if secret => *value = BLANK.into(),
            toml::Value::Table(inner) => blank(inner),
            toml::Value::Array(items) => items.iter_mut().filter_map(toml::Value::as_table_mut).for_each(blank),
            _ => {}
        }
    }
}

/// The last events.
pub fn events() -> Events {
    let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Node);
    let event = |Happened { number, unix_ms, kind: of, what, who, refused }| Event {
        number,
        unix_ms,
        kind: kind(of),
        what,
        who: who.map(|(uid, pid)| Who { uid, pid }),
        refused,
    };
    let kept = log::happened();
    Events { process: std::process::id(), unkept: kept.unkept, events: kept.events.into_iter().map(event).collect() }
}

impl Handle {
    /// What the node was configured by, and where its store is: for reports.
    pub fn was_configured(&self, toml: &str, store: Option<&Path>) {
        let configured = Configured { shown: blanked(toml), store: store.map(Path::to_owned) };
        *self.observed.configured.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = configured;
    }

    /// What is of interest when something went wrong, beside the status and the log.
    pub fn report(&self) -> Report {
        let configured = self.observed.configured.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let falls = configured.store.as_deref().map(log::fall::falls).unwrap_or_default();
        Report { configuration: configured.shown.clone(), falls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_configuration_are_not_shown_wherever_they_stand() {
        let shown = blanked(
            "name = \"r1\"\n[[port]]\nudp = \"127.0.0.1:1\"\n[[port.neighbour]]\naddress = \"10.0.0.2\"\n\
             key = \"deadbeef\"\nkeys = [\"deadbeef\", \"deadbeef\"]\n[x]\napi_token = { a = \"deadbeef\", key = \"deadbeef\" }\n\
             password = 3735928559\n",
        );
        assert!(shown.contains("r1") && shown.contains("10.0.0.2"), "{shown}");
        assert!(!shown.contains("3735928559"), "{shown}");
        assert!(!shown.contains("deadbeef"), "{shown}");
        assert_eq!(blanked("key = "), "", "what cannot be read is not shown");
    }
}
