//! Bundles: one program, its manifest, and up to three representations of it.
//!
//! A capsule carries a *code name*, the SHA-256 of the manifest. The node fetches the manifest,
//! then only the representation that it will run; each is an object named by the digest of its
//! own bytes, so both are verified by hashing alone. The signature of a principal is optional and
//! part of the manifest, so it is part of the name too. The format is normative in
//! `docs/bundle.md` (an OCI image manifest v1.1 with canonical bytes). Nothing here does I/O.

mod bounds;
mod error;
mod file;
mod lines;
mod manifest;
mod program;

pub use crate::abi::Kind;
pub use bounds::MANIFEST_MAX;
pub use error::Error;
pub use lines::{LINES_MAX, Lines, leb128};
pub use manifest::{Manifest, ManifestLayer, REPRESENTATION_MAX, TITLE_MAX, WINDOW_MAX};
pub use program::{Insn, PROGRAM_HEADER, Program};

use crate::trust::{CredentialRefusal, CredentialSet};
use crate::wire::Digest;
use std::sync::Arc;

/// The version of what code of capsules calls: `sdk/anode/capsule.h`.
pub const API_VERSION: u32 = crate::contract::AN_API;

impl Kind {
    /// The media type in the manifest.
    pub fn media_type(self) -> &'static str {
        match self {
            Kind::Wasm => "application/vnd.anode.wasm.v1",
            Kind::Bpf => "application/vnd.anode.bpf.v1",
            Kind::Native => "application/vnd.anode.native.v1",
        }
    }

    fn of_media_type(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.media_type() == text)
    }
}

/// A manifest with those of its representations that are at hand; every hash has been verified.
#[derive(Clone, Debug)]
pub struct Bundle {
    name: Digest,
    manifest: Manifest,
    manifest_bytes: Arc<[u8]>,
    representations: [Option<Arc<[u8]>>; 3],
    credentials: Option<Arc<[u8]>>,
    lines: Option<Arc<Lines>>,
}

impl Bundle {
    /// A bundle of nothing but its manifest, from the manifest's bytes.
    pub fn of_manifest(bytes: &[u8]) -> Result<Bundle, Error> {
        let manifest = Manifest::parse(bytes)?;
        Ok(Bundle {
            name: Digest::of(bytes),
            manifest,
            manifest_bytes: bytes.into(),
            representations: [const { None }; 3],
            credentials: None,
            lines: None,
        })
    }

    /// Adds a representation; refused unless its length and digest are those of the manifest.
    pub fn add(&mut self, kind: Kind, bytes: Arc<[u8]>) -> Result<(), Error> {
        let layer = self.manifest.layer(kind).ok_or(Error::NoSuchLayer { kind })?;
        let found = Digest::of(&bytes);
        if layer.digest != found || layer.size as usize != bytes.len() {
            return Err(Error::Representation { kind, expected: layer.digest, found });
        }
        self.representations[kind as usize] = Some(bytes);
        Ok(())
    }

    /// Adds what travels beside the bundle: credentials for this code, which are not verified.
    pub fn add_credentials(&mut self, bytes: Arc<[u8]>) -> Result<(), CredentialRefusal> {
        match CredentialSet::parse(&bytes)? {
            set if set.code == self.name => self.credentials = Some(bytes),
            CredentialSet { code, .. } => return Err(CredentialRefusal::OtherCode { code }),
        }
        Ok(())
    }

    /// The credentials that travel beside it, if any.
    pub fn credentials(&self) -> Option<&Arc<[u8]>> {
        self.credentials.as_ref()
    }

    /// Adds what else travels beside the bundle in its file: from which lines of the source it was made.
    pub fn add_lines(&mut self, lines: Lines) {
        self.lines = (!lines.is_empty()).then(|| Arc::new(lines));
    }

    /// The line table beside it, if any. Nothing vouches for it.
    pub fn lines(&self) -> Option<&Lines> {
        self.lines.as_deref()
    }

    /// The same, to be kept.
    pub fn shared_lines(&self) -> Option<Arc<Lines>> {
        self.lines.clone()
    }

    /// Builds a bundle from its representations; the result is signed if a `key` is given.
    pub fn build(
        title: &str,
        window: u32,
        representations: &[(Kind, Arc<[u8]>)],
        key: Option<&crate::trust::PrincipalKey>,
    ) -> Result<Bundle, Error> {
        let mut sorted: Vec<_> = representations.iter().collect();
        sorted.sort_by_key(|(kind, _)| *kind);
        let mut layers = Vec::new();
        for (kind, bytes) in &sorted {
            let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            layers.push(ManifestLayer { kind: *kind, digest: Digest::of(bytes), size });
        }
        let mut manifest = Manifest::new(title, window, layers)?;
        if let Some(key) = key {
            manifest.sign(key);
        }
        let mut bundle = Bundle::of_manifest(&manifest.encode())?;
        for (kind, bytes) in sorted {
            bundle.add(*kind, bytes.clone())?;
        }
        Ok(bundle)
    }

    /// The code name: the digest of the manifest.
    pub fn name(&self) -> Digest {
        self.name
    }

    /// What the bundle says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest's canonical bytes, whose digest is the name.
    pub fn manifest_bytes(&self) -> &Arc<[u8]> {
        &self.manifest_bytes
    }

    /// A representation, if it is at hand.
    pub fn representation(&self, kind: Kind) -> Option<&Arc<[u8]>> {
        self.representations[kind as usize].as_ref()
    }

    /// Everything at hand: the manifest, the representations and the credentials, each an object of a store.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        core::iter::once(&self.manifest_bytes).chain(self.representations.iter().flatten()).chain(&self.credentials)
    }
}

#[cfg(test)]
mod tests;
