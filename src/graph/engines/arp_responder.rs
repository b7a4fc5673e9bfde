//! Answers to questions for link addresses (RFC 826).

use crate::frame::Frame;
use crate::graph::arguments::{Arguments, FromArgument, Ip4, Net4, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::wire::arp;
use crate::wire::ethernet::{self, Mac, ethertype};

/// `ARPResponder`.
pub const CLASS: EngineClass = EngineClass {
    name: "ARPResponder",
    doc: "Answers ARP requests for addresses; what is none leaves by output 1. ARPResponder(IP/MASK ... MAC, ...)",
    make: Make::with("1/1-2", "a/ah", "x/x", make),
};

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (mut entries, mut wrong) = (Vec::new(), false);
    for argument in args.rest() {
        let (mut nets, mut mac) = (Vec::new(), None);
        let mut known = true;
        for word in words_of(argument) {
            // A name can be of both kinds; of an address the kind is seen.
            let (net, station) = (Net4::read(word, args.names), Mac::read(word, args.names));
            known &= net.is_some() || station.is_some();
            nets.extend(net.filter(|_| station.is_none() || args.names.ip.contains_key(word)));
            mac = mac.or(station);
        }
        match mac.filter(|_| known && !nets.is_empty()) {
            Some(mac) => entries.extend(nets.into_iter().map(|net| (net, mac))),
            None => {
                args.say(argument, format!("'{}' is no entry", argument.text), "as 10.0.0.1 00:11:22:33:44:55");
                wrong = true;
            }
        }
    }
    (!wrong).then(|| Box::new(ArpResponder(entries)) as Box<dyn Engine>)
}

struct ArpResponder(Vec<(Net4, Mac)>);

impl Engine for ArpResponder {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let asked = frame.bytes().get(ethernet::HEADER..).map(arp::Repr::parse);
        let Some(Ok(asked)) = asked.filter(|_| frame.bytes().get(12..14) == Some(&[8, 6])) else {
            return Pushed::To(1, frame);
        };
        let own = self.0.iter().find(|(net, _)| net.holds(Ip4(asked.target_ip))).map(|(_, mac)| *mac);
        let Some(own) = own.filter(|_| asked.operation == arp::Operation::Request) else {
            return Pushed::To(1, frame);
        };
        let head = ethernet::Repr { destination: asked.sender_mac, source: own, tag: None, ethertype: ethertype::ARP };
        let answer = arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac: own,
            sender_ip: asked.target_ip,
            target_mac: asked.sender_mac,
            target_ip: asked.sender_ip,
        };
        frame.truncate(ethernet::HEADER + arp::LENGTH);
        let bytes = frame.bytes_mut();
        match (head.emit(bytes), bytes.get_mut(ethernet::HEADER..).map(|rest| answer.emit(rest))) {
            (Ok(_), Some(Ok(_))) => Pushed::To(0, frame),
            _ => Pushed::thrown(frame),
        }
    }
}
