//! The bundle file (`.anb`): a manifest and its representations, for carrying bundles outside the network.
//!
//! ```text
//! "ANB1" | length(32) manifest | for each layer of the manifest, in order: length(32) bytes
//! "ANB2" | the same | length(32) set of credentials
//! "ANB3" | the same, of length 0 if there are none | length(32) line table
//! ```
//!
//! Lengths are big endian; a layer of length 0 is not in the file. Nothing follows.

use super::{Bundle, Error, LINES_MAX, Lines};
use crate::trust::SET_MAX;
use std::sync::Arc;

const MAGIC: &[u8] = b"ANB1";
const MAGIC_WITH_CREDENTIALS: &[u8] = b"ANB2";
const MAGIC_WITH_LINES: &[u8] = b"ANB3";

impl Bundle {
    /// The most bytes of a bundle file.
    pub const FILE_MAX: usize =
        4 + 4 + super::MANIFEST_MAX + 3 * (4 + super::REPRESENTATION_MAX) + 4 + SET_MAX + 4 + LINES_MAX;

    /// Reads a bundle file; total, and every hash is verified.
    pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
        let magics = [MAGIC, MAGIC_WITH_CREDENTIALS, MAGIC_WITH_LINES];
        let found = magics.into_iter().position(|magic| bytes.starts_with(magic));
        let more =
            found.ok_or(Error::File { cause: "it does not begin with ANB1, ANB2 or ANB3; expected a .anb file" })?;
        let rest = &bytes[MAGIC.len()..];
        let (manifest, mut rest) = prefixed(rest)?;
        let mut bundle = Bundle::of_manifest(manifest)?;
        let kinds: Vec<_> = bundle.manifest().layers().iter().map(|layer| layer.kind).collect();
        for kind in kinds {
            let (layer, after) = prefixed(rest)?;
            if !layer.is_empty() {
                bundle.add(kind, Arc::from(layer))?;
            }
            rest = after;
        }
        if more > 0 {
            let (credentials, after) = prefixed(rest)?;
            if more == 1 || !credentials.is_empty() {
                let add = bundle.add_credentials(Arc::from(credentials));
                add.map_err(|_| Error::File { cause: "its credentials are none, or for another code" })?;
            }
            rest = after;
        }
        if more > 1 {
            let (lines, after) = prefixed(rest)?;
            bundle.add_lines(Lines::parse(lines)?);
            rest = after;
        }
        if rest.is_empty() { Ok(bundle) } else { Err(Error::File { cause: "bytes follow the last representation" }) }
    }

    /// The bundle as a file.
    pub fn write(&self) -> Vec<u8> {
        let lines = self.lines().and_then(Lines::encode);
        let mut out = match (&lines, self.credentials()) {
            (Some(_), _) => MAGIC_WITH_LINES,
            (None, Some(_)) => MAGIC_WITH_CREDENTIALS,
            (None, None) => MAGIC,
        }
        .to_vec();
        let mut prefixed = |bytes: &[u8]| {
            // At most 64 KiB each, by construction.
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        };
        prefixed(self.manifest_bytes());
        for layer in self.manifest().layers() {
            prefixed(self.representation(layer.kind).map_or(&[], |bytes| bytes));
        }
        if lines.is_some() || self.credentials().is_some() {
            prefixed(self.credentials().map_or(&[], |bytes| bytes));
        }
        if let Some(lines) = &lines {
            prefixed(lines);
        }
        out
    }
}

fn prefixed(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let truncated = Error::File { cause: "it ends early; copy it again" };
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(truncated.clone())?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(truncated)
}
