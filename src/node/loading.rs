//! Loading of absent code: look into the store, ask the previous hop, check, prepare.
//!
//! [`crate::code::fetch`] is the table of searches. This module carries out their steps and judges each object that
//! arrives. Nothing is stored or served before its digest has been checked and a manifest names it. Nothing runs before
//! the rules of representations have been checked too.

use super::codes::{Code, Ready};
use super::ending::Gone;
use super::output::{Cause, Effect, EventKind, Ingress, KernelOrder, Prepare, Turn};
use super::overrun::held_by_code;
use super::running::{Sender, set_bound};
use super::{Capsules, Cx};
use crate::code::bundle::Kind;
use crate::code::fetch::{Given, Source, Step, Toll, Waiter};
use crate::code::judge::Grant;
use crate::code::run::{LoadedProgram, Tier};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link, Payer, PortId};
use crate::nodeos::interface::HostId;
use crate::trust::grants::Grants;
use crate::trust::{CredentialSet, PrincipalId, object_name};
use crate::wire::proof::PROOF;
use crate::wire::{Addr, Digest, anep, capsule, fetch, ipv4, ipv6, udp};
use std::sync::Arc;

impl Cx {
    fn address_on(&self, source: Source) -> Addr {
        let port = self.core.topology.port(source.port);
        port.map_or(Addr::UNSPECIFIED, |port| port.address_towards(source.addr))
    }

    /// What fetching code from behind a port costs.
    pub(super) fn toll(&self, port: PortId, addr: Addr) -> Toll {
        let Some(known) = self.core.topology.port(port) else { return Toll::NONE };
        let headers = match known.link {
            Link::Overlay => 0,
            Link::Ethernet { .. } if addr.is_v4() => ipv4::HEADER + udp::HEADER,
            Link::Ethernet { .. } => ipv6::HEADER + udp::HEADER,
        };
        let proof = if self.has_key(port, addr) { PROOF } else { 0 };
        Toll { unit: known.mtu as u64, around: (anep::HEADER + headers + proof) as u64 }
    }

    /// Soft state of codes is shared among principals, and where nobody has signed among those who brought them.
    fn share_state(&mut self, domain: DomainId, principal: Option<PrincipalId>, brought: Option<Payer>) -> u64 {
        let group = match (principal, brought) {
            (Some(principal), _) => Digest::of(&principal.0).0.first_chunk().map_or(0, |it| u64::from_be_bytes(*it)),
            (None, Some(payer)) => payer.0.into(),
            (None, None) => Payer::NOBODY.0.into(),
        };
        self.core.state.join(domain, group);
        group
    }
}

impl Capsules {
    /// A capsule waits for its code, which it pays for with its bound as far as that counts where it came in.
    pub(super) fn wait_for_code(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: Frame,
        header: &capsule::Header,
        source: Option<Source>,
    ) {
        let code = header.code;
        if !self.fetch.is_pending(&code) && source.is_some() && !self.look_ups.charge(turn.now, Ingress::of(&frame), 1)
        {
            return cx.drop(turn, frame, Reason::LookUpRate);
        }
        turn.out.event(frame.trace, EventKind::Waiting(code));
        let near = source.filter(|source| cx.is_neighbour(source.port, source.addr));
        if let Some(Source { addr, .. }) = near {
            cx.note_heard(turn.now, addr, frame.len());
        }
        let (toll, means) = match source {
            // Whose it is, and so whether it may cause more than anybody's, is known when it is here.
            Some(Source { port, addr, .. }) => (cx.toll(port, addr), header.bound.min(cx.ceiling(port).unsigned)),
            None => (Toll::NONE, header.bound),
        };
        let waiter = Waiter { frame, source: near, toll, means, paid: 0 };
        let (steps, given) = self.fetch.wait(turn.now, code, Some(waiter));
        self.give_up(cx, turn, given);
        self.take_steps(cx, turn, steps);
    }

    /// For whom the node looks for a code on its way: for who has waited for longest.
    pub(super) fn ingress_of(&self, code: &Digest) -> Ingress {
        self.fetch.first_waiting(code).map_or(Ingress::Node, Ingress::of)
    }

