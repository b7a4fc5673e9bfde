//! The rules of soft state as data (`state.json`): an operation on a key at a time, and its result. They hold for the
//! node's table, and for a map of the kernel half.

use anode::core::state_store::{Change, Refused, VALUE, Value};
use serde_json::Value as Json;

/// The longest time that the rules take anything to be kept, in milliseconds.
pub const KEEP_MS: u32 = 60_000;

/// A time before which nothing was kept, in nanoseconds.
const BEGIN: u64 = 1_000_000_000;

/// What the rules are tried on.
pub trait Kept {
    fn value(&mut self, key: u64, now: u64) -> Option<Value>;
    fn change(&mut self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused>;
}

/// Tries all rules, each on soft state of its own.
pub fn hold<K: Kept>(fresh: impl Fn() -> K) {
    let rules: Vec<Json> = serde_json::from_str(include_str!("state.json")).unwrap();
    assert!(!rules.is_empty());
    for rule in &rules {
        let mut kept = fresh();
        for step in rule["steps"].as_array().unwrap() {
            assert_eq!(outcome(&mut kept, step), step["gives"], "{}: {step}", rule["rule"]);
        }
    }
}

fn outcome(kept: &mut impl Kept, step: &Json) -> Json {
    let now = BEGIN + step["at_ms"].as_u64().unwrap() * 1_000_000;
    if let Some(key) = step["get"].as_u64() {
        return kept.value(key, now).map_or(Json::Null, |value| words(&value).into());
    }
    let (number, value) = (step["number"].as_u64(), value(&step["value"]));
    let (key, change) = match ["put", "add", "max", "exchange"].map(|call| step[call].as_u64()) {
        [Some(key), ..] => (key, Change::Put(&value)),
        [_, Some(key), ..] => (key, Change::Add(number.unwrap())),
        [_, _, Some(key), _] => (key, Change::Max(number.unwrap())),
        [.., key] => (key.unwrap(), Change::Exchange { expected: number.unwrap(), value: &value }),
    };
    match kept.change(key, change, step["keep_ms"].as_u64().unwrap() as u32, now) {
        Ok(number) => number.into(),
        Err(Refused::Changed) => "changed".into(),
        Err(Refused::Full) => "full".into(),
        Err(Refused::Failed) => "failed".into(),
    }
}

/// A value that begins with these words.
fn value(list: &Json) -> Value {
    let mut value = [0; VALUE];
    for (word, number) in value.as_chunks_mut().0.iter_mut().zip(list.as_array().into_iter().flatten()) {
        *word = number.as_u64().unwrap().to_le_bytes();
    }
    value
}

/// The words of a value, without zeroes at its end; of nothing but zeroes the first.
fn words(value: &Value) -> Vec<u64> {
    let mut words: Vec<_> = value.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    words
}
