//! The supervisor's thread: starts environments, reads their output, and sees them end.

mod orders;

use super::being::{Being, End};
use super::lines::Lines;
use super::{Act, Board, Domains, Environment, EnvironmentStatus, Restart};
use crate::clean::shown;
use crate::core::domain::DomainId;
use crate::log::COUNTED;
use crate::node::EndedBy;
use crate::sys::jail::Starter;
use crate::sys::poll::{Poll, Ready, Waker};
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// The pause before a process that has failed is started again, at first and at most.
pub const BACK_OFF: Duration = Duration::from_millis(100);
/// See `BACK_OFF`.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A process that has lived so long has not failed soon.
const LIVED: Duration = Duration::from_secs(60);

/// How often it is looked whether the domains of processes are still there.
const LOOK: Duration = Duration::from_millis(200);

/// How long processes have, when the node goes down, from being asked to end to being killed.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of one line in the log.
const LINE_BYTES_MAX: usize = 1024;

/// Token of the waker; those of environments are twice their number and one more.
const WAKER: u64 = u64::MAX - 1;

/// What an environment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its process lives.
    Running,
    /// It will be started again.
    Waiting,
    /// It has ended and is not started again.
    Ended,
    /// Somebody has ended its domain; it is not started again.
    Killed,
    /// An operator has stopped it: it runs again when one starts it.
    Stopped,
}

/// What the supervisor is told.
pub(super) enum Order {
    /// These domains have been ended on purpose.
    Ended(Vec<DomainId>),
    /// These are the environments, of which those of these names have changed.
    Renew(Vec<Environment>, BTreeSet<String>),
    /// An operator starts, stops or restarts one, and is told how it stands then.
    Act(String, Act, Sender<Result<EnvironmentStatus, String>>),
    /// End all.
    Stop,
}

/// What becomes of an environment when it has ended because it was asked to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is started again.
    Start,
    /// It is not.
    Stay,
    /// It is none of this node's any more.
    Go,
}

/// A process or an object that lives.
struct Running {
    being: Being,
    watch: OwnedFd,
    said: Option<File>,
    line: Vec<u8>,
    /// It has said too much: nothing is heard until the next look, and the pipe makes it wait.
    hushed: bool,
    domain: DomainId,
    since: Instant,
    /// Somebody has ended its domain on purpose.
    unwanted: bool,
}

struct Place {
    environment: Environment,
    running: Option<Running>,
    /// When it is started.
    due: Option<Instant>,
    back_off: Duration,
    lines: Lines,
    status: EnvironmentStatus,
    /// It was asked to end: what then, and when it is killed.
    ending: Option<(Then, Instant)>,
    /// Who waits for how it stands.
    asked: Vec<Sender<Result<EnvironmentStatus, String>>>,
    /// Whether it is none of the node's any more: the place is free.
    gone: bool,
}

/// The thread's own.
pub(super) struct Supervisor {
    places: Vec<Place>,
    starter: Option<Starter>,
    domains: Box<dyn Domains>,
    inbox: Receiver<Order>,
    waker: Waker,
    board: Board,
    poll: Poll,
    began: Instant,
}

impl State {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Ended => "ended",
            State::Killed => "killed",
            State::Stopped => "stopped",
        }
    }
}

impl Place {
    fn new(environment: Environment) -> Place {
        let status = EnvironmentStatus {
            name: environment.name.clone(),
            role: environment.role.clone(),
            state: State::Waiting,
            pid: None,
            domain: None,
            starts: 0,
            failures: 0,
            ended: None,
            weaker: Vec::new(),
            failed: false,
        };
        let lines = Lines::new();
        Place {
            environment,
            running: None,
            due: Some(Instant::now()),
            back_off: BACK_OFF,
            lines,
            status,
            ending: None,
            asked: Vec::new(),
            gone: false,
        }
    }

    /// Takes what the process has said so far to the log; false when it says nothing any more.
    fn hear(&mut self, now: u64) -> bool {
        let Some(running) = &mut self.running else { return false };
        let Some(said) = &mut running.said else { return false };
        let mut part = [0; 4096];
        let count = match said.read(&mut part) {
            Ok(0) | Err(_) => return false,
            Ok(count) => count,
        };
        for byte in &part[..count] {
            if *byte != b'\n' {
                if running.line.len() < LINE_BYTES_MAX {
                    running.line.push(*byte);
                }
                continue;
            }
            if let Some(count) = self.lines.left_out(now) {
                say_left_out(&self.environment.name, count);
            }
            if self.lines.take(now) {
                tracing::info!(target: COUNTED, environment = self.environment.name, "{}", shown(&running.line));
            } else {
                running.hushed = true;
            }
            running.line.clear();
        }
        true
    }
}

fn say_left_out(environment: &str, lines: u64) {
    tracing::warn!(environment, lines, "it has said more lines than the log takes: these were left out");
}

