//! Whose turn it is: what waits for the threads of a crew, its own and that of its a-flows.
//!
//! An a-flow (Bowman, Merugu et al., INFOCOM 2000) is a domain without threads of its own: those of the domain above it
//! run its functions, at most so many at the same time as it says. So 100,000 of them need no more threads than one,
//! and one that has nothing to do is a few hundred bytes in a table. What comes for it waits in its own queue; an a-flow
//! that has something, and may have one thread more, stands once in its crew's line. Who is taken from the line and has
//! more to do goes to its end: a-flows take turns, whatever each has.

use super::{Argument, Crew, Job, ProcessDomain, State};
use crate::error::Error;
use std::collections::VecDeque;
use std::sync::Arc;

/// What makes a domain an a-flow.
pub struct Flow {
    /// The domain whose threads run its functions.
    pub workers: u32,
    /// The program's, handed back and never followed.
    pub state: Argument,
    /// Timers that may wait at the same time; 0: as many as its role grants.
    pub timers_max: u32,
    /// The milliseconds at whose multiples of the node's clock they come; 0: at any time.
    pub timer_ms: u32,
    /// Whether nothing is below it: it is an a-flow, and no domain whose functions a module's one thread runs.
    pub leaf: bool,
}

impl Flow {
    /// The delay after which a timer comes that is asked for `now`, in nanoseconds: not earlier than so many milliseconds.
    pub fn delay_ms(&self, now: u64, delay_ms: u64) -> u64 {
        let now_ms = now / 1_000_000;
        match u64::from(self.timer_ms) {
            0 => delay_ms,
            step => (now_ms + delay_ms).div_ceil(step) * step - now_ms,
        }
    }
}

/// The part of a crew that its a-flows need.
#[derive(Default)]
pub(super) struct Line {
    /// A-flows that have something to do, and may have a thread more.
    ready: VecDeque<u32>,
    /// A-flows of this crew: so many have room in the line.
    flows: usize,
}

impl Crew {
    pub(super) fn of(domain: &Arc<ProcessDomain>) -> Crew {
        Crew {
            domain: domain.clone(),
            jobs: VecDeque::new(),
            threads: 0,
            waiting: 0,
            listed: false,
            line: Line::default(),
            running: 0,
            offered: false,
            channels: Vec::new(),
            timers: 0,
        }
    }

    /// The domain whose threads run this one's functions.
    fn workers(&self) -> u32 {
        self.domain.workers()
    }

    /// Whether one more of its timers may wait.
    pub(super) fn has_timer(&self) -> bool {
        let most = self.domain.flow.as_ref().map_or(0, |flow| flow.timers_max);
        most == 0 || self.timers < most
    }
}

impl State {
    /// The next thing to do for a crew, as far as its channels and the bounds of its a-flows allow, and for which domain.
    pub(super) fn next(&mut self, domain: u32) -> Option<(u32, Job)> {
        if let Some(job) = self.next_of(domain) {
            return Some((domain, job));
        }
        loop {
            let flow = self.crews.get_mut(&domain)?.line.ready.pop_front()?;
            let Some(crew) = self.crews.get_mut(&flow) else { continue };
            crew.offered = false;
            // If all wait for other bounds, it is offered again when one of its functions returns.
            if let Some(job) = self.next_of(flow) {
                self.crews.get_mut(&flow)?.running += 1;
                // Whoever comes for the next one may sleep: the caller is busy now.
                self.offer(flow, None);
                return Some((flow, job));
            }
        }
    }

    fn next_of(&mut self, domain: u32) -> Option<Job> {
        let crew = self.crews.get_mut(&domain)?;
        let channels = &mut self.channels;
        let at = crew.jobs.iter().position(|job| match job {
            Job::Packet(channel, ..) => match channels.get_mut(&channel.name) {
                Some((channel, running)) if *running >= channel.threads => false,
                Some((_, running)) => {
                    *running += 1;
                    true
                }
                None => true,
            },
            _ => true,
        })?;
        crew.jobs.remove(at)
    }

