//! Channels in the kernel: tells `bpf/cut.bpf.c` the filters of incoming channels and the channels that cut through.
//!
//! All maps here belong to this process and have no pin. The ingress reaches the programs by a map that empties itself
//! when its last holder goes ([`ProgramSlots`]). So a node that dies leaves a plain router behind as far as channels go, and
//! the next one begins with none.

use super::account::Account;
use super::carried::{Bytes, SPENT, SPENT_USER};
use super::graphs::KernelGraphs;
use super::half::KernelHalf;
use super::layout::CUT_LAYOUT;
use super::maps::{LOOKS, Maps, RATE_MAX, budget};
use super::own;
use super::patterns::shaped;
use super::program_slots::{PROGRAM_SLOTS, ProgramSlots, Programs};
use super::sockets::Steering;
use super::told::{RuleMaps, ToldRules};
use crate::classify::rule::{Layer, Rule};
use crate::contract::plan::KernelPlan;
use crate::contract::{self, ALLOWANCES, CUTS, ON_IP, ON_TRANSPORT, allowance};
use crate::core::share::{Bandwidth, SharedBytes};
use crate::frame::PortId;
use crate::graph::exit::Target;
use crate::graph::half::{ChannelHalf, Cut, CutCounts, CutWay, LoadedGraph, SharedCut, Whose};
use crate::sys::bpf::{Map, Program};
use crate::sys::mapping::SharedWords;
use crate::wire::Addr;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

pub(super) static CUT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cut.bpf.o"));

/// Programs of the slots, in the order of their numbers.
const PROGRAMS: [&str; PROGRAM_SLOTS] = ["cut", "look"];
const _: () = assert!(contract::CUT == 0 && contract::LOOK == 1);

/// The programs that jump by the slots.
#[derive(Clone)]
pub(super) enum Before {
    Half(Arc<KernelHalf>),
    Steering(Arc<Steering>),
}

impl Before {
    pub(super) fn maps(&self) -> &Maps {
        match self {
            Before::Half(half) => half.maps(),
            Before::Steering(steering) => steering.maps(),
        }
    }

    fn program_slots(&self) -> &Arc<ProgramSlots> {
        match self {
            Before::Half(half) => half.program_slots(),
            Before::Steering(steering) => steering.program_slots(),
        }
    }
}

/// The channels of a node, told to the kernel.
pub struct KernelChannels {
    pub(super) before: Before,
    pub(super) maps: Arc<Maps>,
    programs: Arc<Programs>,
    /// Whether frames of all channels are looked for: there are AF_XDP sockets.
    punts: bool,
    /// Interface of each port that packets may leave by.
    pub(super) interfaces: HashMap<PortId, u32>,
    generation: u64,
    /// Filters, and the number of the cut-through channel that has the packets of each; 0: the user half has them.
    rules: ToldRules,
    cuts: Numbers,
    allowances: Numbers,
    domains: Numbers,
    /// Places of domains in `budgets`, and of bandwidths.
    paying: HashMap<Whose, (u32, u32)>,
    running: u32,
    spent: Arc<SharedWords>,
    accounts: Arc<SharedWords>,
    pub(super) usage: Map,
    pub(super) graphs: KernelGraphs,
}

/// Numbers that are free, the one longest so first: who still looks at one that has gone does not find another's there.
#[derive(Debug)]
struct Numbers(VecDeque<u32>);

impl Numbers {
    fn below(end: u32) -> Numbers {
        Numbers((1..end).collect())
    }
}

impl KernelChannels {
    /// Those at the ports of the kernel half, which are the ports with these numbers; `punts`: some have AF_XDP sockets.
    pub fn of(half: Arc<KernelHalf>, ports: u16, punts: bool) -> io::Result<KernelChannels> {
        let interface = |port| Some((PortId(port), half.interface(u32::from(port))?));
        let interfaces = (0..ports).filter_map(interface).collect();
        KernelChannels::make(Before::Half(half), interfaces, punts)
    }

