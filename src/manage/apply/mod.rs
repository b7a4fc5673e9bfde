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

mod applier;
mod back;
mod extended;
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
use crate::sys::lock::lock;
use crate::sys::threads::{self, Duty};
use crate::trust::CurrentRoles;
pub use applier::Applier;
use applier::{Answer, Shared, Task};
use model::wish::{Confirmed, Difference};
use offered::{Keys, history, keys_of, offer, one_before, shown};
pub use peers::Peers;
use prepared::Prepared;
pub(super) use prepared::taught_by;
use reach::Reach;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wish::{Done, Standing, Wish};

/// Changes that the log has of one configuration.
const LINES_MAX: usize = 20;

/// Until going back is tried again that has failed.
const AGAIN: Duration = Duration::from_secs(10);

/// The longest wait for a confirmation.
pub const CONFIRM_MAX: Duration = Duration::from_secs(86_400);

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
    shared: Shared,
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

/// What is ready to be carried out: the configuration, what changes, and what is open for that; nothing if nothing changes.
type Ready = Option<(NodeFile, Vec<Change>, Prepared, Reach)>;

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
        let ((tasks, inbox), shared) = (channel(), Shared::default());
        // Without a broker nobody can give one.
        if let Some(start) = history().ok().and_then(|mut all| all.pop()) {
            let mut board = lock(&shared.board);
            (board.standing.number, board.standing.who) = (Some(start.number), Some(start.who));
        }
        let applying = Applying { parts, shared: shared.clone(), before: None, looked: None };
        threads::start("anode-apply", Duty::Routes, move || applying.serve(&inbox))?;
        Ok(Applier::over(tasks, shared))
    }
}

