//! Keys that a file contains, whatever their values: a key with its default value is a choice too.

use std::collections::BTreeSet;

/// Keys of tables, `TABLE.KEY`; a key of a table's that is a list itself is not looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeSet<String>);

impl Written {
    /// The keys of a text in TOML; none of what is no TOML.
    pub(super) fn of(text: &str) -> Written {
        let tables = text.parse::<toml::Table>().unwrap_or_default();
        let keys = tables.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
        Written(keys.flat_map(|(name, table)| table.keys().map(move |key| format!("{name}.{key}"))).collect())
    }

    /// Whether a table has this key.
    pub fn has(&self, table: &str, key: &str) -> bool {
        self.0.contains(&format!("{table}.{key}"))
    }

    /// Whether a table has any key.
    pub fn has_any(&self, table: &str) -> bool {
        self.0.iter().any(|known| known.split('.').next() == Some(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_whatever_its_value() {
        let written =
            Written::of("name = \"n\"\n[plan]\nopen = []\n[jail]\nrequire = []\n[[port]]\nudp = \"x\"\n[cpu]\n");
        assert!(written.has("plan", "open") && written.has_any("jail"));
        assert!(!written.has("plan", "restricted") && !written.has_any("cpu") && !written.has_any("entry"));
        assert_eq!(Written::of("no toml ="), Written::default());
    }
}
