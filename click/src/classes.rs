//! What the checker is told of element classes.
//!
//! Example: Click's `Queue` takes packets that are pushed to it and gives them to who pulls. Its ports are `1-/1`, its
//! processing is `h/l`, its flow `x/x`. The codes are Click's, so that the table of a class reads like its documentation.
//! Whoever has classes implements [`Classes`], or fills a [`Table`]. What a class makes of its arguments is its own business:
//! the checked graph has them with their places.

pub use crate::code::{CodeError, Item, Processing};
use crate::code::{Flow, Letters, PortCount};
use std::collections::BTreeMap;

/// The classes that exist.
pub trait Classes {
    /// A class by its name.
    fn class(&self, name: &str) -> Option<&Class>;

    /// All names, in any order; of these the nearest is shown for a name that is unknown.
    fn names(&self) -> Vec<&str>;

    /// Whether a package named in `require` is here.
    fn package(&self, name: &str) -> bool;

    /// How large a configuration may become.
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }
}

/// How large a configuration may become while its compounds are expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Elements, with the ends of compounds and tunnels.
    pub elements: usize,
    /// Connections, with those through compounds and tunnels.
    pub connections: usize,
    /// Bytes of names and configurations that are read and written.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { elements: 16_384, connections: 65_536, bytes: 8 << 20 }
    }
}

impl Bounds {
    /// Those of a graph of so many elements at most: with ends and tunnels it has four times as many, and each has 4 KiB of words.
    pub fn of_elements(most: usize) -> Bounds {
        let all = Bounds::default();
        Bounds {
            elements: all.elements.min(4 * most + 16),
            connections: all.connections.min(16 * most + 64),
            bytes: all.bytes.min((64 << 10) + most * (4 << 10)),
        }
    }
}

/// The interface of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub(crate) inputs: PortCount,
    pub(crate) outputs: PortCount,
    pub(crate) processing: Letters<Processing>,
    pub(crate) flow: Flow,
    pub(crate) items: Letters<Item>,
    pub(crate) optional: bool,
}

impl Class {
    /// A class with so many ports, agnostic, whose packets go from each input to each output.
    ///
    /// `1/1` is one input and one output; `1-2` is one or two, `-` any number, `2-` at least two, `=` as many outputs as
    /// inputs, `=+` one more.
    pub fn new(ports: &str) -> Result<Class, CodeError> {
        let (inputs, outputs) = PortCount::pair(ports)?;
        Ok(Class {
            inputs,
            outputs,
            processing: Letters::processing("a/a")?,
            flow: Flow::read("x/x")?,
            items: Letters::items("p/p")?,
            optional: false,
        })
    }

    /// How items go through its ports: `h` push, `l` pull, `a` either. A letter for each input, `/`, one for each output; the last
    /// one is for all that follow.
    pub fn processing(mut self, code: &str) -> Result<Class, CodeError> {
        self.processing = Letters::processing(code)?;
        Ok(self)
    }

    /// Which inputs' items leave by which outputs: those with a letter in common. `xy/x` is: the second input's do not leave.
    /// `[xy]` is a port of two letters, `[^x]` of all others, `#` is the port's number.
    pub fn flow(mut self, code: &str) -> Result<Class, CodeError> {
        self.flow = Flow::read(code)?;
        Ok(self)
    }

    /// What goes through its ports: `p` packets, `i` integers, `r` records, `a` any.
    pub fn items(mut self, code: &str) -> Result<Class, CodeError> {
        self.items = Letters::items(code)?;
        Ok(self)
    }

    /// Its ports need not be connected.
    pub fn optional(mut self) -> Class {
        self.optional = true;
        self
    }
}

/// Classes by their names, and the packages that are here.
#[derive(Clone, Debug, Default)]
pub struct Table {
    classes: BTreeMap<String, Class>,
    packages: Vec<String>,
}

impl Table {
    /// Adds a class; one that has the name is replaced.
    pub fn add(&mut self, name: &str, class: Class) {
        self.classes.insert(name.to_owned(), class);
    }

    /// Adds a package.
    pub fn add_package(&mut self, name: &str) {
        self.packages.push(name.to_owned());
    }
}

impl Classes for Table {
    fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    fn names(&self) -> Vec<&str> {
        self.classes.keys().map(String::as_str).collect()
    }

    fn package(&self, name: &str) -> bool {
        self.packages.iter().any(|known| known == name)
    }
}

/// Bytes of a name of which the nearest is looked for: to compare two takes the product of their lengths.
const NEAR_MAX: usize = 128;

/// The known name that differs least from this one, if it differs little.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NEAR_MAX {
        return None;
    }
    let most = 1 + name.chars().count() / 4;
    let near = known.into_iter().filter(|other| other.len().abs_diff(name.len()) <= most * 4);
    let found = near.map(|other| (distance(name, other), other)).min()?;
    (found.0 <= most).then_some(found.1)
}

/// How many letters differ; those in another case count little less than none at all.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.to_lowercase().chars().collect();
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut corner = at;
        let mut left = at + 1;
        for (b, above) in other.iter().zip(row.iter_mut().skip(1)) {
            let changed = corner + usize::from(a != b);
            corner = *above;
            left = changed.min(*above + 1).min(left + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_differs_little() {
        let known = ["Queue", "Counter", "Classifier", "IPClassifier"];
        let near = |name| nearest(name, known);
        assert_eq!([near("Qeue"), near("queue"), near("Countr")], [Some("Queue"), Some("Queue"), Some("Counter")]);
        assert_eq!([near("Clasifier"), near("IPClasifier")], [Some("Classifier"), Some("IPClassifier")]);
        assert_eq!([near("Discard"), near("")], [None, None]);
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, [&*format!("{long}y")]), None, "to look would take long");
    }

    #[test]
    fn the_distance_of_words_counts_changed_letters() {
        for (one, other, expected) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ab", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
