//! Which body of a compound is taken, and which argument is which parameter.
//!
//! In `elementclass X { $a | … || $a, KEY $b | … }`, `X(5)` is the first body and `X(5, KEY 6)` the second. A body fits if its
//! parameters take all arguments, and if it has just the inputs and outputs that are connected. One body alone is taken if its
//! parameters fit: what is wrong with its ports is then said of them.

use super::scope::{ClassRef, Scope};
use crate::arguments::Argument;
use crate::syntax::ast::{Param, REST};
use crate::text::Text;
use core::ops::Range;

/// An argument and its place in the configuration.
pub(super) type Part = (Range<usize>, Argument);

/// Bodies that are looked at, those of extended classes included.
const CHOICES_MAX: usize = 128;

/// What was taken, with the values of its parameters.
pub(super) enum Choice {
    Body(usize, Vec<Text>),
    /// A class of the caller, by `...`.
    Known(String),
    /// Nothing fits: these are the bodies.
    None(Vec<usize>),
}

/// Takes a body for arguments and connected ports.
pub(super) fn choose(scopes: &[Scope], first: usize, text: &Text, parts: &[Part], used: [u32; 2]) -> Choice {
    let (mut next, mut seen) = (Some(first), Vec::new());
    let mut near = None;
    // The chain has no circle: each body extends one that was there before.
    while let Some(body) = next.filter(|_| seen.len() < CHOICES_MAX) {
        seen.push(body);
        let Some(scope) = scopes.get(body) else { break };
        if let Some(values) = assign(&scope.params, text, parts) {
            if scope.ports() == used {
                return Choice::Body(body, values);
            }
            near = Some((body, values));
        }
        next = match &scope.next {
            Some(ClassRef::Compound(other)) => Some(*other),
            Some(ClassRef::Known(name)) => return Choice::Known(name.clone()),
            _ => None,
        };
    }
    match near {
        Some((body, values)) if seen.len() == 1 => Choice::Body(body, values),
        _ => Choice::None(seen),
    }
}

/// The values of parameters, if they take all arguments.
fn assign(params: &[Param], text: &Text, parts: &[Part]) -> Option<Vec<Text>> {
    let value = |range: Range<usize>| {
        let mut value = Text::default();
        value.push_part(text, range, None);
        value
    };
    let mut left: Vec<Option<&Part>> = parts.iter().map(Some).collect();
    let mut values = Vec::new();
    for param in params {
        let Some(keyword) = &param.keyword else {
            // By its place: keywords of other parameters stand anywhere.
            let free = |part: &&Part| !params.iter().any(|param| is_for(param, &part.1));
            let slot = left.iter_mut().find(|slot| slot.as_ref().is_some_and(free))?;
            values.push(value(slot.take()?.0.clone()));
            continue;
        };
        if keyword.text == REST {
            let rest: Vec<&Part> = left.iter_mut().filter_map(Option::take).collect();
            values.push(joined(text, &rest));
            continue;
        }
        let slot = left.iter_mut().find(|slot| slot.as_ref().is_some_and(|part| is_for(param, &part.1)))?;
        let (range, argument) = slot.take()?;
        let rest = argument.keyword().map_or(0, |(_, rest)| rest.len());
        values.push(value(range.end - rest..range.end));
    }
    left.iter().all(Option::is_none).then_some(values)
}

/// Whether an argument is given by the keyword of a parameter.
fn is_for(param: &Param, argument: &Argument) -> bool {
    let keyword = param.keyword.as_ref().map(|word| word.text.as_str()).filter(|word| *word != REST);
    keyword.is_some() && argument.keyword().map(|(word, _)| word) == keyword
}

/// Arguments with commas between them again.
fn joined(text: &Text, parts: &[&Part]) -> Text {
    let mut value = Text::default();
    for (at, (range, _)) in parts.iter().enumerate() {
        if at > 0 {
            value.push(", ", text.span(range.clone()).start, None);
        }
        value.push_part(text, range.clone(), None);
    }
    value
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What is asked of a compound.
pub(super) fn asked(arguments: usize, [inputs, outputs]: [u32; 2]) -> String {
    let ports = [counted(inputs as usize, "input"), counted(outputs as usize, "output")].join(", ");
    format!("{}, {ports}", counted(arguments, "argument"))
}

/// What a body asks for: `($a, KEY $b) with 1 input, 2 outputs`.
pub(super) fn signature(scope: &Scope) -> String {
    let param = |param: &Param| match &param.keyword {
        Some(word) if word.text == REST => "…".to_owned(),
        Some(word) => format!("{} ${}", word.text, param.name.text),
        None => format!("${}", param.name.text),
    };
    let params: Vec<String> = scope.params.iter().map(param).collect();
    let [inputs, outputs] = scope.ports();
    let ports = [counted(inputs as usize, "input"), counted(outputs as usize, "output")].join(", ");
    format!("({}) with {ports}", params.join(", "))
}