    /// Those at ports that have AF_XDP sockets and no kernel half: none of them is cut through there.
    pub fn alone(steering: Arc<Steering>) -> io::Result<KernelChannels> {
        KernelChannels::make(Before::Steering(steering), HashMap::new(), true)
    }

    fn make(before: Before, interfaces: HashMap<PortId, u32>, punts: bool) -> io::Result<KernelChannels> {
        let maps = Arc::new(Maps::create_all(&CUT_LAYOUT)?);
        let programs = Arc::new(Programs::new(Box::new(loading(before.clone(), maps.clone()))));
        let spent = Arc::new(maps.of("spent_map")?.words(ALLOWANCES)?);
        let accounts = Arc::new(maps.of("accounts_map")?.words(CUTS)?);
        let usage = maps.of("cut_usage_map")?.try_clone()?;
        Ok(KernelChannels {
            before,
            maps,
            programs,
            punts,
            interfaces,
            generation: 0,
            rules: ToldRules::new(|rule| shaped(rule, rule.port)),
            cuts: Numbers::below(CUTS),
            allowances: Numbers::below(ALLOWANCES),
            domains: Numbers::below(CUTS),
            paying: HashMap::new(),
            running: 0,
            spent,
            accounts,
            usage,
            graphs: KernelGraphs::default(),
        })
    }

    /// What was found out of flows so far is not to be believed.
    fn renew(&mut self) -> io::Result<()> {
        self.generation += 1;
        self.set("channels_map", 0, &self.generation.to_ne_bytes())
    }

    fn set(&self, map: &str, key: u32, value: &[u8]) -> io::Result<()> {
        self.maps.of(map)?.set(&key.to_ne_bytes(), value)
    }

    /// Fills the slots if there is something to look for, or empties them.
    fn look_for(&self, before: bool) {
        let now = self.is_needed();
        if now != before {
            self.before.program_slots().set(now, &self.programs);
        }
    }

    fn is_needed(&self) -> bool {
        self.running > 0 || self.punts && !self.rules.is_empty()
    }

    /// Whose packets of a filter are: the user half's (0), or a cut-through channel's.
    fn give(&mut self, filter: &Rule, cut: u32) -> io::Result<()> {
        let Some(pattern) = self.rules.give(filter, cut) else { return Ok(()) };
        let maps = self.maps.clone();
        self.rules.tell_keys(&rule_maps(&maps)?, &pattern)?;
        self.renew()
    }

    /// A bandwidth of a domain or a channel: its place, once it is bounded.
    fn allow(&mut self, rate: Option<u64>) -> io::Result<Option<u32>> {
        let Some(rate) = rate.map(|rate| rate.min(RATE_MAX)) else { return Ok(Some(0)) };
        let Some(place) = self.allowances.0.pop_front() else { return Ok(None) };
        let burst = Bandwidth::burst(rate);
        let user = self.spent.load(place as usize * SPENT + SPENT_USER);
        // A full bucket, never looked at.
        let mut value = [0; allowance::SIZE];
        allowance::RATE.put(&mut value, rate.to_ne_bytes());
        allowance::BURST.put(&mut value, burst.to_ne_bytes());
        allowance::TOKENS.put(&mut value, burst.to_ne_bytes());
        allowance::CHARGED.put(&mut value, user.to_ne_bytes());
        self.set("allowances_map", place, &value)?;
        Ok(Some(place))
    }

    /// The places of whoever pays, made if there are none: that of a domain in `budgets`, and that of the bandwidth.
    fn pay(&mut self, whose: Whose, rates: Option<[u64; 2]>, rate: Option<u64>) -> io::Result<Option<(u32, u32)>> {
        if let Some(places) = self.paying.get(&whose) {
            return Ok(Some(*places));
        }
        let Some(allowance) = self.allow(rate)? else { return Ok(None) };
        let mut domain = 0;
        if let Some(rates) = rates {
            let Some(place) = self.domains.0.pop_front() else {
                self.free_allowance(allowance);
                return Ok(None);
            };
            let spent = self.account(place).user();
            self.set("budgets_map", place, &budget(rates, spent))?;
            domain = place;
        }
        self.paying.insert(whose, (domain, allowance));
        Ok(Some((domain, allowance)))
    }

