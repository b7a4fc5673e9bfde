//! Waiting packets: for a code from the previous node, or for an answer of the outside.
//!
//! A packet that names an absent code by its digest waits while its previous node is asked, three times. So a node may
//! forget codes at any time. Packets that lack the same code share one question. The first of them that can pays for
//! it: its next frames have so many bytes less room (costs.rs).

use super::costs::{unit, word};
use super::evaluate::Stage;
use super::graphs::Answers;
use super::holders::Holder;
use super::outside::Claimed;
use super::ready::{Ready, Task};
use super::{Fate, Next, Plan, PlanOs, account};
use crate::code::fetch::asking::{Asking, Manner};
use crate::core::reason::Reason;
use crate::frame::shares::gives_way;
use crate::frame::{Payer, Sent};
use crate::topology::Neighbour;
use crate::wire::{Addr, plan as wire};
use plan::program::Digest;

/// Packets that can wait.
const WAITING_MAX: usize = 64;

/// Bytes of all of them.
const BYTES_MAX: usize = 1 << 20;

/// Times that a neighbour is asked for a code that a packet lacks.
const ASKS: u32 = 3;

/// How a code is asked for.
const MANNER: Manner = Manner { pause: 300_000_000, doublings: 0, tries: ASKS };

/// Nanoseconds for which a packet waits for a code.
const CODE_WITHIN: u64 = ASKS as u64 * MANNER.pause;

/// Nanoseconds for which a packet waits for the outside.
const OUTSIDE_WITHIN: u64 = 15_000_000_000;

/// What a packet waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// A code.
    Code(Digest),
    /// The address of a name.
    Name(Box<str>),
    /// In which role its principal acts.
    Principal(Box<Claimed>),
    /// The same of a packet that goes on to another node: the question's number.
    Passing(u64),
    /// A service that is to be installed.
    Service(crate::wire::Digest),
    /// What is to be done with a graph: the question's number.
    Graph(u64),
}

pub(super) struct Parked {
    pub bytes: Vec<u8>,
    pub from: Option<Neighbour>,
    /// Whose share of the worker pays for it.
    pub payer: Payer,
    /// Whose it is, if its layers are open already.
    principal: Option<usize>,
    pub on: On,
    /// Bytes of questions that it is to pay with its next frames.
    pub debt: usize,
    until: u64,
    /// What it was told of graphs.
    pub answers: Answers,
    /// Which application waits for word of it.
    pub sent: Sent,
}

impl Parked {
    /// It waits for a turn, in which this is to be done.
    pub fn ready(self, task: Task) -> Ready {
        let Parked { bytes, from, payer, debt, answers, sent, .. } = self;
        Ready { bytes, from, payer, debt, answers, task, sent }
    }

    /// Whether what is left of its bound pays for so many bytes more.
    fn can_pay(&self, bytes: usize, unit: usize) -> bool {
        (account::bound_of(&self.bytes) as usize).saturating_mul(unit) >= self.debt + bytes
    }
}

/// A code that a neighbour is asked for.
struct Question {
    to: Neighbour,
    digest: Digest,
    asking: Asking,
}

/// The packets that wait.
#[derive(Default)]
pub(super) struct Waiting {
    list: Vec<Parked>,
    /// Each is that of a packet or more.
    questions: Vec<Question>,
}

impl Waiting {
    pub fn is_for(&self, on: &On) -> bool {
        self.list.iter().any(|parked| parked.on == *on)
    }

    /// Whether a packet of this principal waits.
    pub fn is_of(&self, principal: usize) -> bool {
        self.list.iter().any(|parked| parked.principal == Some(principal))
    }

    /// The first packet that waits for something, which it does no longer.
    pub fn take(&mut self, is_it: impl Fn(&On) -> bool) -> Option<Parked> {
        let at = self.list.iter().position(|parked| is_it(&parked.on))?;
        Some(self.list.remove(at))
    }

