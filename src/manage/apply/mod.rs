//! Other configurations for a running node: the difference is shown, prepared, and then carried out as a whole.
//!
//! ```text
//! offer of the broker ─▶ difference ─▶ prepare: all that can fail ─▶ broker: hold ─▶ workers, sessions, routes, environments
//!                           │ needs a restart, contradicts, changed meanwhile ─▶ refused, nothing is touched
//!                           └─ confirmed in time? no ─▶ the same way back to what ran before
//! ```
//!
//! One thread does all this, so that two operators cannot mix. The second is told who is at it. A worker takes its part
//! between two packets, in one piece: no packet finds one half of a configuration. The wait for a confirmation is the
//! node's own and measured by a clock that nobody sets, so it ends also if whoever asked is gone.

mod back;
mod offered;
mod peers;
mod ports;
mod prepared;
mod reach;
pub mod wish;

use super::control::Handle;
use super::follow::Following;
use super::management::Management;
use crate::broker::configurations::{Kept, Offer};
use crate::broker::{self, Request, Wanted};
use crate::config::NodeFile;
use crate::config::difference::{self, Change};
use crate::node::proofs::Guard;
use crate::sys::clock::Clock;
use crate::sys::threads::{self, Duty};
use crate::trust::CurrentRoles;
use model::wish::{Confirmed, Difference};
use offered::{Keys, history, keys_of, offer, one_before, shown};
pub use peers::Peers;
use prepared::Prepared;
use reach::Reach;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wish::{Done, Fulfils, Reply, Standing, Wish};

/// Changes that the log has of one configuration.
const LINES_MAX: usize = 20;

/// Until going back is tried again that has failed.
const AGAIN: Duration = Duration::from_secs(10);

/// The longest wait for a confirmation.
pub const CONFIRM_MAX: Duration = Duration::from_secs(86_400);

/// What is said when nobody is left who could do something.
const GOING_DOWN: &str = "the node is going down";

/// What a wish has come to.
type Answer = Result<Done, String>;

/// The way to the thread that applies configurations.
pub struct Applier {
    tasks: Mutex<Sender<Task>>,
    /// Whose task is being done.
    at_it: Arc<Mutex<Option<String>>>,
    board: Arc<Mutex<Board>>,
}

/// What is to be done, and who is told.
struct Task {
    wish: Wish,
    who: String,
    reply: Reply,
}

/// What others see.
#[derive(Default)]
struct Board {
    standing: Standing,
    deadline: Option<Instant>,
}

/// What a node is made of that configurations change.
pub struct Parts {
    /// The configuration that runs.
    pub file: NodeFile,
    /// What its ports demand, and keys of neighbours.
    pub guard: Guard,
    /// Which neighbour has which number.
    pub peers: Peers,
    /// The way to the workers.
    pub handle: Handle,
    /// The roles of all who judge off the packet path.
    pub roles: CurrentRoles,
    /// Who follows routes and ports.
    pub following: Following,
    /// Who runs environments.
    pub management: Arc<Management>,
    /// The node's clock.
    pub clock: Clock,
}

/// The thread's own.
struct Applying {
    parts: Parts,
    board: Arc<Mutex<Board>>,
    at_it: Arc<Mutex<Option<String>>>,
    /// What ran before the one that nobody has confirmed yet.
    before: Option<Before>,
    /// What somebody has looked at last.
    looked: Option<Looked>,
}

/// A configuration that is wanted, and how it differs from what runs.
struct Looked {
    kept: Kept,
    keys: Keys,
    after: NodeFile,
    changes: Vec<Change>,
    /// The number of what runs.
    to: Option<u64>,
}

/// Where the node goes back to.
struct Before {
    file: NodeFile,
    guard: Guard,
    number: Option<u64>,
    deadline: Instant,
    who: String,
}

impl Applier {
    /// Starts the thread.
    pub fn start(parts: Parts) -> io::Result<Applier> {
        let (tasks, inbox) = channel();
        let (at_it, board) = (Arc::<Mutex<Option<String>>>::default(), Arc::<Mutex<Board>>::default());
        // Without a broker nobody can give one.
        if let Some(start) = history().ok().and_then(|mut all| all.pop()) {
            let mut board = lock(&board);
            (board.standing.number, board.standing.who) = (Some(start.number), Some(start.who));
        }
        let applying = Applying { parts, board: board.clone(), at_it: at_it.clone(), before: None, looked: None };
        threads::start("anode-apply", Duty::Routes, move || applying.serve(&inbox))?;
        Ok(Applier { tasks: Mutex::new(tasks), at_it, board })
    }
}

impl Fulfils for Applier {
    fn fulfil(&self, wish: Wish, who: &str) -> Answer {
        let (reply, answer) = channel();
        // Whoever asked may have gone away meanwhile.
        self.begin(wish, who, Box::new(move |done| drop(reply.send(done))))?;
        answer.recv().map_err(|_| GOING_DOWN.to_owned())?
    }

