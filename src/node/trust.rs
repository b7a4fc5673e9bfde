//! The role of code: asked when its manifest arrives, and again now and then. Example: code signed by key 7f… gets the
//! role `operator`.
//!
//! Unsigned code is `anyone`'s without a question. For signed code the credentials beside it are fetched, here and from
//! the previous hop. Then the outside, which knows the time and can afford public-key operations, decides
//! ([`crate::trust::Roles::authorise`]). The node keeps credentials that it cannot judge, since the next hop may, and
//! forgets forged ones.

use super::codes::{Code, Coming, Ready};
use super::output::{Cause, Effect, Ingress, Turn};
use super::{Capsules, Cx};
use crate::code::bundle::{Kind, Manifest};
use crate::code::judge::{Claim, Grant};
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::trust::{CredentialSet, Kinds};
use crate::wire::{Digest, capsule};
use std::sync::Arc;

impl Cx {
    fn counts_as_signed(&self, ready: &Ready) -> bool {
        let revoked = ready.grant.refused.as_ref().is_some_and(|refused| refused.revoked);
        let signer = ready.claim.manifest.claimed_principal();
        !revoked && signer.is_some_and(|principal| !self.is_disowned(&principal))
    }
}

impl Capsules {
    /// The manifest of a code is here.
    pub(super) fn take_manifest(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, bytes: Arc<[u8]>) {
        let manifest = match Manifest::parse(&bytes) {
            Ok(manifest) => Arc::new(manifest),
            Err(error) => return self.refuse(cx, turn, code, error.to_string()),
        };
        self.keep_object(cx, turn, code, bytes);
        let signed = manifest.is_signed();
        let disowned = manifest.claimed_principal().is_some_and(|principal| cx.is_disowned(&principal));
        let claim = Claim { code, manifest, credentials: None };
        let coming = Coming { claim, grant: None, representation: None, bpf: None, linked: None, asked_again: false };
        self.enter(cx, turn, code, Code::Coming(Box::new(coming)));
        if disowned && self.turn_away_unsigned(cx, turn, code) {
            self.withdraw(cx, turn, &code);
        } else if signed {
            let next = self.fetch.optional_object(code, CredentialSet::name_for(&code));
            self.take_steps(cx, turn, next);
        } else if self.turn_away_unsigned(cx, turn, code) {
            self.withdraw(cx, turn, &code);
        } else {
            match cx.control.roles.unsigned(&cx.core.name, &code) {
                Ok(grant) => self.choose(cx, turn, code, grant),
                Err(revocation) => self.refuse(cx, turn, code, revocation.to_string()),
            }
        }
    }

    /// Whether a capsule came in by a port that demands signed code, and its code is known not to be. A signature whose
    /// key was revoked, or whose credential, is none.
    pub(super) fn lacks_signature(&self, cx: &Cx, frame: &Frame, code: &Digest) -> bool {
        cx.demands(frame.port).signed_code
            && matches!(self.codes.of(code), Some(Code::Ready(ready)) if !cx.counts_as_signed(ready))
    }

    /// Capsules that wait for code which turns out not to be signed, and came in by ports that demand that, end here.
    /// Says whether nobody else waits: then it need not be prepared.
    fn turn_away_unsigned(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest) -> bool {
        let Some(proofs) = cx.control.proofs.as_deref() else { return false };
        let goes = |frame: &Frame| !is_injected(frame) && proofs.demands(frame.port).signed_code;
        let (gone, left) = self.fetch.turn_away(&code, goes);
        let nobody = left == 0 && !gone.is_empty();
        if nobody {
            self.fetch.settle(code).for_each(drop);
        }
        gone.into_iter().for_each(|frame| cx.drop(turn, frame, Reason::Unsigned));
        nobody
    }

    /// The credentials of a code are here, or nowhere to be had.
    pub(super) fn take_credentials(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        code: Digest,
        credentials: Option<Arc<[u8]>>,
    ) {
        let Some(Code::Coming(coming)) = self.codes.of_mut(&code) else {
            return self.let_go(cx, turn, code);
        };
        coming.claim.credentials = credentials;
        self.vouching.loaded(&CredentialSet::name_for(&code));
        let claim = coming.claim.clone();
        self.fetch.preparing(code);
        // Who says to have signed it shows when it is judged.
        let cause = Cause { ingress: self.ingress_of(&code), principal: None };
        turn.out.effects.push(Effect::Authorise(claim, cause));
    }