    /// Carries steps of the fetcher out.
    pub(super) fn take_steps(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            match step {
                Step::LookUp(digest) if self.vouching.is_sought(&digest) => self.looked_up(cx, turn, digest, None),
                Step::LookUp(digest) => match self.objects.of(&digest) {
                    Some(bytes) => self.looked_up(cx, turn, digest, Some(&bytes)),
                    None => turn.out.effects.push(Effect::LookUp(digest, self.fetch.whose(&digest))),
                },
                Step::Request { source, nonce, digest, missing } => {
                    turn.out.event(0, EventKind::Requested(digest, missing));
                    let requester = cx.address_on(source);
                    let message = fetch::Message::Request { nonce, digest, missing, requester };
                    // One that may not go is as one that was lost.
                    if cx.may_originate(turn.now, source.addr, Some(source.port), message.len()) {
                        cx.send_fetch(turn, source, &message);
                    } else {
                        cx.withhold(Reason::Unanswered);
                    }
                }
                Step::Without { code } => match self.vouching.is_without(&code) {
                    true => self.fetch.end_beside(&code),
                    false => self.take_credentials(cx, turn, code, None),
                },
                // A process before this one may have let it run in the kernel half.
                Step::Alone(code) => {
                    self.linked(
                        cx,
                        turn,
                        code,
                        Err("nobody has its bpf representation: it runs in the user half".into()),
                    );
                    cx.unlink(turn, code);
                    self.codes.set_alone(&code, true);
                }
                Step::Abandon(code) => {
                    self.forget_coming(cx, turn);
                    cx.unlink(turn, code);
                }
                Step::Object { code, digest, bytes } => {
                    turn.out.event(0, EventKind::Arrived(digest));
                    self.take_object(cx, turn, code, digest, bytes.into());
                }
            }
        }
    }

    /// The persistent store's answer to [`Effect::LookUp`].
    pub fn found(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, digest: Digest, bytes: Option<Arc<[u8]>>) {
        let bytes = bytes.filter(|bytes| object_name(bytes) == digest);
        if let Some(bytes) = &bytes {
            self.hold_object(cx, digest, bytes.clone());
        }
        self.sought(turn, &digest, bytes.as_ref());
        self.answer_waiting(cx, turn, digest);
        self.looked_up(cx, turn, digest, bytes.as_deref());
    }

    fn looked_up(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, digest: Digest, bytes: Option<&[u8]>) {
        let (steps, given) = self.fetch.looked_up(turn.now, digest, bytes);
        self.give_up(cx, turn, given);
        self.take_steps(cx, turn, steps);
    }

    /// An object of `code` is here and is what it is named.
    fn take_object(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, digest: Digest, bytes: Arc<[u8]>) {
        if digest == CredentialSet::name_for(&code) {
            return self.take_credentials(cx, turn, code, Some(bytes));
        }
        if let Some(of) = self.vouching.answered(&code, &digest) {
            return self.take_offered(turn, &code, of, bytes);
        }
        if digest == code {
            return self.take_manifest(cx, turn, code, bytes);
        }
        match self.codes.of(&code) {
            Some(Code::Coming(coming)) if coming.representation.is_some_and(|(_, wanted)| wanted == digest) => {
                let kind = coming.representation.map_or(Kind::Wasm, |(kind, _)| kind);
                let principal = coming.grant.as_ref().and_then(Grant::vouched_for);
                let cause = Cause { ingress: self.ingress_of(&code), principal };
                let window = coming.claim.manifest.window();
                let prepare = Prepare { code, cause, tier: Tier::Fast, kind, bytes: bytes.clone(), window };
                self.keep_object(cx, turn, digest, bytes);
                self.fetch.preparing(code);
                turn.out.effects.push(Effect::Prepare(prepare));
            }
            Some(entry) if entry.bpf() == Some(digest) => {
                self.keep_object(cx, turn, digest, bytes.clone());
                let ingress = self.fetch.whose_beside(&code);
                self.fetch.end_beside(&code);
                self.take_bpf(turn, code, bytes, ingress);
            }
            // Its entry had to give way meanwhile.
            _ => self.let_go(cx, turn, code),
        }
    }

    pub(super) fn keep_object(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, digest: Digest, bytes: Arc<[u8]>) {
        if self.objects.of(&digest).is_none() {
            turn.out.effects.push(Effect::Store(bytes.clone()));
            self.hold_object(cx, digest, bytes);
        }
    }

    /// The answer to [`Effect::Prepare`]: the code runs from now on, or is refused.
    pub fn prepared(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, result: Result<LoadedProgram, String>) {
        let Some(Code::Coming(coming)) = self.codes.of(&code) else {
            return self.forgotten(cx, turn, code);
        };
        let coming = (**coming).clone();
        let Some(((kind, _), grant)) = coming.representation.zip(coming.grant.clone()) else {
            return self.forgotten(cx, turn, code);
        };
        let suits = |program: LoadedProgram| program.suits(&grant.role).map(|()| program);
        let program = match result.and_then(suits) {
            Ok(program) => program,
            Err(why) => return self.refuse(cx, turn, code, why),
        };
        let title = coming.claim.manifest.title().to_owned();
        let (doubted, asked) = (grant.is_unvouched(), coming.claim.credentials.is_none());
        // Its pool has room for what its limits let it hold besides.
        let besides = held_by_code(&grant.role.limits, grant.role.limits.state_entries);
        let memory_bytes = grant.role.grants.memory_bytes.saturating_add(besides);
        let what = (&grant.role, Grants { memory_bytes, ..grant.role.grants });
        let Ok(domain) = cx.add_domain(self.domain, title, HostId::NODE, what, None) else {
            return self.refuse(cx, turn, code, "the node has no room for another domain".into());
        };
        let grant_of = grant.principal;
        // Its role may have changed since it was judged.
        let in_force = cx.has_role(&grant.role);
        let for_others = cx.control.workers.leads().map(|_| program.clone());
        let (slot, linked) = (turn.runtime.install(program), coming.linked.clone());
        tracing::info!(event = "code", node = cx.core.name, code = %code.short(), role = grant.role.name, %kind, "code ready");
        self.enter(cx, turn, code, Code::Ready(Box::new(Ready::new(coming, (kind, grant), slot, domain, turn.now))));
        self.codes.set_doubted(&code, doubted, asked, turn.now);
        turn.out.event(0, EventKind::Ready(code));
        let brought = self.fetch.first_waiting(&code).map(|frame| frame.payer);
        let group = cx.share_state(domain, grant_of, brought);
        for_others.into_iter().for_each(|program| self.tell_ready(cx, turn, code, program, group));
        cx.seat_wishes(turn.now, domain);
        if let Some(result) = linked {
            self.linked(cx, turn, code, result);
        }
        if !in_force {
            self.renew_code(cx, turn, &code);
        }
        let waited = self.fetch.settle(code);
        for waiter in waited {
            self.process_again(cx, turn, waiter);
        }
        self.want_adopted(cx, turn);
    }

    /// [`Effect::Prepare`] could not be taken on: those who wait for the code go, and nothing is held
    /// against it; the next capsule begins anew.
    pub fn unprepared(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest) {
        self.not_optimised_yet(&code);
        self.not_judged(&code);
        self.forgotten(cx, turn, code);
        self.forget_coming(cx, turn);
    }

    /// Forgets codes that nobody waits for any more, in both halves.
    fn forget_coming(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let fetch = &self.fetch;
        for code in self.codes.forget_coming(|code| fetch.is_pending(code)) {
            self.fetch.end_beside(&code);
            cx.unlink(turn, code);
        }
    }

    /// Code was prepared that is not on its way any more: those who wait for it go.
    pub(super) fn forgotten(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest) {
        if self.fetch.is_preparing(&code) {
            for waiter in self.fetch.settle(code) {
                cx.drop(turn, waiter.frame, Reason::Unprepared);
            }
        }
    }

    /// Adds code that somebody on this node vouches for to those a capsule finds; the objects come
    /// from the store.
    pub fn forget_refusal(&mut self, code: &Digest) {
        if matches!(self.codes.of(code), Some(Code::Refused { .. })) {
            self.codes.remove(code);
        }
    }

    /// Nothing is held any more against code that was refused.
    pub fn forget_refusals(&mut self) {
        self.codes.forget_refused();
    }

    /// The same for code that came with credentials. What runs already is found anew, in the role that they give; what
    /// runs by just these stays, with its soft state, and is judged again.
    pub fn look_again(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: &Digest, credentials: &[u8]) {
        self.forget_refusal(code);
        match self.codes.of_mut(code) {
            Some(Code::Ready(ready)) if ready.claim.credentials.as_deref() == Some(credentials) => {
                super::trust::review(turn, ready, false);
            }
            ready => {
                let runs = matches!(ready, Some(Code::Ready(_)));
                self.forget_object(cx, &CredentialSet::name_for(code));
                if runs {
                    self.withdraw(cx, turn, code);
                }
            }
        }
    }

    /// Takes code out, with its domain and all it owns.
    pub fn remove_code(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: &Digest) -> bool {
        self.forget_object(cx, code);
        self.forget_object(cx, &CredentialSet::name_for(code));
        self.withdraw(cx, turn, code)
    }

    /// The domain of code that can run here.
    pub(super) fn domain_of(&self, code: &Digest) -> Option<DomainId> {
        match self.codes.of(code)? {
            Code::Ready(ready) => Some(ready.domain),
            Code::Coming(_) | Code::Refused { .. } => None,
        }
    }

    /// Domains have ended: their code goes out of service; says how much that is.
    pub(super) fn domains_ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, gone: &[Gone]) -> usize {
        // No environment's domain has code: theirs end as often as they like, and no code is looked at.
        let own = gone.iter().filter(|gone| gone.host == HostId::NODE);
        let mut own: Vec<_> = own.map(|gone| gone.domain).collect();
        if own.is_empty() {
            return 0;
        }
        own.sort_unstable();
        let of_them = self.codes.ready().filter(|(_, ready)| own.binary_search(&ready.domain).is_ok());
        let mut names: Vec<Digest> = of_them.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.iter().filter(|name| self.withdraw(cx, turn, name)).count()
    }

    /// Takes code out of service; the next capsule finds it anew.
    pub(super) fn withdraw(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: &Digest) -> bool {
        match self.codes.remove(code) {
            Some(gone) => {
                self.end(cx, turn, code, gone);
                true
            }
            None => false,
        }
    }

    /// A capsule of ready code pays for what is still to be had beside that, if it has enough left.
    #[cold]
    pub(super) fn pay_owed(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: &mut Frame,
        header: &mut capsule::Header,
        source: Source,
    ) {
        if !cx.is_neighbour(source.port, source.addr) {
            return;
        }
        if let Some(paid) = self.fetch.pay_owed(turn.now, &header.code, (header.bound, source), Ingress::of(frame)) {
            self.spend(cx, turn, (frame, header), paid);
        }
    }

    /// A capsule has paid so many units of its bound; what comes of that is done.
    pub(super) fn spend(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        (frame, header): (&mut Frame, &mut capsule::Header),
        (paid, steps, given): (u32, Vec<Step>, Vec<Given>),
    ) {
        header.bound = header.bound.saturating_sub(paid);
        set_bound(frame, header.bound);
        self.give_up(cx, turn, given);
        self.take_steps(cx, turn, steps);
    }

    /// Repeats requests that were not answered, and gives up.
    pub(super) fn expire_fetches(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let (steps, given) = self.fetch.expire(turn.now);
        self.give_up(cx, turn, given);
        self.take_steps(cx, turn, steps);
    }

    pub(super) fn give_up(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, given: impl IntoIterator<Item = Given>) {
        let mut any = false;
        for Given { frame, reason } in given {
            cx.drop(turn, frame, reason);
            any = true;
        }
        if any {
            self.forget_coming(cx, turn);
        }
    }

    pub(super) fn end(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, name: &Digest, code: Code) {
        self.forget_questions(name);
        if code.bpf().is_some() {
            turn.out.effects.push(Effect::Kernel(KernelOrder::Unlink(*name)));
            self.fetch.end_beside(name);
        }
        if let Code::Ready(ready) = code {
            cx.end_common(turn, ready.domain, name);
            let core = &mut cx.core;
            core.state.forget(&mut core.domains, ready.domain);
            for (id, domain) in core.domains.end(ready.domain) {
                cx.count_last_wishes(turn.now, id, &domain);
            }
            cx.core.pools.end(ready.domain);
            turn.runtime.release(ready.slot);
            cx.leave_path(turn, ready.domain);
        }
    }

    /// A capsule that waited goes its way, with what its code has left it of its bound.
    pub(super) fn process_again(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, Waiter { mut frame, paid, .. }: Waiter) {
        let Some(mut header) = capsule::Header::again(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedCapsule);
        };
        let injected = header.previous.is_unspecified();
        let source = Source { port: frame.port, peer: frame.peer, addr: header.previous };
        let source = (!injected).then_some(source);
        if !injected && header.bound > cx.ceiling(frame.port).unsigned {
            self.clamp_capsule(cx, turn, &mut frame, &mut header);
        }
        if paid > 0 {
            // Code that has had to go again meanwhile is anybody's.
            let gone = !injected && !matches!(self.codes.of(&header.code), Some(Code::Ready(_)));
            let most = if gone { cx.ceiling(frame.port).unsigned } else { u32::MAX };
            header.bound = header.bound.min(most).saturating_sub(paid);
            set_bound(&mut frame, header.bound);
        }
        let from = Sender { source, index: cx.neighbour_index(source) };
        let run = cx.begin(turn.now, frame.payer, true);
        self.process(cx, turn, frame, &header, from);
        cx.end(turn.now, run);
    }
}