    /// Gives a job to the crew of a domain, and wakes somebody who waits to do it, unless the caller is of it and looks himself.
    pub(super) fn give(&mut self, domain: u32, job: Job, own: Option<u32>) -> Result<(), Job> {
        let Some(crew) = self.crews.get_mut(&domain) else { return Err(job) };
        if crew.jobs.try_reserve(1).is_err() {
            return Err(job);
        }
        crew.jobs.push_back(job);
        match crew.domain.flow {
            Some(_) => self.offer(domain, own),
            None => self.ring(domain, own),
        }
        Ok(())
    }

    /// Wakes somebody of a crew who waits.
    fn ring(&self, domain: u32, own: Option<u32>) {
        if let Some(crew) = self.crews.get(&domain)
            && own != Some(domain)
            && crew.waiting > 0
        {
            crew.domain.bell.notify_one();
        }
    }

    /// Puts an a-flow into the line of its crew, if it has something to do and may have a thread more.
    fn offer(&mut self, flow: u32, own: Option<u32>) {
        let Some(crew) = self.crews.get_mut(&flow) else { return };
        if crew.offered || crew.jobs.is_empty() || crew.running >= usize::from(crew.domain.threads) {
            return;
        }
        let workers = crew.workers();
        crew.offered = true;
        if let Some(crew) = self.crews.get_mut(&workers) {
            crew.line.ready.push_back(flow);
        }
        self.ring(workers, own);
    }

    /// A function has returned that a thread of `crew` ran for a domain.
    pub(super) fn returned(&mut self, domain: u32, crew: u32) {
        if domain != crew
            && let Some(flow) = self.crews.get_mut(&domain)
        {
            flow.running -= 1;
            self.offer(domain, Some(crew));
        }
    }

    /// The domain whose threads run a domain's functions, and whether one of them waits for something to do: more wait than
    /// there is to be done, since who was woken may not have looked yet.
    pub(super) fn workers_of(&self, domain: u32) -> Option<(Arc<ProcessDomain>, bool)> {
        let crew = self.crews.get(&self.crews.get(&domain)?.workers())?;
        Some((crew.domain.clone(), crew.waiting > crew.jobs.len() + crew.line.ready.len()))
    }

    /// An a-flow begins: it has room in the line of its crew.
    pub(super) fn hire(&mut self, domain: &ProcessDomain) -> Result<(), Error> {
        let Some(flow) = &domain.flow else { return Ok(()) };
        let line = &mut self.crews.get_mut(&flow.workers).ok_or(Error::Stale)?.line;
        line.ready.try_reserve(line.flows + 1 - line.ready.len()).map_err(|_| Error::Memory)?;
        line.flows += 1;
        Ok(())
    }

    /// It has ended.
    pub(super) fn dismiss(&mut self, ended: &Crew) {
        let Some(flow) = &ended.domain.flow else { return };
        let Some(crew) = self.crews.get_mut(&flow.workers) else { return };
        crew.line.flows -= 1;
        if ended.offered {
            crew.line.ready.retain(|other| *other != ended.domain.name);
        }
    }

    /// A domain and all below it. Below an a-flow there is none.
    pub(super) fn within(&self, top: u32) -> Vec<u32> {
        let mut within = vec![top];
        if self.crews.get(&top).is_some_and(|crew| crew.domain.is_leaf()) {
            return within;
        }
        let mut below: crate::numbers::Numbers<u32, Vec<u32>> = Default::default();
        for crew in self.crews.values() {
            if let Some(parent) = crew.domain.parent {
                below.entry(parent).or_default().push(crew.domain.name);
            }
        }
        let mut at = 0;
        while let Some(name) = within.get(at) {
            within.extend(below.remove(name).into_iter().flatten());
            at += 1;
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_at_multiples_of_their_resolution_and_never_earlier() {
        let flow = |timer_ms| Flow { workers: 1, state: Argument(0), timers_max: 0, timer_ms, leaf: true };
        // Resolution, the clock's milliseconds, what is asked for, what it becomes.
        let cases = [
            (0, 12_345, 7, 7),
            (1, 12_345, 7, 7),
            (100, 12_345, 0, 55),
            (100, 12_345, 55, 55),
            (100, 12_345, 56, 155),
            (1000, 12_000, 0, 0),
            (1000, 12_000, 1, 1000),
        ];
        for (step, now_ms, asked, becomes) in cases {
            let got = flow(step).delay_ms(now_ms * 1_000_000 + 999_999, asked);
            assert_eq!(got, becomes, "{step} {now_ms} {asked}");
        }
    }
}