    /// The answer to [`Effect::Authorise`].
    pub fn authorised(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, result: Result<Grant, String>) {
        if result.as_ref().is_ok_and(|grant| !cx.has_role(&grant.role)) && self.ask_again(turn, &code) {
            return;
        }
        match self.codes.of(&code) {
            Some(Code::Coming(coming)) if coming.grant.is_none() => {
                let credentials = coming.claim.credentials.clone();
                match result {
                    // It was judged before, and told since.
                    Ok(grant) if self.refuse_revoked(cx, turn, code, &grant) => {}
                    Ok(grant) => {
                        self.settle_credentials(cx, turn, code, credentials, &grant);
                        self.choose(cx, turn, code, grant);
                    }
                    Err(why) => self.refuse(cx, turn, code, why),
                }
            }
            Some(Code::Ready(ready)) => {
                let stays = result.as_ref().is_ok_and(|grant| ready.grant.is_alike(grant));
                let offered = ready.offered.clone();
                self.not_judged(&code);
                self.is_sure(&code);
                if let Some(set) = offered {
                    self.settle_offered(cx, turn, code, set, result.as_ref());
                }
                if !stays {
                    tracing::warn!(event = "role", node = cx.core.name, code = %code.short(), "code has another role now: it is taken out");
                    self.withdraw(cx, turn, &code);
                }
            }
            // An answer to a question that was asked twice.
            Some(Code::Coming(_)) => {}
            _ => self.forgotten(cx, turn, code),
        }
    }

    /// Keeps the credentials for who comes next, unless they are forged, and counts.
    fn settle_credentials(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        code: Digest,
        set: Option<Arc<[u8]>>,
        grant: &Grant,
    ) {
        let Some(set) = set else { return };
        let name = CredentialSet::name_for(&code);
        match &grant.refused {
            None => {
                self.credentials.accepted += 1;
                // What does not count gives way to what does.
                if self.objects.of(&name).is_some_and(|before| before != set) {
                    self.forget_object(cx, &name);
                }
            }
            Some(refused) => {
                self.credentials.refused += 1;
                tracing::warn!(event = "role", node = cx.core.name, code = %code.short(), why = refused.why, "credential refused");
            }
        }
        if grant.refused.as_ref().is_some_and(|refused| refused.forged) {
            self.forget_object(cx, &name);
        } else {
            self.keep_object(cx, turn, name, set);
        }
    }

    /// The same of credentials that were asked for beside code that runs: they take the place of those before only if they give it a
    /// role. Where there were none, they are kept all the same for who comes next and can judge them.
    fn settle_offered(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        code: Digest,
        set: Arc<[u8]>,
        result: Result<&Grant, &String>,
    ) {
        match result {
            Ok(grant) if grant.refused.is_none() => self.settle_credentials(cx, turn, code, Some(set), grant),
            Ok(grant) => {
                self.credentials.refused += 1;
                let forged = grant.refused.as_ref().is_some_and(|refused| refused.forged);
                if let Some(Code::Ready(ready)) = self.codes.of_mut(&code)
                    && ready.claim.credentials.is_none()
                    && !forged
                {
                    ready.claim.credentials = Some(set.clone());
                    self.keep_object(cx, turn, CredentialSet::name_for(&code), set);
                }
            }
            Err(_) => self.credentials.refused += 1,
        }
    }

