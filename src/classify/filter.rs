//! What is an incoming channel's packets, as both halves need it: conditions on the fixed fields, or a rule over taught protocols.
//! Example: `if0/ip/udp/rule` with `[ip | udp (dport = 2001) | app (stream = 7) | *]`.
//!
//! A rule says which packets, and the layer what of them is handed over. The ports hear of a filter what the kernel can look at, and
//! that is more than a rule where it names other fields ([`Watch::is_shared`]); the classifier decides (`graph/taught.rs`).

use super::fixed::{self, FixedRule};
use super::rule::{ANYWHERE, Layer, Rule};
use super::taught::language::Language;
use super::taught::pattern::{Case, HostNames, Pattern, Wanted};
use super::taught::protocol::ProtocolId;
use super::taught::protocols::Protocols;
use super::taught::text::Vocabulary;
use super::taught::words::{RuleWords, WordsOf};
use crate::frame::PortId;
use crate::wire::anep;
use crate::wire::ethernet::ethertype;
use std::fmt;
use std::sync::Arc;

/// Bytes of a rule's text.
pub const RULE_BYTES_MAX: usize = 1024;

/// What is a channel's packets.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Fields that both halves know.
    Fixed(Rule),
    /// Protocols that somebody has taught.
    Taught(Arc<TaughtRule>),
    /// Nothing that a port brings: packets are passed on to the channel by its own program.
    Passed,
}

/// A rule over taught protocols, and of which packets it is asked.
#[derive(Clone, Debug)]
pub struct TaughtRule {
    /// As it was written.
    pub text: Box<str>,
    /// In which language.
    pub language: Language,
    /// The port, or any.
    pub port: Option<PortId>,
    /// The last protocol that its packets must have, whose payload is handed over.
    pub layer: Layer,
    /// What ports watch for.
    pub watches: Vec<Watch>,
    /// The rule over fixed fields that says just the same, if there is one.
    pub same: Option<Rule>,
}

/// Frames that a port brings to the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    /// Which.
    pub rule: Rule,
    /// Whether the Linux stack has them, too: not all of them are somebody's here.
    pub is_shared: bool,
}

/// Why a rule is no channel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRefused {
    /// Its text is too long.
    Long(usize),
    /// Its text is wrong, or can never hold.
    Wrong(String),
    /// It is about packets that the node takes itself.
    Own(&'static str),
    /// It is about packets that no port brings.
    Tagged,
}

impl fmt::Display for RuleRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleRefused::Long(bytes) => write!(f, "a rule has at most {RULE_BYTES_MAX} bytes, this one has {bytes}"),
            RuleRefused::Wrong(why) => f.write_str(why),
            RuleRefused::Own(what) => write!(f, "{what} is the node's own, and no channel's: name something else"),
            RuleRefused::Tagged => f.write_str(
                "frames with a VLAN's tag are their VLAN interface's: make that a port, and leave out 'vlan'",
            ),
        }
    }
}

impl Filter {
    /// The port, or any.
    pub fn port(&self) -> Option<PortId> {
        match self {
            Filter::Fixed(rule) => rule.port,
            Filter::Taught(rule) => rule.port,
            Filter::Passed => None,
        }
    }

    /// The last protocol.
    pub fn layer(&self) -> Layer {
        match self {
            Filter::Fixed(rule) => rule.layer,
            Filter::Taught(rule) => rule.layer,
            Filter::Passed => Layer::Link,
        }
    }

    /// Its fixed fields, if it has no others.
    pub fn fixed(&self) -> Option<&Rule> {
        match self {
            Filter::Fixed(rule) => Some(rule),
            Filter::Taught(_) | Filter::Passed => None,
        }
    }

    /// What ports watch for.
    pub fn watches(self) -> Vec<Watch> {
        match self {
            Filter::Fixed(rule) => vec![Watch { rule, is_shared: false }],
            Filter::Taught(rule) => rule.watches.clone(),
            Filter::Passed => Vec::new(),
        }
    }
}

impl TaughtRule {
    /// Reads a rule, of packets that begin with Ethernet's header.
    pub fn read(
        text: &str,
        language: Language,
        (port, layer): (Option<PortId>, Layer),
        protocols: &Protocols,
        words: &RuleWords,
    ) -> Result<TaughtRule, RuleRefused> {
        if text.len() > RULE_BYTES_MAX {
            return Err(RuleRefused::Long(text.len()));
        }
        let mut names = WordsOf::whatever(words);
        let (wanted, root) = wanted(text, language, layer, protocols, &mut names)?;
        let cases = wanted.cases(root).map_err(RuleRefused::Wrong)?;
        if cases.is_empty() {
            let why = "this can never hold: its parts, or it and the channel's protocol, contradict each other";
            return Err(RuleRefused::Wrong(why.into()));
        }
        let mut rule = TaughtRule { text: text.into(), language, port, layer, watches: Vec::new(), same: None };
        for case in &cases {
            let around = fixed::around(protocols, case).ok_or(RuleRefused::Tagged)?;
            refuse_own(protocols, case, &around.rule)?;
            let around = FixedRule { rule: Rule { port, ..around.rule }, ..around };
            // Whole frames are more than a transport's payload, and a channel of fixed fields hands over what its layer says.
            // What words mean may change, and with it what it says.
            if cases.len() == 1 && around.is_same && around.rule.layer == layer && !names.is_used {
                rule.same = Some(around.rule.clone());
            }
            let watch = watch(around, layer);
            if !rule.watches.contains(&watch) {
                rule.watches.push(watch);
            }
        }
        Ok(rule)
    }

