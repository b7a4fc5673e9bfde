//! What operators do with environments while the node runs: other ones by a configuration, and starts and stops by name.
//!
//! One that is to end is asked first, as at the end of the node, and killed if it takes too long. Until it has ended its
//! place is its own, so an environment never runs twice.

use super::super::{Act, Environment, EnvironmentStatus};
use super::{BACK_OFF, GRACE, Place, State, Supervisor, Then};
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::time::Instant;

impl Supervisor {
    /// These are the environments from now on: those of these names have changed, or are new, or are gone.
    pub(super) fn renew(&mut self, all: Vec<Environment>, changed: &BTreeSet<String>) {
        for at in 0..self.places.len() {
            let place = &self.places[at];
            if !place.gone && !all.iter().any(|environment| environment.name == place.environment.name) {
                self.end(at, Then::Go);
            }
        }
        for environment in all {
            let known = |place: &Place| !place.gone && place.environment.name == environment.name;
            match self.places.iter().position(known) {
                Some(at) => {
                    let is_changed = changed.contains(&environment.name);
                    let place = &mut self.places[at];
                    place.status.role.clone_from(&environment.role);
                    place.environment = environment;
                    let stays = matches!(place.status.state, State::Stopped) && place.ending.is_none();
                    if is_changed && !stays {
                        self.end(at, Then::Start);
                    }
                }
                None => self.enter(environment),
            }
        }
    }

    /// A new environment gets a place, that of one that has gone if there is one.
    fn enter(&mut self, environment: Environment) {
        tracing::info!(environment = environment.name, "environment is new");
        let free = self.places.iter_mut().find(|place| place.gone && place.running.is_none());
        let place = Place::new(environment);
        match free {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
    }

    /// An operator does something with one.
    pub(super) fn act(&mut self, name: &str, act: Act, reply: Sender<Result<EnvironmentStatus, String>>) {
        let known = |place: &Place| !place.gone && place.environment.name == name;
        let Some(at) = self.places.iter().position(known) else {
            let all: Vec<_> = self.places.iter().filter(|place| !place.gone).map(|place| &place.status.name).collect();
            let all = all.into_iter().cloned().collect::<Vec<_>>().join(", ");
            let why =
                format!("there is no environment {name}; there are: {}", if all.is_empty() { "none" } else { &all });
            return drop(reply.send(Err(why)));
        };
        let place = &mut self.places[at];
        let (runs, ends) = (place.running.is_some(), place.ending.is_some());
        let refused = match act {
            Act::Start if ends => Some("is ending; start it when it has"),
            Act::Start if runs => Some("runs already"),
            Act::Stop if !runs && place.due.is_none() => Some("does not run"),
            _ => None,
        };
        if let Some(why) = refused {
            return drop(reply.send(Err(format!("{name} {why}"))));
        }
        tracing::info!(environment = name, ?act, "an operator acts on an environment");
        place.asked.push(reply);
        match act {
            Act::Stop => self.end(at, Then::Stay),
            Act::Start | Act::Restart => self.end(at, Then::Start),
        }
    }

    /// Ends one if it runs, and does then what is to be done.
    fn end(&mut self, at: usize, then: Then) {
        let place = &mut self.places[at];
        place.due = None;
        let Some(running) = &mut place.running else { return self.ended_as_asked(at, then, "it did not run".into()) };
        let late = place.ending.map_or_else(|| Instant::now() + GRACE, |(_, late)| late);
        // Who wants it gone is not overruled by whoever wanted it anew.
        let then = if place.ending.is_some_and(|(before, _)| before == Then::Go) { Then::Go } else { then };
        place.ending = Some((then, late));
        running.being.ask();
        if running.being.pid().is_none() {
            // An object sees that its domain has ended.
            self.domains.end(running.domain);
        }
    }

    /// One has ended that was asked to.
    pub(super) fn ended_as_asked(&mut self, at: usize, then: Then, how: String) {
        let place = &mut self.places[at];
        place.back_off = BACK_OFF;
        place.status.ended = Some(how);
        match then {
            Then::Start => {
                place.status.state = State::Waiting;
                place.due = Some(Instant::now());
            }
            Then::Stay => {
                place.status.state = State::Stopped;
                tracing::info!(environment = place.environment.name, "environment is stopped");
                self.tell_asked(at);
            }
            Then::Go => {
                tracing::info!(environment = place.environment.name, "environment is gone");
                self.tell_asked(at);
                self.places[at].gone = true;
            }
        }
    }

    /// Tells those who wait how one stands.
    pub(super) fn tell_asked(&mut self, at: usize) {
        self.publish();
        let place = &mut self.places[at];
        // Whoever asked may have gone away meanwhile.
        place.asked.drain(..).for_each(|reply| drop(reply.send(Ok(place.status.clone()))));
    }

    /// Kills those that were asked to end and take too long.
    pub(super) fn kill_late(&mut self) {
        let now = Instant::now();
        for place in &mut self.places {
            if let (Some((_, late)), Some(running)) = (&mut place.ending, &place.running)
                && *late <= now
            {
                running.being.kill();
                *late = now + GRACE;
            }
        }
    }
}
