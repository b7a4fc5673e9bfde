//! Packets that wait for a turn of the environment's and came in no frame. Example: an evaluation sends a packet to its
//! own node, and that packet is evaluated behind those of neighbours that came before it.
//!
//! ```text
//! sent to the node itself, a copy that is due, injected ─▶ taken on by the environment's domain ─┐
//! waited for a code, a name, a role, a service ──────────────────────────────────────────────────┴─▶ ready ─▶ its turn
//! ```
//!
//! The node gives the turns ([`Plan::take_turn`]): where packets wait for the CPU, in the order of all of the
//! environment's; else at once. Who pays for a packet has a share of the places.

use super::evaluate::Stage;
use super::graphs::Answers;
use super::waiting::On;
use super::{ANYONE, Fate, Plan, PlanOs, account};
use crate::core::reason::Reason;
use crate::frame::shares::Shares;
use crate::frame::{Payer, Sent};
use crate::topology::Neighbour;
use crate::trust::Role;
use std::collections::VecDeque;
use std::sync::Arc;

/// Packets that can wait for a turn: half of them if one payer alone has any.
const READY_MAX: u64 = 512;

/// What is to be done with a packet.
pub(super) enum Task {
    /// It is evaluated or sent on, as if it had just come.
    Process,
    /// It is evaluated from its beginning; its layers are open, and this is its principal.
    Evaluate(usize),
    /// The outside has judged what it waited for: its role, or why it has none.
    Judge(On, Result<Arc<Role>, String>),
    /// No copy of it has arrived, as far as is known. So much of a bound is left to say that.
    GiveUp(u32),
}

/// A packet that waits for a turn.
pub(super) struct Ready {
    pub bytes: Vec<u8>,
    pub from: Option<Neighbour>,
    /// Whose share of the worker pays for it.
    pub payer: Payer,
    /// Bytes of questions that it is to pay with its next frames.
    pub debt: usize,
    /// What it was told of graphs.
    pub answers: Answers,
    pub task: Task,
    /// Which application waits for word of it.
    pub sent: Sent,
}

impl Ready {
    /// A packet of this node's own.
    pub fn own(bytes: Vec<u8>, payer: Payer) -> Ready {
        let (answers, sent) = (Answers::default(), Sent::default());
        Ready { bytes, from: None, payer, debt: 0, answers, task: Task::Process, sent }
    }

    fn bound(&self) -> u64 {
        match self.task {
            Task::GiveUp(rest) => rest.into(),
            _ => account::bound_of(&self.bytes),
        }
    }
}

/// The packets that wait for a turn, first to last.
pub(super) struct Line {
    list: VecDeque<Ready>,
    shares: Shares<Payer>,
}

impl Default for Line {
    fn default() -> Line {
        Line { list: VecDeque::new(), shares: Shares::new(READY_MAX) }
    }
}

impl Line {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether a packet waits that goes on as one of this principal.
    pub fn is_of(&self, principal: usize) -> bool {
        let is_its = |task: &Task| matches!(task, Task::Evaluate(of) if *of == principal);
        self.list.iter().any(|ready| is_its(&ready.task))
    }

    /// The bounds of those that wait.
    pub fn bounds(&self) -> u64 {
        self.list.iter().map(Ready::bound).sum()
    }

    /// Takes out the one at this place.
    fn take(&mut self, at: usize) -> Option<Ready> {
        let ready = self.list.remove(at)?;
        self.shares.give(ready.payer, 1);
        Some(ready)
    }
}

impl Plan {
    /// Who pays for the packet at this place among those that wait for a turn.
    pub fn payer_at(&self, at: usize) -> Option<Payer> {
        self.ready.list.get(at).map(|ready| ready.payer)
    }

    /// The packet at this place gets no turn; its end is counted already.
    pub fn forget_ready(&mut self, at: usize) {
        if let Some(ready) = self.ready.take(at) {
            self.state.account.unused += ready.bound();
            self.recycle(ready.bytes);
        }
    }

    /// A packet that begins here is taken on, and waits for a turn. One that cannot is counted.
    pub(super) fn begin_ready(&mut self, env: &mut dyn PlanOs, mut ready: Ready) -> Result<(), Reason> {
        ready.sent = env.sender();
        env.made(1);
        match env.take_on(ready.bytes.len()) {
            Ok(()) => self.wait_for_turn(env, ready),
            Err(reason) => self.refuse_ready(env, ready, reason),
        }
    }

    /// A packet waits for a turn, if who pays for it has a place left.
    pub(super) fn wait_for_turn(&mut self, env: &mut dyn PlanOs, ready: Ready) -> Result<(), Reason> {
        if !self.ready.shares.take(ready.payer, 1) {
            return self.refuse_ready(env, ready, Reason::LocalFull);
        }
        self.ready.list.push_back(ready);
        Ok(())
    }

    fn refuse_ready(&mut self, env: &mut dyn PlanOs, ready: Ready, reason: Reason) -> Result<(), Reason> {
        self.state.account.unused += ready.bound();
        self.recycle(ready.bytes);
        env.drop(ANYONE, reason);
        Err(reason)
    }

    /// The first packet that waits has its turn.
    pub fn take_turn(&mut self, env: &mut dyn PlanOs) {
        let Some(Ready { mut bytes, from, debt, answers, task, sent, .. }) = self.ready.take(0) else { return };
        let from = from.as_ref();
        self.debt = debt;
        self.state.graphs.answers = answers;
        env.works_for(sent);
        let (fate, principal) = match task {
            Task::Process => (self.process(env, from, &mut bytes), ANYONE),
            // What was said of it may have been taken back since.
            Task::Evaluate(principal) if self.is_revoked(env, principal) => (self.refuse_parked(env, &bytes), ANYONE),
            Task::Evaluate(principal) => (self.evaluate_again(env, from, &bytes, Stage::Open(principal)), principal),
            Task::Judge(on, judged) => (self.judged(env, from, &mut bytes, &on, judged), ANYONE),
            Task::GiveUp(rest) => {
                self.give_up(env, &bytes, rest);
                (Fate::Taken, ANYONE)
            }
        };
        self.debt = 0;
        self.state.graphs.answers = Answers::default();
        self.conclude(env, fate, &bytes, principal);
        env.works_for(Sent::default());
        self.recycle(bytes);
    }

    /// Does what is left to be done with a packet that is in no frame.
    pub(super) fn conclude(&mut self, env: &mut dyn PlanOs, fate: Fate, bytes: &[u8], principal: usize) {
        match fate {
            Fate::Taken => env.used(1),
            Fate::Kept | Fate::Dropped => {}
            Fate::Forward(next) => {
                env.used(1);
                self.state.send(env, &next, bytes);
            }
            Fate::Drop(reason) => env.drop(principal, reason),
        }
    }

    /// Has the node take a packet up that is for itself.
    pub(super) fn push_local(&mut self, env: &mut dyn PlanOs, bytes: &[u8]) {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        // One that finds no place is counted.
        let ready = Ready::own(buffer, env.payer());
        let _ = self.begin_ready(env, ready);
    }
}
