//! Edits that an operator writes for capsules of a role: code that runs in packets has no room for texts, and names one by its number.
//!
//! ```text
//! [[role.graphs.edits]]              an_graph_wish(1)
//! number = 1                            │
//! name = "detour"                       ▼
//! graph = "path"                     the graph `path`, as `anode graph connect` would have changed it
//! disconnect = "in -> out"
//! connect = "in -> q :: Queue(100) -> Unqueue -> out"
//! ```
//!
//! An edit connects engines otherwise, or gives another text, or writes to an engine: one of the three. The strings are those that programs
//! of environments and PLAN say. Whether they fit the graph is looked at when the configuration is read (`src/config/edits.rs`).

use serde::{Deserialize, Serialize};

/// Numbers of edits are below this: bits of a word.
pub const EDIT_NUMBERS: u32 = u64::BITS;

/// Letters of an edit's name.
const NAME_MAX: usize = 32;

/// An edit that code of capsules may wish for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedEdit {
    /// By which code names it; no other edit of the role has it.
    pub number: u32,
    /// For people.
    pub name: String,
    /// The graph, which is of the same role.
    pub graph: String,
    /// Chains that go, with semicolons between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub disconnect: String,
    /// Engines that go, with spaces between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remove: String,
    /// Statements that come.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connect: String,
    /// Instead: another text for the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Or what is written to an engine: `ENGINE.HANDLER=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
}

/// What one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditDeed<'a> {
    /// Chains that go, engines that go, statements that come.
    Connect([&'a str; 3]),
    /// Another text.
    Text(&'a str),
    /// ENGINE.HANDLER, and what is written there.
    Write(&'a str, &'a str),
}

impl NamedEdit {
    /// What it does; nothing if it is none of the three, or several.
    pub fn deed(&self) -> Option<EditDeed<'_>> {
        let strings = [&*self.disconnect, &*self.remove, &*self.connect];
        let connects = strings.iter().any(|text| !text.trim().is_empty());
        match (connects, self.text.as_deref(), self.write.as_deref()) {
            (true, None, None) => Some(EditDeed::Connect(strings)),
            (false, Some(text), None) => Some(EditDeed::Text(text)),
            (false, None, Some(write)) => write.split_once('=').map(|(of, value)| EditDeed::Write(of.trim(), value)),
            _ => None,
        }
    }

    /// Its bit among those of its role.
    pub fn bit(&self) -> u64 {
        1u64.checked_shl(self.number).unwrap_or(0)
    }

    /// Says what is wrong with it by itself; its words are `text_bytes` at most.
    fn check(&self, text_bytes: u32) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(plain) {
            return Err(format!("name '{}': 1 to {NAME_MAX} letters, digits, '-', '_' or '.'", self.name));
        }
        if self.number >= EDIT_NUMBERS {
            return Err(format!("{}: number {} is not from 0 to {}", self.name, self.number, EDIT_NUMBERS - 1));
        }
        let Some(deed) = self.deed() else {
            return Err(format!(
                "{}: write either disconnect, remove and connect, or text, or write = \"ENGINE.HANDLER=VALUE\"",
                self.name
            ));
        };
        let bytes = match deed {
            EditDeed::Connect(strings) => strings.iter().map(|text| text.len()).sum(),
            EditDeed::Text(text) => text.len(),
            EditDeed::Write(of, value) => of.len() + value.len(),
        };
        if bytes > text_bytes as usize {
            return Err(format!("{}: its {bytes} bytes are more than graphs.text_bytes, {text_bytes}", self.name));
        }
        Ok(())
    }
}

/// Says what is wrong with the edits of a role that has so many changes in a second, each of so many bytes at most.
pub(super) fn check_edits(all: &[NamedEdit], edits_per_second: u16, text_bytes: u32) -> Result<(), String> {
    for (at, edit) in all.iter().enumerate() {
        edit.check(text_bytes).map_err(|why| format!("graphs.edits: {why}"))?;
        let before = all.iter().take(at);
        if let Some(twice) = before.clone().find(|other| other.number == edit.number) {
            return Err(format!("graphs.edits: {} and {} both have the number {}", twice.name, edit.name, edit.number));
        }
        if before.clone().any(|other| other.name == edit.name) {
            return Err(format!("graphs.edits: {} stands twice", edit.name));
        }
    }
    match all.first() {
        Some(first) if edits_per_second == 0 => Err(format!(
            "graphs.edits: {} is never done, since graphs.edits_per_second is 0: say how many changes there are in a second",
            first.name
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(text: &str) -> Vec<NamedEdit> {
        #[derive(Deserialize)]
        struct File {
            edits: Vec<NamedEdit>,
        }
        toml::from_str::<File>(text).unwrap().edits
    }

    fn refused(text: &str, per_second: u16) -> String {
        check_edits(&edits(text), per_second, 64).err().unwrap_or_default()
    }

    #[test]
    fn an_edit_is_one_of_three() {
        let all = edits(
            "[[edits]]\nnumber = 0\nname = \"a\"\ngraph = \"g\"\nconnect = \"x -> y\"\n\
             [[edits]]\nnumber = 63\nname = \"b\"\ngraph = \"g\"\nwrite = \"s.switch=a=b\"\n\
             [[edits]]\nnumber = 7\nname = \"c\"\ngraph = \"g\"\ntext = \"Idle -> Discard;\"",
        );
        let deeds: Vec<_> = all.iter().map(NamedEdit::deed).collect();
        let [connect, write, text] = deeds[..] else { panic!() };
        assert_eq!(connect, Some(EditDeed::Connect(["", "", "x -> y"])));
        assert_eq!(write, Some(EditDeed::Write("s.switch", "a=b")));
        assert_eq!(text, Some(EditDeed::Text("Idle -> Discard;")));
        assert_eq!((all[1].bit(), NamedEdit { number: 64, ..NamedEdit::default() }.bit()), (1 << 63, 0));
        assert_eq!(check_edits(&all, 1, 64), Ok(()));
    }

    #[test]
    fn what_is_wrong_with_one_is_said_by_its_name() {
        let edit = |number: u32, name: &str, more: &str| {
            format!("[[edits]]\nnumber = {number}\nname = \"{name}\"\ngraph = \"g\"\n{more}\n")
        };
        let good = edit(1, "a", "write = \"c.reset=\"");
        for (text, per_second, why) in [
            (good.clone(), 0, "a is never done, since graphs.edits_per_second is 0"),
            (edit(64, "a", "write = \"c.reset=\""), 1, "a: number 64 is not from 0 to 63"),
            (edit(1, "a b", "write = \"c.reset=\""), 1, "name 'a b': 1 to 32 letters"),
            (edit(1, "a", ""), 1, "a: write either disconnect, remove and connect, or text, or write"),
            (edit(1, "a", "write = \"c.reset\""), 1, "a: write either"),
            (edit(1, "a", "text = \"\"\nremove = \"b\""), 1, "a: write either"),
            (
                edit(1, "a", &format!("connect = \"{}\"", "x".repeat(65))),
                1,
                "a: its 65 bytes are more than graphs.text_bytes, 64",
            ),
            (format!("{good}{}", edit(1, "b", "remove = \"c\"")), 1, "a and b both have the number 1"),
            (format!("{good}{}", edit(2, "a", "remove = \"c\"")), 1, "a stands twice"),
        ] {
            let said = refused(&text, per_second);
            assert!(said.starts_with("graphs.edits: ") && said.contains(why), "{said}, not {why}");
        }
        assert_eq!(refused(&good, 1), "");
    }
}
