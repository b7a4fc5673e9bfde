//! The codes by which a class says what its ports are, as Click writes them: `1-/=`, `a/ah`, `xy/x`.

use std::fmt;

/// How items go through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Processing {
    /// The element before calls the one behind: `h`.
    Push,
    /// The element behind calls the one before: `l`.
    Pull,
}

/// What goes through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Packets: `p`.
    Packet,
    /// Integers: `i`.
    Integer,
    /// Records: `r`.
    Record,
}

/// A code of a class that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeError {
    /// The code.
    pub code: String,
    /// What is wrong with it, and what to write.
    pub why: &'static str,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad code '{}': {}", self.code, self.why)
    }
}

impl std::error::Error for CodeError {}

fn wrong(code: &str, why: &'static str) -> CodeError {
    CodeError { code: code.to_owned(), why }
}

/// How many ports an element may have on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortCount {
    /// From so many up to so many; no upper bound without the second.
    Range(u32, Option<u32>),
    /// As many as inputs, and so many more.
    AsInputs(u32),
}

impl PortCount {
    fn read(part: &str) -> Option<PortCount> {
        if let Some(more) = part.strip_prefix('=') {
            let pluses = more.bytes().all(|c| c == b'+');
            return pluses.then_some(PortCount::AsInputs(more.len() as u32));
        }
        match part.split_once('-') {
            None => part.parse().ok().map(|count| PortCount::Range(count, Some(count))),
            Some((least, most)) => {
                let least = if least.is_empty() { 0 } else { least.parse().ok()? };
                let most = if most.is_empty() { None } else { Some(most.parse().ok()?) };
                Some(PortCount::Range(least, most)).filter(|_| most.is_none_or(|most| most >= least))
            }
        }
    }

    pub(crate) fn pair(code: &str) -> Result<(PortCount, PortCount), CodeError> {
        let why = "ports are written 1/1, 1-2/1, -/= or 1/=+";
        let (inputs, outputs) = code.split_once('/').ok_or(wrong(code, why))?;
        match (PortCount::read(inputs), PortCount::read(outputs)) {
            (Some(inputs @ PortCount::Range(..)), Some(outputs)) => Ok((inputs, outputs)),
            _ => Err(wrong(code, why)),
        }
    }

    /// The least and the most, where the element has so many inputs.
    pub(crate) fn bounds(self, inputs: u32) -> (u32, Option<u32>) {
        match self {
            PortCount::Range(least, most) => (least, most),
            PortCount::AsInputs(more) => (inputs + more, Some(inputs + more)),
        }
    }
}

/// A letter for each port, the last one for all that follow. None stands for `a`, which is settled by what is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letters<T> {
    inputs: Vec<Option<T>>,
    outputs: Vec<Option<T>>,
}

impl<T: Copy> Letters<T> {
    fn read(code: &str, why: &'static str, known: impl Fn(char) -> Option<Option<T>>) -> Result<Letters<T>, CodeError> {
        // One side alone is for both.
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let side = |side: &str| side.chars().map(&known).collect::<Option<Vec<_>>>();
        match (side(inputs), side(outputs)) {
            (Some(inputs), Some(outputs)) if !(inputs.is_empty() && outputs.is_empty()) => {
                Ok(Letters { inputs, outputs })
            }
            _ => Err(wrong(code, why)),
        }
    }

    pub(crate) fn of(&self, output: bool, port: usize) -> Option<T> {
        let side = if output { &self.outputs } else { &self.inputs };
        side.get(port).or(side.last()).copied().flatten()
    }
}

impl Letters<Processing> {
    pub(crate) fn processing(code: &str) -> Result<Self, CodeError> {
        Letters::read(code, "processing is written h/l, a/ah: h push, l pull, a either", |letter| {
            Some(match letter {
                'h' => Some(Processing::Push),
                'l' => Some(Processing::Pull),
                'a' => None,
                _ => return None,
            })
        })
    }
}

impl Letters<Item> {
    pub(crate) fn items(code: &str) -> Result<Self, CodeError> {
        Letters::read(code, "items are written p/i: p packets, i integers, r records, a any", |letter| {
            Some(match letter {
                'p' => Some(Item::Packet),
                'i' => Some(Item::Integer),
                'r' => Some(Item::Record),
                'a' => None,
                _ => return None,
            })
        })
    }
}

impl fmt::Display for Processing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Processing::Push => "push",
            Processing::Pull => "pull",
        })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Item::Packet => "packets",
            Item::Integer => "integers",
            Item::Record => "records",
        })
    }
}

