//! Tokens with wrong signatures: remembered by their digest, so that the same one costs its verification once.

use super::credential::{Credential, CredentialRefusal, Verified};
use super::role::Roles;
use crate::wire::Digest;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens that are remembered; the oldest gives way.
const REFUSED_MAX: usize = 256;

/// Those that were refused lately, over all threads of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusedTokens(Arc<Mutex<VecDeque<(Digest, CredentialRefusal)>>>);

/// Two policies are alike whatever they have refused.
impl PartialEq for RefusedTokens {
    fn eq(&self, _: &RefusedTokens) -> bool {
        true
    }
}

impl Eq for RefusedTokens {}

impl Roles {
    /// Verifies a credential, unless it is one that cannot be verified.
    pub(crate) fn verify(&self, credential: &Credential) -> Result<Verified, CredentialRefusal> {
        let name = Digest::of(&credential.bytes());
        let refused = || self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, refusal)) = refused().iter().find(|(known, _)| *known == name) {
            self.decisions.count_spared();
            return Err(refusal.clone());
        }
        let verified = credential.verify();
        if let Err(refusal) = &verified {
            let mut refused = refused();
            if refused.len() == REFUSED_MAX {
                refused.pop_front();
            }
            refused.push_back((name, refusal.clone()));
        }
        verified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{PrincipalKey, Restrictions, Terms};

    #[test]
    fn a_token_that_was_refused_is_known_and_the_oldest_gives_way() {
        let (root, roles) = (PrincipalKey::from_seed([1; 32]), Roles::default());
        let terms = Terms { principal: root.id(), role: "operator".into(), checks: Restrictions::default() };
        let good = Credential::grant(&root, &terms).unwrap();
        let forged = |number: u16| {
            let mut bytes = good.bytes();
            let end = bytes.last_chunk_mut::<2>().unwrap();
            // Another one than the right one, whatever that is.
            *end = (u16::from_be_bytes(*end) ^ (number + 1)).to_be_bytes();
            Credential::from_bytes(&bytes).unwrap()
        };
        let spared = || roles.decided().tokens_spared;
        assert!((0..2).all(|_| roles.verify(&good).is_ok()));
        assert_eq!(roles.verify(&forged(0)).err(), roles.verify(&forged(0)).err());
        assert_eq!(spared(), 1);
        assert!((1..=REFUSED_MAX as u16).all(|number| roles.verify(&forged(number)).is_err()));
        assert_eq!(roles.refused.0.lock().unwrap().len(), REFUSED_MAX);
        assert!(roles.verify(&forged(0)).is_err() && spared() == 1, "it had to give way");
        assert!(roles.verify(&good).is_ok());
    }
}
