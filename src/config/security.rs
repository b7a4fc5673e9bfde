//! `[security]`: the user of the node, and the parts of its sandbox that this host must have.

use super::part::Part;
use super::{ConfigError, NodeFile, wrong};
use crate::sys::jail;
use serde::{Deserialize, Serialize};

/// Users of nodes for which nobody has made one: numbers that no distribution gives away.
pub const USERS: (u32, u32) = (60_578, 60_833);

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityFile {
    /// Who a node becomes that root has started; by default `anode` if there is such a user, else one of its own.
    pub user: Option<User>,
    /// What must not be weaker than it can be, of the node and of its jails: a start without it is an error.
    pub require: Vec<Part>,
    /// Whether extensions may be shared objects, which run in the node's process without any bound.
    pub native_extensions: bool,
}

/// A user of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "the name of a user, or its number")]
pub enum User {
    /// By number, which is that of its group too.
    Number(u32),
    /// By name.
    Name(String),
}

impl NodeFile {
    /// What jails must not lack: what `[security]` says, and `[jail]`, where it was said before.
    pub fn jails_require(&self) -> Vec<jail::Part> {
        let more = self.security.require.iter().filter_map(|part| part.of_jails());
        let mut all: Vec<jail::Part> = self.jail.require.iter().copied().chain(more).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl SecurityFile {
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        match &self.user {
            Some(User::Number(0)) => Err(is_root("0")),
            Some(User::Name(name)) if name == "root" => Err(is_root("\"root\"")),
            Some(User::Name(name)) if name.is_empty() || name.contains([':', '\n', '/']) => {
                Err(format!("[security] user = \"{name}\": the name of a user, or its number"))
            }
            _ => Ok(()),
        }
    }
}

/// Why root is no user for a node.
pub(crate) fn is_root(value: &str) -> String {
    format!("[security] user = {value} is root: name a user of its own, or leave the key out")
}

impl NodeFile {
    /// Refuses users of environments that are nodes', or this node's: an environment would be the node, to the kernel.
    pub(super) fn check_users(&self) -> Result<(), ConfigError> {
        let (first, last) = self.jail.users;
        if first <= USERS.1 && USERS.0 <= last {
            return wrong(format!(
                "[jail] users = [{first}, {last}]: {} to {} are those of nodes; leave them out",
                USERS.0, USERS.1
            ));
        }
        match self.security.user {
            Some(User::Number(user)) => self.check_user(user).map_err(ConfigError),
            _ => Ok(()),
        }
    }

    /// Refuses a user of the node that environments may get.
    pub(crate) fn check_user(&self, user: u32) -> Result<(), String> {
        let (first, last) = self.jail.users;
        if (first..=last).contains(&user) {
            return Err(format!(
                "[security] user = {user} is one of those that environments get, [jail] users = [{first}, {last}]: take another"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_neither_root_nor_one_of_its_environments() {
        let read = |more: &str| {
            let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
            NodeFile::parse(&format!("name = \"n\"\n{port}{more}")).map_err(|why| why.to_string())
        };
        for good in [
            "[security]\nuser = 60_600",
            "[security]\nuser = \"daemon\"",
            "[jail]\nusers = [60_834, 61_183]\n[security]\nuser = 60_833",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        for (bad, part) in [
            ("[security]\nuser = 0", "user = 0 is root: name a user of its own, or leave the key out"),
            ("[security]\nuser = \"root\"", "user = \"root\" is root"),
            ("[security]\nuser = -1", "the name of a user, or its number"),
            ("[security]\nuser = []", "the name of a user, or its number"),
            ("[security]\nuser = \"\"", "the name of a user"),
            ("[security]\nuser = 60_900", "one of those that environments get, [jail] users = [60834, 61183]"),
            ("[jail]\nusers = [60_000, 60_578]", "60578 to 60833 are those of nodes"),
            ("[jail]\nusers = [60_833, 60_833]", "60578 to 60833 are those of nodes"),
            ("[jail]\nusers = [1, 100_000]", "60578 to 60833 are those of nodes"),
        ] {
            let why = read(bad).map(drop).unwrap_err();
            assert!(why.contains(part), "{bad}: {why}");
        }
    }
}
