//! What a worker does with the rules of all workers: it claims one for a channel, learns of others', takes them over with
//! channels, and gives them up.

use super::channels::{Channels, InChan};
use super::rules::{RuleChange, SharedRules, Taker};
use crate::classify::filter::{Filter, TaughtRule};
use crate::classify::shapes::NoPlace;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::nodeos::interface::InChanId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Channels {
    /// This is a worker of several, which have their rules in common from now on. If it was one before, what it has left is nobody's.
    pub fn share_rules(&mut self, rules: &SharedRules, worker: WorkerId) {
        (self.worker, self.shared) = (worker, Some(rules.clone()));
        let mut told = rules.told();
        told.news.get_mut(usize::from(worker)).into_iter().for_each(Vec::clear);
        let mut all: Vec<_> = told.all.values().cloned().collect();
        drop(told);
        all.sort_unstable_by_key(|(number, ..)| *number);
        for (_, rule, taker) in all {
            // They found their places in this order.
            let _ = self.place(&rule, taker);
            if taker.worker == worker {
                self.left.push((rule, taker));
            }
        }
    }

    /// Whether a domain had channels here before this worker began anew.
    pub fn has_left(&self, domain: DomainId) -> bool {
        self.left.iter().any(|(_, taker)| taker.domain == domain)
    }

    /// Rules of channels that this worker had before it began anew.
    pub fn take_left(&mut self) -> Vec<(Filter, Taker)> {
        core::mem::take(&mut self.left)
    }

    /// How rules name an incoming channel of this worker.
    pub fn taker(&self, channel: InChanId, domain: DomainId) -> Taker {
        Taker { channel, domain, worker: self.worker }
    }

    /// Learns what other workers have told, if they have told anything. Whether there are rules that have another worker now.
    #[inline]
    pub fn renew_rules(&mut self) -> bool {
        if self.shared.as_ref().is_some_and(|shared| shared.has_some(self.worker)) {
            // Nothing of its own: only what others have told.
            let _ = self.change_rules(&[]);
        }
        !(self.moved.is_empty() && self.left.is_empty())
    }

    /// A rule is a channel's of this worker, unless another channel has it.
    pub(super) fn claim(&mut self, rule: &Filter, taker: Taker) -> Result<(), NoPlace> {
        self.change_rules(&[RuleChange { rule: rule.clone(), before: None, after: Some(taker) }])
    }

    /// A rule is nobody's any more, unless it is another worker's: whether that is so.
    pub(super) fn release(&mut self, rule: &Filter, taker: Taker) -> bool {
        if self.shared.as_ref().is_some_and(|shared| !shared.told().holds(&taker)) {
            return false;
        }
        // What goes finds its place, and only who holds a rule gives it up.
        self.change_rules(&[RuleChange { rule: rule.clone(), before: Some(taker), after: None }]).is_ok()
    }

    /// Channels that a worker had are this one's from now on, under their names.
    pub(super) fn take_rules(&mut self, channels: &[(InChanId, InChan)], from: WorkerId) {
        let changes: Vec<_> = channels
            .iter()
            .map(|(id, channel)| {
                let after = self.taker(*id, channel.domain);
                let before = Some(Taker { worker: from, ..after });
                RuleChange { rule: channel.filter.clone(), before, after: Some(after) }
            })
            .collect();
        // One owner more finds the place of the one before.
        let _ = self.change_rules(&changes);
    }

    /// Rules that other workers have taken since the last time: whose they were, and whose they are.
    pub fn take_moved(&mut self) -> Vec<(Taker, Taker)> {
        core::mem::take(&mut self.moved)
    }

    /// Makes changes of rules, behind those of other workers: all of these, or none.
    fn change_rules(&mut self, changes: &[RuleChange]) -> Result<(), NoPlace> {
        let Some(shared) = self.shared.clone() else {
            return changes.iter().try_for_each(|change| self.make_change(change));
        };
        let mut told = shared.told();
        let own = usize::from(self.worker);
        if let Some(news) = told.news.get_mut(own) {
            for change in core::mem::take(news) {
                // It found a place where it was made, and so it does here: all have the same rules in the same order.
                let _ = self.make_change(&change);
                self.moved.extend(change.before.zip(change.after));
            }
        }
        if let Some(some) = shared.some.get(own) {
            some.store(false, Ordering::Release);
        }
        if changes.is_empty() {
            return Ok(());
        }
        changes.iter().try_for_each(|change| self.make_change(change))?;
        told.note(changes);
        for ((at, news), some) in told.news.iter_mut().enumerate().zip(shared.some.iter()) {
            if at != own {
                news.extend_from_slice(changes);
                some.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    fn make_change(&mut self, RuleChange { rule, before, after }: &RuleChange) -> Result<(), NoPlace> {
        match (before, after, rule) {
            (None, Some(taker), _) => self.place(rule, *taker)?,
            (Some(taker), None, Filter::Fixed(rule)) => self.demux.remove(rule, *taker),
            (Some(taker), None, Filter::Taught(_)) => self.taught.remove(taker.channel),
            (Some(before), Some(after), Filter::Fixed(rule)) => self.demux.replace(rule, *before, *after),
            (Some(before), Some(after), Filter::Taught(_)) => self.taught.replace(before.channel, *after),
            (None, None, _) | (_, _, Filter::Passed) => {}
        }
        Ok(())
    }

    fn place(&mut self, rule: &Filter, taker: Taker) -> Result<(), NoPlace> {
        match rule {
            Filter::Fixed(rule) => self.demux.add(rule, taker),
            Filter::Taught(rule) => self.taught.add(rule, taker),
            Filter::Passed => Ok(()),
        }
    }

    /// The rules over taught protocols of this worker's channels.
    pub fn own_taught(&self) -> Vec<(InChanId, Arc<TaughtRule>)> {
        let taught = |(id, channel): (InChanId, &InChan)| match &channel.filter {
            Filter::Taught(rule) => Some((id, rule.clone())),
            Filter::Fixed(_) | Filter::Passed => None,
        };
        self.ins.iter().filter_map(taught).collect()
    }

    /// A channel of this worker has its rule as it was read again.
    pub fn renew_filter(&mut self, id: InChanId, filter: Filter) {
        if let Some(shared) = &self.shared
            && let Some((_, known, _)) = shared.told().all.get_mut(&id)
        {
            *known = filter.clone();
        }
        self.ins.get_mut(id).into_iter().for_each(|channel| channel.filter = filter.clone());
    }

    /// Where a channel is now, if there still is one: a packet of it may have been on its way.
    pub fn taker_of(&self, channel: InChanId) -> Option<Taker> {
        match &self.shared {
            Some(shared) => shared.told().all.get(&channel).map(|(.., taker)| *taker),
            None => self.ins.get(channel).map(|known| self.taker(channel, known.domain)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::common::SharedNames;
    use crate::graph::table::Graph;
    use crate::nodeos::interface::{ChanSpec, Error};

    const DOMAIN: DomainId = DomainId(9);

    fn rule(port: u16) -> crate::classify::rule::Rule {
        crate::nodeos::channel::rule("*/ip/udp", &format!("*:{port}"), &[], |_| None).unwrap()
    }

    fn add(channels: &mut Channels, port: u16) -> Result<InChanId, Error> {
        channels.add_in(DOMAIN, (Filter::Fixed(rule(port)), Graph::default()), &ChanSpec::default())
    }

    fn remove(channels: &mut Channels, id: InChanId) {
        let gone = channels.remove_in(id).unwrap();
        let taker = channels.taker(id, DOMAIN);
        channels.release(&gone.filter, taker);
    }

    fn workers() -> [Channels; 3] {
        let (rules, names) = (SharedRules::new(3), SharedNames::default());
        let mut all = [1, 2, 3].map(Channels::with_secret);
        for (id, channels) in (0..).zip(&mut all) {
            channels.share_names(&names);
            channels.share_rules(&rules, id);
        }
        all
    }

    #[test]
    fn a_rule_is_one_workers_and_all_know_whose() {
        let mut all = workers();
        let first = add(&mut all[0], 5).unwrap();
        assert_eq!(add(&mut all[2], 5), Err(Error::Exists), "before it has looked for what others have told");
        add(&mut all[2], 6).unwrap();
        let shown = |channels: &mut Channels| {
            channels.renew_rules();
            format!("{:?}", [5, 6].map(|port| channels.demux.owner(&rule(port)).map(|taker| taker.worker)))
        };
        assert!(all.each_mut().map(shown).iter().all(|shown| shown == "[Some(0), Some(2)]"));
        remove(&mut all[0], first);
        let again = add(&mut all[1], 5).unwrap();
        assert!(all.each_mut().map(shown).iter().all(|shown| shown == "[Some(1), Some(2)]"));
        remove(&mut all[1], again);
        assert!(all.each_mut().map(shown).iter().all(|shown| shown == "[None, Some(2)]"));
    }

    #[test]
    fn a_worker_that_begins_anew_learns_all_rules_and_has_none() {
        let mut all = workers();
        add(&mut all[0], 5).unwrap();
        let id = add(&mut all[2], 6).unwrap();
        let rules = all[0].shared.clone().unwrap();
        all[2] = Channels::with_secret(9);
        all[2].share_rules(&rules, 2);
        assert!(all[2].renew_rules());
        let left = all[2].take_left();
        assert_eq!(left.iter().map(|(_, taker)| (taker.channel, taker.worker)).collect::<Vec<_>>(), [(id, 2)]);
        assert_eq!(add(&mut all[1], 6), Err(Error::Exists), "until it is withdrawn");
        assert!(left.iter().all(|(rule, taker)| all[2].release(rule, *taker)));
        add(&mut all[1], 6).unwrap();
        for channels in &mut all {
            channels.renew_rules();
            let owners = [5, 6].map(|port| channels.demux.owner(&rule(port)).map(|taker| taker.worker));
            assert_eq!(owners, [Some(0), Some(1)]);
        }
    }

    #[test]
    fn a_late_word_of_the_worker_before_takes_no_rule_away() {
        let mut all = workers();
        let id = add(&mut all[0], 5).unwrap();
        let before = all[0].taker(id, DOMAIN);
        let moved = all[0].send_off(&[DOMAIN]);
        all[2].take_in(moved, 0);
        assert!(!all[0].release(&Filter::Fixed(rule(5)), before), "it is another worker's");
        let rules = all[0].shared.clone().unwrap();
        all[1] = Channels::with_secret(9);
        all[1].share_rules(&rules, 1);
        for channels in &mut all {
            channels.renew_rules();
            let taker = channels.demux.owner(&rule(5)).unwrap();
            assert_eq!((taker.channel, taker.worker), (id, 2));
        }
        let after = all[2].taker(id, DOMAIN);
        assert!(all[2].release(&Filter::Fixed(rule(5)), after));
        assert!(add(&mut all[0], 5).is_ok());
    }

    #[test]
    fn a_channel_that_moves_keeps_its_rule() {
        let mut all = workers();
        let id = add(&mut all[0], 5).unwrap();
        let moved = all[0].send_off(&[DOMAIN]);
        assert_eq!(moved.domains(), [DOMAIN]);
        all[2].take_in(moved, 0);
        assert!(all[0].renew_rules() && all[1].renew_rules() && !all[2].renew_rules());
        assert_eq!(all[1].take_moved().iter().map(|(was, is)| (was.worker, is.worker)).collect::<Vec<_>>(), [(0, 2)]);
        for channels in &mut all {
            channels.renew_rules();
            let taker = channels.demux.owner(&rule(5)).unwrap();
            assert_eq!((taker.channel, taker.worker), (id, 2));
        }
        assert_eq!(add(&mut all[1], 5), Err(Error::Exists));
    }
}
