//! Questions of an evaluation to the outside: names to resolve, signatures to verify, modules to compile, graphs to
//! change. The packet path must not wait for these.
//!
//! The environment makes a [`Wish`], the packet waits, and the outside answers. The waiting packet is evaluated again
//! from its beginning, as if it had never run; the answers are remembered meanwhile.

use super::ceilings::vouch_steps;
use super::evaluate::Stage;
use super::graphs::GraphAsk;
use super::layers::REFUSED;
use super::ready::Task;
use super::signers::Seated;
use super::waiting::On;
use super::{ANYONE, Fate, LoadedService, Plan, PlanOs};
use crate::code::extension::call_type::CallType;
use crate::core::reason::Reason;
use crate::topology::Neighbour;
use crate::trust::{PrincipalId, Role, Statement};
use crate::wire::Digest;
use plan::eval::Cause;
use plan::packet::{Header, Packet};
use std::sync::Arc;

/// Installations whose outcome is remembered, and for how many nanoseconds.
const OUTCOMES_MAX: usize = 64;
const OUTCOME_KEEP: u64 = 60_000_000_000;

/// What the outside is asked for.
#[derive(Debug)]
pub enum Wish {
    /// The address of a name; answered by [`Plan::resolved`].
    Resolve(Box<str>),
    /// In which role a packet acts; answered by [`Plan::vouched`], with the same number.
    Vouch(u64, Box<Statement>),
    /// A service of a module; answered by [`Plan::installed`].
    Install(Box<Install>),
    /// Something of a graph; answered by [`Plan::graph_said`].
    Graph(Box<GraphAsk>),
}

/// A module that a program installs.
#[derive(Clone, Debug)]
pub struct Install {
    /// Its bytes.
    pub module: Arc<[u8]>,
    /// Their digest.
    pub digest: Digest,
}

/// What a module that came in a packet is.
pub struct Brought {
    /// Its name.
    pub name: String,
    /// Its type.
    pub signature: CallType,
    /// What it does.
    pub service: Box<dyn LoadedService>,
}

/// A question about a packet's principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    /// The question's number.
    pub question: u64,
    /// Who says to have signed it.
    pub principal: PrincipalId,
    /// The statement's number.
    pub number: u64,
}

/// Installations under way and lately done.
#[derive(Default)]
pub(super) struct Installs {
    /// What the evaluation under way waits for.
    pub wanted: Option<Box<Install>>,
    /// Of modules the names under which they were installed, if they were, and until when that is remembered.
    outcomes: Vec<(Digest, Option<String>, u64)>,
}

impl Installs {
    /// What came of a module's installation, if that is known.
    pub fn outcome(&self, now: u64, digest: &Digest) -> Option<Option<&str>> {
        let known = self.outcomes.iter().find(|(known, _, until)| known == digest && *until > now);
        known.map(|(_, done, _)| done.as_deref())
    }

    fn remember(&mut self, now: u64, digest: Digest, done: Option<String>) {
        self.outcomes.retain(|(known, _, until)| *until > now && *known != digest);
        if self.outcomes.len() >= OUTCOMES_MAX {
            self.outcomes.remove(0);
        }
        self.outcomes.push((digest, done, now.saturating_add(OUTCOME_KEEP)));
    }
}

impl Plan {
    /// The packet waits for what its program has asked for.
    pub(super) fn wait_for_outside(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        packet: &Packet,
        principal: usize,
    ) -> Fate {
        let name = self.state.names.wanted.take().map(|name| (On::Name(name.clone()), Wish::Resolve(name)));
        let service = self.state.installs.wanted.take().map(|it| (On::Service(it.digest), Wish::Install(it)));
        let graph = self.state.graphs.wanted.take().map(|ask| (On::Graph(ask.asker.number), Wish::Graph(ask)));
        // A question to the resolver costs one of the bound, which the packet has when it is evaluated again no longer.
        let bound = packet.header.bound.saturating_sub(u32::from(name.is_some()));
        self.state.account.spent += u64::from(packet.header.bound - bound);
        let packet = &Packet { header: Header { bound, ..packet.header.clone() }, chunk: packet.chunk.clone() };
        let Some(((on, wish), bytes)) = name.or(service).or(graph).zip(whole(packet)) else {
            self.state.account.unused += u64::from(packet.header.bound);
            return Fate::Drop(Reason::TooBig);
        };
        let asked = self.waiting.is_for(&on);
        self.park(env, from, bytes, Some(principal), on);
        if !asked {
            env.wish(wish);
        }
        Fate::Kept
    }