    /// Fetches the representation that is the fastest one the role has and this half runs.
    fn choose(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, grant: Grant) {
        let Some(Code::Coming(coming)) = self.codes.of(&code) else { return self.forgotten(cx, turn, code) };
        let manifest = coming.claim.manifest.clone();
        let usable = |kind: Kind| manifest.layer(kind).filter(|_| grant.kinds.has(kind)).copied();
        let kept_out = grant.role.keeps_out_of_kernel();
        let linkable = usable(Kind::Bpf).filter(|_| cx.control.mirror.on);
        let bpf = linkable.filter(|_| kept_out.is_none()).map(|bpf| (bpf.digest, bpf.size));
        let linked = linkable.and(kept_out).map(Err);
        if bpf.is_none() && manifest.layer(Kind::Bpf).is_some() {
            // A process before this one may have let it run there, in another role.
            cx.unlink(turn, code);
        }
        let native = usable(Kind::Native).filter(|_| manifest.architecture() == Some(std::env::consts::ARCH));
        let Some(layer) = native.or_else(|| usable(Kind::Wasm)) else {
            let (why, doubted) = (lacks(&manifest, &grant), grant.is_unvouched());
            return self.refuse_as(cx, turn, code, why, doubted);
        };
        if let Some(Code::Coming(coming)) = self.codes.of_mut(&code) {
            coming.bpf = bpf;
            coming.linked = linked;
            coming.representation = Some((layer.kind, layer.digest));
            coming.grant = Some(grant);
        }
        let next = self.fetch.next_object(code, layer.digest, layer.size);
        self.take_steps(cx, turn, next);
        // The kernel half is made ready meanwhile.
        if let Some((digest, length)) = bpf {
            match self.fetch.beside(turn.now, code, digest, length) {
                Some((steps, given)) => {
                    self.give_up(cx, turn, given);
                    self.take_steps(cx, turn, steps);
                }
                None => {
                    self.linked(cx, turn, code, Err("more codes wait for the kernel half than it has room for".into()))
                }
            }
        }
    }

    /// Code was judged by the roles that are in force.
    fn is_sure(&mut self, code: &Digest) {
        if let Some(Code::Ready(ready)) = self.codes.of_mut(code) {
            ready.is_doubtful = false;
        }
    }

    /// Code was judged by roles that are not in force any more: whoever did knows others by now, and is asked once more. False: nobody
    /// waits for that, or that was the second answer.
    fn ask_again(&mut self, turn: &mut Turn<'_>, code: &Digest) -> bool {
        let cause = Cause { ingress: self.ingress_of(code), principal: None };
        match self.codes.of_mut(code) {
            Some(Code::Coming(coming)) if coming.grant.is_none() && !coming.asked_again => {
                coming.asked_again = true;
                turn.out.effects.push(Effect::Authorise(coming.claim.clone(), cause));
                true
            }
            Some(Code::Ready(ready)) if ready.is_reviewed && ready.is_doubtful && ready.offered.is_none() => {
                ready.is_doubtful = false;
                review(turn, ready, true);
                true
            }
            _ => false,
        }
    }

    /// Asks anew for the roles that credentials have given: they end, and roots and checks may say something else now.
    pub(super) fn review_grants(&mut self, turn: &mut Turn<'_>) {
        let names: Vec<Digest> = self.codes.iter().map(|(name, _)| *name).collect();
        for name in names {
            if let Some(Code::Ready(ready)) = self.codes.of_mut(&name) {
                let all = ready.is_doubtful;
                review(turn, ready, all);
            }
        }
    }
}

/// Asks anew for the role that credentials have given to code; `all`: also where it came by the signature alone.
pub(super) fn review(turn: &mut Turn<'_>, ready: &mut Ready, all: bool) {
    if (all || ready.claim.credentials.is_some()) && ready.offered.is_none() {
        ready.is_reviewed = true;
        let cause = Cause { ingress: Ingress::Review, principal: None };
        turn.out.effects.push(Effect::Authorise(ready.claim.clone(), cause));
    }
}

/// Whether a capsule that waits comes from an application of this node.
fn is_injected(frame: &Frame) -> bool {
    capsule::Header::parse(frame.bytes()).is_ok_and(|header| header.previous.is_unspecified())
}

/// Why there is nothing to run.
fn lacks(manifest: &Manifest, grant: &Grant) -> String {
    if grant.role.representations == Kinds::NONE {
        return format!("the role {} runs no code: representations = []", grant.role.name);
    }
    let has: Vec<_> = manifest.layers().iter().map(|layer| layer.kind.to_string()).collect();
    let of = manifest.architecture().map(|architecture| format!(" (of {architecture})")).unwrap_or_default();
    format!(
        "it has no representation that the user half runs: it has {}{of}, in the role {} it may use {}",
        has.join(", "),
        grant.role.name,
        grant.kinds
    )
}
