//! `anode node watch`: what changes in the counters of a node.
//!
//! Things in lists are told apart by what they are called, so one that comes or goes makes no other look changed. What
//! is no counter is left out: settings, numbers of domains, and the former names of counters, which count a second time.

use super::has_ended;
use crate::clean;
use crate::manage::client::{ClientError, Control, run_dir};
use crate::manage::names;
use model::status::{Called, Codes, NO_COUNTERS};
use serde::Deserialize as _;
use serde_json::Value;
use std::time::Duration;

/// Prints what has changed since the last look, `count` times; 0: until interrupted.
pub(super) fn watch(node: &str, interval: f64, count: u64, json: bool) -> anyhow::Result<()> {
    let dir = run_dir(node);
    let mut control = Control::connect(&dir)?;
    let mut before = control.status()?;
    let mut looks = 0;
    while count == 0 || looks < count {
        std::thread::sleep(Duration::from_secs_f64(interval));
        let now = match control.status() {
            // Another connection needed the place.
            Err(ClientError::Broken(_)) => match Control::connect(&dir).and_then(|anew| {
                control = anew;
                control.status()
            }) {
                Err(ClientError::NotRunning(..)) => return has_ended(json),
                now => now?,
            },
            now => now?,
        };
        let changes = changes(&before, &now);
        if json {
            let map: serde_json::Map<String, Value> =
                changes.into_iter().map(|(path, by)| (path, Value::from(by))).collect();
            crate::say!("{}", Value::Object(map));
        } else {
            let texts: Vec<_> = changes.iter().map(|(path, by)| format!("{} {by:+}", clean::shown(path))).collect();
            crate::say!("{}", if texts.is_empty() { "nothing has changed".into() } else { texts.join("  ") });
        }
        before = now;
        looks += 1;
    }
    Ok(())
}

/// Every counter that changed, with its path in the tree.
fn changes(before: &Value, now: &Value) -> Vec<(String, i64)> {
    let mut changes = Vec::new();
    let Codes { codes } = Codes::deserialize(now).unwrap_or_default();
    let titles = Titles { codes };
    titles.difference("", before, now, &mut changes);
    changes
}

/// What things in lists are called.
struct Titles {
    codes: Vec<Called>,
}

impl Titles {
    fn difference(&self, path: &str, before: &Value, now: &Value, changes: &mut Vec<(String, i64)>) {
        let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match now {
            Value::Object(fields) => {
                let of_drops = path == "drops" || path.ends_with(".drops");
                let counts = |key: &str| !NO_COUNTERS.contains(&key) && !names::is_former(key, of_drops);
                for (key, value) in fields.iter().filter(|(key, _)| counts(key)) {
                    self.difference(&join(key), before.get(key).unwrap_or(&Value::Null), value, changes);
                }
            }
            Value::Array(items) => {
                let earlier = before.as_array().map_or(&[][..], Vec::as_slice);
                let all: Vec<_> = items.iter().map(|value| self.called(value)).collect();
                for (at, value) in items.iter().enumerate() {
                    let (label, same) = match &all[at] {
                        Some((title, own)) => {
                            let same = earlier.iter().find(|one| self.called(one).as_ref() == all[at].as_ref());
                            let shared = all.iter().flatten().filter(|(other, _)| other == title).count() > 1;
                            let short: String = own.chars().take(8).collect();
                            (if shared { format!("{title} ({short})") } else { title.clone() }, same)
                        }
                        None => (at.to_string(), earlier.get(at)),
                    };
                    self.difference(&join(&label), same.unwrap_or(&Value::Null), value, changes);
                }
            }
            Value::Number(number) => {
                let (now, before) = (number.as_i64().unwrap_or(0), before.as_i64().unwrap_or(0));
                if now != before {
                    changes.push((path.to_owned(), now - before));
                }
            }
            _ => {}
        }
    }

    /// What something is called, a domain of codes like its first code; and what tells it from others that are called so too.
    fn called(&self, of: &Value) -> Option<(String, String)> {
        let Called { title, name, addr, worker, codes, domain } = Called::deserialize(of).ok()?;
        let own = name.clone().or_else(|| codes.first().cloned()).or_else(|| domain.map(|number| number.to_string()));
        let code = || {
            let code = codes.first()?;
            let known = self.codes.iter().find(|known| known.name.as_ref() == Some(code));
            let title = known.and_then(|known| known.title.clone());
            Some(title.unwrap_or_else(|| code.chars().take(8).collect()))
        };
        let called = title.or(name).or(addr).or_else(|| worker.map(|number| number.to_string())).or_else(code)?;
        Some((called, own.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(packets: u64, others: &[Value]) -> Value {
        let usage = json!({"packets": packets, "drops": {"no-route": packets}, "drops_before": {"no-route": packets}});
        let code = json!({"title": "f", "name": "ab12", "domain": 4, "limits": {"removed_s": 60}, "usage": usage});
        let domain = json!({"domain": 4, "codes": ["ab12"], "total": {"packets": packets}});
        let codes = [others, &[code]].concat();
        json!({
            "codes": codes, "domains": [domain],
            "drops": {"no-route": packets, "reassembly": 1 + packets}, "kernel": {"punted": packets, "lifted": packets},
        })
    }

    #[test]
    fn codes_of_one_title_are_told_apart_by_their_names() {
        let status = |first: u64, second: u64| {
            let code = |name: &str, packets: u64| json!({"title": "ping", "name": name, "usage": {"packets": packets}});
            let domain = |code: &str, packets: u64| json!({"codes": [code], "total": {"packets": packets}});
            let (one, other) = ("ab12cd34ef56", "0123456789ab");
            json!({
                "codes": [code(one, first), code(other, second)],
                "domains": [domain(one, first), domain(other, second)],
            })
        };
        let found = changes(&status(5, 70), &status(6, 70));
        let expected = ["codes.ping (ab12cd34).usage.packets", "domains.ping (ab12cd34).total.packets"];
        assert_eq!(found, expected.map(|path| (path.to_owned(), 1)));
    }

    #[test]
    fn every_counter_is_said_once_under_the_name_of_its_thing() {
        let other = json!({"title": "g", "name": "cd34", "usage": {"packets": 9}});
        let found = changes(&status(1, std::slice::from_ref(&other)), &status(3, &[]));
        let found: Vec<_> = found.iter().map(|(path, by)| (path.as_str(), *by)).collect();
        assert_eq!(
            found,
            [
                ("codes.f.usage.drops.no-route", 2),
                ("codes.f.usage.packets", 2),
                ("domains.f.total.packets", 2),
                ("drops.no-route", 2),
                ("kernel.punted", 2)
            ]
        );
        // What is new comes with what it has counted, and without its settings.
        let found = changes(&status(3, &[]), &status(3, &[other]));
        assert_eq!(found, [("codes.g.usage.packets".to_owned(), 9)]);
    }
}
