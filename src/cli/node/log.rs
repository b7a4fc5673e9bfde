//! `anode node log`: what mobile code has written, and where it trapped.

use crate::clean;
use crate::code::bundle::Bundle;
use crate::code::run::traps::Places;
use crate::manage::client::{Control, run_dir};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Prints the lines of a node; those about traps of these bundles with the line of the source.
pub(super) fn print(node: &str, bundles: &[PathBuf], as_json: bool) -> anyhow::Result<()> {
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        Bundle::read(&bytes).with_context(|| path.display().to_string())
    };
    let places = |path: &PathBuf| read(path).map(|bundle| (bundle.name().to_string(), Places::of(&bundle)));
    let bundles = bundles.iter().map(places).collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = Control::connect(&run_dir(node))?.ask(&json!({"do": "log"}))?;
    for line in lines.as_array_mut().into_iter().flatten() {
        let places = bundles.iter().find(|(name, _)| line["code"] == name.as_str());
        let number = |name: &str| line["trap"][name].as_u64().and_then(|number| u32::try_from(number).ok());
        if let (Some((_, places)), Some(function), Some(byte)) = (places, number("function"), number("byte")) {
            let (name, source) = places.find(function, byte);
            line["trap"]["name"] = json!(name);
            line["trap"]["source"] = json!(source);
        }
    }
    if as_json {
        crate::say!("{lines}");
        return Ok(());
    }
    lines.as_array().into_iter().flatten().for_each(say);
    Ok(())
}

fn say(line: &Value) {
    let (at, code) = (line["at"].as_u64().unwrap_or(0) as f64 / 1e9, line["code"].as_str().unwrap_or("?"));
    let text = match line.get("trap") {
        None => format!("tag {}  value {}", line["tag"], line["value"]),
        Some(trap) => format!("trap: {}", trap_in_words(trap)),
    };
    crate::say!("{at:.6} s  code {:.8}  {}", clean::shown(code), clean::shown(&text));
}

/// Where code has trapped: with the line of the source, if that is known.
pub(super) fn trap_in_words(trap: &Value) -> String {
    let kind = trap["kind"].as_str().unwrap_or("?");
    let place = match (trap["source"].as_str(), trap["name"].as_str()) {
        (Some(source), Some(name)) => format!("in {name} at {source}"),
        (Some(source), None) => format!("in function {} at {source}", trap["function"]),
        _ if trap["function"].is_null() => "at an unknown place".to_owned(),
        _ => format!(
            "in function {} at its byte {}; anode node log NODE --code FILE.anb says the line",
            trap["function"], trap["byte"]
        ),
    };
    format!("{kind}, {place}")
}
