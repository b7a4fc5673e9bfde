//! What the kernel's messages about routes say. Example: `RTM_NEWROUTE` for 10.3.0.0/24 that replaces another.
//!
//! Messages are read as they come, without a tree of attributes for each: there may be a million in a second.

use crate::wire::{Addr, Prefix};

/// Table of routes that people and daemons set (`RT_TABLE_MAIN`).
pub(super) const MAIN: u32 = 254;

/// Bytes of a netlink message's header.
pub(super) const HEADER: usize = 16;

/// Kinds of messages (`RTM_*`, `NLMSG_*`), and their flags (`NLM_F_*`, `RTM_F_*`).
const NEW_ROUTE: u16 = 24;
pub(super) const REMOVED_ROUTE: u16 = 25;
pub(super) const GET_ROUTE: u16 = 26;
const NEW_NEXT_HOP: u16 = 104;
pub(super) const REMOVED_NEXT_HOP: u16 = 105;
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;
pub(super) const REQUEST_ALL: u16 = 0x301;
pub(super) const INTERRUPTED: u16 = 0x10;
const REPLACES: u16 = 0x100;
const APPENDS: u16 = 0x800;
const CACHED: u32 = 0x200;

/// Families, and what a route is where packets go on (`RTN_UNICAST`).
pub(super) const INET: u8 = 2;
pub(super) const INET6: u8 = 10;
const UNICAST: u8 = 1;

/// `RTNH_F_DEAD` and `RTNH_F_LINKDOWN` of one next hop among several.
const DOWN: u8 = 1 | 16;

/// Attributes (`RTA_*`, `NHA_ID`).
mod attribute {
    pub const TO: u16 = 1;
    pub const INTERFACE: u16 = 4;
    pub const GATEWAY: u16 = 5;
    pub const METRIC: u16 = 6;
    pub const SEVERAL: u16 = 9;
    pub const TABLE: u16 = 15;
    pub const VIA: u16 = 18;
    pub const ENCAPSULATION: u16 = 21;
    pub const OBJECT: u16 = 30;
    pub const NEXT_HOP_ID: u16 = 1;
}

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The next router; unspecified when the destination is on the link.
    pub via: Addr,
    /// The outgoing interface.
    pub interface: u32,
    /// Whether it is used, as far as its link goes.
    pub up: bool,
}

/// The ways of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hops {
    /// It is to hold packets up, or leads where the node does not send.
    Nowhere,
    /// Nearly all.
    One(Hop),
    /// Packets are divided among them.
    Several(Box<[Hop]>),
}

/// A route of the kernel to some prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Smaller ones win.
    pub metric: u32,
    /// The object of next hops that it has its ways from; 0: they are its own.
    pub object: u32,
    /// Its ways.
    pub hops: Hops,
}

/// What has become of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, before others with its metric.
    Put,
    /// It is new, behind others with its metric.
    Appended,
    /// It is in the place of the first with its metric.
    Replaced,
    /// It is gone.
    Removed,
}

/// What the kernel tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteNews {
    /// Of a route of a main table.
    Main(Prefix, KernelRoute, Change),
    /// Of a route of another table.
    Elsewhere,
    /// Of an object of next hops.
    Object(u32),
}

/// What messages of the kernel say of routes.
pub fn each_route(datagram: &[u8], mut take: impl FnMut(RouteNews)) {
    messages(datagram, |message| take_message(message, &mut take));
}

/// A message of the kernel.
pub(super) struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub body: &'a [u8],
}