/// What an operator asks of the difference.
#[derive(Clone, Copy, Default)]
struct Manner {
    /// Of what is only shown: whether it is to be said why it would be refused.
    rehearse: bool,
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
            if patience.is_zero() {
                // Whoever else asks something waits for it. What has come of it is in the log.
                let _ = self.go_back(None);
                continue;
            }
            let patience = self.follow_hosts().map_or(patience, |soon| patience.min(soon));
            match inbox.recv_timeout(patience) {
                Ok(Task { wish, who, reply }) => {
                    // Of what is asked by the control socket there is an event already.
                    let (changes, is_reread) = (wish.change().is_some(), wish == Wish::Reread);
                    if changes {
                        *lock(&self.shared.at_it) = Some(who.clone());
                    }
                    // Whoever wishes it from here on may mean another text.
                    let told =
                        reply.map_or_else(|| core::mem::take(&mut *lock(&self.shared.rereading)), |reply| vec![reply]);
                    let answer = self.fulfil(wish, &who);
                    match &answer {
                        Err(why) if is_reread => tracing::warn!(event = "node", who, why, "configuration refused"),
                        Err(why) => tracing::warn!(who, why, "configuration refused"),
                        Ok(_) => {}
                    }
                    if changes {
                        lock(&self.shared.board).standing.refused += u64::from(answer.is_err());
                        *lock(&self.shared.at_it) = None;
                    }
                    told.into_iter().for_each(|reply| reply(answer.clone()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn fulfil(&mut self, wish: Wish, who: &str) -> Answer {
        match wish {
            Wish::Apply { number, base, dry_run, rehearse, partly, confirm_within_ms } => {
                let (dry_run, within) = (dry_run || rehearse, within(confirm_within_ms)?);
                let manner = Manner { rehearse, partly, within, base: base.map(known) };
                let wanted = Wanted::Given(number);
                if dry_run { self.show(&wanted, manner, false) } else { self.apply(wanted, who, manner) }
            }
            Wish::Rollback { to, base, dry_run, rehearse, partly, confirm_within_ms } => {
                let (dry_run, within) = (dry_run || rehearse, within(confirm_within_ms)?);
                let manner = Manner { rehearse, partly, within, base: base.map(known) };
                if self.before.is_some() && to.is_none() && !dry_run {
                    self.go_back(Some(who))?;
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
                if dry_run { self.show(&wanted, manner, to.is_none()) } else { self.apply(wanted, who, manner) }
            }
            Wish::Reread => {
                let wanted = Wanted::Source { who: who.to_owned() };
                self.apply(wanted, who, Manner::default())
            }
            Wish::Confirm { number } => self.confirm(number, who),
            Wish::Load { modules } => self.load(&modules, who),
            Wish::Unload { name, cascade } => self.unload(name, cascade, who),
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
        lock(&self.shared.board).deadline = None;
        tracing::info!(event = "node", who, number, given, "configuration confirmed");
        Ok(Done::Stays(Confirmed { number: runs }))
    }

    /// The number of the configuration that runs.
    fn number(&self) -> Option<u64> {
        lock(&self.shared.board).standing.number
    }

    /// Why another configuration is refused now, whatever it is: one waits to be confirmed.
    fn is_free(&self) -> Result<(), String> {
        let Some(before) = &self.before else { return Ok(()) };
        let left = before.deadline.saturating_duration_since(Instant::now()).as_secs();
        let (name, number) = (&self.parts.file.name, self.number().unwrap_or(0));
        Err(format!(
            "the configuration of {} waits to be confirmed, for {left} s more: anode node confirm {name} {number}, or \
             anode node rollback {name}",
            before.who
        ))
    }

    /// All that can fail, with nothing changed.
    fn prepared(&self, looked: &Looked, partly: bool) -> Result<Ready, String> {
        let Looked { kept, keys, after, changes, .. } = looked;
        refuse_restart(&after.name, changes, partly)?;
        let target =
            difference::without_restart(&self.parts.file, after, changes).map_err(|error| error.to_string())?;
        let left: Vec<Change> = changes.iter().filter(|change| change.part.is_some()).cloned().collect();
        if left.is_empty() {
            return Ok(None);
        }
        let reach = Reach::of(kept.number, partly, &left)?;
        let prepared = Prepared::of(&self.parts, &target, &left, keys, true)?;
        Ok(Some((target, left, prepared, reach)))
    }

    /// What would change, and why it would be refused, if that is asked too; `returns`: it is the way back from what nobody has confirmed.
    fn show(&mut self, wanted: &Wanted, manner: Manner, returns: bool) -> Answer {
        let looked = self.look(wanted)?;
        let free = || if returns { Ok(()) } else { self.is_free() };
        let refused = || free().and_then(|()| self.prepared(&looked, manner.partly).map(drop)).err();
        let refused = if manner.rehearse { refused() } else { None };
        let told = self.told(&looked.changes, manner, (false, self.number()));
        self.looked = Some(looked);
        Ok(Done::Differs(Difference { refused, ..told }))
    }

    fn told(&self, changes: &[Change], manner: Manner, (applied, number): (bool, Option<u64>)) -> Difference {
        let changes = changes.iter().map(Change::told).collect();
        let confirm_within_ms = manner.within.map(|within| within.as_millis() as u64);
        Difference { applied, changes, confirm_within_ms, number, refused: None }
    }

    fn apply(&mut self, wanted: Wanted, who: &str, manner: Manner) -> Answer {
        self.is_free()?;
        if let Some(base) = manner.base.filter(|base| *base != self.number()) {
            let words = |number: Option<u64>| number.map_or("that it was started with".into(), |it| it.to_string());
            let (runs, looked) = (words(self.number()), words(base));
            return Err(format!(
                "the node has configuration {runs} by now, and you have looked at the difference to {looked}: look again"
            ));
        }
        let looked = self.look(&wanted)?;
        let Looked { kept, changes, .. } = &looked;
        let Some((target, left, prepared, _reach)) = self.prepared(&looked, manner.partly)? else {
            return Ok(Done::Differs(self.told(changes, manner, (false, self.number()))));
        };
        broker::ask(&Request::Hold { number: kept.number, partly: manner.partly }, &[])
            .map_err(|error| error.to_string())?;
        let (before, guard) = (self.number(), self.parts.guard.clone());
        let running = core::mem::replace(&mut self.parts.file, target);
        let standing = lock(&self.shared.board).standing.clone();
        let before = Before { file: running, guard, number: before, deadline: Instant::now(), who: who.to_owned() };
        let deadline = self.stands(kept, manner.within);
        if let Some(refused) = prepared.carry_out(&mut self.parts)? {
            return Err(self.take_back(before, standing, refused));
        }
        if let Some(deadline) = deadline {
            self.before = Some(Before { deadline, ..before });
        }
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
        Ok(Done::Differs(self.told(changes, manner, (true, Some(kept.number)))))
    }

    /// The configuration that runs, for reports: the text that was given, or what of it was applied.
    fn in_force(&self, given: &str, partly: bool) -> String {
        let applied = || toml::to_string(&self.parts.file).ok();
        partly.then(applied).flatten().unwrap_or_else(|| given.to_owned())
    }

    /// This is what runs from now on, and to be confirmed within that time, if it is to be.
    fn stands(&mut self, kept: &Kept, within: Option<Duration>) -> Option<Instant> {
        let mut board = lock(&self.shared.board);
        board.standing = Standing {
            number: Some(kept.number),
            who: Some(kept.who.clone()),
            applied: board.standing.applied + 1,
            ..board.standing.clone()
        };
        let deadline = within.map(|within| Instant::now() + within);
        board.deadline = deadline.or(board.deadline);
        deadline
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
fn refuse_restart(name: &str, changes: &[Change], partly: bool) -> Result<(), String> {
    let restart = changes.iter().filter(|change| change.part.is_none());
    let said = |change: &Change| change.why.map_or(change.to_string(), |why| format!("{change} ({why})"));
    let restart: Vec<String> = restart.map(said).collect();
    if partly || restart.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these changes need a restart (anode node down {name} --keep-kernel, then anode node run FILE), and so nothing is \
         changed; --partly applies the rest: {}",
        restart.join("; ")
    ))
}
