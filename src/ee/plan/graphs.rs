//! Graphs of the node that programs look at and change, as far as the role of their principal lets programs do that.
//!
//! ```text
//! graphEdit(…) ─▶ answered already? ──yes──▶ its value, or an exception
//!                   │ no
//!                   ▼
//!     the packet waits ─▶ Wish::Graph ─▶ text and engines, beside the packets; swap between two ─▶ evaluated again
//! ```
//!
//! An evaluation begins anew after each wait, so answers stay with the packet, in the order of its calls. What was done is not done
//! twice for that. A program that asks for something else the second time, as one that throws dice, is refused.

use super::evaluate::{At, raise};
use super::ready::Task;
use super::waiting::On;
use super::{Plan, PlanOs, work};
use crate::trust::{PrincipalId, Role};
use crate::wire::Digest;
use plan::eval::{self, Fault, Stop, spend};
use plan::name::Name;
use std::sync::{Arc, LazyLock};

/// Calls about graphs in one evaluation.
const CALLS_MAX: usize = 16;

/// Bytes of all answers that a packet has.
const SAID_MAX: usize = 64 << 10;

/// Bytes of why something was refused.
const WHY_MAX: usize = 1024;

/// Steps of asking, besides the time that the answer takes.
const ASKING: u32 = 100;

static TOO_OFTEN: LazyLock<Name> = LazyLock::new(|| name("TooOften"));
static CHANGED: LazyLock<Name> = LazyLock::new(|| name("Changed"));
static BAD_GRAPH: LazyLock<Name> = LazyLock::new(|| name("BadGraph"));

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or(Name::NONE)
}

/// What a program asks of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphDeed {
    /// To connect engines otherwise. A base of 0: whoever has changed it before.
    Edit {
        /// Chains that go.
        disconnect: String,
        /// Engines that go.
        remove: String,
        /// Statements that come.
        connect: String,
        /// The generation that was looked at.
        base: u32,
    },
    /// To run another text in its place.
    Apply {
        /// The text.
        text: String,
        /// The generation that was looked at.
        base: u32,
    },
    /// What an engine says of itself.
    Read {
        /// ENGINE.HANDLER.
        handler: String,
    },
    /// To write to an engine.
    Write {
        /// ENGINE.HANDLER.
        handler: String,
        /// What is written.
        value: String,
    },
    /// Its text.
    Show,
}

impl GraphDeed {
    /// Whether it is a change.
    pub fn changes(&self) -> bool {
        !matches!(self, GraphDeed::Read { .. } | GraphDeed::Show)
    }

