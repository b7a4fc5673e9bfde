//! Files of domains: values that outlive the node, such as the settings of an environment.
//!
//! A *name space* is a tree of files that belongs to one holder (an execution environment, by its name). The holder's
//! domains use it, and those of others with a share. Its bytes and files are counted as a whole. A domain may make it
//! grow only as far as its own role grants, and domains of others also only as far as the holder's role grants. Names
//! are relative paths without `.` and `..`; there are no links and no devices.
//!
//! This module decides without a disk: names, flags, shares and quotas; `manage/files` has the disk. Loosely after
//! POSIX, as the papers have it (Snow on Silk §2.1, PLAN on OSKit §3.3.1).

use crate::object_name;
use crate::trust::grants::Grants;
use libanode::error::Error;
use libanode::layout;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 1024;

/// Bytes of one name in it.
pub const NAME_BYTES_MAX: usize = 255;

/// Names of one path.
pub const DEPTH_MAX: usize = 16;

/// Bytes of a holder's name.
pub const HOLDER_BYTES_MAX: usize = 32;

/// Others that one holder can share with.
pub const SHARES_MAX: usize = 256;

/// Open files of one domain.
pub const HANDLES_MAX: usize = 256;

/// Bytes of the largest file: what the system's calls can name.
pub const SIZE_MAX: u64 = i64::MAX as u64;

object_name! {
    /// Names an open file of a domain.
    FileId
}

/// How a file is opened: bits, those of `sdk/anode/nodeos.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// To be read.
    pub const READ: OpenFlags = OpenFlags(layout::AN_FILE_READ);
    /// To be written.
    pub const WRITE: OpenFlags = OpenFlags(layout::AN_FILE_WRITE);
    /// Made if it is not there.
    pub const CREATE: OpenFlags = OpenFlags(layout::AN_FILE_CREATE);
    /// With `CREATE`: refused if it is there.
    pub const EXCLUSIVE: OpenFlags = OpenFlags(layout::AN_FILE_EXCLUSIVE);
    /// Emptied.
    pub const TRUNCATE: OpenFlags = OpenFlags(layout::AN_FILE_TRUNCATE);
    /// Every write goes to the end, whatever its offset.
    pub const APPEND: OpenFlags = OpenFlags(layout::AN_FILE_APPEND);

    /// These and others.
    pub const fn and(self, others: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | others.0)
    }

    /// Whether all of these are set.
    pub const fn has(self, flags: OpenFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether they mean something: to read or to write, and what changes a file only to write.
    pub fn check(self) -> Result<(), Error> {
        let known = self.0 < 64;
        let used = self.has(OpenFlags::READ) || self.has(OpenFlags::WRITE);
        let changes = self.0 & !(OpenFlags::READ.0 | OpenFlags::WRITE.0) != 0;
        let exclusive = !self.has(OpenFlags::EXCLUSIVE) || self.has(OpenFlags::CREATE);
        if known && used && exclusive && (!changes || self.has(OpenFlags::WRITE)) {
            Ok(())
        } else {
            Err(Error::Invalid)
        }
    }
}

/// A file to be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSpec {
    /// Whose name space; the caller's own if there is none.
    pub space: Option<String>,
    /// Where in it.
    pub path: String,
    /// How.
    pub flags: OpenFlags,
}

/// What there is by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// Bytes.
    File,
    /// Names.
    Directory,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// When it was written last, in nanoseconds after 1970 began.
    pub modified_ns: u64,
}

/// What others may do in a name space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Nothing.
    #[default]
    None,
    /// Read and list.
    Read,
    /// Everything but to share it.
    Write,
}

/// What is kept of a name space beside its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// How far it may grow.
    pub quota: Quota,
    /// Who else may use it.
    pub shares: Sharing,
}

/// Who else may use what is a holder's: a name space, a store. `*` is everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sharing(BTreeMap<String, Access>);

impl Sharing {
    /// What somebody may do with what is a holder's.
    pub fn access(&self, holder: &str, who: &str) -> Access {
        if holder == who {
            return Access::Write;
        }
        let given = |name: &str| self.0.get(name).copied().unwrap_or_default();
        given(who).max(given("*"))
    }

    /// Gives somebody a share, or takes it back.
    pub fn share(&mut self, with: &str, access: Access) -> Result<(), Error> {
        if with != "*" {
            check_holder(with)?;
        }
        if access == Access::None {
            self.0.remove(with);
        } else if self.0.len() < SHARES_MAX || self.0.contains_key(with) {
            self.0.insert(with.into(), access);
        } else {
            return Err(Error::Limit);
        }
        Ok(())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Access)> {
        self.0.iter()
    }
}

/// How far a name space may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Files and directories.
    pub files: u32,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

impl From<&Grants> for Quota {
    fn from(grants: &Grants) -> Quota {
        Quota { files: grants.files, bytes: grants.file_bytes }
    }
}

impl Quota {
    /// The lower of each.
    pub fn least(self, other: Quota) -> Quota {
        Quota { files: self.files.min(other.files), bytes: self.bytes.min(other.bytes) }
    }
}

/// What a name space holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// Files and directories.
    pub files: u32,
    /// Bytes of files, also of those that have no name any more and are open.
    pub bytes: u64,
}

