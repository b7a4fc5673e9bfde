//! The words of a line of the log, and whether it is an event.

use crate::clean;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

/// Characters of a line that are kept.
const TEXT_MAX: usize = 1024;

/// Puts the words of a line together, as far as they have room.
#[derive(Default)]
pub(super) struct Words {
    pub text: String,
    /// Of what kind of event it is, if it is one.
    pub event: Option<String>,
}

impl Words {
    pub fn of(event: &Event<'_>) -> Words {
        let mut words = Words::default();
        event.record(&mut words);
        words
    }

    pub fn cleaned(&self) -> String {
        clean::printed(&self.text).chars().take(TEXT_MAX).collect()
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.text.len() >= TEXT_MAX {
            return;
        }
        let gap = if self.text.is_empty() { "" } else { " " };
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.text, "{gap}{value:?}"),
            name => write!(self.text, "{gap}{name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == EVENT {
            self.event = Some(value.to_owned());
        } else {
            self.record_debug(field, &value);
        }
    }
}

/// The field of a line that says that it is an event, and of what kind.
const EVENT: &str = "event";

/// Whether a line is an event: a program's finer lines are none, whatever they say.
pub(super) fn is_event(meta: &Metadata<'_>) -> bool {
    *meta.level() <= Level::INFO && meta.fields().field(EVENT).is_some()
}