    fn bytes(&self) -> usize {
        match self {
            GraphDeed::Edit { disconnect, remove, connect, .. } => disconnect.len() + remove.len() + connect.len(),
            GraphDeed::Apply { text, .. } => text.len(),
            GraphDeed::Read { handler } => handler.len(),
            GraphDeed::Write { handler, value } => handler.len() + value.len(),
            GraphDeed::Show => 0,
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct GraphAsker {
    /// The question's number.
    pub number: u64,
    /// The principal's number, who pays.
    pub principal: usize,
    /// Who that is, if he has signed: numbers are given away.
    pub signer: Option<PrincipalId>,
    /// Its role, which is that of its graphs.
    pub role: Arc<Role>,
}

/// The same, with whose it is.
#[derive(Clone, Debug)]
pub struct GraphAsk {
    /// Whose.
    pub asker: GraphAsker,
    /// The graph's name.
    pub graph: String,
    /// What is to be done.
    pub deed: GraphDeed,
    /// By which the call is known again.
    digest: Digest,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSaid {
    /// The graph is this generation from now on.
    Generation(u32),
    /// What an engine has said.
    Text(String),
    /// The text of a generation.
    Shown(String, u32),
    /// It is written.
    Done,
}

/// Why nothing comes of it: as an exception, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRefused {
    /// The exception.
    pub cause: GraphCause,
    /// What is wrong.
    pub why: String,
}

/// The exceptions of calls about graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphCause {
    /// No such graph runs in the role.
    NotFound,
    /// It may not be, or the node has no time for it.
    Refused,
    /// More engines, or bytes, than the role has.
    TooBig,
    /// More changes in a second than it has.
    TooOften,
    /// Somebody else has changed the graph.
    Changed,
    /// The text is wrong.
    BadGraph,
}

impl GraphCause {
    fn name(self) -> Name {
        match self {
            GraphCause::NotFound => const { Name::known("NotFound") },
            GraphCause::Refused => const { Name::known("Refused") },
            GraphCause::TooBig => const { Name::known("TooBig") },
            GraphCause::TooOften => TOO_OFTEN.clone(),
            GraphCause::Changed => CHANGED.clone(),
            GraphCause::BadGraph => BAD_GRAPH.clone(),
        }
    }
}

/// An answer to a program.
pub type GraphAnswer = Result<GraphSaid, GraphRefused>;

/// What a packet was told so far, in the order of its calls.
#[derive(Debug, Default)]
pub(super) struct Answers {
    list: Vec<(Digest, GraphAnswer)>,
    bytes: usize,
}

impl Answers {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// One more; what is more than a packet may have is refused instead.
    fn add(&mut self, digest: Digest, answer: GraphAnswer) {
        let bytes = |answer: &GraphAnswer| match answer {
            Ok(GraphSaid::Text(text) | GraphSaid::Shown(text, _)) => text.len(),
            Ok(_) => 0,
            Err(refused) => refused.why.len(),
        };
        let fits = self.bytes + bytes(&answer) <= SAID_MAX;
        let answer = if fits { answer } else { Err(refused(GraphCause::TooBig, "the answers of one packet")) };
        self.bytes += bytes(&answer) + size_of::<(Digest, GraphAnswer)>();
        self.list.push((digest, answer));
    }
}

/// The evaluation under way, as far as it is about graphs.
#[derive(Debug, Default)]
pub(super) struct GraphTalk {
    /// What it was told before it waited.
    pub answers: Answers,
    /// How many of these it has had now.
    had: usize,
    /// Why the last call was refused.
    why: String,
    /// What it waits for.
    pub wanted: Option<Box<GraphAsk>>,
    /// Questions so far.
    asked: u64,
}

impl GraphTalk {
    /// An evaluation begins.
    pub fn begin(&mut self) {
        (self.had, self.wanted) = (0, None);
        self.why.clear();
    }

    /// Why the last call was refused.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The answer to the next call, if there is one.
    fn next(&mut self, digest: &Digest) -> Option<GraphAnswer> {
        let (asked, answer) = self.answers.list.get(self.had)?;
        self.had += 1;
        if asked == digest {
            return Some(answer.clone());
        }
        Some(Err(refused(GraphCause::Refused, "the program has asked for something else before it waited")))
    }
}

fn refused(cause: GraphCause, why: &str) -> GraphRefused {
    GraphRefused { cause, why: why.into() }
}

impl At<'_> {
    /// Asks something of a graph; the packet waits if that is not answered yet.
    pub(super) fn ask_graph(
        &mut self,
        graph: String,
        deed: GraphDeed,
        state: &mut eval::State<'_>,
    ) -> eval::Result<GraphSaid> {
        spend(&mut state.steps, ASKING.saturating_add(work::writing(graph.len() + deed.bytes())))?;
        let digest = Digest::of(format!("{graph:?} {deed:?}").as_bytes());
        let answer = match self.state.graphs.next(&digest) {
            Some(answer) => answer,
            None => Err(self.want(graph, deed, digest)?),
        };
        match answer {
            Ok(said) => {
                if let GraphSaid::Text(text) | GraphSaid::Shown(text, _) = &said {
                    spend(&mut state.steps, work::reading(text.len()))?;
                }
                Ok(said)
            }
            Err(refused) => Err(self.refuse_graph(refused)),
        }
    }

    /// A call is refused; the program can ask why.
    pub(super) fn refuse_graph(&mut self, GraphRefused { cause, why }: GraphRefused) -> Stop {
        self.state.graphs.why = why;
        raise(cause.name())
    }

    /// Refuses texts that are longer together than one of the principal's role may be, before they are looked at.
    pub(super) fn fit_graph(&mut self, bytes: usize) -> eval::Result<()> {
        let most = self.env.role(self.principal).map_or(0, |role| role.graphs.text_bytes as usize);
        if bytes <= most {
            return Ok(());
        }
        let why = format!("{bytes} bytes of texts are more than the principal's role has, {most} (graphs.text_bytes)");
        Err(self.refuse_graph(refused(GraphCause::TooBig, &why)))
    }

    /// A text that no graph can have.
    pub(super) fn no_graph(&mut self, why: &str) -> Stop {
        self.refuse_graph(refused(GraphCause::BadGraph, why))
    }

    /// Has the packet wait, or says why not.
    fn want(&mut self, graph: String, deed: GraphDeed, digest: Digest) -> eval::Result<GraphRefused> {
        let principal = self.principal;
        let Some(role) = self.env.role(principal).filter(|role| role.graphs.edits()) else {
            let why = "the principal's role changes no graphs ([role.graphs] edits_per_second)";
            return Ok(refused(GraphCause::Refused, why));
        };
        let place = principal.checked_sub(1 + self.config.principals.len());
        let signer = place.and_then(|place| self.state.layers.signers.at(place)).map(|signer| signer.principal);
        let talk = &mut self.state.graphs;
        if talk.had >= CALLS_MAX {
            return Ok(refused(GraphCause::TooBig, "more calls about graphs than a packet has, 16"));
        }
        talk.asked += 1;
        let asker = GraphAsker { number: talk.asked, principal, signer, role };
        talk.wanted = Some(Box::new(GraphAsk { asker, graph, deed, digest }));
        Err(Fault::Wait.into())
    }
}

impl Plan {
    /// Whether what was asked for is still to be done: its packet waits for it, and who has asked may still ask, in the same role.
    pub fn is_graph_asked(&self, env: &mut dyn PlanOs, asker: &GraphAsker) -> bool {
        let GraphAsker { number, principal, signer, role } = asker;
        self.waiting.is_for(&On::Graph(*number))
            && self.signer(*principal) == *signer
            && !self.is_revoked(env, *principal)
            && env.role(*principal).is_some_and(|now| now == *role)
    }

