//! The kernel half of a node on this host: set up from its configuration, and kept equal to the node's orders.
//!
//! The linker's thread carries the orders out, off the packet path.

use crate::broker;
use crate::code::bundle::Program;
use crate::code::check;
use crate::code::store::Store;
use crate::config::Plan;
use crate::core::share::SharedAccount;
use crate::frame::{Link, PeerId, PortId};
use crate::graph::half::ChannelHalf;
use crate::kernel::{KernelChannels, KernelHalf, Opening, Pins, PortEntry, Setting, Settings};
use crate::node::entry::EntryLimits;
use crate::node::{KernelOrder, Linked, NodeConfig, Shared};
use crate::port::{BeforeStack, NativeInterface};
use crate::sys::bpf::XdpMode;
use crate::sys::clock::Clock;
use crate::sys::ethtool;
use crate::sys::netdev::{self, Redirected};
use crate::sys::netlink;
use crate::topology::{Neighbour, Port};
use crate::trust::Role;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Digest};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;

/// Opens the kernel half of a node, if its configuration asks for one, and puts it before its ports.
/// A port that cannot have it goes without, and the log says why; so does the whole node, unless a port `must` have it.
/// What a process before this one has left in the node's run directory is taken over, and serves on as it is until the half is settled.
pub fn open(
    (config, must): (&NodeConfig, bool),
    plans: &[Plan],
    run_dir: &Path,
    clock: Clock,
    limits: &EntryLimits,
) -> Result<Option<Arc<KernelHalf>>> {
    if !config.kernel {
        crate::kernel::sweep(run_dir).context("cannot take away what a node before has left in the kernel")?;
        return Ok(None);
    }
    let mut name = [0; 16];
    name.iter_mut().zip(config.name.bytes()).for_each(|(place, byte)| *place = byte);
    let pins = Pins::open(run_dir)
        .inspect_err(|error| tracing::warn!(%error, "no BPF file system: the kernel half ends with this process"))
        .ok();
    let opening = Opening { name, origin: clock.origin(), program: "/proc/self/exe".into(), pins };
    let half = match KernelHalf::open(opening) {
        Err(error) if !must => {
            tracing::warn!(%error, "no kernel half: it cannot be loaded (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Linux 6.6)");
            crate::kernel::sweep(run_dir).context("cannot take away what a node before has left in the kernel")?;
            return Ok(None);
        }
        opened => opened.context(
            "the kernel half cannot be loaded (kernel = true needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and Linux 6.6 or newer)",
        )?,
    };
    half.set_share(limits.permille)?;
    let redirected = redirected(plans);
    for (number, (port, plan)) in config.ports.iter().zip(plans).enumerate() {
        let Some(&NativeInterface { index: interface @ 1.., kernel: true, .. }) = plan.opening.interface() else {
            continue;
        };
        let Link::Ethernet { mac, .. } = port.link else { continue };
        let entry = entry(number as u32, interface, mac, port, &redirected);
        say_redirected(&port.name, &entry);
        match half.attach(entry) {
            Ok(XdpMode::Native) => tracing::info!(port = port.name, "kernel half in the driver"),
            Ok(XdpMode::Generic) => tracing::warn!(port = port.name, "kernel half in the stack: slower, see status"),
            Err(error) => tracing::warn!(port = port.name, %error, "no kernel half here: capsules run in user space"),
        }
    }
    Ok(Some(Arc::new(half)))
}

/// What a process before this one has left, for the node to take over.
#[derive(Default)]
pub struct Left {
    /// Its neighbours.
    pub neighbours: Vec<Neighbour>,
    /// The codes that run in the kernel half.
    pub codes: Vec<Digest>,
    /// Those of them that run in a set of maps whose place this node's takes once they are in it.
    pub inherited: Vec<Digest>,
}

/// What a process before this one has left. Code that the store does not have stops to run there: the node could not go
/// on with its packets.
pub fn left(half: &KernelHalf, store: &Store) -> Result<Left> {
    let neighbour = |(port, addr)| Neighbour { addr, port: PortId(port as u16), peer: PeerId::NONE };
    let neighbours = half.adopted_neighbours()?.into_iter().map(neighbour).collect();
    let known = |code: &Digest| store.object(code).is_some();
    let (mut codes, mut unknown): (Vec<_>, Vec<_>) = half.adopted().into_iter().partition(known);
    let (inherited, more): (Vec<_>, Vec<_>) = half.inherited().into_iter().partition(known);
    codes.extend(&inherited);
    unknown.extend(more);
    unknown.iter().try_for_each(|code| half.remove_code(code))?;
    Ok(Left { neighbours, codes, inherited })
}

