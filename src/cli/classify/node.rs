//! `anode classify explain --node`: what a running node would do with a frame.

use super::SHOWN_MAX;
use crate::cli::say_json;
use crate::manage::client::{Control, run_dir};
use model::Ask;
use model::programs::{Frame, Header, Rule};
use std::process::ExitCode;

pub(super) fn explain(node: &str, bytes: &[u8], port: Option<String>, json: bool) -> anyhow::Result<ExitCode> {
    let frame: Frame = Control::connect(&run_dir(node))?.asked(&Ask::Explain { frame: hex::encode(bytes), port })?;
    if json {
        say_json(&frame)?;
        return Ok(ExitCode::SUCCESS);
    }
    for Header { name, start, inner, fields, .. } in &frame.headers {
        crate::say!("{name}, bytes {start} to {inner}");
        let fields: Vec<_> = fields.iter().map(|field| format!("{} = {}", field.name, field.value)).collect();
        crate::say!("  {}", fields.join(", "));
    }
    crate::say!("no more headers: {}", frame.stop);
    let (holding, others): (Vec<_>, Vec<_>) = frame.rules.iter().partition(|rule| rule.holds);
    let place = |Rule { channel, domain, text, .. }: &Rule| {
        let (domain, text) = (domain.as_deref().unwrap_or_default(), text.as_deref().unwrap_or_default());
        (format!("channel {} of {domain}", channel.unwrap_or(0)), text.to_owned())
    };
    for rule in holding {
        let (place, text) = place(rule);
        crate::say!("{place}: holds, {}: {text}", rule.why);
    }
    for rule in others.iter().take(SHOWN_MAX) {
        let (place, text) = place(rule);
        crate::say!("{place}: does not hold, {}: {text}", rule.why);
    }
    if others.len() > SHOWN_MAX {
        crate::say!("{} more rules do not hold", others.len() - SHOWN_MAX);
    }
    let channels: Vec<_> = frame.channels.iter().flatten().map(u64::to_string).collect();
    let to = if channels.is_empty() { String::new() } else { format!(": {}", channels.join(" ")) };
    crate::say!("the frame is {}{to}", frame.whose.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}
