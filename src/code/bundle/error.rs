//! Causes for bytes not to be a bundle.

use super::Kind;
use crate::wire::Digest;
use core::fmt;

/// Why a manifest, a bundle or a bundle file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The manifest has more bytes than are allowed.
    ManifestLength {
        /// Its bytes.
        bytes: usize,
    },
    /// The manifest is not the JSON of a bundle.
    Json {
        /// What the parser says, with line and column.
        cause: String,
    },
    /// The manifest means a bundle, but is not written in the one canonical way.
    NotCanonical {
        /// The first byte that differs from the canonical form.
        offset: usize,
    },
    /// A field of the manifest has a forbidden value.
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What would be allowed.
        expected: &'static str,
    },
    /// The signature is not the principal's over this manifest.
    Signature,
    /// It, or who has signed it, was revoked.
    Revoked {
        /// What, and by whom.
        by: String,
    },
    /// The manifest has no representation of this kind.
    NoSuchLayer {
        /// The kind.
        kind: Kind,
    },
    /// A representation is not the one that the manifest names.
    Representation {
        /// Its kind.
        kind: Kind,
        /// The manifest's digest.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// Not a bundle file.
    File {
        /// What is wrong with it.
        cause: &'static str,
    },
    /// Not a line table.
    Lines,
    /// Not the binary form of a bpf program.
    Program {
        /// What is wrong with it.
        cause: &'static str,
    },
}

const REBUILD: &str = "build it again with: anode code build";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::ManifestLength { bytes } => {
                write!(f, "the manifest has {bytes} bytes, {} are allowed; {REBUILD}", super::bounds::MANIFEST_MAX)
            }
            Error::Json { cause } => write!(f, "the manifest is not that of a bundle: {cause}; {REBUILD}"),
            Error::NotCanonical { offset } => write!(
                f,
                "the manifest is not in canonical form from byte {offset} on, so its name would be ambiguous; {REBUILD}"
            ),
            Error::Field { field, found, expected } => {
                write!(f, "the manifest's {field} is '{}', expected {expected}; {REBUILD}", crate::clean::shown(found))
            }
            Error::Signature => write!(
                f,
                "the signature is not the principal's over this manifest; get the bundle from its author, or {REBUILD} --sign"
            ),
            Error::Revoked { by } => f.write_str(by),
            Error::NoSuchLayer { kind } => write!(f, "the manifest names no {kind} representation; {REBUILD}"),
            Error::Representation { kind, expected, found } => write!(
                f,
                "the {kind} representation has the digest {found}, the manifest names {expected}; fetch it again"
            ),
            Error::File { cause } => write!(f, "not a bundle file: {cause}; {REBUILD}"),
            Error::Lines => write!(f, "the line table beside it is none; {REBUILD}"),
            Error::Program { cause } => write!(f, "not a bpf representation: {cause}; {REBUILD}"),
        }
    }
}

impl core::error::Error for Error {}
