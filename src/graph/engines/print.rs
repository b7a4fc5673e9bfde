//! Packets are shown in hexadecimal.

use crate::frame::Frame;
use crate::graph::arguments::Most;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::locked::LOCKED;

/// `Print`.
pub const CLASS: EngineClass = EngineClass {
    name: "Print",
    doc: "Prints each packet: its length and first bytes. Print([LABEL], [MAXLENGTH])",
    make: Make::element("1/1", |args| {
        let (label, most) = (args.may("LABEL", String::new())?, args.may("MAXLENGTH", Most(24))?);
        args.ignore(&["TIMESTAMP", "PRINTANNO", "CONTENTS", "ACTIVE", "HEADROOM", "CPU", "NBYTES"]);
        Some(Box::new(Print { label, most: most.0.min(1500) as usize }))
    }),
};

struct Print {
    label: String,
    most: usize,
}

impl Engine for Print {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let words = cx.show(&mut frame, |_, frame| {
            let shown = frame.bytes().iter().take(self.most);
            let words = shown.enumerate().map(|(at, byte)| format!("{}{byte:02x}", if at % 4 == 0 { " " } else { "" }));
            words.collect()
        });
        let words: String = words.unwrap_or_else(|_| LOCKED.to_owned());
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        cx.say(format!("{label}{:4} |{words}", frame.len()));
        Pushed::To(0, frame)
    }
}
