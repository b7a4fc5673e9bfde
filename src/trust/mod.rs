//! Trust: who wrote a piece of code, and who may do what.
//!
//! So far a *principal* is an ed25519 key (RFC 8032). It signs the manifests of its bundles
//! ([`crate::code::bundle`]); a node checks the signature once, when the code is set up, never
//! per packet. Credentials, roles and policy build on these identities.

mod key;

pub use key::{KeyError, PrincipalId, PrincipalKey, Signature};