/// The letters of one port in a flow code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    letters: Vec<char>,
    /// `#`: a letter that only the port of the same number has.
    number: bool,
    /// All but these.
    negated: bool,
}

impl Set {
    fn has(&self, letter: char) -> bool {
        self.letters.contains(&letter) != self.negated
    }

    /// Whether an input with these letters and an output with those have one in common.
    fn meets(&self, other: &Set, same_number: bool) -> bool {
        match (self.negated, other.negated) {
            // There are more letters than anybody leaves out.
            (true, true) => true,
            (true, false) => other.meets(self, same_number),
            (false, _) => {
                let number = self.number && (other.number && same_number) != other.negated;
                number || self.letters.iter().any(|letter| other.has(*letter))
            }
        }
    }
}

/// Which inputs' items leave by which outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    inputs: Vec<Set>,
    outputs: Vec<Set>,
}

impl Flow {
    pub(crate) fn read(code: &str) -> Result<Flow, CodeError> {
        let why = "flow is written x/x, xy/x, [xy]/[^x] or #/#";
        let (inputs, outputs) = code.split_once('/').ok_or(wrong(code, why))?;
        match (sets(inputs), sets(outputs)) {
            (Some(inputs), Some(outputs)) => Ok(Flow { inputs, outputs }),
            _ => Err(wrong(code, why)),
        }
    }

    pub(crate) fn leads(&self, input: usize, output: usize) -> bool {
        let side = |side: &[Set], port: usize| side.get(port).or(side.last()).cloned();
        match (side(&self.inputs, input), side(&self.outputs, output)) {
            (Some(from), Some(to)) => from.meets(&to, input == output),
            _ => false,
        }
    }
}

fn sets(side: &str) -> Option<Vec<Set>> {
    let (mut found, mut letters) = (Vec::new(), side.chars());
    let add = |set: &mut Set, letter: char| match letter {
        '#' => set.number = true,
        letter => set.letters.push(letter),
    };
    while let Some(letter) = letters.next() {
        let mut set = Set::default();
        match letter {
            '[' => loop {
                match letters.next()? {
                    ']' => break,
                    '^' if set == Set::default() => set.negated = true,
                    letter if letter.is_ascii_alphabetic() || letter == '#' => add(&mut set, letter),
                    _ => return None,
                }
            },
            letter if letter.is_ascii_alphabetic() || letter == '#' => add(&mut set, letter),
            _ => return None,
        }
        found.push(set);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_ports_have_bounds() {
        let bounds = |code: &str| PortCount::pair(code).map(|(i, o)| (i.bounds(3), o.bounds(3)));
        assert_eq!(bounds("1/1"), Ok(((1, Some(1)), (1, Some(1)))));
        assert_eq!(bounds("1-/="), Ok(((1, None), (3, Some(3)))));
        assert_eq!(bounds("-/=++"), Ok(((0, None), (5, Some(5)))));
        assert_eq!(bounds("0-1/-2"), Ok(((0, Some(1)), (0, Some(2)))));
        for bad in ["", "1", "/", "x/1", "2-1/1", "=/1", "1/=-", "1/1/1"] {
            assert!(bounds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_last_letter_is_for_all_that_follow() {
        let code = Letters::processing("a/ah").unwrap();
        assert_eq!(
            [code.of(true, 0), code.of(true, 1), code.of(true, 9)],
            [None, Some(Processing::Push), Some(Processing::Push)]
        );
        assert_eq!(Letters::processing("h").unwrap().of(true, 1), Some(Processing::Push));
        assert_eq!(Letters::items("pi/r").unwrap().of(false, 5), Some(Item::Integer));
        for bad in ["", "/", "x/y", "h-l"] {
            assert!(Letters::processing(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn items_flow_between_ports_with_a_letter_in_common() {
        let leads = |code: &str| {
            let flow = Flow::read(code).unwrap();
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(input, output)| flow.leads(input, output))
        };
        assert_eq!(leads("x/x"), [true; 4]);
        assert_eq!(leads("x/y"), [false; 4]);
        assert_eq!(leads("xy/x"), [true, true, false, false]);
        assert_eq!(leads("#/#"), [true, false, false, true]);
        assert_eq!(leads("#/[^#]"), [false, true, true, false]);
        assert_eq!(leads("[xy]z/xz"), [true, false, false, true]);
        assert_eq!(leads("xy/[^x]"), [false, false, true, true]);
        assert_eq!(leads("/x"), [false; 4]);
        for bad in ["x", "[x/x", "x/1", "[x^]/x"] {
            assert!(Flow::read(bad).is_err(), "{bad}");
        }
    }
}
