//! `[security]` of the configuration: who the node is, and what this host must have.

use crate::broker::sandbox::Part;
use serde::Deserialize;

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityFile {
    /// Who a node becomes that root has started; by default `anode` if there is such a user, else one of its own.
    pub user: Option<User>,
    /// What must not be weaker than it can be: a start without it is an error.
    pub require: Vec<Part>,
}

/// A user of this host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum User {
    /// By number, which is that of its group too.
    Number(u32),
    /// By name.
    Name(String),
}

impl SecurityFile {
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        match &self.user {
            Some(User::Name(name)) if name.is_empty() || name.contains([':', '\n', '/']) => {
                Err(format!("[security] user = \"{name}\": the name of a user, or its number"))
            }
            _ => Ok(()),
        }
    }
}