    fn free_allowance(&mut self, place: u32) {
        self.allowances.0.extend((place > 0).then_some(place));
    }

    fn account(&self, place: u32) -> Account {
        Account::at(self.accounts.clone(), place)
    }

    fn bytes(&self, place: u32) -> Option<Arc<dyn SharedBytes>> {
        let at = place as usize * SPENT;
        (place > 0).then(|| Arc::new(Bytes { words: self.spent.clone(), at }) as Arc<dyn SharedBytes>)
    }

    /// `struct cut`, if such a channel can be carried at all.
    fn describe(&self, cut: &Cut<'_>, places: [u32; 3]) -> Option<[u8; contract::cut::SIZE]> {
        let mut value = match cut.way {
            CutWay::Out(target, ..) => self.describe_way_out(cut, target)?,
            CutWay::Graph(place) => into_graph(cut, place)?,
        };
        contract::cut::DOMAIN.put(&mut value, places[0].to_ne_bytes());
        contract::cut::OF_DOMAIN.put(&mut value, places[1].to_ne_bytes());
        contract::cut::OF_CHANNEL.put(&mut value, places[2].to_ne_bytes());
        Some(value)
    }

    fn describe_way_out(&self, cut: &Cut<'_>, target: &Target) -> Option<[u8; contract::cut::SIZE]> {
        let layer = match (cut.filter.layer, target.layer) {
            (Layer::Ip, Layer::Ip) => ON_IP,
            (Layer::Udp, Layer::Udp) => ON_TRANSPORT,
            _ => return None,
        };
        let interface = match target.port {
            Some(port) => *self.interfaces.get(&port)?,
            None => 0,
        };
        if target.destination_port == Some(0) {
            return None;
        }
        let udp = layer == ON_TRANSPORT;
        let addr = |addr: Option<Addr>| addr.filter(|addr| !addr.is_unspecified()).map_or([0; 16], |addr| addr.0);
        let mut value = [0; contract::cut::SIZE];
        contract::cut::FROM.put(&mut value, addr(target.source.filter(|_| udp)));
        contract::cut::TO.put(&mut value, addr(target.destination));
        contract::cut::FROM_PORT.put(&mut value, target.source_port.to_be_bytes());
        contract::cut::TO_PORT.put(&mut value, target.destination_port.unwrap_or(0).to_be_bytes());
        contract::cut::INTERFACE.put(&mut value, interface.to_ne_bytes());
        contract::cut::LAYER.put(&mut value, layer.to_ne_bytes());
        Some(value)
    }
}

/// The maps of filters.
fn rule_maps(maps: &Maps) -> io::Result<RuleMaps<'_>> {
    Ok(RuleMaps { shapes: maps.of("shapes_map")?, keys: maps.of("owners_map")?, lists: maps.of("lists_map")? })
}

/// `struct cut` of a channel of a graph, whose program has this place.
fn into_graph(cut: &Cut<'_>, place: u32) -> Option<[u8; contract::cut::SIZE]> {
    let layer = match cut.filter.layer {
        Layer::Ip => ON_IP,
        Layer::Udp | Layer::Tcp => ON_TRANSPORT,
        _ => return None,
    };
    let mut value = [0; contract::cut::SIZE];
    contract::cut::LAYER.put(&mut value, layer.to_ne_bytes());
    contract::cut::GRAPH.put(&mut value, (place + 1).to_ne_bytes());
    Some(value)
}

/// Loads the programs, with their own maps and those of the programs before them.
fn loading(before: Before, maps: Arc<Maps>) -> impl Fn() -> io::Result<[Program; PROGRAM_SLOTS]> {
    move || {
        let program_slots = before.program_slots();
        let find = |name: &str| match name {
            "program_slots_map" => Ok(program_slots.as_fd()),
            _ => maps.descriptor(name).or_else(|_| before.maps().descriptor(name)),
        };
        Ok([own::load(PROGRAMS[0], find)?, own::load(PROGRAMS[1], find)?])
    }
}

