//! What `anode plan run` and `inject` say, and how they end.
//!
//! ```text
//! a text that was printed ──▶ as it is, no line feed added ─┐
//! a value, our own lines  ──▶ on lines of their own ────────┼─▶ standard output; with --json an object a line
//! how it ended            ──▶ the exit status, and "outcome" with --json
//! ```
//!
//! The default handler of a packet that failed prints like everybody; its text has a form ([`report`]), by which it is
//! told from what programs print.

use crate::clean;
use model::programs::Reply;
use serde::Serialize;
use std::process::ExitCode;

/// How an evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With a value, or with as many replies as were wanted.
    Value,
    /// With an exception or a fault that the program did not handle.
    Exception,
    /// Nothing came back, or too little, in the time that was waited.
    Silence,
}

impl Outcome {
    /// What a script looks at. 1 is a command that failed, 2 one that was not understood.
    pub(super) fn status(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Value => 0,
            Outcome::Exception => 3,
            Outcome::Silence => 4,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Value => "value",
            Outcome::Exception => "exception",
            Outcome::Silence => "silence",
        }
    }
}

/// Standard output.
#[derive(Debug, Default)]
pub(super) struct Voice {
    /// Whether everything is an object on a line.
    pub json: bool,
    /// Whether the last text left its line open.
    open: bool,
}

impl Voice {
    pub(super) fn new(json: bool) -> Voice {
        Voice { json, open: false }
    }

    /// A text of a program, as it is.
    pub(super) fn text(&mut self, text: &str) {
        crate::say_text!(text);
        self.open = if text.is_empty() { self.open } else { !text.ends_with('\n') };
    }

    /// A line of our own.
    pub(super) fn line(&mut self, text: &str) {
        if std::mem::take(&mut self.open) {
            crate::say_text!("\n");
        }
        crate::say!("{text}");
    }

    /// An object, where objects are wanted.
    pub(super) fn object(&mut self, of: &impl Serialize) {
        if self.json {
            // What is said has names for keys, so it is a value.
            crate::say!("{}", clean::tree(serde_json::to_value(of).unwrap_or_default()));
        }
    }

    /// A reply: what was printed, or the report of a failure. Gives whether it was one.
    pub(super) fn printed(&mut self, text: &str) -> Outcome {
        let report = report(text);
        match &report {
            Some((chunk, why, host)) => self.object(&Reply::Exception {
                exception: (*why).into(),
                host: (*host).into(),
                chunk: (*chunk).into(),
            }),
            None => self.object(&Reply::Printed { text: text.into() }),
        }
        if !self.json {
            match report {
                Some(_) => self.line(text),
                None => self.text(text),
            }
        }
        if report.is_some() { Outcome::Exception } else { Outcome::Value }
    }
}

/// What the default handler says: `ERROR: ` chunk ` raised ` error ` on ` host. Chunk, error and host if a text is that.
fn report(text: &str) -> Option<(&str, &str, &str)> {
    let (chunk, rest) = text.strip_prefix("ERROR: ")?.rsplit_once(" raised ")?;
    let (why, host) = rest.split_once(" on ")?;
    let form = chunk.starts_with("<chunk:\n") && chunk.ends_with('>');
    let address = host.parse::<crate::wire::Addr>().is_ok();
    let name = why.split('(').next().is_some_and(plan::name::is_identifier);
    (form && address && name).then_some((chunk, why, host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::value::{Callee, Chunk, Host, Value as PlanValue};

    #[test]
    fn a_report_is_told_from_what_programs_print() {
        let name = plan::name::Name::new("f").unwrap();
        let chunk = Chunk::new(Callee::Service(name), [PlanValue::text(*b"a raised b on c")]).unwrap();
        let chunk = std::sync::Arc::new(chunk);
        for why in ["DivByZero", "TypeError(+)", "StepLimit"] {
            let arguments = [
                PlanValue::text(why.as_bytes()),
                PlanValue::Host(Host::v4([10, 0, 0, 1])),
                PlanValue::Chunk(chunk.clone()),
            ];
            let text = plan::eval::outcome::describe(&arguments).unwrap();
            let (_, raised, host) = report(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((raised, host), (why, "10.0.0.1"));
        }
        for other in ["ERROR: oops", "Success", "ERROR: <chunk:\nf[]> raised X", "ERROR: x raised Y on 10.0.0.1", ""] {
            assert_eq!(report(other), None, "{other}");
        }
    }
}
