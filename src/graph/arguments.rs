//! Arguments of an engine, as its class reads them. Example: `RatedSource("x", RATE 10, LIMIT 3)` has one by its place and two by
//! keywords. Whatever is missing, left over or no number is said at its place in the text.

use super::partner::Partner;
use crate::wire::Prefix;
use crate::wire::ethernet::Mac;
use click::arguments::{Argument, bytes, words};
use click::diagnostic::Diagnostic;
use click::span::Span;
use std::collections::HashMap;

/// What names stand for in arguments: `AddressInfo` and `IPRewriterPatterns` give some, and engines have theirs.
#[derive(Clone, Debug, Default)]
pub struct ArgumentNames {
    /// IPv4 addresses, with the length of their network.
    pub ip: HashMap<String, ([u8; 4], u8)>,
    /// Ethernet addresses.
    pub ethernet: HashMap<String, Mac>,
    /// What flows become: the words behind the name of a pattern.
    pub patterns: HashMap<String, Vec<String>>,
    /// Engines of the graph at this place, and the class of each.
    pub engines: HashMap<String, String>,
}

/// The arguments of one engine.
pub struct Arguments<'a> {
    all: &'a [Argument],
    used: Vec<bool>,
    /// The engine's name.
    pub name: &'a str,
    /// Inputs and outputs that are connected.
    pub ports: (u16, u16),
    /// Names for addresses.
    pub names: &'a ArgumentNames,
    class: &'a str,
    span: Span,
    wrong: &'a mut Vec<Diagnostic>,
}

/// What an argument can be read as.
pub trait FromArgument: Sized {
    /// What is wanted, for whoever wrote something else.
    const WANTED: &'static str;

    /// Reads it.
    fn read(text: &str, names: &ArgumentNames) -> Option<Self>;
}

