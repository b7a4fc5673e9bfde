//! `[jail]`: the users of the host for environments, and the parts of their jails that must not be missing.

use crate::sys::jail::Part;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Users that neither distributions nor systemd give to anybody (systemd's UIDS-GIDS.md), below 65,536.
const USERS: (u32, u32) = (60_834, 61_183);

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JailFile {
    /// The first and the last of the users, and groups of the same numbers, that environments get; each has its own while it lives.
    #[serde(deserialize_with = "first_and_last")]
    pub users: (u32, u32),
    /// What this host must have, or no environment starts: "user", "namespaces", "landlock", "memory", "processes", "cpu".
    pub require: Vec<Part>,
}

fn first_and_last<'de, D: Deserializer<'de>>(file: D) -> Result<(u32, u32), D::Error> {
    match Vec::deserialize(file)?[..] {
        [first, last] => Ok((first, last)),
        _ => Err(D::Error::custom("users: two numbers, the first and the last, as in [60834, 61183]")),
    }
}

impl Default for JailFile {
    fn default() -> JailFile {
        JailFile { users: USERS, require: Vec::new() }
    }
}

impl JailFile {
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        let (first, last) = self.users;
        if first == 0 || first > last {
            return Err(format!("[jail] users = [{first}, {last}]: the first is at least 1, and at most the last"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_checked() {
        let read = |text: &str| toml::from_str::<JailFile>(text);
        assert_eq!(read("").unwrap(), JailFile::default());
        let some = read("users = [100, 200]\nrequire = [\"memory\", \"user\"]").unwrap();
        assert_eq!((some.check(), some.users, some.require), (Ok(()), (100, 200), vec![Part::Memory, Part::User]));
        assert!(read("users = [0, 200]").unwrap().check().is_err() && read("users = [9, 5]").unwrap().check().is_err());
        for users in ["users = [100]", "users = [1, 2, 3]"] {
            assert!(read(users).unwrap_err().to_string().contains("two numbers, the first and the last"), "{users}");
        }
        assert!(read("require = [\"magic\"]").is_err() && read("user = 1").is_err());
    }
}