impl Used {
    /// Whether one more file fits.
    pub fn may_add(&self, quota: Quota) -> Result<(), Error> {
        if self.files < quota.files { Ok(()) } else { Err(Error::Limit) }
    }

    /// Whether a file may grow from so many bytes to so many. To shrink, or to stay, is always allowed.
    pub fn may_grow(&self, quota: Quota, from: u64, to: u64) -> Result<(), Error> {
        if to > SIZE_MAX {
            return Err(Error::Invalid);
        }
        let more = to.saturating_sub(from);
        if more == 0 || self.bytes.saturating_add(more) <= quota.bytes { Ok(()) } else { Err(Error::Limit) }
    }

    /// A file has changed its size.
    pub fn resize(&mut self, from: u64, to: u64) {
        self.bytes = self.bytes.saturating_add(to).saturating_sub(from);
    }
}

/// The names of a path, or why it is none: 1 to [`DEPTH_MAX`] names of 1 to [`NAME_BYTES_MAX`] bytes with `/` between them.
pub fn check_path(path: &str) -> Result<(), Error> {
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name != "." && name != ".." && !name.contains('\0')
    };
    let whole = path.len() <= PATH_BYTES_MAX && path.split('/').count() <= DEPTH_MAX;
    if whole && path.split('/').all(is_name) { Ok(()) } else { Err(Error::Invalid) }
}

/// A path cut into the directory and the last name.
pub fn split_path(path: &str) -> (Option<&str>, &str) {
    match path.rsplit_once('/') {
        Some((directory, name)) => (Some(directory), name),
        None => (None, path),
    }
}

/// Whether this may be the name of a holder: 1 to 32 letters, digits, '-', '_' or '.', and does not begin with '.'.
pub fn check_holder(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = !name.is_empty() && name.len() <= HOLDER_BYTES_MAX && !name.starts_with('.') && name.chars().all(plain);
    if good { Ok(()) } else { Err(Error::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below() {
        let long = "n".repeat(NAME_BYTES_MAX);
        let deep = vec!["d"; DEPTH_MAX].join("/");
        for good in ["a", "a/b", "...", "..a", " ", "a/.b/c..", "-", "ö", &long, &deep] {
            assert_eq!(check_path(good), Ok(()), "{good:?}");
        }
        let (longer, deeper) = (format!("{long}n"), format!("{deep}/d"));
        let longest = [long.as_str(); 5].join("/");
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/.", "./a", "a\0b", &longer, &deeper,
            &longest,
        ] {
            assert_eq!(check_path(bad), Err(Error::Invalid), "{bad:?}");
        }
        assert_eq!((split_path("a/b/c"), split_path("c")), ((Some("a/b"), "c"), (None, "c")));
    }

    #[test]
    fn flags_mean_something() {
        const R: u32 = 1;
        const W: u32 = 2;
        for (flags, good) in [
            (R, true),
            (W, true),
            (R | W, true),
            (W | 4, true),
            (W | 4 | 8, true),
            (R | W | 16, true),
            (W | 32, true),
            (0, false),
            (4, false),
            (R | 4, false),
            (R | 16, false),
            (R | 32, false),
            (W | 8, false),
            (W | 64, false),
            (u32::MAX, false),
        ] {
            assert_eq!(OpenFlags(flags).check().is_ok(), good, "{flags}");
        }
    }

    #[test]
    fn shares_are_given_and_taken_back() {
        let mut record = Sharing::default();
        assert_eq!((record.access("a", "a"), record.access("a", "b")), (Access::Write, Access::None));
        record.share("b", Access::Write).unwrap();
        record.share("*", Access::Read).unwrap();
        assert_eq!((record.access("a", "b"), record.access("a", "c")), (Access::Write, Access::Read));
        record.share("b", Access::None).unwrap();
        assert_eq!(record.access("a", "b"), Access::Read, "as everybody");
        for name in ["", "..", ".a", "a/b", "a b", "**", &"a".repeat(33)] {
            assert_eq!(record.share(name, Access::Read), Err(Error::Invalid), "{name:?}");
        }
        for at in 1..SHARES_MAX {
            record.share(&format!("n{at}"), Access::Read).unwrap();
        }
        assert_eq!(record.share("more", Access::Read), Err(Error::Limit));
        assert_eq!(record.share("n1", Access::Write), Ok(()));
    }

    #[test]
    fn quotas_bound_what_grows_and_nothing_else() {
        let quota = Quota { files: 2, bytes: 100 };
        let mut used = Used { files: 1, bytes: 90 };
        assert_eq!(
            (used.may_add(quota), used.may_grow(quota, 0, 10), used.may_grow(quota, 5, 16)),
            (Ok(()), Ok(()), Err(Error::Limit))
        );
        assert_eq!(used.may_grow(quota, 0, u64::MAX), Err(Error::Invalid));
        used = Used { files: 3, bytes: 200 };
        assert_eq!(
            (used.may_add(quota), used.may_grow(quota, 50, 50), used.may_grow(quota, 50, 51)),
            (Err(Error::Limit), Ok(()), Err(Error::Limit))
        );
        used.resize(150, 20);
        assert_eq!(used.bytes, 70);
        let grants = Grants { files: 3, file_bytes: 50, ..Grants::default() };
        assert_eq!(quota.least(Quota::from(&grants)), Quota { files: 2, bytes: 50 });
    }
}
