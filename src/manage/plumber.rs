//! Graphs that PLAN programs look at and change, and code of capsules wishes to change: carried out beside the packets, one after the
//! other, by the way that operators have.
//!
//! ```text
//! worker ─▶ loader ─▶ waits by who brought the packet, in turns ─▶ here: may it? text, engines ─▶ first worker: swap ─▶ its packet goes on
//! ```
//!
//! What it takes is the time of the program's principal, or of the code. The thread rests three times as long as it has worked, so
//! programs have a quarter of a CPU for this, as those that call by `nodeos.h` have.

use super::control::Handle;
use super::ee::GraphCalls;
use super::graphs::{self, Way};
use super::loader::turns::Turns;
use super::loader::{Loaded, guarded};
use super::worker::Order;
use crate::ee::plan::{GraphAsk, GraphAsker, GraphCause, GraphDeed, GraphRefused, GraphSaid};
use crate::node::graphs::{GraphEditor, GraphRefusal};
use crate::node::wishing::WishedEdit;
use crate::node::{Cause, Node, Turn};
use crate::nodeos::interface::Error;
use crate::sys::clock::thread_cpu;
use crate::sys::threads::{self, Duty};
use crate::trust::Role;
use crate::trust::edits::{EditDeed, NamedEdit};
use model::GraphWish;
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Calls that can wait.
const ASKS_MAX: usize = 64;

/// How long the thread rests for what it has worked.
const RESTS: u64 = 3;

/// What is asked for.
pub enum Asked {
    /// By a PLAN program, whose packet waits.
    Program(Box<GraphAsk>),
    /// By code of capsules, which does not.
    Code(Box<WishedEdit>),
}

impl Asked {
    /// Whether it is a change.
    fn changes(&self) -> bool {
        match self {
            Asked::Program(ask) => ask.deed.changes(),
            Asked::Code(_) => true,
        }
    }

    fn role(&self) -> &Arc<Role> {
        match self {
            Asked::Program(ask) => &ask.asker.role,
            Asked::Code(wish) => &wish.role,
        }
    }
}

/// What was asked for and not done yet.
struct Asks {
    turns: Turns<Asked>,
    /// Nobody asks any more.
    over: bool,
}

/// What both ends share.
struct Shared {
    asks: Mutex<Asks>,
    changed: Condvar,
    calls: GraphCalls,
}

impl Shared {
    fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loader's end.
pub struct Plumbing(Arc<Shared>);

/// The end of who does it.
#[derive(Clone)]
pub struct Plumber(Arc<Shared>);

impl Plumbing {
    /// Nothing waits.
    pub fn new() -> Plumbing {
        let asks = Mutex::new(Asks { turns: Turns::new(ASKS_MAX), over: false });
        Plumbing(Arc::new(Shared { asks, changed: Condvar::new(), calls: GraphCalls::default() }))
    }

    /// For who does what is asked for.
    pub fn plumber(&self) -> Plumber {
        Plumber(self.0.clone())
    }

    /// A call waits for its turn. The one that has no place is answered at once.
    pub fn submit(&self, cause: Cause, ask: Asked) -> Option<Loaded> {
        let displaced = self.0.asks().turns.push(cause, ask);
        self.0.changed.notify_one();
        let ask = displaced?;
        if ask.changes() {
            self.0.calls.count(Some(Error::Again));
        }
        let why = format!("too many programs ask for graphs: {ASKS_MAX} calls wait");
        Some(match ask {
            Asked::Program(ask) => Loaded::Graph(ask, Err(GraphRefused { cause: GraphCause::TooOften, why })),
            Asked::Code(wish) => Loaded::Edit(wish),
        })
    }
}

impl Drop for Plumbing {
    fn drop(&mut self) {
        self.0.asks().over = true;
        self.0.changed.notify_one();
    }
}

impl Plumber {
    /// What programs have asked for.
    pub fn calls(&self) -> GraphCalls {
        self.0.calls.clone()
    }

    /// Starts the thread; it ends with the loader.
    pub fn start(self, handle: Handle) -> std::io::Result<()> {
        threads::start("anode-plumber", Duty::Sessions, move || self.serve(&handle)).map(drop)
    }

    fn serve(&self, handle: &Handle) {
        while let Some((ingress, ask)) = self.next() {
            let before = thread_cpu();
            let editor = GraphEditor { role: ask.role().clone() };
            let way = Program { handle, editor, asker: Asker::of(&ask), worked: Cell::new(0) };
            let done = guarded("a change of a graph", || Ok(carry_out(&way, &ask)));
            let done = done.unwrap_or_else(|why| Err(why.into()));
            if ask.changes() {
                self.0.calls.count(done.as_ref().err().map(|refusal| refusal.error));
            }
            let took = thread_cpu().saturating_sub(before) + way.worked.get();
            let tell = move |node: &mut Node, turn: &mut Turn<'_>| match ask {
                Asked::Program(ask) => {
                    let answer = done.map_err(|GraphRefusal { error, why }| GraphRefused { cause: cause(error), why });
                    node.graph_said(turn, &ask, answer, took);
                }
                Asked::Code(wish) => node.edited(turn, &wish, done.map(drop), took),
            };
            if handle.order(Order::Do(Box::new(tell))).is_err() {
                // The node goes down.
                return;
            }
            self.0.asks().turns.spent(ingress, took);
            std::thread::sleep(Duration::from_nanos(took * RESTS));
        }
    }