impl Supervisor {
    pub fn new(
        environments: Vec<Environment>,
        starter: Option<Starter>,
        domains: Box<dyn Domains>,
        inbox: Receiver<Order>,
        waker: Waker,
        board: Board,
    ) -> io::Result<Supervisor> {
        let poll = Poll::new()?;
        poll.add(&waker, WAKER)?;
        let places: Vec<_> = environments.into_iter().map(Place::new).collect();
        let supervisor = Supervisor { places, starter, domains, inbox, waker, board, poll, began: Instant::now() };
        supervisor.publish();
        Ok(supervisor)
    }

    pub fn run(mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        let mut look = Instant::now();
        loop {
            if self.take_orders() {
                return self.end_all();
            }
            for at in 0..self.places.len() {
                if self.places[at].due.is_some_and(|due| due <= Instant::now()) {
                    self.start(at);
                }
            }
            self.kill_late();
            if look.elapsed() >= LOOK {
                self.look();
                self.listen();
                look = Instant::now();
            }
            self.publish();
            let wait = u64::try_from(self.pause(look).as_nanos()).unwrap_or(u64::MAX);
            if let Err(error) = self.poll.wait(wait, &mut ready) {
                tracing::error!(%error, "environments are not watched any more");
                return self.end_all();
            }
            // Whoever ends a domain on purpose has said so before its process can have ended.
            if self.take_orders() {
                return self.end_all();
            }
            for event in &ready {
                match event.token {
                    WAKER => self.waker.rest(),
                    token => self.attend((token / 2) as usize, token % 2 == 1),
                }
            }
        }
    }

    /// How long nothing is to be done.
    fn pause(&self, look: Instant) -> Duration {
        let now = Instant::now();
        let late = |place: &Place| place.ending.map(|(_, late)| late);
        let due = self.places.iter().flat_map(|place| place.due.into_iter().chain(late(place))).min();
        let living = self.places.iter().any(|place| place.running.is_some()) || self.domains.with_files().is_some();
        let next = due.into_iter().chain(living.then_some(look + LOOK)).min();
        next.map_or(Duration::from_secs(3600), |next| next.saturating_duration_since(now))
    }