    pub fn next_timer(&self) -> u64 {
        let asked = self.questions.iter().filter(|question| !question.asking.is_at_its_end(&MANNER));
        let due = asked.map(|question| question.asking.at());
        self.list.iter().map(|parked| parked.until).chain(due).min().unwrap_or(u64::MAX)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets questions for what nothing waits for any more.
    fn end_questions(&mut self) {
        let Waiting { list, questions } = self;
        questions.retain(|Question { to, digest, .. }| {
            let is_its = |on: &On| matches!(on, On::Code(wanted) if wanted == digest);
            list.iter().any(|parked| parked.from.as_ref() == Some(to) && is_its(&parked.on))
        });
    }

    /// The bounds of those that wait.
    pub fn bounds(&self) -> u64 {
        self.list.iter().map(|parked| account::bound_of(&parked.bytes)).sum()
    }
}

impl Plan {
    pub(super) fn park(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        bytes: Vec<u8>,
        principal: Option<usize>,
        on: On,
    ) {
        let answers = std::mem::take(&mut self.state.graphs.answers);
        let own = bytes.len() + answers.bytes();
        let held =
            |list: &[Parked]| list.iter().map(|parked| parked.bytes.len() + parked.answers.bytes()).sum::<usize>();
        while self.waiting.list.len() >= WAITING_MAX || held(&self.waiting.list) + own > BYTES_MAX {
            // The oldest of whoever has most waiting, so one that sends what waits displaces itself.
            let who = |parked: &Parked| Holder::of(parked.principal.unwrap_or(super::ANYONE), parked.payer);
            let Some(worst) = gives_way(self.waiting.list.iter(), who) else { break };
            let gone = self.waiting.list.remove(worst);
            self.state.account.unused += account::bound_of(&gone.bytes);
            env.drop(gone.principal.unwrap_or(super::ANYONE), Reason::WaitFull);
        }
        let wait = if matches!(on, On::Code(_)) { CODE_WITHIN } else { OUTSIDE_WITHIN };
        let until = env.now().saturating_add(wait);
        let payer = env.payer();
        let debt = self.debt;
        self.waiting.list.push(Parked {
            bytes,
            from: from.copied(),
            payer,
            principal,
            on,
            debt,
            until,
            answers,
            sent: env.sender(),
        });
    }

    /// A packet names a code that is not here.
    pub(super) fn wait_for_code(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        bytes: &[u8],
        digest: Digest,
    ) -> Fate {
        let Some(from) = from else { return self.end(bytes, Reason::CodeUnknown) };
        if account::bound_of(bytes) == 0 {
            return self.end(bytes, Reason::FetchUnpaid);
        }
        self.park(env, Some(from), bytes.to_vec(), None, On::Code(digest));
        self.waiting.end_questions();
        let is_it = |question: &&mut Question| question.to == *from && question.digest == digest;
        match self.waiting.questions.iter_mut().find(is_it) {
            // It was asked just now or some time ago, so that this packet has its other tries too.
            Some(question) => question.asking.restart(1),
            None => {
                let question = Question { to: *from, digest, asking: Asking::new(env.now()) };
                self.waiting.questions.push(question);
                self.ask_again(env);
            }
        }
        Fate::Kept
    }

    /// Asks what is due.
    fn ask_again(&mut self, env: &mut dyn PlanOs) {
        let now = env.now();
        let Waiting { list, questions } = &mut self.waiting;
        for Question { to, digest, asking } in questions {
            if !asking.is_due(now) || asking.is_at_its_end(&MANNER) {
                continue;
            }
            asking.asked(now, &MANNER);
            let (word, unit) = (word(env, &back(to)), unit(env, &back(to)));
            let lacks = |parked: &&mut Parked| parked.from == Some(*to) && parked.on == On::Code(*digest);
            let Some(pays) = list.iter_mut().filter(lacks).find(|parked| parked.can_pay(word, unit)) else { continue };
            pays.debt += word;
            self.state.account.wanted += 1;
            self.state.say(env, &back(to), &wire::want(&digest.0));
        }
    }

    /// A neighbour has sent packets with these codes: it holds them.
    pub(super) fn note_codes(&mut self, from: &Neighbour, codes: &[Digest]) {
        codes.iter().for_each(|digest| self.state.peers.learn(from.port, from.addr, *digest));
    }

