//! What a discipline is made from: its classes, each with its place in the tree, checked as a whole.

use super::admission::Admission;
use super::brought::{KNOWN_MAX, PolicyName};
use super::order::OrderKind;
use crate::schedule::{DEADLINE_NS_MAX, WEIGHT_MAX};

/// Classes of one discipline.
pub const CLASSES_MAX: usize = 256;

/// Classes above each other.
pub const DEPTH_MAX: usize = 8;

/// Packets that may wait in all queues of a discipline together.
pub const PACKETS_MAX: usize = 65_536;

/// The least burst of a rate, in bytes: two Ethernet frames.
pub const BURST_LEAST: u64 = 3_028;

/// The least rate, in bits a second: what is slower would keep a packet for more than a second.
pub const BITS_LEAST: u64 = 16_000;

/// What a class leaves by: so many bits a second, and so many bytes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits a second.
    pub bits_per_second: u64,
    /// Bytes at once.
    pub burst: u64,
}

/// A class of packets.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Its name.
    pub name: String,
    /// The class above it; none: it is below the port itself.
    pub below: Option<String>,
    /// Its part beside its siblings, where these are in `wfq`, `edf` or `drr`.
    pub weight: u32,
    /// Higher leaves first, where they are in `priority`.
    pub priority: u8,
    /// Nanoseconds until a packet is to leave, where they are in `edf`; 0: no deadline.
    pub deadline_ns: u64,
    /// What it leaves by at most.
    pub rate: Option<RateLimit>,
    /// The order of the classes below it, if it has some.
    pub order: OrderKind,
    /// Packets that may wait in its queue.
    pub packets: usize,
    /// Which of those that find room may wait.
    pub admission: Admission,
}

/// A discipline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisciplineSpec {
    /// The order of the classes below the port itself.
    pub order: OrderKind,
    /// What the port sends at most.
    pub rate: Option<RateLimit>,
    /// Its classes; none: one queue.
    pub classes: Vec<ClassSpec>,
}

impl ClassSpec {
    /// A class of this name, as it is where nothing is said of it.
    pub fn named(name: &str) -> ClassSpec {
        ClassSpec {
            name: name.to_owned(),
            below: None,
            weight: 100,
            priority: 0,
            deadline_ns: 0,
            rate: None,
            order: OrderKind::default(),
            packets: 256,
            admission: Admission::Tail,
        }
    }
}

impl DisciplineSpec {
    /// Whether a class has classes below it.
    pub fn is_above(&self, name: &str) -> bool {
        self.classes.iter().any(|class| class.below.as_deref() == Some(name))
    }

    /// The places of the classes that have queues.
    pub fn queues(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.classes.len()).filter(|at| !self.is_above(&self.classes[*at].name))
    }

    /// The place of a class.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// What extensions bring of it: of which class, or of the port itself; whether it is an order, and no admission; its name.
    pub fn brought(&self) -> impl Iterator<Item = (Option<&str>, bool, &PolicyName)> {
        let orders = self.orders().filter_map(|(class, order)| Some((class, true, order.brought()?)));
        let gates = self.queues().filter_map(|at| match &self.classes[at].admission {
            Admission::Extension(name) => Some((Some(&self.classes[at].name[..]), false, name)),
            _ => None,
        });
        orders.chain(gates)
    }

    /// Those of the port itself, and of classes above others.
    fn orders(&self) -> impl Iterator<Item = (Option<&str>, &OrderKind)> {
        let above = self.classes.iter().filter(|class| self.is_above(&class.name));
        let of_classes = above.map(|class| (Some(&class.name[..]), &class.order));
        core::iter::once((None, &self.order)).chain(of_classes)
    }

    /// Says what cannot be, and what could.
    pub fn check(&self) -> Result<(), String> {
        if self.classes.is_empty() {
            return Err("a discipline needs a class: [[port.discipline.class]]".to_owned());
        }
        if self.classes.len() > CLASSES_MAX {
            return Err(format!("{} classes: at most {CLASSES_MAX}", self.classes.len()));
        }
        check_rate(self.rate)?;
        for (at, class) in self.classes.iter().enumerate() {
            if self.place(&class.name) != Some(at) {
                return Err(format!("two classes are called '{}'", class.name));
            }
            class.check().map_err(|why| format!("class {}: {why}", class.name))?;
            self.check_place(class).map_err(|why| format!("class {}: {why}", class.name))?;
        }
        let is_leaf = |class: &&ClassSpec| !self.is_above(&class.name);
        if let Some(class) = self.classes.iter().filter(is_leaf).find(|class| class.order.brought().is_some()) {
            return Err(format!("class {}: an order is of classes below it, and there are none", class.name));
        }
        let is_brought = |class: &&ClassSpec| matches!(class.admission, Admission::Extension(_));
        if let Some(class) = self.classes.iter().filter(is_brought).find(|class| self.is_above(&class.name)) {
            return Err(format!(
                "class {}: an admission is of a class with a queue, without others below it",
                class.name
            ));
        }
        for (class, order) in self.orders().filter(|(_, order)| order.brought().is_some()) {
            let below = self.classes.iter().filter(|other| other.below.as_deref() == class).count();
            if below > KNOWN_MAX {
                return Err(format!("order = \"{}\" of {below} classes: {KNOWN_MAX} at most", order.name()));
            }
        }
        let packets: usize = self.queues().map(|at| self.classes[at].packets).sum();
        if packets > PACKETS_MAX {
            return Err(format!("queues of {packets} packets: at most {PACKETS_MAX} together"));
        }
        Ok(())
    }

    /// Whether those above a class are there, and end.
    fn check_place(&self, class: &ClassSpec) -> Result<(), String> {
        let mut at = class;
        for _ in 0..DEPTH_MAX {
            let Some(above) = &at.below else { return Ok(()) };
            at = self.place(above).map(|place| &self.classes[place]).ok_or_else(|| {
                let names: Vec<_> = self.classes.iter().map(|class| &class.name[..]).collect();
                format!("below = \"{above}\": no class is called so: {}", names.join(", "))
            })?;
        }
        Err(format!("it is below itself, or below more than {} others", DEPTH_MAX - 1))
    }
}

impl ClassSpec {
    fn check(&self) -> Result<(), String> {
        let is_name = |name: &str| {
            (1..=32).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        if !is_name(&self.name) {
            return Err("a name is 1 to 32 letters, digits, '-', '_' and '.'".to_owned());
        }
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(format!("weight = {}: from 1 to {WEIGHT_MAX}", self.weight));
        }
        if self.deadline_ns > DEADLINE_NS_MAX {
            return Err(format!("deadline of {} ns: at most {DEADLINE_NS_MAX}", self.deadline_ns));
        }
        if !(1..=PACKETS_MAX).contains(&self.packets) {
            return Err(format!("packets = {}: from 1 to {PACKETS_MAX}", self.packets));
        }
        check_rate(self.rate)?;
        self.admission.check(self.packets)
    }
}

fn check_rate(rate: Option<RateLimit>) -> Result<(), String> {
    let Some(RateLimit { bits_per_second, burst }) = rate else { return Ok(()) };
    if bits_per_second < BITS_LEAST {
        return Err(format!("bits_per_second = {bits_per_second}: at least {BITS_LEAST}"));
    }
    if !(BURST_LEAST..=1 << 30).contains(&burst) {
        return Err(format!("burst_bytes = {burst}: from {BURST_LEAST} to {}", 1 << 30));
    }
    Ok(())
}
