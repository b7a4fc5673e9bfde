//! `[port.discipline]`: which of the packets that wait at a port leaves first, and at which rate.
//!
//! ```toml
//! [port.discipline]
//! order = "priority"
//! bits_per_second = 10_000_000
//! [[port.discipline.class]]
//! name = "voice"
//! rules = ["[ip | udp (dport = 5004..5005) | *]"]
//! priority = 1
//! [[port.discipline.class]]
//! name = "rest"
//! ```
//!
//! What is written becomes a description of classes ([`DisciplineSpec`]) and rules that say whose a frame is, those of
//! `docs/classifier.md`. Classes are asked in their order; what is of none is the last one's with a queue.

use crate::port::sorted::SortingSpec;
use crate::schedule::discipline::{
    Admission, BURST_LEAST, ClassSpec, DisciplineSpec, OrderKind, PolicyName, RateLimit, Red,
};
use serde::{Deserialize, Serialize};

/// Bytes of a burst where nothing is said of it: what comes in ten milliseconds, and two frames at least.
const BURST_PARTS: u64 = 8 * 100;

/// A discipline of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplineFile {
    /// The order of its classes: priority, wfq, drr, edf, or that of an extension.
    #[serde(default)]
    pub order: OrderKind,
    /// What the port sends at most, in bits a second.
    pub bits_per_second: Option<u64>,
    /// Bytes at once.
    pub burst_bytes: Option<u64>,
    /// Definitions of protocols, beside those that are always known.
    pub protocols: Option<String>,
    /// Its classes.
    #[serde(default, rename = "class")]
    pub classes: Vec<ClassFile>,
}

/// A class of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFile {
    /// Its name.
    pub name: String,
    /// The class above it.
    pub below: Option<String>,
    /// Rules and pcap filters: what one of them holds for is its own.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Its part beside its siblings.
    pub weight: Option<u32>,
    /// Higher leaves first.
    pub priority: Option<u8>,
    /// Microseconds until a packet is to leave.
    pub deadline_us: Option<u64>,
    /// What it leaves by at most, in bits a second.
    pub bits_per_second: Option<u64>,
    /// Bytes at once.
    pub burst_bytes: Option<u64>,
    /// The order of classes below it.
    pub order: Option<OrderKind>,
    /// Packets that may wait.
    pub packets: Option<usize>,
    /// Drops before that, by chance.
    pub red: Option<RedFile>,
    /// An extension says what may wait.
    pub admission: Option<PolicyName>,
}

/// Random early detection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedFile {
    /// Packets on the average up to which none is dropped.
    pub least: u32,
    /// Packets on the average from which all are.
    pub most: u32,
    /// The chance just before that.
    pub chance: f64,
}

fn rate(bits: Option<u64>, burst: Option<u64>) -> Result<Option<RateLimit>, String> {
    match (bits, burst) {
        (Some(bits_per_second), burst) => {
            let burst = burst.unwrap_or((bits_per_second / BURST_PARTS).clamp(BURST_LEAST, 1 << 30));
            Ok(Some(RateLimit { bits_per_second, burst }))
        }
        (None, Some(_)) => Err("burst_bytes is of a rate: write bits_per_second too".to_owned()),
        (None, None) => Ok(None),
    }
}

impl ClassFile {
    fn spec(&self) -> Result<ClassSpec, String> {
        let usual = ClassSpec::named(&self.name);
        let red = |red: RedFile| Admission::Red(Red { least: red.least, most: red.most, chance: red.chance });
        let admission = match (self.red.map(red), &self.admission) {
            (Some(_), Some(_)) => return Err("red and admission: one of both says what may wait".to_owned()),
            (None, Some(name)) => Admission::Extension(name.clone()),
            (red, None) => red.unwrap_or(Admission::Tail),
        };
        Ok(ClassSpec {
            below: self.below.clone(),
            weight: self.weight.unwrap_or(usual.weight),
            priority: self.priority.unwrap_or(usual.priority),
            deadline_ns: self.deadline_us.map_or(usual.deadline_ns, |us| us.saturating_mul(1_000)),
            rate: rate(self.bits_per_second, self.burst_bytes)?,
            order: self.order.clone().unwrap_or(usual.order),
            packets: self.packets.unwrap_or(usual.packets),
            admission,
            ..usual
        })
    }
}

impl DisciplineFile {
    /// The extensions that it names.
    pub(super) fn extensions(&self) -> impl Iterator<Item = &str> {
        let of_classes = self.classes.iter().flat_map(|class| {
            [class.order.as_ref().and_then(OrderKind::brought), class.admission.as_ref()].into_iter().flatten()
        });
        self.order.brought().into_iter().chain(of_classes).map(|name| &name.extension[..])
    }

