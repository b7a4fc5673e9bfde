//! Whether all is well with a node: each check has a value, the most that is still well, and words of what to do.
//!
//! Of what is counted since the start only what has come lately is of interest: since the look before the last minute.

use crate::manage::control::Handle;
use crate::manage::follow::Follows;
use crate::manage::management::EnvironmentStatus;
use crate::manage::worker::Order;
use model::health::{Check, Health, State};
use model::status::{Followed, Status};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Milliseconds in which workers and loader answer that are well, and for which a worker may have been kept from its work.
const ANSWER_MS: u64 = 1000;
const GAP_MS: u64 = 100;

/// Milliseconds for which changed routes may be unread: a million take some seconds, and are not read all the time.
const BEHIND_MS: u64 = 20_000;

/// Drops that say that something is full.
const FULL: [&str; 8] = [
    "missed",
    "queue-full",
    "path-full",
    "channel-queue-full",
    "application-full",
    "process-full",
    "local-full",
    "hand-over",
];

/// A look is of interest to others a minute later.
const AGE: Duration = Duration::from_secs(60);
const LOOKS_MAX: usize = 64;

/// What was counted at looks before.
#[derive(Debug, Default)]
pub struct Looks(Mutex<VecDeque<(Instant, u64)>>);

impl Looks {
    /// How much a counter has grown since the last look that is a minute old; since the first one if none is. Of the first: nothing.
    fn since(&self, now: Instant, count: u64) -> u64 {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while looks.len() > 1 && looks.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= AGE) {
            looks.pop_front();
        }
        let before = looks.front().map_or(count, |(_, before)| *before);
        if looks.len() < LOOKS_MAX {
            looks.push_back((now, count));
        }
        count.saturating_sub(before)
    }
}

fn check(name: &str, value: u64, most: u64, said: String) -> Check {
    let state = if value > most { State::Degraded } else { State::Healthy };
    Check { name: name.into(), state, value, most, said }
}

/// Whether interfaces and routes are followed, and the kernel half has all of what was found.
fn of_following(follows: Follows, followed: Followed) -> [Check; 2] {
    let (behind, most) = match follows {
        Follows::Yes => (followed.behind_ms, BEHIND_MS),
        _ => (followed.behind_ms.max(1), 0),
    };
    let said = match follows {
        Follows::Stopped => {
            "interfaces and routes are not followed: the log says why; if that lasts, start the node again"
        }
        Follows::Stuck => {
            "who follows interfaces and routes comes round no more: anode node report, and start the node again"
        }
        Follows::Yes => "milliseconds for which routes have changed that are not read yet; see followed of the status",
    };
    let untold = "routes that the kernel half has not taken, and is told again; the log says why";
    [check("routes-followed", behind, most, said.into()), check("routes-untold", followed.untold, 0, untold.into())]
}

/// Ports by which no frame can pass, with those that wait for their interfaces.
fn carrier(status: &Status) -> Check {
    let down = status.ports.iter().filter(|port| port.interface.is_some_and(|it| it.carrier == Some(false)));
    let names = down.map(|port| match status.links.iter().find(|link| Some(link.port) == port.number) {
        Some(link) if link.state == "away" => format!("{} (waits for interface {})", port.name, link.interface),
        Some(link) if link.state == "held" => format!("{} (interface {} came too often)", port.name, link.interface),
        _ => port.name.clone(),
    });
    named("carrier", "ports without a carrier", &names.collect::<Vec<_>>())
}

/// Environments that do not run because they have failed.
fn environments(all: &[EnvironmentStatus]) -> Check {
    let names = all.iter().filter(|environment| environment.lies()).map(|environment| {
        let (state, times) = (environment.state.name(), environment.failures);
        format!("{} ({state}, failed {times} times)", environment.name)
    });
    named("environments", "environments that have failed and do not run", &names.collect::<Vec<_>>())
}

/// A check that counts what has names; there is to be nothing.
fn named(name: &str, what: &str, names: &[String]) -> Check {
    let said = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    check(name, names.len() as u64, 0, format!("{what}{said}"))
}

impl Handle {
    /// How long the slowest worker takes to come round; nothing: longer than this.
    pub fn comes_round(&self, within: Duration) -> Result<Option<Duration>, String> {
        let begun = Instant::now();
        let (answer, first) = channel();
        let say = || {
            let answer = answer.clone();
            // Whoever asked may have gone away meanwhile.
            Order::Do(Box::new(move |_, _| answer.send(()).unwrap_or_default()))
        };
        self.order(say())?;
        self.others.ways.iter().for_each(|way| way.order(say()));
        for _ in 0..=self.others.ways.len() {
            if first.recv_timeout(within.saturating_sub(begun.elapsed())).is_err() {
                return Ok(None);
            }
        }
        Ok(Some(begun.elapsed()))
    }

