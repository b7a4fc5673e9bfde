//! Keys and credentials; roles and policy stay with the node.

#[path = "../../src/trust/credential.rs"]
mod credential;
#[path = "../../src/trust/key.rs"]
mod key;
#[path = "../../src/trust/set.rs"]
mod set;

/// Secrets of neighbours stay with the node, but for the word that their files begin with.
mod secret {
    pub const LABEL: &str = "anode-secret ";
}

pub use credential::{CREDENTIAL_MAX, Credential, Question, Refusal, Restrictions, Terms};
pub use key::{PrincipalId, PrincipalKey, Signature};
pub use set::{CredentialSet, SET_MAX, object_name};