impl<'a> Arguments<'a> {
    /// Those of an engine of this class that is declared there.
    pub fn new(
        all: &'a [Argument],
        (name, class, span): (&'a str, &'a str, Span),
        ports: (u16, u16),
        names: &'a ArgumentNames,
        wrong: &'a mut Vec<Diagnostic>,
    ) -> Arguments<'a> {
        Arguments { all, used: vec![false; all.len()], name, ports, names, class, span, wrong }
    }

    /// The next one by place: neither used nor with a keyword that is known to follow.
    fn next(&mut self, keyword: &str) -> Option<&'a Argument> {
        let named = self.all.iter().zip(&self.used).position(|(argument, used)| {
            !used && !keyword.is_empty() && argument.keyword().is_some_and(|(word, _)| word == keyword)
        });
        if named.is_some() {
            return None;
        }
        let is_plain = |argument: &Argument| argument.keyword().is_none_or(|(_, rest)| rest.is_empty());
        let at = self.all.iter().zip(&self.used).position(|(argument, used)| !used && is_plain(argument))?;
        // One that is left empty is not given.
        self.used[at] = true;
        self.all.get(at).filter(|argument| !argument.text.is_empty())
    }

    /// The value of a keyword: where it is written, and what follows the word.
    fn keyword(&mut self, keyword: &str) -> Option<(&'a Argument, &'a str)> {
        let of = |argument: &'a Argument| argument.keyword().filter(|(word, _)| *word == keyword).map(|(_, rest)| rest);
        let at = self.all.iter().zip(&self.used).position(|(argument, used)| !used && of(argument).is_some())?;
        self.used[at] = true;
        let argument = self.all.get(at)?;
        Some((argument, of(argument)?))
    }

    fn value<T: FromArgument>(&mut self, argument: &Argument, text: &str) -> Option<T> {
        let value = T::read(text, self.names);
        if value.is_none() {
            let shown: String = text.chars().take(40).collect();
            self.say(argument, format!("'{shown}' is not {}", T::WANTED), "here");
        }
        value
    }

    /// Says what is wrong with an argument.
    pub fn say(&mut self, argument: &Argument, message: impl Into<String>, label: impl Into<String>) {
        self.wrong.push(argument.wrong(message, label));
    }

    /// Whether an output is connected by which packets leave because of an argument; if none is, that is said.
    pub fn leads(&mut self, argument: &Argument, output: u16) -> bool {
        let is_there = output < self.ports.1;
        if !is_there {
            let what = format!("output {output} of '{}' is not connected", self.name);
            self.say(argument, what, "packets of this leave by it: connect it, to Discard if they are to be dropped");
        }
        is_there
    }

    /// Says what is wrong with the engine as a whole.
    pub fn say_all(&mut self, message: impl Into<String>, label: impl Into<String>) {
        self.wrong.push(Diagnostic::new(self.span, message, label));
    }

    /// One that must be there, at its place or by its keyword.
    pub fn must<T: FromArgument>(&mut self, keyword: &str) -> Option<T> {
        let given = self.next(keyword).map(|argument| (argument, argument.text.as_str()));
        let given = given.or_else(|| self.keyword(keyword));
        match given {
            Some((argument, text)) => self.value(argument, text),
            None => {
                let (name, class) = (self.name, self.class);
                self.say_all(format!("'{name}' lacks {keyword}"), format!("class {class} needs it: {}", T::WANTED));
                None
            }
        }
    }

    /// One that may be there, at its place or by its keyword.
    pub fn may<T: FromArgument>(&mut self, keyword: &str, otherwise: T) -> Option<T> {
        let given = self.next(keyword).map(|argument| (argument, argument.text.as_str()));
        match given.or_else(|| self.keyword(keyword)) {
            Some((argument, text)) => self.value(argument, text),
            None => Some(otherwise),
        }
    }

    /// One that may be there by its keyword alone.
    pub fn key<T: FromArgument>(&mut self, keyword: &str, otherwise: T) -> Option<T> {
        match self.keyword(keyword) {
            Some((argument, text)) => self.value(argument, text),
            None => Some(otherwise),
        }
    }

    /// The engine that a name means here, if it is of one of these classes: in a compound element first one of the same. Else that is said.
    pub fn other(&mut self, argument: &Argument, name: &str, classes: &[&str]) -> Option<Partner> {
        let found = self.engine(name).filter(|(_, class)| classes.contains(&class.as_str()));
        if found.is_none() {
            self.say(argument, format!("'{name}' is none of {} at this place", classes.join(", ")), "here");
        }
        found.map(|(name, _)| Partner::new(name))
    }

    fn engine(&self, name: &str) -> Option<(String, &'a String)> {
        let mut scope = self.name.rsplit_once('/').map(|(scope, _)| scope);
        loop {
            let whole = scope.map_or_else(|| name.to_owned(), |scope| format!("{scope}/{name}"));
            if let Some(class) = self.names.engines.get(&whole) {
                return Some((whole, class));
            }
            scope = scope?.rsplit_once('/').map(|(scope, _)| scope);
        }
    }

    /// Keywords that Click's class has and that change nothing here.
    pub fn ignore(&mut self, keywords: &[&str]) {
        for keyword in keywords {
            while self.keyword(keyword).is_some() {}
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// All that are left, in their order.
    pub fn rest(&mut self) -> Vec<&'a Argument> {
        let left: Vec<_> = self.all.iter().zip(&self.used).filter(|(_, used)| !**used).map(|(one, _)| one).collect();
        self.used.fill(true);
        left
    }

    /// Says what was not read.
    pub fn end(mut self) {
        let class = self.class;
        for argument in self.rest().into_iter().filter(|argument| !argument.text.is_empty()) {
            let what = match argument.keyword() {
                Some((word, rest)) if !rest.is_empty() => format!("class {class} has no argument {word}"),
                _ => format!("class {class} has no more arguments"),
            };
            self.say(argument, what, "this is left over");
        }
    }
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

macro_rules! numbers {
    ($($type:ty, $wanted:literal;)+) => {$(
        impl FromArgument for $type {
            const WANTED: &'static str = $wanted;

            fn read(text: &str, _: &ArgumentNames) -> Option<$type> {
                number(text)?.try_into().ok()
            }
        }
    )+};
}

numbers! {
    u8, "a number from 0 to 255";
    u16, "a number from 0 to 65,535";
    u32, "a number from 0 to 4,294,967,295";
    u64, "a number";
}

/// A number without an upper bound where it is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most(pub u64);

impl FromArgument for Most {
    const WANTED: &'static str = "a number, negative for no bound";

    fn read(text: &str, _: &ArgumentNames) -> Option<Most> {
        match text.strip_prefix('-') {
            Some(rest) => number(rest).map(|_| Most(u64::MAX)),
            None => number(text).map(Most),
        }
    }
}

impl FromArgument for bool {
    const WANTED: &'static str = "true or false";

    fn read(text: &str, _: &ArgumentNames) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        }
    }
}

impl FromArgument for f64 {
    const WANTED: &'static str = "a number";