    fn publish(&self) {
        let all = self.places.iter().filter(|place| !place.gone).map(|place| place.status.clone()).collect();
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// True if that is to stop.
    fn take_orders(&mut self) -> bool {
        while let Ok(order) = self.inbox.try_recv() {
            match order {
                Order::Ended(domains) => {
                    for running in self.places.iter_mut().filter_map(|place| place.running.as_mut()) {
                        if domains.contains(&running.domain) {
                            running.unwanted = true;
                            running.being.kill();
                        }
                    }
                }
                Order::Renew(all, changed) => self.renew(all, &changed),
                Order::Act(name, act, reply) => self.act(&name, act, reply),
                Order::Stop => return true,
            }
        }
        false
    }

    fn start(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.due = None;
        let Environment { name, role, worker, .. } = &place.environment;
        let domain = match self.domains.create(name, role, *worker) {
            Ok(domain) => domain,
            Err(why) => {
                self.failed(at, format!("no domain: {why}"), false);
                return self.tell_asked(at);
            }
        };
        place.status.starts += 1;
        let started = Being::start(&place.environment, domain, &*self.domains, self.starter.as_ref());
        let started = started.and_then(|being| self.watch(at, being, domain));
        match started {
            Ok(running) => {
                let place = &mut self.places[at];
                let (pid, weaker) = (running.being.pid(), running.being.weaker());
                tracing::info!(event = "session", environment = place.environment.name, pid, "environment runs");
                let status = &mut place.status;
                if status.weaker != weaker {
                    status.weaker = weaker.to_vec();
                    let lacks: Vec<_> = weaker.iter().map(|part| part.lack()).collect();
                    tracing::warn!(
                        environment = place.environment.name,
                        "its jail is weaker here: {}",
                        lacks.join("; ")
                    );
                }
                (status.state, status.pid, status.domain) = (State::Running, pid, Some(domain.0));
                place.running = Some(running);
            }
            Err(error) => {
                self.domains.end(domain);
                let (program, error) = (self.places[at].environment.program.to_string(), error.to_string());
                // Some say themselves which program they mean.
                let said = if error.starts_with(&program) { error } else { format!("{program}: {error}") };
                self.failed(at, format!("cannot start {said}"), false);
            }
        }
        self.tell_asked(at);
    }

    fn watch(&self, at: usize, mut being: Being, domain: DomainId) -> io::Result<Running> {
        let said = being.take_said();
        let token = 2 * at as u64;
        let watched = being.watch().and_then(|watch| {
            self.poll.add(&watch, token)?;
            said.iter().try_for_each(|said| self.poll.add(said, token + 1))?;
            Ok(watch)
        });
        match watched {
            Ok(watch) => {
                let since = Instant::now();
                Ok(Running { being, watch, said, line: Vec::new(), hushed: false, domain, since, unwanted: false })
            }
            Err(error) => {
                being.kill();
                being.end();
                Err(error)
            }
        }
    }

    /// A process has said something, or has ended.
    fn attend(&mut self, at: usize, said: bool) {
        let now = self.began.elapsed().as_nanos() as u64;
        let Some(place) = self.places.get_mut(at) else { return };
        if said {
            let goes_on = place.hear(now);
            let Some(running) = &mut place.running else { return };
            if let Some(said) = running.said.as_ref().filter(|_| !goes_on || running.hushed) {
                // It is in the set as long as it is heard.
                let _ = self.poll.remove(said);
            }
            if !goes_on {
                running.said = None;
            }
            return;
        }
        let Some(mut running) = place.running.take() else { return };
        let ended = running.being.end();
        let _ = self.poll.remove(&running.watch);
        if let Some(said) = running.said.as_ref().filter(|_| !running.hushed) {
            let _ = self.poll.remove(said);
        }
        (place.status.pid, place.status.domain) = (None, None);
        if running.since.elapsed() >= LIVED {
            place.back_off = BACK_OFF;
        }
        let felled = self.domains.felled_by(running.domain);
        // It may have heard of its end before this thread has.
        running.unwanted |= felled == Some(EndedBy::Operator);
        self.domains.end(running.domain);
        let End { mut done, mut how } = ended.unwrap_or_else(|| End { done: false, how: "unknown".into() });
        if felled == Some(EndedBy::Node) {
            // Whatever it says of itself: it did not end because all was well.
            (done, how) = (false, format!("{how}, after the node had ended its domain"));
        }
        if let Some((then, _)) = self.places[at].ending.take() {
            self.ended_as_asked(at, then, how);
        } else if running.unwanted {
            let status = &mut self.places[at].status;
            (status.state, status.ended) = (State::Killed, Some("its domain was ended".into()));
            tracing::info!(event = "session", environment = status.name, "environment ended with its domain");
        } else {
            self.failed(at, how, done);
        }
    }

    /// An environment has ended, well (`done`) or not: it is started again as its configuration says.
    fn failed(&mut self, at: usize, how: String, done: bool) {
        let place = &mut self.places[at];
        place.status.failures += u64::from(!done);
        place.status.failed = !done;
        let again = match place.environment.restart {
            Restart::Always => true,
            Restart::OnFailure => !done,
            Restart::Never => false,
        };
        place.status.state = if again { State::Waiting } else { State::Ended };
        if again {
            place.due = Some(Instant::now() + place.back_off);
            place.back_off = (place.back_off * 2).min(BACK_OFF_MAX);
        }
        tracing::warn!(event = "session", environment = place.environment.name, how, again, "environment has ended");
        place.status.ended = Some(how);
    }

    /// Hears those again that have said too much.
    fn listen(&mut self) {
        let now = self.began.elapsed().as_nanos() as u64;
        for (at, place) in self.places.iter_mut().enumerate() {
            if let Some(count) = place.lines.left_out(now) {
                say_left_out(&place.environment.name, count);
            }
            let Some(running) = place.running.as_mut().filter(|running| running.hushed) else { continue };
            running.hushed = false;
            let heard = running.said.as_ref().map_or(Ok(()), |said| self.poll.add(said, 2 * at as u64 + 1));
            if let Err(error) = heard {
                tracing::warn!(environment = place.environment.name, %error, "what it says is not heard any more");
                running.said = None;
            }
        }
    }

    /// Ends what domains have left that the node has ended: their processes, and their open files.
    fn look(&self) {
        let running = || self.places.iter().filter_map(|place| place.running.as_ref());
        let mut all = self.domains.with_files().unwrap_or_default();
        all.extend(running().map(|running| running.domain));
        if all.is_empty() {
            return;
        }
        let asked = all.clone();
        let Some(living) = self.domains.living(all) else { return };
        let living: HashSet<_> = living.into_iter().collect();
        running().filter(|running| !living.contains(&running.domain)).for_each(|running| running.being.kill());
        let ended = asked.into_iter().filter(|domain| !living.contains(domain));
        ended.for_each(|domain| self.domains.without_files(domain));
    }

    /// Asks all to end, and kills those that have not soon.
    fn end_all(mut self) {
        let mut running: Vec<_> = self.places.iter_mut().map(|place| place.running.take()).collect();
        for running in running.iter_mut().flatten() {
            // What they say now nobody hears. One that cannot be asked is killed below.
            running.said = None;
            running.being.ask();
        }
        let mut living = running.iter().flatten().count();
        let end = Instant::now() + GRACE;
        let mut ready = Vec::new();
        while living > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.poll.wait(left.as_nanos() as u64, &mut ready).is_err() {
                break;
            }
            for event in ready.iter().filter(|event| event.token != WAKER) {
                if let Some(Some(running)) = running.get((event.token / 2) as usize) {
                    living -= usize::from(self.poll.remove(&running.watch).is_ok());
                }
            }
        }
        for mut running in running.into_iter().flatten() {
            running.being.kill();
            running.being.end();
            self.domains.end(running.domain);
        }
        self.places.iter_mut().for_each(|place| {
            (place.status.state, place.status.pid, place.status.domain) = (State::Ended, None, None);
        });
        self.publish();
    }
}