/// The messages of a datagram, up to one that is cut.
pub(super) fn messages<'a>(datagram: &'a [u8], mut take: impl FnMut(Message<'a>)) {
    let mut rest = datagram;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(body) = rest.get(HEADER..length) else { return };
        let [kind, flags] = [4, 6].map(|at| u16::from_ne_bytes([header[at], header[at + 1]]));
        take(Message { kind, flags, body });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

pub(super) fn take_message(message: Message<'_>, take: &mut impl FnMut(RouteNews)) {
    let change = match message.kind {
        NEW_ROUTE if message.flags & REPLACES != 0 => Change::Replaced,
        NEW_ROUTE if message.flags & APPENDS != 0 => Change::Appended,
        NEW_ROUTE => Change::Put,
        REMOVED_ROUTE => Change::Removed,
        NEW_NEXT_HOP | REMOVED_NEXT_HOP => {
            let id = attributes(message.body, 8).find(|(kind, _)| *kind == attribute::NEXT_HOP_ID);
            return take(RouteNews::Object(id.map_or(0, |(_, value)| number(value))));
        }
        _ => return,
    };
    if let Some(news) = route(message.body, change) {
        take(news);
    }
}

/// The attributes behind a header of so many bytes: their kinds and values.
fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(header..).unwrap_or(&[]);
    core::iter::from_fn(move || {
        let head = rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(4..length)?;
        // Two bits say how a value is to be read.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Reads a route (`struct rtmsg` and attributes); nothing: it is none that decides where packets go.
fn route(body: &[u8], change: Change) -> Option<RouteNews> {
    let &[family, to_length, from_length, service, table, _, _, kind, ref flags @ ..] = body.first_chunk::<12>()?;
    let v4 = family == INET;
    if !v4 && family != INET6 || u32::from_ne_bytes(*flags) & CACHED != 0 {
        return None;
    }
    let any = if v4 { Addr::v4([0; 4]) } else { Addr::UNSPECIFIED };
    let (mut table, mut to, mut route) =
        (u32::from(table), any, KernelRoute { metric: 0, object: 0, hops: Hops::Nowhere });
    let (mut own, mut several, mut sends) = (Way::new(), None, kind == UNICAST);
    for (kind, value) in attributes(body, 12) {
        match kind {
            attribute::TABLE => table = number(value),
            attribute::TO => to = address(value)?,
            attribute::METRIC => route.metric = number(value),
            attribute::OBJECT => route.object = number(value),
            attribute::SEVERAL => several = Some(value),
            // The node puts nothing around packets.
            attribute::ENCAPSULATION => sends = false,
            _ => own.take(kind, value),
        }
    }
    // Routes for some sources or services alone are not asked, here as in the kernel half.
    if table != MAIN || from_length != 0 || service != 0 {
        return (table != MAIN).then_some(RouteNews::Elsewhere);
    }
    if sends {
        route.hops = match several {
            Some(several) => Hops::Several(hops(several)),
            None => own.hop(0).map_or(Hops::Nowhere, Hops::One),
        };
    }
    Some(RouteNews::Main(Prefix::new(to, length(any, to_length)), route, change))
}

/// What attributes say of one way.
struct Way {
    via: Option<Addr>,
    interface: Option<u32>,
}

impl Way {
    fn new() -> Way {
        Way { via: Some(Addr::UNSPECIFIED), interface: None }
    }

    fn take(&mut self, kind: u16, value: &[u8]) {
        match kind {
            attribute::GATEWAY => self.via = address(value),
            // A router of the other family, which we do not ask for its link address; and what is put around packets.
            attribute::VIA | attribute::ENCAPSULATION => self.via = None,
            attribute::INTERFACE => self.interface = Some(number(value)),
            _ => {}
        }
    }

    fn hop(&self, flags: u8) -> Option<Hop> {
        Some(Hop { via: self.via?, interface: self.interface?, up: flags & DOWN == 0 })
    }
}

/// The ways in a list of them (`struct rtnexthop`); of those that are of no use here, interface 0.
fn hops(list: &[u8]) -> Box<[Hop]> {
    let mut rest = list;
    let all = core::iter::from_fn(|| {
        let head = rest.first_chunk::<8>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let body = rest.get(..length)?;
        let mut way = Way::new();
        way.interface = Some(u32::from_ne_bytes([head[4], head[5], head[6], head[7]]));
        attributes(body, 8).for_each(|(kind, value)| way.take(kind, value));
        rest = rest.get(length.next_multiple_of(4).max(8)..).unwrap_or(&[]);
        let of_no_use = Hop { via: Addr::UNSPECIFIED, interface: 0, up: head[2] & DOWN == 0 };
        Some(way.hop(head[2]).unwrap_or(of_no_use))
    });
    all.collect()
}

fn number(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn address(value: &[u8]) -> Option<Addr> {
    match value.len() {
        4 => Some(Addr::v4(value.try_into().ok()?)),
        _ => Some(Addr(value.try_into().ok()?)),
    }
}

/// A prefix length of 128 bits from one of the address's own family.
pub(super) fn length(addr: Addr, bits: u8) -> u8 {
    if addr.is_v4() { 96 + bits.min(32) } else { bits }
}

#[cfg(test)]
mod tests;