/// What looks at frames of channels before the node does: the kernel half, and what takes frames to AF_XDP sockets
/// elsewhere. A node goes on without.
pub fn channels(
    half: Option<&Arc<KernelHalf>>,
    ports: usize,
    opened: &super::sockets::Opened,
) -> Vec<Box<dyn ChannelHalf>> {
    let with_half = half.map(|half| KernelChannels::of(half.clone(), ports as u16, opened.behind_half));
    let alone = opened.own.as_ref().map(|steering| KernelChannels::alone(steering.clone()));
    let made = |made: std::io::Result<KernelChannels>| {
        let shown = made.inspect_err(|error| tracing::warn!(%error, "channels are in user space alone"));
        Some(Box::new(shown.ok()?) as Box<dyn ChannelHalf>)
    };
    with_half.into_iter().chain(alone).filter_map(made).collect()
}

/// Has the drivers of all interfaces at which a program stands leave VLAN tags in frames; gives their names.
pub fn leave_all_tags(settings: &Settings, plans: &[Plan], before: &[BeforeStack]) -> Vec<String> {
    let mut names = Vec::new();
    for (plan, _) in plans.iter().zip(before).filter(|(_, before)| before.program) {
        if let Some(&NativeInterface { index: interface, .. }) = plan.opening.interface() {
            leave_tags(settings, interface);
            names.extend(ethtool::name(interface));
        }
    }
    names
}

/// Has the drivers of all other interfaces take tags off again, at which a program stood by a configuration before this one.
pub fn take_tags_again(settings: &Settings, without: &[String]) {
    let of_others = |setting, name: &str| setting == Setting::Tags && !without.iter().any(|own| own == name);
    if let Err(error) = settings.give_back(of_others) {
        tracing::warn!(%error, "interfaces that are no ports any more keep VLAN tags in frames (rxvlan off)");
    }
}

/// Has the driver of an interface take tags off again, before which no program stands any more.
pub(super) fn take_tags(settings: &Settings, interface: u32) -> std::io::Result<()> {
    let name = ethtool::name(interface)?;
    settings.give_back(|setting, of| setting == Setting::Tags && of == name).map(drop)
}

/// Has the driver of an interface leave VLAN tags where the program that stands there sees them.
pub fn leave_tags(settings: &Settings, interface: u32) {
    let off = |name: String| Ok((settings.turn_off(Setting::Tags, &name)?, name));
    let left = ethtool::name(interface).and_then(off);
    match left {
        Ok((true, interface)) => tracing::info!(interface, "the driver leaves VLAN tags in frames (rxvlan off)"),
        Ok((false, _)) => {}
        Err(error) => tracing::warn!(
            %error,
            interface,
            "the driver takes VLAN tags off frames, so those of VLANs look like others here: ethtool -K DEV rxvlan off"
        ),
    }
}

/// Has the kernel look for the link address of a next hop.
fn use_neighbour(interface: u32, addr: Addr) -> std::io::Result<()> {
    broker::ask(&broker::Request::Neighbour { interface, addr }, &[]).map(drop)
}

/// The link addresses behind native ports that the host's stack knows.
pub fn links(plans: &[Plan]) -> Vec<(PortId, Addr, Mac)> {
    let known = netlink::neighbours().inspect_err(|error| tracing::warn!(%error, "link addresses are asked for anew"));
    let port = |wanted: u32| {
        let is = |plan: &Plan| plan.opening.interface().is_some_and(|interface| interface.index == wanted);
        plans.iter().position(is).map(|at| PortId(at as u16))
    };
    let of_port = |(interface, addr, mac)| Some((port(interface)?, addr, mac));
    known.unwrap_or_default().into_iter().filter_map(of_port).collect()
}

/// Which interfaces take redirected frames; a kernel that does not say so is believed to deliver. A port with a discipline takes none:
/// they would overtake what waits there.
pub(super) fn redirected(plans: &[Plan]) -> Redirected {
    let said = netdev::redirected();
    let mut all = said
        .inspect_err(|error| tracing::warn!(%error, "whether redirected frames arrive is not known"))
        .unwrap_or_default();
    let sorted = plans.iter().filter(|plan| plan.sorting.is_some()).filter_map(|plan| plan.opening.interface());
    all.extend(sorted.map(|interface| (interface.index, 0)));
    all
}