    fn begin(&self, wish: Wish, who: &str, reply: Reply) -> Result<(), String> {
        let mut at_it = lock(&self.at_it);
        // Who only looks waits for his turn.
        if wish.change().is_some() {
            if let Some(other) = &*at_it {
                lock(&self.board).standing.refused += 1;
                return Err(format!("{other} changes the configuration right now; look at it, then ask again"));
            }
            *at_it = Some(who.to_owned());
        }
        lock(&self.tasks).send(Task { wish, who: who.to_owned(), reply }).map_err(|_| GOING_DOWN.to_owned())
    }

    fn standing(&self) -> Standing {
        let board = lock(&self.board);
        let left = board.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).as_millis());
        Standing { unconfirmed_ms: left.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)), ..board.standing.clone() }
    }
}

/// What an operator asks of the difference.
#[derive(Clone, Copy, Default)]
struct Manner {
    dry_run: bool,
    partly: bool,
    within: Option<Duration>,
    /// What the difference was to that somebody has looked at.
    base: Option<Option<u64>>,
}

impl Applying {
    fn serve(mut self, inbox: &Receiver<Task>) {
        loop {
            let patience = match &self.before {
                Some(before) => before.deadline.saturating_duration_since(Instant::now()),
                None => CONFIRM_MAX,
            };
            match inbox.recv_timeout(patience) {
                Ok(Task { wish, who, reply }) => {
                    let changes = wish.change().is_some();
                    let answer = self.fulfil(wish, &who);
                    if let Err(why) = &answer {
                        tracing::warn!(who, why, "configuration refused");
                    }
                    if changes {
                        lock(&self.board).standing.refused += u64::from(answer.is_err());
                        *lock(&self.at_it) = None;
                    }
                    reply(answer);
                }
                // What has come of it is in the log.
                Err(RecvTimeoutError::Timeout) => drop(self.go_back()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn fulfil(&mut self, wish: Wish, who: &str) -> Answer {
        match wish {
            Wish::Apply { number, base, dry_run, partly, confirm_within_ms } => {
                let manner = Manner { dry_run, partly, within: within(confirm_within_ms)?, base: base.map(known) };
                self.apply(Wanted::Given(number), who, manner)
            }
            Wish::Rollback { to, dry_run, partly, confirm_within_ms } => {
                let manner = Manner { dry_run, partly, within: within(confirm_within_ms)?, base: None };
                if self.before.is_some() && to.is_none() && !dry_run {
                    self.go_back()?;
                    return Ok(Done::Differs(Difference {
                        applied: true,
                        number: self.number(),
                        ..Difference::default()
                    }));
                }
                let number = match to {
                    Some(number) => number,
                    None => one_before(&history()?)?,
                };
                let wanted = Wanted::Again { number, who: format!("{who}, back to {number}"), returns: false };
                self.apply(wanted, who, manner)
            }
            Wish::Reread => {
                let wanted = Wanted::Source { who: who.to_owned() };
                self.apply(wanted, who, Manner::default())
            }
            Wish::Confirm { number } => self.confirm(number, who),
            Wish::History => Ok(Done::History(history()?.into_iter().map(shown).collect())),
        }
    }

    /// The configuration of this number stays; another one is not meant.
    fn confirm(&mut self, number: u64, who: &str) -> Answer {
        let runs = self.number();
        let given = match &self.before {
            None => return Err("no configuration waits to be confirmed".into()),
            Some(Before { who: given, .. }) if runs != Some(number) => {
                return Err(format!(
                    "configuration {}, of {given}, waits to be confirmed, and not {number}: look at it first, anode node history",
                    runs.unwrap_or(0)
                ));
            }
            Some(Before { who: given, .. }) => given.clone(),
        };
        self.before = None;
        lock(&self.board).deadline = None;
        tracing::info!(event = "node", who, number, given, "configuration confirmed");
        Ok(Done::Stays(Confirmed { number: runs }))
    }

    /// The number of the configuration that runs.
    fn number(&self) -> Option<u64> {
        lock(&self.board).standing.number
    }

    fn apply(&mut self, wanted: Wanted, who: &str, manner: Manner) -> Answer {
        if let Some(before) = self.before.as_ref().filter(|_| !manner.dry_run) {
            let left = before.deadline.saturating_duration_since(Instant::now()).as_secs();
            return Err(format!(
                "the configuration of {} waits to be confirmed, for {left} s more: anode node confirm NODE {}, or anode node rollback NODE",
                before.who,
                self.number().unwrap_or(0)
            ));
        }
        if let Some(base) = manner.base.filter(|base| *base != self.number()) {
            let words = |number: Option<u64>| number.map_or("that it was started with".into(), |it| it.to_string());
            let (runs, looked) = (words(self.number()), words(base));
            return Err(format!(
                "the node has configuration {runs} by now, and you have looked at the difference to {looked}: look again"
            ));
        }
        let looked = self.look(&wanted)?;
        let Looked { kept, keys, after, changes, .. } = &looked;
        let running = &self.parts.file;
        let ms = manner.within.map(|within| within.as_millis() as u64);
        let report = |applied, number: Option<u64>| {
            let changes = changes.iter().map(Change::told).collect();
            Done::Differs(Difference { applied, changes, confirm_within_ms: ms, number })
        };
        if manner.dry_run {
            let told = report(false, self.number());
            self.looked = Some(looked);
            return Ok(told);
        }
        refuse_restart(changes, manner.partly)?;
        let target = difference::without_restart(running, after, changes).map_err(|error| error.to_string())?;
        let left: Vec<Change> = changes.iter().filter(|change| change.part.is_some()).cloned().collect();
        if left.is_empty() {
            return Ok(report(false, self.number()));
        }
        let _reach = Reach::of(kept.number, manner.partly, &left)?;
        let prepared = Prepared::of(&self.parts, &target, &left, keys, true)?;
        broker::ask(&Request::Hold { number: kept.number, partly: manner.partly }, &[])
            .map_err(|error| error.to_string())?;
        let (before, guard) = (self.number(), self.parts.guard.clone());
        let running = core::mem::replace(&mut self.parts.file, target);
        self.stands(
            kept,
            manner.within,
            Before { file: running, guard, number: before, deadline: Instant::now(), who: who.to_owned() },
        );
        prepared.carry_out(&mut self.parts)?;
        // One event, and as many lines as somebody reads.
        tracing::info!(
            event = "node",
            who = kept.who,
            number = kept.number,
            changes = left.len(),
            "configuration applied"
        );
        for change in left.iter().take(LINES_MAX) {
            tracing::info!(number = kept.number, "configuration: {change}");
        }
        let in_force = self.in_force(&kept.text, manner.partly);
        self.parts.handle.was_configured(&in_force, self.parts.file.store.as_deref());
        Ok(report(true, Some(kept.number)))
    }

    /// The configuration that runs, for reports: the text that was given, or what of it was applied.
    fn in_force(&self, given: &str, partly: bool) -> String {
        let applied = || toml::to_string(&self.parts.file).ok();
        partly.then(applied).flatten().unwrap_or_else(|| given.to_owned())
    }

    /// This is what runs from now on, and to be confirmed within that time, if it is to be.
    fn stands(&mut self, kept: &Kept, within: Option<Duration>, before: Before) {
        let mut board = lock(&self.board);
        board.standing = Standing {
            number: Some(kept.number),
            who: Some(kept.who.clone()),
            applied: board.standing.applied + 1,
            ..board.standing.clone()
        };
        if let Some(deadline) = within.map(|within| Instant::now() + within) {
            board.deadline = Some(deadline);
            self.before = Some(Before { deadline, ..before });
        }
    }

    /// What is wanted, and how it differs from what runs; the same as somebody has looked at just before.
    fn look(&mut self, wanted: &Wanted) -> Result<Looked, String> {
        let before = self.looked.take();
        let is = |looked: &Looked| matches!(wanted, Wanted::Given(number) if looked.kept.number == *number);
        if let Some(looked) = before.filter(|looked| is(looked) && looked.to == self.number()) {
            return Ok(looked);
        }
        let Offer { kept, keys } = offer(wanted)?;
        let after = NodeFile::parse(&kept.text).map_err(|error| error.to_string())?.placed_as(&self.parts.file);
        let changes = difference::between(&self.parts.file, &after).map_err(|error| error.to_string())?;
        Ok(Looked { kept, keys: keys_of(keys)?, after, changes, to: self.number() })
    }
}

/// A number that is told as 0 where there is none.
fn known(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn within(ms: Option<u64>) -> Result<Option<Duration>, String> {
    let within = ms.map(Duration::from_millis);
    match within {
        Some(within) if within.is_zero() || within > CONFIRM_MAX => {
            Err(format!("confirm within {} s: from a millisecond to a day", within.as_secs()))
        }
        within => Ok(within),
    }
}

/// Refuses what needs a restart, unless the rest alone is wanted.
fn refuse_restart(changes: &[Change], partly: bool) -> Result<(), String> {
    let restart = changes.iter().filter(|change| change.part.is_none());
    let said = |change: &Change| change.why.map_or(change.to_string(), |why| format!("{change} ({why})"));
    let restart: Vec<String> = restart.map(said).collect();
    if partly || restart.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these changes need a restart (anode node down NODE --keep-kernel, then anode node run FILE), and so nothing is \
         changed; --partly applies the rest: {}",
        restart.join("; ")
    ))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