    /// What a port sorts by; `root`: what its frames begin with.
    pub(super) fn sorting(&self, root: &'static str) -> Result<SortingSpec, String> {
        let of = |class: &ClassFile| class.spec().map_err(|why| format!("class {}: {why}", class.name));
        let classes = self.classes.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let rate = rate(self.bits_per_second, self.burst_bytes)?;
        let spec = DisciplineSpec { order: self.order.clone(), rate, classes };
        spec.check()?;
        let mut rules = Vec::new();
        for (at, class) in self.classes.iter().enumerate() {
            if !class.rules.is_empty() && spec.is_above(&class.name) {
                return Err(format!("class {}: rules are for classes without others below them", class.name));
            }
            rules.extend(class.rules.iter().map(|rule| (rule.clone(), at)));
        }
        let sorting = SortingSpec { spec, protocols: self.protocols.clone(), root, rules };
        // What cannot be put together is said now.
        sorting.classifier(0).map(|_| sorting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeFile;
    use std::sync::Arc;

    fn port(text: &str) -> Result<Arc<SortingSpec>, String> {
        let text = format!("name = \"r1\"\n[[port]]\npacket = \"eth1\"\n{text}");
        let file = NodeFile::parse(&text).map_err(|why| why.to_string())?;
        file.ports[0].sorting().map(|sorting| sorting.unwrap()).map_err(|why| why.to_string())
    }

    #[test]
    fn classes_are_as_they_are_written() {
        let sorting = port(
            "[port.discipline]\norder = \"priority\"\nbits_per_second = 10_000_000\n\
             [[port.discipline.class]]\nname = \"voice\"\nrules = [\"[ip | udp (dport = 5004..5005) | *]\", \"tcp port 22\"]\n\
             priority = 1\nbits_per_second = 1_000_000\nburst_bytes = 4000\n\
             [[port.discipline.class]]\nname = \"data\"\norder = \"drr\"\n\
             [[port.discipline.class]]\nname = \"web\"\nbelow = \"data\"\nrules = [\"tcp port 80\"]\nweight = 300\n\
             red = { least = 20, most = 60, chance = 0.1 }\n\
             [[port.discipline.class]]\nname = \"rest\"\nbelow = \"data\"\npackets = 100\ndeadline_us = 5000\n",
        )
        .unwrap();
        let DisciplineSpec { order, rate, classes } = &sorting.spec;
        assert_eq!(
            (order, *rate),
            (&OrderKind::Priority, Some(RateLimit { bits_per_second: 10_000_000, burst: 12_500 }))
        );
        assert_eq!(sorting.rules.iter().map(|(_, class)| *class).collect::<Vec<_>>(), [0, 0, 2]);
        let expected = [
            ClassSpec {
                priority: 1,
                rate: Some(RateLimit { bits_per_second: 1_000_000, burst: 4_000 }),
                ..ClassSpec::named("voice")
            },
            ClassSpec { order: OrderKind::Drr, ..ClassSpec::named("data") },
            ClassSpec {
                below: Some("data".into()),
                weight: 300,
                admission: Admission::Red(Red { least: 20, most: 60, chance: 0.1 }),
                ..ClassSpec::named("web")
            },
            ClassSpec { below: Some("data".into()), packets: 100, deadline_ns: 5_000_000, ..ClassSpec::named("rest") },
        ];
        assert_eq!(classes[..], expected);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let class = |rest: &str| format!("[port.discipline]\n[[port.discipline.class]]\nname = \"a\"\n{rest}\n");
        let cases = [
            ("[port.discipline]\n".to_owned(), "port eth1: discipline: a discipline needs a class"),
            ("[port.discipline]\norder = \"wrr\"\n".to_owned(), "'wrr' is no order: priority, wfq, drr, edf"),
            (class("weight = 0"), "class a: weight = 0: from 1 to 10000"),
            (class("burst_bytes = 5000"), "class a: burst_bytes is of a rate"),
            (class("rules = [\"[ip (scr = 10.0.0.1) | *]\"]"), "ip has no field 'scr'; do you mean 'src'?"),
            (class("rules = [\"gateway x\"]"), "class a: rule:1:"),
            ("[port.discipline]\norder = \"a/b/C\"\n".to_owned(), "'a/b/C' is not EXTENSION/CLASS"),
            ("[port.discipline]\norder = \"a/B(1\"\n".to_owned(), "'a/B(1' is not EXTENSION/CLASS"),
            (class("order = \"a/B\""), "class a: an order is of classes below it, and there are none"),
            (
                class("admission = \"a/B\"\n[[port.discipline.class]]\nname = \"b\"\nbelow = \"a\""),
                "class a: an admission is of a class with a queue",
            ),
            (
                class("admission = \"a/B\"\nred = { least = 1, most = 2, chance = 0.1 }"),
                "class a: red and admission: one of both",
            ),
            (class("wieght = 3"), "unknown field `wieght`"),
            (
                class("rules = [\"udp\"]\n[[port.discipline.class]]\nname = \"b\"\nbelow = \"a\""),
                "class a: rules are for classes without others below them",
            ),
        ];
        for (text, expected) in cases {
            let why = port(&text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
