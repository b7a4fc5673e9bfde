//! Explanations of a credential without effect here: the role and principal that it grants.
//!
//! Asked only when no role was found, so that a misspelt role and a foreign credential give different messages. The
//! words of the credential come from the network: an impossible role name is not repeated.

use super::credential::{CredentialRefusal, Verified};
use super::{PrincipalId, Roles, check_role_name};
use core::fmt;

/// What a credential lacks that grants its holder no role here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGrant {
    /// It grants nobody anything.
    Nothing,
    /// It is somebody else's.
    Another {
        /// The role.
        role: String,
        /// Who has it.
        to: PrincipalId,
        /// Who has signed.
        signer: PrincipalId,
    },
    /// There is no such role here.
    Unknown {
        /// The role.
        role: String,
    },
    /// Its root is not one of the role's.
    NotOf {
        /// The role.
        role: String,
        /// The root.
        root: PrincipalId,
    },
    /// The code has no representation that the role has.
    Without {
        /// The role.
        role: String,
    },
}

impl fmt::Display for NoGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoGrant::Nothing => f.write_str("it grants nobody a role"),
            NoGrant::Another { role, to, signer } => {
                write!(f, "it is somebody else's: it grants the role {role} to {to}, not to {signer}, who has signed")
            }
            NoGrant::Unknown { role } => {
                write!(f, "it grants the role {role}, which this node does not have: correct it, or add a [[role]]")
            }
            NoGrant::NotOf { role, root } => {
                write!(f, "it grants the role {role}, which {root} may not grant here: it is none of the role's trusts")
            }
            NoGrant::Without { role } => {
                write!(f, "it grants the role {role}, which has no representation of this code")
            }
        }
    }
}

impl Roles {
    /// Why a credential grants this signer none of the roles here.
    pub(crate) fn no_grant(&self, verified: &Verified, signer: PrincipalId) -> CredentialRefusal {
        let grants = match verified.granted() {
            Ok(grants) => grants,
            Err(refusal) => return refusal,
        };
        let own = grants.iter().find(|(to, _)| *to == signer);
        let Some((to, role)) = own.or(grants.first()) else { return CredentialRefusal::NoGrant(NoGrant::Nothing) };
        let name = if check_role_name(role).is_ok() { role.as_str() } else { "of no possible name" };
        let (role, root) = (name.to_owned(), verified.root());
        let known = self.iter().find(|known| known.name == role);
        CredentialRefusal::NoGrant(match known {
            _ if own.is_none() => NoGrant::Another { role, to: *to, signer },
            None => NoGrant::Unknown { role },
            Some(known) if !known.trusts.contains(&root) => NoGrant::NotOf { role, root },
            Some(_) => NoGrant::Without { role },
        })
    }
}