impl KernelChannels {
    fn change_filter(&mut self, filter: &Rule, exists: bool) -> io::Result<()> {
        if filter.layer == Layer::Anep {
            return Ok(());
        }
        let before = self.is_needed();
        let Some(changed) = self.rules.change(filter, exists) else { return Ok(()) };
        let (owned, mut told) = (self.maps.clone(), Ok(()));
        let maps = rule_maps(&owned)?;
        if let Err(error) = self.rules.tell(&maps, &changed, true) {
            if exists && let Some(back) = self.rules.change(filter, false) {
                // As if it had never been there.
                let _ = self.rules.tell(&maps, &back, true);
            }
            told = Err(error);
        }
        self.renew().and(told)?;
        self.look_for(before);
        Ok(())
    }

    fn begin_cut(&mut self, cut: &Cut<'_>) -> io::Result<Option<SharedCut>> {
        if !matches!(self.before, Before::Half(_)) || self.describe(cut, [0; 3]).is_none() {
            return Ok(None);
        }
        let domain = self.pay(Whose::Domain(cut.domain), Some(cut.rates), cut.of_domain)?;
        let channel = match cut.way {
            CutWay::Out(_, channel, rate) => self.pay(Whose::Channel(channel), None, rate)?,
            CutWay::Graph(_) => Some((0, 0)),
        };
        let (Some((domain, of_domain)), Some((_, of_channel))) = (domain, channel) else { return Ok(None) };
        let Some(number) = self.cuts.0.pop_front() else { return Ok(None) };
        let Some(value) = self.describe(cut, [domain, of_domain, of_channel]) else { return Ok(None) };
        self.usage.set(&number.to_ne_bytes(), &vec![0; self.usage.value_size()])?;
        self.set("cuts_map", number, &value)?;
        self.give(cut.filter, number)?;
        let before = self.is_needed();
        self.running += 1;
        self.look_for(before);
        let account = Arc::new(self.account(domain));
        let (of_domain, of_channel) = (self.bytes(of_domain), self.bytes(of_channel));
        Ok(Some(SharedCut { number, account, of_domain, of_channel }))
    }

    fn end_cut(&mut self, number: u32, filter: &Rule) -> io::Result<()> {
        let before = self.is_needed();
        self.set("cuts_map", number, &[0; contract::cut::SIZE])?;
        self.give(filter, 0)?;
        self.cuts.0.push_back(number);
        self.running = self.running.saturating_sub(1);
        self.look_for(before);
        Ok(())
    }
}

impl ChannelHalf for KernelChannels {
    fn change(&mut self, filter: &Rule, exists: bool) -> Result<(), String> {
        self.change_filter(filter, exists).map_err(|error| error.to_string())
    }

    fn begin(&mut self, cut: &Cut<'_>) -> Result<Option<SharedCut>, String> {
        self.begin_cut(cut).map_err(|error| error.to_string())
    }

    /// Packets pass while this reads, each CPU's at most one, so it looks again until none is on its way.
    fn passed(&self, number: u32) -> CutCounts {
        let mut looks = (0..LOOKS).map(|_| self.look(number));
        looks.find(|counts| counts.balance().unaccounted() == 0).unwrap_or_else(|| self.look(number))
    }

    fn end(&mut self, number: u32, filter: &Rule) -> Result<(), String> {
        self.end_cut(number, filter).map_err(|error| error.to_string())
    }

    fn forget(&mut self, whose: Whose) {
        if let Some((domain, allowance)) = self.paying.remove(&whose) {
            self.domains.0.extend((domain > 0).then_some(domain));
            self.free_allowance(allowance);
        }
    }

    fn load_graph(&mut self, place: Option<u32>, plan: &KernelPlan) -> Result<Option<LoadedGraph>, String> {
        self.load_program(place, plan).map_err(|error| error.to_string())
    }

    fn run_graph(&mut self, place: u32) -> Result<(), String> {
        self.run_program(place).map_err(|error| error.to_string())
    }

    fn discard_graph(&mut self, place: u32) {
        self.discard_program(place);
    }

    fn end_graph(&mut self, place: u32) {
        self.end_program(place);
    }
}
