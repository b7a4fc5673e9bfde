//! Channels go to another worker, with their names and their rules.

use super::channels::{Channels, CutChan, InChan, OutChan};
use crate::core::common::SharedNames;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::nodeos::interface::{CutChanId, InChanId, OutChanId};

/// Channels on their way to another worker.
pub struct MovedChannels {
    ins: Vec<(InChanId, InChan)>,
    outs: Vec<(OutChanId, OutChan)>,
    cuts: Vec<(CutChanId, CutChan)>,
}

impl MovedChannels {
    /// Those that have incoming ones, each once.
    pub fn domains(&self) -> Vec<DomainId> {
        let mut domains: Vec<_> = self.ins.iter().map(|(_, channel)| channel.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    }

    /// Pieces of packets that their engines keep.
    pub fn pieces(&self) -> u64 {
        self.ins.iter().map(|(_, channel)| channel.pieces()).sum()
    }
}

impl Channels {
    /// Gives no name from now on that another worker has given.
    pub fn share_names(&mut self, names: &SharedNames) {
        let [ins, outs, cuts] = &names.channels;
        self.ins.share(ins);
        self.outs.share(outs);
        self.cuts.share(cuts);
    }

    /// Names that were given are nobody's any more.
    pub fn give_up_names(&mut self) {
        self.ins.give_up();
        self.outs.give_up();
        self.cuts.give_up();
    }

    /// Takes out all channels of domains for another worker. Rules name this one until they are
    /// there.
    pub fn send_off(&mut self, domains: &[DomainId]) -> MovedChannels {
        let (cuts, ins, outs) = (self.cuts.of_all(domains), self.ins.of_all(domains), self.outs.of_all(domains));
        domains.iter().for_each(|domain| self.forget_keepers(*domain));
        MovedChannels {
            ins: ins.into_iter().filter_map(|id| Some((id, self.ins.send_off(id)?))).collect(),
            outs: outs.into_iter().filter_map(|id| Some((id, self.outs.send_off(id)?))).collect(),
            cuts: cuts.into_iter().filter_map(|id| Some((id, self.cuts.send_off(id)?))).collect(),
        }
    }

    /// Takes in what another worker has sent off: from now on rules name this one.
    pub fn take_in(&mut self, MovedChannels { ins, outs, cuts }: MovedChannels, from: WorkerId) {
        self.take_rules(&ins, from);
        for (id, channel) in ins {
            self.note_keeper(id, &channel);
            self.ins.take_in(id, channel);
        }
        outs.into_iter().for_each(|(id, mut channel)| {
            // What it knows of the way out is of the worker before.
            channel.head.forget();
            self.outs.take_in(id, channel);
        });
        cuts.into_iter().for_each(|(id, cut)| self.cuts.take_in(id, cut));
    }
}