    /// The same, as it is looked for with what is taught and known now.
    pub fn wanted(&self, protocols: &Protocols, words: &RuleWords) -> Result<Wanted, RuleRefused> {
        let mut names = WordsOf::by(words);
        let (wanted, _) = wanted(&self.text, self.language, self.layer, protocols, &mut names)?;
        let waits = |name| Err(RuleRefused::Wrong(format!("no address of {name} has been found yet")));
        names.waits.map_or(Ok(wanted), waits)
    }

    /// Whether it is right with these protocols and words, whatever the addresses of hosts that are followed.
    pub fn check(&self, protocols: &Protocols, words: &RuleWords) -> Result<(), RuleRefused> {
        wanted(&self.text, self.language, self.layer, protocols, &mut WordsOf::whatever(words)).map(drop)
    }

    /// Whether two mean the same packets.
    pub fn is_like(&self, other: &TaughtRule) -> bool {
        (&*self.text, self.language, self.port, self.layer) == (&*other.text, other.language, other.port, other.layer)
    }
}

/// What a text wants of packets of a layer, and what those begin with.
fn wanted(
    written: &str,
    language: Language,
    layer: Layer,
    protocols: &Protocols,
    names: &mut dyn HostNames,
) -> Result<(Wanted, ProtocolId), RuleRefused> {
    let id = |name: &str| protocols.id(name).ok_or_else(|| RuleRefused::Wrong(protocols.unknown(name)));
    let root = id("ethernet")?;
    let known = &mut Vocabulary { protocols, root, names };
    let read = language.read(written, known).map_err(|mistake| RuleRefused::Wrong(mistake.show("rule", written)))?;
    let behind: &[&str] = match layer {
        Layer::Link | Layer::Anep => return Ok((read, root)),
        Layer::Ip => &[],
        Layer::Udp => &["udp"],
        Layer::Tcp => &["tcp"],
    };
    let mut ways = Vec::new();
    for ip in ["ip", "ip6"] {
        let way = [root, id(ip)?].into_iter().map(Ok).chain(behind.iter().map(|name| id(name)));
        ways.push(Wanted::One(Pattern { way: way.collect::<Result<_, _>>()?, ..Pattern::default() }));
    }
    Ok((Wanted::All(vec![read, Wanted::Any(ways)]), root))
}

/// What is the node's own is no channel's, as with fixed fields.
fn refuse_own(protocols: &Protocols, case: &Case, around: &Rule) -> Result<(), RuleRefused> {
    let is_anep = |id: &ProtocolId| protocols.one(*id).is_some_and(|protocol| protocol.name == "anep");
    if case.holds.way.iter().any(is_anep)
        || around.layer == Layer::Udp && around.destination_port == Some(anep::UDP_PORT)
        || around.layer == Layer::Ip && around.kind == Some(u16::from(anep::IP_PROTOCOL))
    {
        return Err(RuleRefused::Own("ANEP"));
    }
    if around.layer == Layer::Link && around.kind == Some(ethertype::ARP) {
        return Err(RuleRefused::Own("address resolution"));
    }
    Ok(())
}

/// What the kernel watches for: by the Ethernet type, IPv4's protocol, or a transport's destination port alone. So it has at most four
/// shapes for all rules together.
fn watch(around: FixedRule, layer: Layer) -> Watch {
    let FixedRule { rule, is_same } = around;
    let any = Rule { source: ANYWHERE, destination: ANYWHERE, source_port: None, ..rule.clone() };
    let coarse = match (rule.layer, rule.destination_port, rule.kind) {
        (Layer::Udp | Layer::Tcp, Some(_), _) => in_v4(any),
        (Layer::Udp, None, _) => in_v4(Rule { layer: Layer::Ip, kind: Some(super::headers::UDP.into()), ..any }),
        (Layer::Tcp, None, _) => in_v4(Rule { layer: Layer::Ip, kind: Some(super::headers::TCP.into()), ..any }),
        (Layer::Ip, _, Some(_)) => in_v4(any),
        (Layer::Ip, _, None) => Rule { layer: Layer::Link, kind: Some(ethertype::IPV4), ..any },
        (Layer::Link | Layer::Anep, ..) => any,
    };
    // What is the kernel's word on a frame is the channel's only if it hands over what the frame is known to have.
    let is_exact = is_same && coarse == rule && (layer == Layer::Link || layer == rule.layer);
    Watch { rule: coarse, is_shared: !is_exact }
}

fn in_v4(rule: Rule) -> Rule {
    Rule { source: fixed::V4, destination: fixed::V4, ..rule }
}

#[cfg(test)]
mod tests;