    /// The next call; nothing: it is over.
    fn next(&self) -> Option<(crate::node::Ingress, Asked)> {
        let mut asks = self.0.asks();
        while !asks.over {
            if let Some(next) = asks.turns.next(|_| true) {
                return Some(next);
            }
            asks = self.0.changed.wait(asks).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Who asks.
#[derive(Clone)]
enum Asker {
    Program(GraphAsker),
    Code(WishedEdit),
}

impl Asker {
    fn of(ask: &Asked) -> Asker {
        match ask {
            Asked::Program(ask) => Asker::Program(ask.asker.clone()),
            Asked::Code(wish) => Asker::Code((**wish).clone()),
        }
    }

    /// Whether it is still to be done: it may have waited for long.
    fn check(&self, node: &mut Node, turn: &mut Turn<'_>) -> Result<(), GraphRefusal> {
        match self {
            Asker::Program(asker) if node.is_graph_asked(turn, asker) => Ok(()),
            Asker::Program(_) => {
                let gone = "nobody waits for it any more, or who has asked may not ask any more, or has another role";
                Err(GraphRefusal::new(Error::Denied, gone.to_owned()))
            }
            Asker::Code(wish) => node.check_wished(wish),
        }
    }
}

/// A program's way to the graphs.
struct Program<'a> {
    handle: &'a Handle,
    editor: GraphEditor,
    asker: Asker,
    /// The worker's time for it, in nanoseconds.
    worked: Cell<u64>,
}

impl Way for Program<'_> {
    fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, GraphRefusal> {
        let asker = self.asker.clone();
        let measured = move |node: &mut Node, turn: &mut Turn<'_>| {
            let before = node.work_so_far();
            let result = asker.check(node, turn).map(|()| work(node, turn));
            (result, node.work_so_far().saturating_sub(before))
        };
        let (result, took) = self.handle.ask(measured)?;
        self.worked.set(self.worked.get() + took);
        result
    }

    fn handle(&self) -> &Handle {
        self.handle
    }

    fn editor(&self) -> Option<&GraphEditor> {
        Some(&self.editor)
    }
}

fn carry_out(way: &impl Way, ask: &Asked) -> Result<GraphSaid, GraphRefusal> {
    match ask {
        Asked::Program(ask) => do_deed(way, &ask.graph, &ask.deed),
        Asked::Code(wish) => {
            let gone = || GraphRefusal::new(Error::Unknown, "the role has no such edit any more".to_owned());
            let edit = wish.edit().ok_or_else(gone)?;
            do_deed(way, &edit.graph, &deed(edit).ok_or_else(gone)?)
        }
    }
}

/// An operator's edit as what a program would ask for.
fn deed(edit: &NamedEdit) -> Option<GraphDeed> {
    let base = 0;
    Some(match edit.deed()? {
        EditDeed::Connect(strings) => {
            let [disconnect, remove, connect] = strings.map(str::to_owned);
            GraphDeed::Edit { disconnect, remove, connect, base }
        }
        EditDeed::Text(text) => GraphDeed::Apply { text: text.to_owned(), base },
        EditDeed::Write(handler, value) => GraphDeed::Write { handler: handler.to_owned(), value: value.to_owned() },
    })
}

fn do_deed(way: &impl Way, name: &str, deed: &GraphDeed) -> Result<GraphSaid, GraphRefusal> {
    let name = name.to_owned();
    match deed {
        GraphDeed::Edit { disconnect, remove, connect, base } => {
            let edit = graphs::edit_of(name, [disconnect, remove, connect], *base);
            graphs::edit(way, edit).map(|applied| GraphSaid::Generation(applied.generation))
        }
        GraphDeed::Apply { text, base } => {
            let (text, base) = (text.clone(), graphs::based(*base));
            let wish = GraphWish { name, text, role: None, take: None, base, place: None };
            graphs::apply(way, wish).map(|applied| GraphSaid::Generation(applied.generation))
        }
        GraphDeed::Read { handler } => graphs::read(way, &name, handler).map(|read| GraphSaid::Text(read.value)),
        GraphDeed::Write { handler, value } => graphs::write(way, &name, handler, value).map(|_| GraphSaid::Done),
        GraphDeed::Show => graphs::show(way, &name).map(|shown| GraphSaid::Shown(shown.text, shown.graph.generation)),
    }
}

fn cause(error: Error) -> GraphCause {
    match error {
        Error::Unknown => GraphCause::NotFound,
        Error::Limit => GraphCause::TooBig,
        Error::Again => GraphCause::TooOften,
        Error::Changed => GraphCause::Changed,
        Error::Invalid => GraphCause::BadGraph,
        _ => GraphCause::Refused,
    }
}
