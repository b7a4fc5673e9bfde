//! Former names of reasons for drops and of counters, for readers of a node's status of the version before; they go with
//! the next version.
//!
//! A former name stays under `drops` if no reason has it any more, with the sum of its reasons. `drops_before`, beside
//! it, has all former names, also those of reasons with a narrower meaning now. `docs/drops.md` has the table.

use crate::core::reason::Reason;
use serde_json::{Map, Value, json};

/// Counters with another name now: the name, and the former one.
const COUNTERS: [(&str, &str); 1] = [("punted", "lifted")];

/// Adds former names wherever the tree counts drops, or has such a counter.
pub(super) fn add_former(tree: &mut Value) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(add_former),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_former);
            add_beside(fields);
            for (name, former) in COUNTERS {
                if let Some(count) = fields.get(name).cloned() {
                    fields.insert(former.into(), count);
                }
            }
        }
        _ => {}
    }
}

/// Whether a field is there only for readers of the version before, beside the same count under its name of now.
pub fn is_former(name: &str, of_drops: bool) -> bool {
    COUNTERS.iter().any(|(_, former)| *former == name) || of_drops && !is_reason(name)
}

/// Adds them to the drops among these fields.
fn add_beside(fields: &mut Map<String, Value>) {
    let Some(Value::Object(drops)) = fields.get_mut("drops") else { return };
    let mut sums: Map<String, Value> = Map::new();
    for reason in Reason::ALL {
        let count = drops.get(reason.name()).and_then(Value::as_u64).unwrap_or(0);
        let was = reason.was().or_else(|| was_more(*reason).then(|| reason.name()));
        if let Some(name) = was.filter(|_| count > 0) {
            let sum = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
            sums.insert(name.to_owned(), json!(sum + count));
        }
    }
    for (name, sum) in sums.iter().filter(|(name, _)| !is_reason(name)) {
        drops.insert(name.clone(), sum.clone());
    }
    fields.insert("drops_before".into(), Value::Object(sums));
}

/// Whether others were counted under the name of this one.
fn was_more(reason: Reason) -> bool {
    Reason::ALL.iter().any(|other| other.was() == Some(reason.name()))
}

/// Whether a name is a reason's.
fn is_reason(name: &str) -> bool {
    Reason::ALL.iter().any(|reason| reason.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_name_has_the_sum_of_its_reasons() {
        let drops = json!({"malformed-anep": 2, "malformed-plan": 3, "no-route": 5, "no-port": 1, "code": 7});
        let mut tree = json!({"drops": drops, "codes": [{"usage": {"drops": {"process-full": 4, "memory-full": 1}}}]});
        add_former(&mut tree);
        assert_eq!(tree["drops"]["malformed"], 5);
        assert_eq!(tree["drops"]["no-route"], 5, "a name that is still a reason's means that reason");
        assert_eq!(tree["drops_before"], json!({"malformed": 5, "no-route": 6}));
        let used = &tree["codes"][0]["usage"];
        assert_eq!((&used["drops"]["channel-full"], &used["drops_before"]["channel-full"]), (&json!(5), &json!(5)));
    }

    #[test]
    fn a_counter_has_its_former_name_too() {
        let mut tree = json!({"kernel": {"counts": {"raised": 1, "punted": 2}}});
        add_former(&mut tree);
        assert_eq!(tree["kernel"]["counts"], json!({"raised": 1, "punted": 2, "lifted": 2}));
    }

    #[test]
    fn former_names_are_those_of_the_version_before() {
        for name in ["malformed", "channel-full", "reassembly", "waiting", "path-ended"] {
            assert!(!is_reason(name) && Reason::ALL.iter().any(|reason| reason.was() == Some(name)), "{name}");
        }
    }
}
