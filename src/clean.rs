//! Clean text for people: everything from the network, from code or from a process is shown by this module, and by
//! nothing else.
//!
//! ```text
//! a name, a title, a message ──▶ Shown, tree ──▶ one line, of bounded length ─┐
//! what a command prints ───────▶ say!, say_err! ──────────────────────────────┼─▶ no control character, nothing that turns
//! what a node logs, answers ───▶ Writer, line ────────────────────────────────┘   writing round, nothing that is no text
//! ```
//!
//! A terminal obeys control characters (ECMA-48: C0, DEL, C1), and text with marks of direction reads as something else than it is
//! (Unicode TR 36, "Trojan Source"). Such characters are written as JSON writes them, `\u001b`; so cleaned JSON is still JSON and means the
//! same, and one rule serves terminals, logs and programs. Bytes that are no UTF-8 are written `\xff`.

use serde_json::Value;
use std::fmt;
use std::io::{self, Write};

/// The most characters that are shown of one name or message; what is longer ends with `…`.
pub const SHOWN_MAX: usize = 1000;

/// A name, title or message of somebody else's, as one clean line of at most [`SHOWN_MAX`] characters.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a [u8]);

/// Shows text of somebody else's in one line.
pub fn shown<T: AsRef<[u8]> + ?Sized>(text: &T) -> Shown<'_> {
    Shown(text.as_ref())
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clean = String::with_capacity(self.0.len().min(SHOWN_MAX));
        let mut left = SHOWN_MAX;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if left == 0 {
                    return f.pad(&(clean + "…"));
                }
                left -= 1;
                put(&mut clean, c);
            }
            for byte in chunk.invalid().iter().take(left) {
                left -= 1;
                clean.push_str(&format!("\\x{byte:02x}"));
            }
        }
        f.pad(&clean)
    }
}

/// The same as a string, for what is kept.
pub fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    text.chars().for_each(|c| put(&mut clean, c));
    clean
}

/// The same of a text that need not be copied if it is clean, as most are.
pub fn line_of(text: String) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { text } else { line(&text) }
}

/// Text of several lines: line feeds and tabs stay.
pub fn lines(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') { clean.push(c) } else { put(&mut clean, c) }
    }
    clean
}

/// What somebody else's program prints: its lines, those behind the first indented, so that none can pass for one of ours.
pub fn printed(text: &str) -> String {
    lines(text.trim_end_matches('\n')).replace('\n', "\n  ")
}

/// A tree whose strings and keys are shown to people.
pub fn tree(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(shown(&text).to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(tree).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (shown(&key).to_string(), tree(value))).collect())
        }
        other => other,
    }
}

/// A log's writer: each write is one line, however many its fields would have made of it.
#[derive(Debug)]
pub struct Writer<W>(pub W);

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (text, end) = match bytes.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (bytes, ""),
        };
        let clean = line(&String::from_utf8_lossy(text)) + end;
        self.0.write_all(clean.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The exit status of a shell's command that SIGPIPE has ended.
const BROKEN_PIPE: i32 = 141;

/// A reader that has gone, as in `anode … | head`, ends a command; that is no fault of the program's.
pub fn end_quietly_without_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|said| said.starts_with("failed printing to stdout")) {
            std::process::exit(BROKEN_PIPE);
        }
        usual(panic);
    }));
}

/// Prints to standard output, as `println!` does, but clean; line feeds at the end are one.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => { println!("{}", $crate::clean::lines(format!($($arguments)*).trim_end_matches('\n'))) };
}

/// Prints a text to standard output as it stands, clean, with no line feed added.
#[macro_export]
macro_rules! say_text {
    ($text:expr) => {{
        print!("{}", $crate::clean::lines($text));
        // What a program prints is seen when it comes, not with the next line.
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }};
}

/// Prints to standard error, as `eprintln!` does, but clean.
#[macro_export]
macro_rules! say_err {
    ($($arguments:tt)*) => { eprintln!("{}", $crate::clean::lines(format!($($arguments)*).trim_end_matches('\n'))) };
}

/// Text in which what is not clean is blotted out, byte by byte, so that places in it stay where they are.
pub fn blotted(text: &str) -> String {
    let blot = |c: char| if is_clean(c) || matches!(c, '\n' | '\t') { c.to_string() } else { "?".repeat(c.len_utf8()) };
    text.chars().map(blot).collect()
}

/// Writes a character, or what stands for it.
fn put(clean: &mut String, c: char) {
    match c {
        '\n' => clean.push_str("\\n"),
        '\t' => clean.push_str("\\t"),
        '\r' => clean.push_str("\\r"),
        c if is_clean(c) => clean.push(c),
        c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| clean.push_str(&format!("\\u{unit:04x}"))),
    }
}

/// Whether a character is seen where it stands, and does nothing else.
pub fn is_clean(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown_as_it_is() {
        for (text, clean) in [
            ("plain, Grüße, 日本", "plain, Grüße, 日本"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{9b}31m", "\\u009b31m"),
            ("a\r\nb\tc\u{7f}", "a\\r\\nb\\tc\\u007f"),
            ("if (\u{202e}nimda\u{2066})", "if (\\u202enimda\\u2066)"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ] {
            assert_eq!(shown(text).to_string(), clean);
        }
        assert_eq!(shown(b"a\xff\xc3b").to_string(), "a\\xff\\xc3b");
        assert_eq!(format!("{:<6}|", shown("abc")), "abc   |");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let text = shown(&"x".repeat(100_000)).to_string();
        assert_eq!(text.chars().count(), SHOWN_MAX + 1);
        assert!(text.ends_with('…'));
        assert_eq!(shown(&[0xff; 100_000]).to_string().len(), 4 * SHOWN_MAX);
    }

    #[test]
    fn every_character_comes_out_clean_and_json_stays_what_it_was() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let value = Value::String(c.to_string());
            let text = line(&value.to_string());
            assert!(text.chars().all(is_clean), "{:x}", u32::from(c));
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "{:x}", u32::from(c));
        }
    }

    #[test]
    fn blots_keep_places() {
        let text = "val x = \"\u{1b}[2J\u{9b}\u{202e}\" -- y\n";
        assert_eq!(blotted(text), "val x = \"?[2J?????\" -- y\n");
        assert_eq!(blotted(text).len(), text.len());
    }

    #[test]
    fn a_tree_is_clean_in_all_its_places() {
        let value = serde_json::json!({"a\u{1b}": ["b\u{9b}", {"c": "d\n"}, 1, null]});
        assert_eq!(tree(value), serde_json::json!({"a\\u001b": ["b\\u009b", {"c": "d\\n"}, 1, null]}));
    }

    #[test]
    fn a_log_line_stays_one_line_and_printed_lines_stay_below_ours() {
        let mut out = Vec::new();
        Writer(&mut out).write_all(b"INFO why=\"x\nERROR forged \x1b[2J\xff\"\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "INFO why=\"x\\nERROR forged \\u001b[2J\u{fffd}\"\n");
        assert_eq!(printed("one\nanode: two\n\n"), "one\n  anode: two");
    }
}
