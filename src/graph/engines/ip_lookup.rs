//! Routes: the longest prefix that holds.

use crate::contract::plan::FusedNext;
use crate::frame::Frame;
use crate::graph::arguments::{AddressNames, Arguments, FromArgument, Ip4, Net4, mask_of, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use std::collections::HashMap;

/// `LinearIPLookup`.
pub const CLASS: EngineClass = EngineClass {
    name: "LinearIPLookup",
    doc: "Sends packets to the output of the longest prefix that holds the address where they go next, and \
          notes its gateway. LinearIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ...). Handlers: table, add, remove \
          (write)",
    make: Make::with("1/-", "h/h", "x/x", make),
};

/// Routes of one engine, at most.
const ROUTES_MAX: usize = 1 << 17;

/// Routes of one that is in the kernel, at most: it tries them one behind the other.
const KERNEL_ROUTES_MAX: usize = 64;

/// A gateway, and an output.
type Way = (Option<Ip4>, u16);

/// Routes by the length of their prefix: a look-up asks for each length that there is, the longest first.
#[derive(Default)]
struct IpLookup {
    lengths: Vec<(u8, HashMap<u32, Way>)>,
    routes: usize,
}

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (mut table, mut wrong) = (IpLookup::default(), false);
    for argument in args.rest() {
        match read(&words_of(argument), args.names) {
            Some((net, Some(way))) if table.routes < ROUTES_MAX => table.add(net, way),
            _ => {
                args.say(argument, format!("'{}' is no route", argument.text), "as 10.0.0.0/8 10.0.0.1 1, or 0/0 1");
                wrong = true;
            }
        }
    }
    (!wrong).then(|| Box::new(table) as Box<dyn Engine>)
}

/// A route in words: a network, a gateway that may be missing, an output.
fn read(words: &[&str], names: &AddressNames) -> Option<(Net4, Option<Way>)> {
    let net = |word: &str| {
        Net4::read(word, names).or_else(|| (word == "0/0").then(|| Net4 { address: Ip4::default(), length: 0 }))
    };
    let gateway = |word: &str| match word {
        "-" | "0.0.0.0" => Some(None),
        word => Ip4::read(word, names).map(Some),
    };
    match *words {
        [to, output] => Some((net(to)?, Some((None, output.parse().ok()?)))),
        [to, by, output] => Some((net(to)?, Some((gateway(by)?, output.parse().ok()?)))),
        [to] => Some((net(to)?, None)),
        _ => None,
    }
}

impl IpLookup {
    fn add(&mut self, net: Net4, way: Way) {
        let key = u32::from_be_bytes(net.address.0) & net.mask();
        let at = match self.lengths.binary_search_by(|(length, _)| net.length.cmp(length)) {
            Ok(at) => at,
            Err(at) => {
                self.lengths.insert(at, (net.length, HashMap::new()));
                at
            }
        };
        self.routes += usize::from(self.lengths[at].1.insert(key, way).is_none());
    }

    fn remove(&mut self, net: Net4) -> bool {
        let key = u32::from_be_bytes(net.address.0) & net.mask();
        let table = self.lengths.iter_mut().find(|(length, _)| *length == net.length);
        let gone = table.is_some_and(|(_, routes)| routes.remove(&key).is_some());
        self.lengths.retain(|(_, routes)| !routes.is_empty());
        self.routes -= usize::from(gone);
        gone
    }

    /// The way of a route in the kernel, or that of packets without one.
    fn way(&self, way: Option<Way>, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        match way {
            Some((gateway, output)) => {
                let next = gateway.map(|gateway| FusedNext::Known(gateway.0)).or(at.next);
                body.to(output, FusedAt { next, ..at })
            }
            None => body.drop(),
        }
    }

    #[inline]
    fn find(&self, to: Ip4) -> Option<Way> {
        let to = u32::from_be_bytes(to.0);
        self.lengths.iter().find_map(|(length, routes)| routes.get(&(to & mask_of(*length))).copied())
    }
}

impl Engine for IpLookup {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match self.find(Ip4(frame.notes.next)) {
            Some((gateway, output)) => {
                if let Some(gateway) = gateway {
                    frame.notes.next = gateway.0;
                }
                Pushed::To(output, frame)
            }
            None => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let place = match at.next {
            None => return self.way(self.find(Ip4::default()), at, body),
            Some(FusedNext::Known(to)) => return self.way(self.find(Ip4(to)), at, body),
            Some(FusedNext::Frame(place)) => place,
            Some(FusedNext::Flow(_)) => return body.up("the addresses of flows are looked up there"),
        };
        if self.routes > KERNEL_ROUTES_MAX {
            return Err(NoForm::Because(format!("it has more than {KERNEL_ROUTES_MAX} routes")));
        }
        let (mut label, v4) = (body.drop()?, FusedAt { is_v4: true, ..at });
        // The shortest prefixes are asked for last, so they are made first.
        for (length, routes) in self.lengths.iter().rev() {
            let mask = mask_of(*length).to_be_bytes();
            let mut routes: Vec<_> = routes.iter().collect();
            routes.sort();
            for (to, way) in routes {
                let found = self.way(Some(*way), v4, body)?;
                label = body.bytes_are(place, (&to.to_be_bytes(), &mask), found, label)?;
            }
        }
        if at.is_v4 {
            return Ok(label);
        }
        let other = body.up("packets of IPv6 are no matter of IPv4's routes")?;
        body.is_v4(at, label, other)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "table").then(|| {
            let each =
                self.lengths.iter().flat_map(|(length, routes)| routes.iter().map(move |route| (*length, route)));
            let line = |(length, (key, (gateway, output))): (u8, (&u32, &Way))| {
                let gateway = gateway.map_or("-".to_owned(), |gateway| gateway.to_string());
                format!("{}/{length} {gateway} {output}", Ip4(key.to_be_bytes()))
            };
            let mut lines: Vec<_> = each.map(line).collect();
            lines.sort();
            lines.join("\n")
        })
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        let words: Vec<_> = value.split_whitespace().collect();
        let read = read(&words, &AddressNames::default()).ok_or("no route: as 10.0.0.0/8 10.0.0.1 1".to_owned());
        match (handler, read) {
            ("add" | "set", Ok((net, Some(way)))) if self.routes < ROUTES_MAX => self.add(net, way),
            ("remove", Ok((net, _))) if self.remove(net) => {}
            ("add" | "set", Ok(_)) => return Some(Err(format!("no output, or more than {ROUTES_MAX} routes"))),
            ("remove", Ok(_)) => return Some(Err("there is no such route".to_owned())),
            ("add" | "set" | "remove", Err(error)) => return Some(Err(error)),
            _ => return None,
        }
        Some(Ok(()))
    }
}
