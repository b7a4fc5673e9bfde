//! What commands print with `--json`, held against what `anode schema` says.
//!
//! The check knows the keywords that these schemas have, and no others: one that it does not know fails. It is stricter than the
//! standard in one way: what an object has and its schema does not name fails too, since whoever reads a schema would not know of it.

use model::schema::ALL;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// Schemas of what only a busy node prints: `tests/run` holds something against these, `tests/net` against the others.
pub const OF_NODES: [&str; 24] = [
    "channels",
    "code",
    "code-removed",
    "code-retried",
    "code-state",
    "difference",
    "domain",
    "domain-ended",
    "domain-made",
    "domain-moved",
    "domains",
    "environment",
    "environments",
    "event",
    "health",
    "history",
    "log",
    "log-line",
    "report",
    "revocation",
    "revocations",
    "status",
    "watch",
    "ways",
];

/// Those of what is said of stores, which `tests/run/stores.rs` holds something against.
#[allow(dead_code, reason = "each test program uses its part")]
pub const OF_STORES: [&str; 3] = ["store-keys", "store-value", "stores"];

/// Those of what is said of graphs, which `tests/net/graphs.rs` holds something against.
#[allow(dead_code, reason = "each test program uses its part")]
pub const OF_GRAPHS: [&str; 4] = ["graph", "graph-applied", "graph-handler", "graphs"];

/// Those of what is said of extensions, which `tests/run/extensions.rs` holds something against.
#[allow(dead_code, reason = "each test program uses its part")]
pub const OF_EXTENSIONS: [&str; 4] = ["extension-called", "extension-changed", "extension-checked", "extensions"];

/// The names of all others.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn of_commands() -> BTreeSet<&'static str> {
    let names = ALL.iter().map(|described| described.name);
    let elsewhere = [&OF_NODES[..], &OF_STORES, &OF_GRAPHS, &OF_EXTENSIONS];
    names.filter(|name| !elsewhere.iter().any(|of| of.contains(name))).collect()
}

/// Keywords that say nothing about what is valid, or that others here say.
const REMARKS: [&str; 8] = ["$schema", "$defs", "title", "description", "format", "default", "minimum", "maximum"];

/// What is wrong with a value; nothing: it is as a schema says, whose definitions are in `root`.
pub fn wrong(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let Value::Object(rules) = schema else {
        return (*schema != json!(true)).then(|| format!("nothing is allowed here: {value}"));
    };
    // Each alternative is one of the whole object, which has the fields that are named beside them too.
    let each = |schemas: &Value| -> Vec<Option<String>> {
        schemas.as_array().unwrap().iter().map(|schema| wrong(root, &with_fields(rules, schema), value)).collect()
    };
    if let Some(beyond) = beyond(rules, value) {
        return Some(beyond);
    }
    for (keyword, rule) in rules {
        let found = match keyword.as_str() {
            "$ref" => {
                let at = rule.as_str().unwrap().strip_prefix('#').unwrap();
                wrong(root, root.pointer(at).expect(at), value)
            }
            "type" => {
                let is = |name: &str| is_of(name, value);
                let fits = rule.as_array().map_or_else(
                    || is(rule.as_str().unwrap()),
                    |all| all.iter().any(|name| is(name.as_str().unwrap())),
                );
                (!fits).then(|| format!("{value} is no {rule}"))
            }
            "const" => (value != rule).then(|| format!("{value} is not {rule}")),
            "enum" => (!rule.as_array().unwrap().contains(value)).then(|| format!("{value} is none of {rule}")),
            "anyOf" | "oneOf" => {
                let all = each(rule);
                let fitting = all.iter().filter(|wrong| wrong.is_none()).count();
                let fits = if keyword == "anyOf" { fitting > 0 } else { fitting == 1 };
                (!fits).then(|| format!("{fitting} of {keyword} fit {value}: {all:?}"))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.enumerate().find_map(|(at, item)| Some(format!("[{at}]: {}", wrong(root, rule, item)?)))
            }
            "minItems" | "maxItems" => {
                let (count, bound) = (value.as_array().map_or(0, Vec::len) as u64, rule.as_u64().unwrap());
                let fits = if keyword == "minItems" { count >= bound } else { count <= bound };
                (value.is_array() && !fits).then(|| format!("{count} items against {keyword} {bound}"))
            }
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten().zip(rule.as_array().unwrap());
                items.enumerate().find_map(|(at, (item, rule))| Some(format!("[{at}]: {}", wrong(root, rule, item)?)))
            }
            "required" => {
                let missing = |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
                rule.as_array().unwrap().iter().find(missing).map(|name| format!("{name} is missing"))
            }
            // Among the alternatives.
            "properties" if rules.contains_key("oneOf") || rules.contains_key("anyOf") => None,
            "properties" => value.as_object().and_then(|fields| unfit(root, rules, fields)),
            // Among the properties, and of an object that names none.
            "additionalProperties" if rules.contains_key("properties") => None,
            "additionalProperties" => {
                let mut fields = value.as_object().into_iter().flatten();
                fields.find_map(|(name, field)| Some(format!("{name}: {}", wrong(root, rule, field)?)))
            }
            remark if REMARKS.contains(&remark) => None,
            unknown => panic!("the check knows no {unknown}: {schema}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// An alternative with the fields of the object that it is one of.
fn with_fields(whole: &Map<String, Value>, alternative: &Value) -> Value {
    let mut alternative = alternative.clone();
    if let (Some(Value::Object(beside)), Some(own)) = (whole.get("properties"), alternative.as_object_mut()) {
        let own = own.entry("properties").or_insert_with(|| json!({})).as_object_mut().unwrap();
        own.extend(beside.clone());
    }
    alternative
}

/// A number that is smaller or larger than it may be.
fn beyond(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    let bounds = rules.get("minimum").into_iter().map(|least| (least, true));
    let bounds = bounds.chain(rules.get("maximum").into_iter().map(|most| (most, false)));
    bounds.into_iter().find_map(|(bound, least)| {
        let (number, bound) = (value.as_f64()?, bound.as_f64()?);
        ((number < bound) == least && number != bound).then(|| format!("{number} is beyond {bound}"))
    })
}

/// The field of an object that is not as its properties say, or that they do not name.
fn unfit(root: &Value, rules: &Map<String, Value>, fields: &Map<String, Value>) -> Option<String> {
    let named = rules["properties"].as_object().unwrap();
    let others = rules.get("additionalProperties");
    fields.iter().find_map(|(name, field)| match named.get(name).or(others) {
        Some(schema) => Some(format!("{name}: {}", wrong(root, schema, field)?)),
        None => Some(format!("{name} is not in the schema")),
    })
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}

/// What a command prints, which succeeds.
pub fn printed(words: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_anode")).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Schemas as the command prints them, and those that something was held against.
#[derive(Default)]
pub struct Held(pub BTreeSet<&'static str>);

impl Held {
    /// What a command prints, one value or several, is as the schema of this name says; the first value.
    #[track_caller]
    pub fn check(&mut self, name: &'static str, text: &[u8]) -> Value {
        let schema: Value = serde_json::from_slice(&printed(&["schema", name])).unwrap();
        let values: Vec<Value> = serde_json::Deserializer::from_slice(text).into_iter().map(Result::unwrap).collect();
        assert!(!values.is_empty(), "nothing was printed for {name}");
        for value in &values {
            assert_eq!(wrong(&schema, &schema, value), None, "{name}: {value:#}");
        }
        self.0.insert(name);
        values[0].clone()
    }
}
