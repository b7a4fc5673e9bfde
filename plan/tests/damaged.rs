//! Damaged source texts: the front end reports a mistake, and does nothing worse.

mod common;

use common::generate::{Choices, source::source};
use plan::code::Code;
use plan::diagnostic::render;
use plan::format::format;
use proptest::prelude::*;

const PIECES: &[&str] = &[
    "",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "|",
    "=",
    "=>",
    "let ",
    " end ",
    " in ",
    "fun ",
    "val ",
    "if ",
    " then ",
    "(*",
    "*)",
    "\"",
    "'",
    "é",
    "\u{1F600}",
    "\t",
    "\n",
    "#",
    "~",
    "::",
    " and ",
    "'a",
    "\\",
    "\r\n",
    "raise ",
    "try ",
    " handle ",
    "svc x : ",
    "@",
];

proptest! {
    #![proptest_config(common::cases(2000))]

    #[test]
    fn any_damage_is_reported_and_rendered(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        damage in proptest::collection::vec((any::<u16>(), 0usize..12, 0..PIECES.len()), 1..5),
    ) {
        let mut text: Vec<char> = source(&mut Choices::new(&bytes)).chars().collect();
        for (at, length, piece) in damage {
            let start = usize::from(at) % (text.len() + 1);
            let end = (start + length).min(text.len());
            text.splice(start..end, PIECES[piece].chars());
        }
        let text: String = text.into_iter().collect();
        let checked = plan::check(&text);
        prop_assert_eq!(checked.code.is_none(), !checked.diagnostics.is_empty());
        let shown = render(&checked.diagnostics, "damaged", &text, false);
        for diagnostic in &checked.diagnostics {
            prop_assert!(shown.contains(&diagnostic.message), "{}", diagnostic);
            prop_assert!(diagnostic.span.end as usize <= text.len());
        }
        if let Some(code) = checked.code {
            let bytes = code.write();
            prop_assert_eq!(Code::read(&bytes).unwrap().write(), bytes);
        }
        if let Ok(formatted) = format(&text) {
            prop_assert_eq!(format(&formatted), Ok(formatted));
        }
    }
}
