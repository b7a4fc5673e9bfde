//! What a graph takes, read before any channel of it is opened: `eth0/ip/upd *:53` is refused in a file and at a node in the same words.

use crate::classify::filter::TaughtRule;
use crate::classify::rule::Layer;
use crate::clean;
use crate::graph::taught::Classifying;
use crate::nodeos::channel;
use crate::nodeos::interface::Error;

/// The port of which a specification of address resolution is.
pub(super) fn heard(take: &str) -> Option<&str> {
    take.trim().strip_suffix("/arp")
}

/// Why there is no channel of what a graph takes.
pub(super) fn no_door(error: Error) -> String {
    match error {
        Error::Invalid => "no address of a channel of this protocol, as in eth0/ip 10.0.0.0/24 or eth0/ip/udp *:53: docs/nodeos.md",
        Error::Exists => "another graph or channel of this node has just these packets: anode channel ls",
        Error::Limit => "the role has all that it was granted: raise grants.channels, one for each thing that is taken, or take less",
        error => error.help(),
    }
    .to_owned()
}

/// Refuses what no node could open. `ports`: all ports, in their order, and whether each has a link of its own; `classifying`: what rules
/// in a language may say, if it is known.
pub fn check_take(text: &str, ports: &[(&str, bool)], classifying: Option<&Classifying>) -> Result<(), String> {
    let no_port = |name: &str, of: &str, links: bool| {
        let known: Vec<_> = ports.iter().filter(|(_, link)| *link || !links).map(|(name, _)| *name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("no port{of} is called {}; there are: {known}", clean::shown(name))
    };
    if let Some(port) = heard(text) {
        let is_there = ports.contains(&(port, true));
        return if is_there { Ok(()) } else { Err(no_port(port, " with a link of its own", true)) };
    }
    let (protocol, address) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let (base, engines) = channel::split(protocol);
    if let [engine, ..] = engines.as_slice() {
        return Err(format!(
            "'{}' is no protocol of a channel, as in eth0/ip/udp *:53; engines stand in the graph's text, and not here",
            clean::shown(engine)
        ));
    }
    let (base, language) = channel::language(base);
    let said = address.trim();
    let port = |name: &str| channel::port_at(name, ports.iter().map(|(known, _)| *known));
    match channel::rule(base, if language.is_some() { "" } else { said }, &[], port) {
        Ok(rule) if rule.layer == Layer::Anep => Err("ANEP is for environments: a graph takes ordinary traffic".into()),
        Ok(rule) => match language.zip(classifying) {
            Some((language, Classifying { protocols, words, .. })) => {
                let read = TaughtRule::read(said, language, (rule.port, rule.layer), protocols, words);
                read.map(drop).map_err(|why| why.to_string())
            }
            None => Ok(()),
        },
        Err(Error::Unknown) => Err(no_port(base.split('/').next().unwrap_or_default(), "", false)),
        Err(error) => Err(no_door(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_node_could_open_is_refused() {
        let ports = [("eth0", true), ("udp-1", false)];
        let classifying = Classifying::default();
        let check = |text: &str| check_take(text, &ports, Some(&classifying)).err().unwrap_or_default();
        for good in [
            "eth0/arp",
            "eth0/ip *",
            "*/ip/udp *:53",
            "udp-1/ip",
            " eth0 type 0x88b5 ",
            "if1/ip",
            "eth0/pcap udp port 53",
        ] {
            assert_eq!(check(good), "", "{good}");
        }
        for (bad, why) in [
            ("eth1/ip", "no port is called eth1; there are: eth0, udp-1"),
            ("if2/ip", "no port is called if2; there are"),
            ("eth0/ip/udp/rule [ip | udp (dprt = 53) | *]", "rule:1:12: udp has no field 'dprt'; do you mean 'dport'"),
            ("eth0/ip/pcap udp prt 53", "rule:1:5: 'prt'"),
            ("udp-1/arp", "no port with a link of its own is called udp-1; there are: eth0"),
            ("eth0/ip/upd *:53", "'upd' is no protocol of a channel, as in eth0/ip/udp *:53"),
            ("eth0/ip/udp 53", "no address of a channel of this protocol"),
            ("eth0/ip 10.0.0.0/99", "no address of a channel of this protocol"),
            ("eth0/anep type 7", "ANEP is for environments"),
            ("eth1/ip/pcap udp", "no port is called eth1"),
            ("", "no port is called ; there are: eth0, udp-1"),
        ] {
            let said = check(bad);
            assert!(said.starts_with(why), "{bad}: {said}");
        }
    }
}