    /// The outside has carried out what a packet waits for, or says why not; it took so many nanoseconds, which are the principal's.
    pub fn graph_said(&mut self, env: &mut dyn PlanOs, ask: &GraphAsk, answer: GraphAnswer, took: u64) {
        env.charge(ask.asker.principal, took, 0);
        // A packet that has given way to others hears nothing.
        let Some(mut parked) = self.waiting.take(|on| *on == On::Graph(ask.asker.number)) else { return };
        parked.answers.add(ask.digest, answer.map_err(cut));
        // One that finds no place is counted.
        let _ = self.wait_for_turn(env, parked.ready(Task::Evaluate(ask.asker.principal)));
    }
}

fn cut(mut refused: GraphRefused) -> GraphRefused {
    refused.why.truncate(refused.why.floor_char_boundary(WHY_MAX));
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_so_much_to_remember_of_what_it_was_told() {
        let (mut answers, digest) = (Answers::default(), Digest::of(b"x"));
        let text = |bytes: usize| Ok(GraphSaid::Text("x".repeat(bytes)));
        answers.add(digest, text(SAID_MAX / 2));
        answers.add(digest, text(SAID_MAX));
        answers.add(digest, text(SAID_MAX / 4));
        let whole: Vec<_> = answers.list.iter().map(|(_, answer)| answer.is_ok()).collect();
        assert_eq!(whole, [true, false, true]);
        assert!(answers.bytes() < SAID_MAX + CALLS_MAX * 256);
    }

    #[test]
    fn answers_are_those_of_the_calls_in_their_order() {
        let mut talk = GraphTalk::default();
        let calls = [b"a", b"b"].map(|call| Digest::of(call));
        calls.iter().for_each(|call| talk.answers.add(*call, Ok(GraphSaid::Done)));
        for _ in 0..2 {
            talk.begin();
            assert!(calls.iter().all(|call| talk.next(call) == Some(Ok(GraphSaid::Done))));
            assert_eq!(talk.next(&calls[0]), None, "a third call is a new one");
        }
        talk.begin();
        let refused = talk.next(&calls[1]).unwrap().unwrap_err();
        assert_eq!(refused.cause, GraphCause::Refused, "another call than before it waited");
    }
}
