//! The manifest of a bundle: bytes to value and back, in exactly one way.
//!
//! Parsing reads the JSON, encodes the value again and compares the bytes. So each manifest has one spelling, and two
//! manifests with the same meaning have the same name. JSON's freedoms (order, white space, escapes, number forms) are
//! refused, and unknown fields too.

use super::bounds::MANIFEST_MAX;
use super::{Error, Kind};
use crate::trust::{PrincipalId, PrincipalKey, Signature};
use crate::wire::Digest;
use serde::{Deserialize, Serialize};

/// The most bytes of a representation: 64 parts of a code fetch.
pub const REPRESENTATION_MAX: usize = 65536;
/// The most payload bytes in a window.
pub const WINDOW_MAX: u32 = crate::abi::WINDOW_MAX;
/// The most characters of a title.
pub const TITLE_MAX: usize = 64;

const MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const ARTIFACT_TYPE: &str = "application/vnd.anode.bundle.v1";
const CONFIG_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The digest of `{}`, the empty configuration of OCI image manifests v1.1.
const CONFIG_DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
const API: &str = "1";
const _: () = assert!(crate::contract::AN_API == 1, "sdk/anode/capsule.h is of another version than API");
const SIGNED: &[u8] = b"anode bundle v1\0";

/// What a manifest says of one representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestLayer {
    /// In which form the program is.
    pub kind: Kind,
    /// The digest of the representation's bytes.
    pub digest: Digest,
    /// How many bytes it has, 1 to [`REPRESENTATION_MAX`].
    pub size: u32,
}

/// A bundle's description, valid by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    title: String,
    window: u32,
    layers: Vec<ManifestLayer>,
    architecture: Option<String>,
    signed: Option<(PrincipalId, Signature)>,
}

impl Manifest {
    /// An unsigned manifest; `layers` in the order of [`Kind`], at least one. Native code is for this processor.
    pub fn new(title: &str, window: u32, layers: Vec<ManifestLayer>) -> Result<Manifest, Error> {
        let field = |field, found: String, expected| Err(Error::Field { field, found, expected });
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if title.is_empty() || title.len() > TITLE_MAX || !title.chars().all(plain) {
            return field("anode.title", title.chars().take(80).collect(), "1 to 64 letters, digits, '.', '_' or '-'");
        }
        if window > WINDOW_MAX {
            return field("anode.window", window.to_string(), "0 to 512 bytes");
        }
        if layers.is_empty() || !layers.is_sorted_by(|a, b| a.kind < b.kind) {
            let kinds: Vec<_> = layers.iter().map(|layer| layer.kind.to_string()).collect();
            return field("layers", kinds.join(","), "at least one, each kind once, in the order wasm, bpf, native");
        }
        if let Some(layer) = layers.iter().find(|layer| layer.size == 0 || layer.size as usize > REPRESENTATION_MAX) {
            return field("layers.size", layer.size.to_string(), "1 to 65536 bytes");
        }
        let native = layers.iter().any(|layer| layer.kind == Kind::Native);
        let architecture = native.then(|| std::env::consts::ARCH.to_owned());
        Ok(Manifest { title: title.into(), window, layers, architecture, signed: None })
    }

    /// Signs as `key`'s principal, in place of any earlier signature. The name changes.
    pub fn sign(&mut self, key: &PrincipalKey) {
        let message = signed_message(&self.bytes(Some(key.id()), None));
        self.signed = Some((key.id(), key.sign(&message)));
    }

    /// Reads a manifest; total, and refuses all but the canonical bytes.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, Error> {
        if bytes.len() > MANIFEST_MAX {
            return Err(Error::ManifestLength { bytes: bytes.len() });
        }
        let json: Json = serde_json::from_slice(bytes).map_err(|error| Error::Json { cause: error.to_string() })?;
        let manifest = json.value()?;
        let canonical = manifest.encode();
        if canonical != bytes {
            let offset = canonical.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            return Err(Error::NotCanonical { offset });
        }
        Ok(manifest)
    }

    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (principal, signature) = self.signed.unzip();
        self.bytes(principal, signature)
    }

    /// The principal who signed; [`Error::Signature`] if somebody claims to be one. `None`:
    /// unsigned, which is code of `anyone`. One public-key operation.
    pub fn principal(&self) -> Result<Option<PrincipalId>, Error> {
        let Some((principal, signature)) = self.signed else { return Ok(None) };
        let message = signed_message(&self.bytes(Some(principal), None));
        if principal.verify(&message, &signature) { Ok(Some(principal)) } else { Err(Error::Signature) }
    }

    /// Who is said to have signed it, which nobody has verified.
    pub fn claimed_principal(&self) -> Option<PrincipalId> {
        self.signed.map(|(principal, _)| principal)
    }

    /// Whether there is a signature, right or wrong.
    pub fn is_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// The program's title, for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Payload bytes in the window, 0 to [`WINDOW_MAX`].
    pub fn window(&self) -> u32 {
        self.window
    }

    /// The processor that native code is for, if there is any: `x86_64`, `aarch64` …
    pub fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    /// The representations, in the order of [`Kind`].
    pub fn layers(&self) -> &[ManifestLayer] {
        &self.layers
    }

    /// What the manifest says of the representation of this kind.
    pub fn layer(&self, kind: Kind) -> Option<&ManifestLayer> {
        self.layers.iter().find(|layer| layer.kind == kind)
    }

    fn bytes(&self, principal: Option<PrincipalId>, signature: Option<Signature>) -> Vec<u8> {
        let layer = |layer: &ManifestLayer| JsonLayer {
            media_type: layer.kind.media_type().into(),
            digest: layer.digest.oci(),
            size: layer.size,
        };
        let json = Json {
            schema_version: 2,
            media_type: MEDIA_TYPE.into(),
            artifact_type: ARTIFACT_TYPE.into(),
            config: JsonLayer { media_type: CONFIG_TYPE.into(), digest: CONFIG_DIGEST.into(), size: 2 },
            layers: self.layers.iter().map(layer).collect(),
            annotations: Annotations {
                api: API.into(),
                title: self.title.clone(),
                window: self.window.to_string(),
                architecture: self.architecture.clone(),
                principal: principal.map(|id| id.digits()),
                signature: signature.map(|signature| signature.to_string()),
            },
        };
        // Strings and numbers in structures: there is nothing in it that JSON cannot say.
        serde_json::to_vec(&json).unwrap_or_default()
    }
}

