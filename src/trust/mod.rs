//! Trust: the author of a piece of code, and its rights at this node.
//!
//! ```text
//! bundle, signed by a principal ─┐
//! credentials beside it ─────────┼─▶ Roles::authorise ─▶ Grant: principal, role, representations
//! the node's roles, the time ────┘   once, when code is loaded; the answer stays with the code
//! ```
//!
//! A *principal* is an ed25519 key (RFC 8032) that signs the manifests of its bundles ([`crate::code::bundle`]). A
//! *role* is what the node's policy lets code do. A *credential* is a biscuit by which a root key grants a principal a
//! role. Every decision is made in [`Roles`], the security module of the node, which domains pass too. `docs/trust.md`
//! explains them to operators.

mod bounds;
mod credential;
mod current;
pub mod edits;
mod granted;
pub mod grants;
pub mod graphs;
mod key;
pub mod limits;
mod refused;
mod revocation;
mod revoked;
mod role;
mod secret;
mod security;
mod set;
mod statement;
pub mod streams;

pub use credential::{
    BLOCKS_MAX, CREDENTIAL_MAX, Credential, CredentialRefusal, Question, Restrictions, Terms, Verified,
};
pub use current::CurrentRoles;
pub use granted::NoGrant;
pub(crate) use key::read_private;
pub use key::{KeyError, KeyKind, PrincipalError, PrincipalId, PrincipalKey, Signature};
pub use revocation::{Extent, Revocation, Rights, Subject};
pub use revoked::{Kept, OPERATOR_MAX, Rank};
pub use role::{ANYONE, CodeForm, Kinds, LacksSymbol, NODE, ROLES_MAX, Role, Roles, Symbols, check_role_name};
pub use secret::LinkSecret;
pub use security::{RoleRefused, SecurityCounts};
pub use set::{CREDENTIALS_MAX, CredentialSet, SET_MAX, object_name};
pub use statement::REPRESENTATION as PLAN;
pub use statement::{Moment, STATEMENT_WITHIN, Statement, Unvouched, said};