/// Says by the log what becomes of frames that would be redirected to a port.
pub(super) fn say_redirected(port: &str, entry: &PortEntry) {
    match entry.redirected {
        0 => tracing::warn!(
            port,
            "frames redirected here would not arrive, or would overtake those of a discipline: the user half sends them. At the other \
             end of a veth: ethtool -K PEER gro on, or an XDP program; else the driver does not take such frames"
        ),
        most if most < entry.mtu => {
            tracing::info!(port, bytes = most, "larger packets are sent by the user half: the driver takes one buffer");
        }
        _ => {}
    }
}

pub(super) fn entry(number: u32, interface: u32, mac: Mac, port: &Port, redirected: &Redirected) -> PortEntry {
    let fit = |v4: bool| {
        let mut own = port.addresses.iter().map(|(addr, _)| *addr);
        own.find(|addr| addr.is_v4() == v4 && !addr.is_link_local())
    };
    let redirected = redirected.get(&interface).copied().unwrap_or(u32::MAX);
    let bound_max = port.ceiling.unsigned;
    PortEntry { interface, number, mtu: port.mtu as u32, redirected, mac, bound_max, v4: fit(true), v6: fit(false) }
}

/// Tells the kernel half what a node wants it to know.
pub struct Messenger {
    half: Arc<KernelHalf>,
}

impl Messenger {
    /// One for this kernel half.
    pub fn new(half: Arc<KernelHalf>) -> Messenger {
        Messenger { half }
    }

    /// Makes ready what the first order needs.
    pub fn warm_up(&self) {
        if let Err(error) = self.half.warm_up() {
            tracing::warn!(%error, "the kernel half has no loader yet");
        }
    }

    /// Carries an order out; gives what the node is to be told of it.
    pub fn carry_out(&self, order: KernelOrder) -> Option<(Digest, Linked)> {
        match order {
            KernelOrder::Link { code, bpf, window, role, .. } => {
                return Some((code, self.link(&code, &bpf, window, &role)));
            }
            KernelOrder::Activate(code) => {
                if let Err(error) = self.half.activate(&code) {
                    tracing::error!(%error, code = %code.short(), "code does not run in the kernel half");
                }
            }
            KernelOrder::Unlink(code) => {
                if let Err(error) = self.half.remove_code(&code) {
                    tracing::error!(%error, code = %code.short(), "code stays in the kernel half");
                }
            }
            KernelOrder::Limit { code, role } => {
                if let Err(error) = self.half.set_limits(&code, &role.limits) {
                    tracing::error!(%error, code = %code.short(), "code has its old budget in the kernel half");
                }
            }
            KernelOrder::Links(links) => {
                if let Err(error) = self.half.add_links(links) {
                    tracing::warn!(%error, "packets with children go by the user half");
                }
            }
            KernelOrder::Neighbours(list) => {
                let list = list.into_iter().map(|(port, addr)| (u32::from(port.0), addr)).collect();
                if let Err(error) = self.half.set_neighbours(list) {
                    tracing::warn!(%error, "the kernel half does not know all neighbours");
                }
            }
            KernelOrder::NextHop { port, addr } => {
                if let Some(interface) = self.half.interface(u32::from(port.0))
                    && let Err(error) = use_neighbour(interface, addr)
                {
                    tracing::warn!(%error, next_hop = %addr, "the kernel does not look for a next hop's link address");
                }
            }
        }
        None
    }

    /// The neighbours of which capsules have come by the kernel half since this was asked last.
    pub fn heard(&self) -> Vec<(PortId, Addr)> {
        let heard = self.half.heard().inspect_err(|error| tracing::warn!(%error, "neighbours cannot be heard"));
        heard.unwrap_or_default().into_iter().map(|(port, addr)| (PortId(port as u16), addr)).collect()
    }

    /// Links code for the kernel in its role: what the role lacks is refused here, what it grants in form
    /// (`role.kernel`) and verified instructions (`role.limits`) goes on to the half.
    fn link(&self, code: &Digest, bpf: &[u8], window: u32, role: &Role) -> Linked {
        check::bpf(bpf).map_err(|refusal| refusal.to_string())?;
        let program = Program::parse(bpf).map_err(|error| error.to_string())?;
        role.check_program(&program)?;
        let added = self.half.add_code(code, &program, window, role.kernel, &role.limits);
        let state = added.map_err(|error| error.to_string())?;
        let account = self.half.account(code).map(|account| Arc::new(account) as Arc<dyn SharedAccount>);
        Ok(Shared { state, account, records: Some(Arc::new(self.half.records())) })
    }
}