fn signed_message(unsigned: &[u8]) -> Vec<u8> {
    [SIGNED, &Digest::of(unsigned).0].concat()
}

/// The JSON document; the order of the fields is the canonical order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Json {
    schema_version: u8,
    media_type: String,
    artifact_type: String,
    config: JsonLayer,
    layers: Vec<JsonLayer>,
    annotations: Annotations,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JsonLayer {
    media_type: String,
    digest: String,
    size: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    #[serde(rename = "anode.api")]
    api: String,
    #[serde(rename = "anode.title")]
    title: String,
    #[serde(rename = "anode.window")]
    window: String,
    #[serde(rename = "anode.architecture", default, skip_serializing_if = "Option::is_none")]
    architecture: Option<String>,
    #[serde(rename = "anode.principal", default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(rename = "anode.signature", default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

impl Json {
    /// The value, if every field has an allowed one. The spelling is compared by the caller.
    fn value(self) -> Result<Manifest, Error> {
        expect("schemaVersion", &self.schema_version.to_string(), "2")?;
        expect("mediaType", &self.media_type, MEDIA_TYPE)?;
        expect("artifactType", &self.artifact_type, ARTIFACT_TYPE)?;
        expect("config.mediaType", &self.config.media_type, CONFIG_TYPE)?;
        expect("config.digest", &self.config.digest, CONFIG_DIGEST)?;
        expect("config.size", &self.config.size.to_string(), "2")?;
        expect("anode.api", &self.annotations.api, API)?;
        let layers = self.layers.iter().map(JsonLayer::value).collect::<Result<_, _>>()?;
        let window = parse("anode.window", &self.annotations.window, "0 to 512 bytes")?;
        let mut manifest = Manifest::new(&self.annotations.title, window, layers)?;
        manifest.architecture =
            architecture(self.annotations.architecture.as_deref(), manifest.architecture.is_some())?;
        manifest.signed = match (&self.annotations.principal, &self.annotations.signature) {
            (None, None) => None,
            (Some(principal), Some(signature)) => {
                Some((principal_of(principal)?, parse("anode.signature", signature, "128 hexadecimal digits")?))
            }
            (Some(found), None) => {
                return Err(Error::Field {
                    field: "anode.principal",
                    found: found.clone(),
                    expected: "none without anode.signature",
                });
            }
            (None, Some(found)) => {
                return Err(Error::Field {
                    field: "anode.signature",
                    found: found.clone(),
                    expected: "none without anode.principal",
                });
            }
        };
        Ok(manifest)
    }
}

impl JsonLayer {
    fn value(&self) -> Result<ManifestLayer, Error> {
        let kind = Kind::of_media_type(&self.media_type).ok_or_else(|| Error::Field {
            field: "layers.mediaType",
            found: self.media_type.clone(),
            expected: "application/vnd.anode.{wasm,bpf,native}.v1",
        })?;
        let digest = parse("layers.digest", &self.digest, "sha256: and 64 hexadecimal digits")?;
        Ok(ManifestLayer { kind, digest, size: self.size })
    }
}

/// The processor of native code: there is one exactly if there is native code.
fn architecture(text: Option<&str>, native: bool) -> Result<Option<String>, Error> {
    let plain = |text: &&str| {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (1..=16).contains(&text.len()) && text.chars().all(letters)
    };
    let expected = "1 to 16 small letters, digits or '_', exactly if there is native code";
    let found = text.unwrap_or("").to_owned();
    match text.filter(plain) {
        Some(text) if native => Ok(Some(text.into())),
        None if text.is_none() && !native => Ok(None),
        _ => Err(Error::Field { field: "anode.architecture", found, expected }),
    }
}

fn principal_of(digits: &str) -> Result<PrincipalId, Error> {
    let (field, expected) = ("anode.principal", "64 hexadecimal digits");
    PrincipalId::from_digits(digits).ok_or_else(|| Error::Field { field, found: digits.into(), expected })
}

fn expect(field: &'static str, found: &str, expected: &'static str) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Field { field, found: found.into(), expected }) }
}

fn parse<T: core::str::FromStr>(field: &'static str, text: &str, expected: &'static str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::Field { field, found: text.into(), expected })
}