    /// Tells a neighbour that has sent the codes of the packet under way whole that this node holds them, in at most so
    /// many bytes; gives how many it took. Who is not told now sends them whole again.
    pub(super) fn tell_codes(&mut self, env: &mut dyn PlanOs, from: &Neighbour, most: usize) -> usize {
        let (mut said, word) = (0, word(env, &back(from)));
        for digest in &self.seen {
            if said + word > most {
                break;
            }
            if self.state.peers.tell(env.now(), from.port, from.addr, digest) {
                self.state.say(env, &back(from), &wire::have(&digest.0));
                said += word;
            }
        }
        said
    }

    /// A neighbour asks for a code whose digest it was sent. The packet that had the digest has paid for it (costs.rs).
    pub(super) fn serve_code(&mut self, env: &mut dyn PlanOs, from: &Neighbour, digest: Digest) -> Fate {
        if !self.state.peers.lacks(from.port, from.addr, &digest) {
            return Fate::Drop(Reason::FetchUnowed);
        }
        let Some(bytes) = self.library.bytes(&digest) else { return Fate::Drop(Reason::FetchGone) };
        let mut message = Vec::with_capacity(bytes.len() + 4);
        wire::put_code(bytes, &mut message);
        self.state.send(env, &back(from), &message);
        Fate::Taken
    }

    /// A code has come.
    pub(super) fn take_code(&mut self, env: &mut dyn PlanOs, code: &[u8]) -> Fate {
        let on = On::Code(Digest::of(code));
        if !self.waiting.list.iter().any(|parked| parked.on == on) {
            return Fate::Drop(Reason::FetchSpoofed);
        }
        match self.library.by_bytes(code, &self.table, usize::MAX) {
            Ok((_, compiled)) => self.state.charge_compiling(env, compiled),
            Err(_) => return Fate::Drop(Reason::CodeRefused),
        }
        self.release(env, &on);
        Fate::Taken
    }

    /// The outside knows the address of a name, or that there is none.
    pub fn resolved(&mut self, env: &mut dyn PlanOs, name: &str, addr: Option<Addr>) {
        self.state.names.answer(env.now(), name, addr);
        self.release(env, &On::Name(name.into()));
    }

    /// What waited for this waits for a turn.
    pub(super) fn release(&mut self, env: &mut dyn PlanOs, on: &On) {
        let (ready, others) = std::mem::take(&mut self.waiting.list).into_iter().partition(|parked| parked.on == *on);
        self.waiting.list = others;
        self.waiting.end_questions();
        for parked in ready {
            let task = parked.principal.map_or(Task::Process, Task::Evaluate);
            // One that finds no place is counted.
            let _ = self.wait_for_turn(env, parked.ready(task));
        }
    }

    /// A packet that has waited is evaluated from its beginning.
    pub(super) fn evaluate_again(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        bytes: &[u8],
        stage: Stage,
    ) -> Fate {
        match self.decode(env, bytes, &mut Vec::new()) {
            Ok(packet) => self.evaluate(env, from, packet, 0, stage),
            Err(why) => self.end(bytes, why.reason()),
        }
    }

    pub(super) fn expire_waiting(&mut self, env: &mut dyn PlanOs) {
        let now = env.now();
        let mut at = 0;
        while let Some(parked) = self.waiting.list.get(at) {
            if parked.until > now {
                at += 1;
                continue;
            }
            let gone = self.waiting.list.remove(at);
            let reason = if matches!(gone.on, On::Code(_)) { Reason::FetchTimeout } else { Reason::WaitTimeout };
            self.state.account.unused += account::bound_of(&gone.bytes);
            env.drop(gone.principal.unwrap_or(super::ANYONE), reason);
        }
        self.waiting.end_questions();
        self.ask_again(env);
    }
}

/// The way to a neighbour.
pub(super) fn back(to: &Neighbour) -> Next {
    Next { port: to.port, peer: to.peer, via: to.addr, to: to.addr }
}
