//! What `anode code` prints of bundles and of the store, and `anode cred` of keys and credentials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bundle and its rights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bundle {
    /// Its name.
    pub name: String,
    /// Always `bundle`.
    pub kind: String,
    /// What its author calls it.
    pub title: String,
    /// Payload bytes in its window.
    pub window_bytes: u32,
    /// The processor that native code is for, if there is any.
    pub architecture: Option<String>,
    /// Who has signed it, as far as that was looked at.
    pub principal: Option<String>,
    /// The roots of credentials that come with it.
    pub credential_roots: Vec<String>,
    /// Bytes of its manifest.
    pub manifest_bytes: u64,
    /// Its representations.
    pub representations: Vec<Representation>,
    /// What no bundle may exceed.
    pub limits: BundleLimits,
    /// Whether it obeys the rules of every node.
    pub checked: bool,
    /// Its right at a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Right>,
    /// The file that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the user half says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_half: Option<Half>,
    /// What the kernel half says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_half: Option<Half>,
    /// A second opinion of its bpf code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lint: Option<Lint>,
}

/// A representation of code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Representation {
    /// `wasm`, `bpf` or `native`.
    pub kind: String,
    /// Its name.
    pub digest: String,
    /// Its length.
    pub bytes: u64,
    /// Whether it is here.
    pub at_hand: bool,
    /// Functions in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<u64>,
    /// Bytes of memory that it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// The calls it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<Vec<String>>,
}

/// What no bundle may exceed, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BundleLimits {
    /// The window.
    pub window_bytes: u64,
    /// The manifest.
    pub manifest_bytes: u64,
    /// One representation.
    pub representation_bytes: u64,
    /// Memory of wasm code.
    pub memory_bytes: u64,
}

/// The role of code at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Right {
    /// The node's name.
    pub node: String,
    /// The role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Those that may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representations: Option<Vec<String>>,
    /// Why a credential that came along does not count.
    pub credential_refused: Option<String>,
    /// By which revocation it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Which revocations were looked at.
    pub revocations: String,
}

/// What a half says of code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Half {
    /// Whether it would run there.
    pub runs: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The fault that it finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The call that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// File and line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Instructions that the kernel's verifier went through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_instructions: Option<u64>,
    /// Why the verifier was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
}

/// A second opinion of bpf code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Lint {
    /// It finds nothing.
    Passes {
        /// Rounds of loops, at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rounds: Option<u64>,
    },
    /// It cannot show that the code is safe or ends.
    Doubts {
        /// In its words.
        why: String,
        /// The instruction it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instruction: Option<String>,
        /// File and line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// It is not installed.
    Absent,
    /// It did not answer.
    Failed {
        /// Why.
        why: String,
    },
}

/// A bundle that no node takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Always false.
    pub checked: bool,
    /// Why.
    pub refused: String,
    /// Of which representation.
    pub representation: Option<String>,
    /// The instruction, with its place.
    pub instruction: Option<String>,
    /// File and line.
    pub source: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
}

/// A source of which one half would run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Halves {
    /// The user half.
    pub user_half: Half,
    /// The kernel half.
    pub kernel_half: Half,
}

/// What `anode code check` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Verdict {
    /// Of a bundle that a node would take.
    Bundle(Box<Bundle>),
    /// Of one that no node takes.
    Refused(Refused),
    /// Of a source that has no bundle yet.
    Halves(Box<Halves>),
}

/// An object of the store that is no bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Always `object`.
    pub kind: String,
    /// Its length.
    pub bytes: u64,
}

/// What is under a name in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// A bundle.
    Bundle(Box<Bundle>),
    /// Something else.
    Object(Object),
}

/// A line of the list of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Whether it stays until somebody removes it.
    pub pinned: bool,
    /// What the author calls it, of a bundle.
    pub title: Option<String>,
}

/// Where the headers for authors are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SdkPath {
    /// A directory.
    pub path: String,
}

/// A key that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Principal {
    /// Its name.
    pub principal: String,
}

/// A secret of two neighbours that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// Its number.
    pub key: String,
}

/// A credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Credential {
    /// The key that has granted it.
    pub root: String,
    /// Whether they are right.
    pub signatures: String,
    /// Whether this is its time.
    pub valid: String,
    /// What it grants, and how that was narrowed.
    pub blocks: Vec<String>,
}

/// What a file of `anode cred` is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Inspected {
    /// A key to sign and to grant with.
    Key {
        /// What it is for.
        key: String,
        /// Its name.
        principal: String,
    },
    /// A secret of two neighbours.
    Secret {
        /// What it is for.
        key: String,
        /// Its number.
        number: String,
    },
    /// A credential.
    Credential(Credential),
}