    fn read(text: &str, _: &ArgumentNames) -> Option<f64> {
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

impl FromArgument for String {
    const WANTED: &'static str = "a string";

    fn read(text: &str, _: &ArgumentNames) -> Option<String> {
        String::from_utf8(bytes(text)?).ok()
    }
}

/// Bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

impl FromArgument for Data {
    const WANTED: &'static str = "a string, or bytes as \\<00ff>";

    fn read(text: &str, _: &ArgumentNames) -> Option<Data> {
        bytes(text).map(Data)
    }
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span64(pub u64);

impl FromArgument for Span64 {
    const WANTED: &'static str = "a time, as 1.5, 20ms or 3us";

    fn read(text: &str, _: &ArgumentNames) -> Option<Span64> {
        let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(unit);
        let scale = match unit {
            "" | "s" | "sec" => 1e9,
            "ms" | "msec" => 1e6,
            "us" | "usec" => 1e3,
            "ns" | "nsec" => 1.0,
            "m" | "min" => 60e9,
            "h" | "hr" => 3600e9,
            _ => return None,
        };
        let time: f64 = digits.trim().parse().ok()?;
        // A century is never, and added to any time still a time.
        (0.0..1e9).contains(&time).then_some(Span64(((time * scale) as u64).min(NEVER)))
    }
}

/// The longest time, in nanoseconds.
const NEVER: u64 = u64::MAX >> 2;

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesPerSecond(pub u64);

impl FromArgument for BytesPerSecond {
    const WANTED: &'static str = "a bandwidth, as 1000 (bytes a second), 100kBps or 10Mbps";

    fn read(text: &str, _: &ArgumentNames) -> Option<BytesPerSecond> {
        let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(unit);
        let unit = unit.replace("/s", "ps");
        let (scale, rest) = match unit.chars().next() {
            Some('k') => (1e3, &unit[1..]),
            Some('M') => (1e6, &unit[1..]),
            Some('G') => (1e9, &unit[1..]),
            _ => (1.0, unit.as_str()),
        };
        let bytes = match rest {
            "" | "Bps" | "baud" if rest != "baud" => 1.0,
            "bps" | "baud" => 0.125,
            _ => return None,
        };
        let rate: f64 = digits.trim().parse().ok()?;
        (0.0..1e15).contains(&rate).then_some(BytesPerSecond((rate * scale * bytes) as u64))
    }
}

impl FromArgument for Mac {
    const WANTED: &'static str = "an Ethernet address, as 00:11:22:33:44:55";

    fn read(text: &str, names: &ArgumentNames) -> Option<Mac> {
        let known = names.ethernet.get(text.strip_suffix(":eth").unwrap_or(text)).copied();
        let byte = |digits: &str| match digits.len() {
            1 | 2 if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => u8::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        let bytes = || text.split([':', '-']).map(byte).collect::<Option<Vec<u8>>>();
        known.or_else(|| bytes()?.try_into().ok().map(Mac))
    }
}

/// An IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Ip4(pub [u8; 4]);

impl core::fmt::Display for Ip4 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", std::net::Ipv4Addr::from(self.0))
    }
}

impl FromArgument for Ip4 {
    const WANTED: &'static str = "an IPv4 address, as 10.0.0.1";

    fn read(text: &str, names: &ArgumentNames) -> Option<Ip4> {
        let known = names.ip.get(text.strip_suffix(":ip").unwrap_or(text)).map(|(address, _)| Ip4(*address));
        known.or_else(|| text.parse::<std::net::Ipv4Addr>().ok().map(|address| Ip4(address.octets())))
    }
}

/// An IPv4 address with the length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Net4 {
    /// The address.
    pub address: Ip4,
    /// Bits of the network.
    pub length: u8,
}

/// The bits of a network of so many.
pub fn mask_of(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

impl Net4 {
    /// The bits of the network.
    pub fn mask(self) -> u32 {
        mask_of(self.length)
    }

    /// Whether an address is in the network.
    pub fn holds(self, address: Ip4) -> bool {
        (u32::from_be_bytes(address.0) ^ u32::from_be_bytes(self.address.0)) & self.mask() == 0
    }

    /// As a prefix of the node's.
    pub fn prefix(self) -> Prefix {
        Prefix::new(crate::wire::Addr::v4(self.address.0), 96 + self.length)
    }
}

impl FromArgument for Net4 {
    const WANTED: &'static str = "an IPv4 network, as 10.0.0.0/8";

    fn read(text: &str, names: &ArgumentNames) -> Option<Net4> {
        if let Some((address, length)) = names.ip.get(text.strip_suffix(":ipnet").unwrap_or(text)) {
            return Some(Net4 { address: Ip4(*address), length: *length });
        }
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        let address = Ip4::read(address, names)?;
        let length = match length.parse::<u8>() {
            Ok(length) => length,
            Err(_) => {
                let mask = u32::from_be_bytes(Ip4::read(length, names)?.0);
                let length = mask.leading_ones();
                (length + mask.trailing_zeros().min(32 - length) == 32).then_some(length as u8)?
            }
        };
        (length <= 32).then_some(Net4 { address, length })
    }
}

/// WordList, with spaces between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordList(pub Vec<String>);

impl FromArgument for WordList {
    const WANTED: &'static str = "words";

    fn read(text: &str, _: &ArgumentNames) -> Option<WordList> {
        Some(WordList(words(text).into_iter().map(str::to_owned).collect()))
    }
}

/// One of several ports, or none where a negative number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice(pub Option<u16>);

impl Choice {
    /// What an operator writes.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        *self = Choice::read(text.trim(), &ArgumentNames::default()).ok_or(Choice::WANTED)?;
        Ok(())
    }
}

impl core::fmt::Display for Choice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(port) => port.fmt(f),
            None => f.write_str("-1"),
        }
    }
}

impl FromArgument for Choice {
    const WANTED: &'static str = "the number of a port, or negative for none";

    fn read(text: &str, _: &ArgumentNames) -> Option<Choice> {
        let number: i32 = text.parse().ok()?;
        u16::try_from(number).map(Some).or(if number < 0 { Ok(None) } else { Err(()) }).ok().map(Choice)
    }
}

/// The words of an argument.
pub fn words_of(argument: &Argument) -> Vec<&str> {
    words(&argument.text)
}