    /// Looks at all that may be wrong with the node.
    pub fn health(&self) -> Result<Health, String> {
        let ms = |time: Duration| time.as_millis() as u64;
        let answer = self.comes_round(PATIENCE)?;
        let mut checks = vec![check(
            "worker-answers",
            ms(answer.unwrap_or(PATIENCE)),
            ANSWER_MS,
            "milliseconds until all workers have come round; one that does not is stuck: anode node report".into(),
        )];
        let begun = Instant::now();
        let loader = self.shelf.status_within(PATIENCE);
        checks.push(check(
            "loader-answers",
            ms(begun.elapsed()),
            if loader.is_ok() { ANSWER_MS } else { 0 },
            "milliseconds until the loader has answered; one that does not waits for the disk, or is stuck".into(),
        ));
        let reports = self.cpu.iter().chain(&self.others.reports);
        let gap = reports.map(|report| report.recent_gap_us()).max().unwrap_or(0) / 1000;
        checks.push(check(
            "worker-gap",
            gap,
            GAP_MS,
            "milliseconds for which a worker had work and did not run, in the last minutes; give it a CPU: [cpu]"
                .into(),
        ));
        let name = if answer.is_some() && loader.is_ok() {
            let status = self.status()?;
            self.look_at(&status, &mut checks);
            status.node
        } else {
            self.watching.as_ref().map(|watching| watching.node().to_owned()).unwrap_or_default()
        };
        let state = checks.iter().map(|check| check.state).max().unwrap_or(State::Healthy);
        Ok(Health { node: name, state, checks, not_reachable: None })
    }

    fn look_at(&self, status: &Status, checks: &mut Vec<Check>) {
        let drops = FULL.iter().filter_map(|reason| status.drops.drops.get(*reason)).sum();
        let full = self.observed.looks.since(Instant::now(), drops);
        checks.push(check(
            "queues-full",
            full,
            0,
            "packets dropped lately since a queue was full; anode node status says which, docs/drops.md what to do"
                .into(),
        ));
        checks.push(carrier(status));
        checks.push(environments(&self.management().map(|management| management.status()).unwrap_or_default()));
        let waiting = self.with_node(|node, _| node.waiting_graphs()).unwrap_or_default();
        let waiting: Vec<_> = waiting.into_iter().map(|(name, said)| format!("{name} {said}")).collect();
        checks.push(named("graphs", "graphs that do not run as they are configured", &waiting));
        let before = self.kernel_half().map(|half| half.interfaces()).unwrap_or_default();
        let doing = if before.is_empty() { Ok(HashMap::new()) } else { crate::sys::netlink::doing() };
        // Where the system does not say, nothing is known to be lost.
        let stands = |name: &String| doing.as_ref().map_or(true, |all| all.get(name).is_some_and(|doing| doing.xdp));
        let lost = before.iter().filter(|name| !stands(name)).count() as u64;
        checks.push(check(
            "kernel-half",
            lost,
            0,
            "ports before which the kernel half does not stand any more: somebody has taken it away; start the node again".into(),
        ));
        let follows = self.links.as_ref().map_or(Follows::Yes, |links| links.are_followed(PATIENCE));
        checks.extend(of_following(follows, status.followed.unwrap_or_default()));
        checks.push(check(
            "unaccounted",
            status.unaccounted,
            0,
            "frames that no counter knows of: a bug, please report it with anode node report".into(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::reason::Reason;

    #[test]
    fn what_is_full_is_told_by_names_of_reasons() {
        let names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert!(FULL.iter().all(|name| names.contains(name)), "{names:?}");
    }

    #[test]
    fn who_follows_routes_no_more_or_late_or_in_one_half_is_degraded() {
        let states = |follows, behind_ms, untold| {
            of_following(follows, Followed { behind_ms, untold, ..Followed::default() }).map(|check| check.state)
        };
        use State::{Degraded, Healthy};
        assert_eq!(states(Follows::Yes, BEHIND_MS, 0), [Healthy, Healthy]);
        assert_eq!(states(Follows::Yes, BEHIND_MS + 1, 0), [Degraded, Healthy]);
        assert_eq!(states(Follows::Yes, 0, 1), [Healthy, Degraded]);
        for follows in [Follows::Stopped, Follows::Stuck] {
            assert_eq!(states(follows, 0, 0), [Degraded, Healthy], "however little it is behind");
        }
    }

    #[test]
    fn what_is_more_than_a_minute_old_is_forgotten_once_there_is_a_later_look() {
        let (looks, begun) = (Looks::default(), Instant::now());
        let at = |seconds: u64, count| looks.since(begun + Duration::from_secs(seconds), count);
        assert_eq!(at(0, 7), 0, "there was none before");
        assert_eq!((at(1, 7), at(30, 9)), (0, 2));
        assert_eq!(at(61, 9), 2, "since the look at 1 s");
        assert_eq!(at(95, 9), 0, "since the look at 30 s");
        for second in 96..1000 {
            at(second, 9);
        }
        assert!(looks.0.lock().unwrap().len() <= LOOKS_MAX);
    }
}