    /// The packet waits until it is known in which role its principal acts. What that costs is anyone's, as it may be a lie.
    pub(super) fn wait_for_role(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        packet: &Packet,
        statement: Box<Statement>,
    ) -> Fate {
        let bytes = whole(packet);
        let admitted = env.admit(ANYONE, bytes.as_ref().map_or(0, Vec::len));
        let (Some(bytes), Ok(_)) = (bytes, &admitted) else {
            self.state.account.unused += u64::from(packet.header.bound);
            return Fate::Drop(admitted.err().unwrap_or(Reason::TooBig));
        };
        env.charge(ANYONE, vouch_steps(&statement), 0);
        let question = self.state.layers.signers.next_question();
        let claimed = Claimed { question, principal: statement.principal, number: statement.unix_ns };
        self.park(env, from, bytes, None, On::Principal(Box::new(claimed)));
        env.wish(Wish::Vouch(question, statement));
        Fate::Kept
    }

    /// The outside has judged a signed packet: its role, or why it has none.
    pub fn vouched(&mut self, env: &mut dyn PlanOs, question: u64, judged: Result<Arc<Role>, String>) {
        let is_it = |on: &On| match on {
            On::Principal(claimed) => claimed.question == question,
            On::Passing(asked) => *asked == question,
            _ => false,
        };
        if let Some(parked) = self.waiting.take(is_it) {
            let on = parked.on.clone();
            // One that finds no place is counted.
            let _ = self.wait_for_turn(env, parked.ready(Task::Judge(on, judged)));
        }
    }

    /// A packet goes on that waited for whether somebody has signed it.
    pub(super) fn judged(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        bytes: &mut [u8],
        on: &On,
        judged: Result<Arc<Role>, String>,
    ) -> Fate {
        if judged.as_ref().map_or(true, |role| role.name == crate::trust::ANYONE) {
            self.cut_to_unsigned(env, from, bytes);
        }
        match on {
            // What was said of it may have been taken back since.
            On::Principal(claimed) => match judged
                .ok()
                .filter(|_| !env.is_disowned(&claimed.principal))
                .and_then(|role| self.seat(env, claimed, role))
            {
                Some(principal) => self.evaluate_again(env, from, bytes, Stage::Vouched(principal)),
                None => self.refuse_parked(env, bytes),
            },
            _ => self.pass(env, from, bytes, true),
        }
    }

    /// The principal's number, if its statement was not there before.
    fn seat(&mut self, env: &mut dyn PlanOs, claimed: &Claimed, role: Arc<Role>) -> Option<usize> {
        let signers = &mut self.state.layers.signers;
        let first = 1 + self.config.principals.len();
        // Whoever's packet waits keeps its place, however long that takes.
        let waits = |place: usize| self.waiting.is_of(first + place) || self.ready.is_of(first + place);
        match signers.take(env.now(), claimed.principal, role, claimed.number, waits) {
            Seated::Again(place) => Some(first + place),
            Seated::New(place) => {
                let signer = signers.at(place)?;
                self.table.set_seen(first + place, &signer.role.services);
                env.seat(first + place, &signer.name, &signer.role);
                Some(first + place)
            }
            Seated::Refused => None,
        }
    }

    /// Whether a principal has had its place by a signature that counts no more.
    pub(super) fn is_revoked(&self, env: &dyn PlanOs, principal: usize) -> bool {
        self.signer(principal).is_some_and(|signer| env.is_disowned(&signer))
    }

    /// Who has signed as a principal of this number.
    pub(super) fn signer(&self, principal: usize) -> Option<PrincipalId> {
        let place = principal.checked_sub(1 + self.config.principals.len())?;
        self.state.layers.signers.at(place).map(|signer| signer.principal)
    }

    pub(super) fn refuse_parked(&mut self, env: &mut dyn PlanOs, bytes: &[u8]) -> Fate {
        match self.decode(env, bytes, &mut Vec::new()) {
            Ok(packet) => self.failed(env, &packet, &Cause::Exception(REFUSED), ANYONE),
            Err(why) => self.end(bytes, why.reason()),
        }
    }

    /// The outside has made a service of a module, or says why not.
    pub fn installed(&mut self, env: &mut dyn PlanOs, digest: Digest, brought: Result<Brought, String>) {
        let loaded = brought.and_then(|it| self.load(&it.name, it.signature, it.service).map(|()| it.name));
        match &loaded {
            Ok(service) => tracing::info!(service, "a packet has brought a service"),
            Err(why) => tracing::warn!(why, "a service that a packet brought is not installed"),
        }
        self.state.installs.remember(env.now(), digest, loaded.ok());
        self.release(env, &On::Service(digest));
    }
}

/// A packet as bytes, with all its codes.
fn whole(packet: &Packet) -> Option<Vec<u8>> {
    let header = Header { by_digest: false, ..packet.header.clone() };
    Packet { header, chunk: packet.chunk.clone() }.bytes()
}
