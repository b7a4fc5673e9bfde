//! Keys and credentials; roles and policy stay with the node.

#[path = "../../src/trust/bounds.rs"]
mod bounds;
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

/// Of roles a credential knows the names.
mod role {
    /// A role.
    #[derive(Debug)]
    pub struct Role {
        /// Its name.
        pub name: String,
    }
}

/// Why a credential grants nothing is the roles' to say.
mod granted {
    /// There are no roles here.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum NoGrant {
        /// It grants nobody anything.
        Nothing,
    }

    impl core::fmt::Display for NoGrant {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("it grants nobody a role")
        }
    }
}

pub use credential::{CREDENTIAL_MAX, Credential, CredentialRefusal, Question, Restrictions, Terms};
pub use key::{PrincipalId, PrincipalKey, Signature};
pub use set::{CredentialSet, SET_MAX, object_name};
