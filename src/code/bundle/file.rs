//! The bundle file (`.anb`): a manifest and the representations that are at hand, for carrying
//! bundles outside the network.
//!
//! ```text
//! "ANB1" | length(32) manifest | for each layer of the manifest, in order: length(32) bytes
//! "ANB2" | the same | length(32) set of credentials
//! ```
//!
//! Lengths are big endian; a layer of length 0 is not in the file. Nothing follows.

use super::{Bundle, Error};
use crate::trust::SET_MAX;
use std::sync::Arc;

const MAGIC: &[u8] = b"ANB1";
const MAGIC_WITH_CREDENTIALS: &[u8] = b"ANB2";

impl Bundle {
    /// The most bytes of a bundle file.
    pub const FILE_MAX: usize = 4 + 4 + super::MANIFEST_MAX + 3 * (4 + super::REPRESENTATION_MAX) + 4 + SET_MAX;

    /// Reads a bundle file; total, and every hash is verified.
    pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
        let with_credentials = bytes.starts_with(MAGIC_WITH_CREDENTIALS);
        let magic = if with_credentials { MAGIC_WITH_CREDENTIALS } else { MAGIC };
        let rest = bytes
            .strip_prefix(magic)
            .ok_or(Error::File { cause: "it does not begin with ANB1 or ANB2; expected a .anb file" })?;
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
        if with_credentials {
            let (credentials, after) = prefixed(rest)?;
            let add = bundle.add_credentials(Arc::from(credentials));
            add.map_err(|_| Error::File { cause: "its credentials are none, or for another code" })?;
            rest = after;
        }
        if rest.is_empty() { Ok(bundle) } else { Err(Error::File { cause: "bytes follow the last representation" }) }
    }

    /// The bundle as a file.
    pub fn write(&self) -> Vec<u8> {
        let mut out = if self.credentials().is_some() { MAGIC_WITH_CREDENTIALS } else { MAGIC }.to_vec();
        let mut prefixed = |bytes: &[u8]| {
            // At most 64 KiB each, by construction.
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        };
        prefixed(self.manifest_bytes());
        for layer in self.manifest().layers() {
            prefixed(self.representation(layer.kind).map_or(&[], |bytes| bytes));
        }
        if let Some(credentials) = self.credentials() {
            prefixed(credentials);
        }
        out
    }
}

fn prefixed(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let truncated = Error::File { cause: "it ends early; copy it again" };
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(truncated.clone())?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(truncated)
}
