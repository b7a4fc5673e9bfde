//! Variables in configurations: `$rate`, `${rate}`, `${rate-5}`.
//!
//! In `Shaper($rate)` the value of `rate` stands instead of `$rate`. Between single quotes and in comments `$` means nothing. In
//! double quotes the value's quotes and backslashes are escaped. `${name-text}` is the text if there is no such variable; another
//! name without a variable stays as it is written, because classes that take scripts have variables of their own.

use crate::span::Span;
use crate::text::Text;

/// Values of variables.
pub(crate) trait Values {
    /// The value of a variable.
    fn value(&self, name: &str) -> Option<&Text>;
}

/// A use of a variable: its name, a text if it has no value, and where the use ends.
struct Use<'a> {
    name: &'a str,
    otherwise: Option<(usize, &'a str)>,
    end: usize,
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The use that begins with the `$` at a byte.
fn variable(text: &str, at: usize) -> Option<Use<'_>> {
    let rest = text.get(at + 1..)?;
    let bytes = rest.as_bytes();
    let name_from = |from: usize| {
        let length = bytes.get(from..).unwrap_or_default().iter().take_while(|c| in_name(**c)).count();
        rest.get(from..from + length).filter(|name| !name.is_empty())
    };
    match bytes.first()? {
        b'{' => {
            let length = rest.find('}')?;
            let inner = rest.get(1..length)?;
            let (name, otherwise) = match inner.split_once('-') {
                Some((name, text)) => (name, Some((at + 2 + name.len() + 1, text))),
                None => (inner, None),
            };
            Some(Use { name, otherwise, end: at + 1 + length + 1 })
        }
        b'(' => {
            let name = name_from(1)?;
            let closes = bytes.get(1 + name.len()) == Some(&b')');
            closes.then_some(Use { name, otherwise: None, end: at + 1 + name.len() + 2 })
        }
        _ => name_from(0).map(|name| Use { name, otherwise: None, end: at + 1 + name.len() }),
    }
}

/// A text with the values of its variables in their places; none if it would be longer than `most` bytes.
pub(crate) fn expand(text: &Text, values: &dyn Values, most: usize) -> Option<Text> {
    let source = text.as_str();
    let (mut out, mut from, mut at, mut quote) = (Text::default(), 0, 0, None);
    while let Some(&byte) = source.as_bytes().get(at) {
        match (byte, quote) {
            (b'\\', Some(b'"')) => at += 2,
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                at += 1;
            }
            (_, Some(open)) if byte == open => {
                quote = None;
                at += 1;
            }
            (b'$', None | Some(b'"')) => {
                let found = variable(source, at);
                let value = found.as_ref().map(|found| (found, values.value(found.name)));
                match value {
                    Some((found, Some(value))) => {
                        let place = text.used(at..found.end);
                        out.push_part(text, from..at, None);
                        put(&mut out, value, 0..value.len(), Some(place), quote.is_some());
                        (at, from) = (found.end, found.end);
                    }
                    Some((Use { otherwise: Some((begin, other)), end, .. }, None)) => {
                        out.push_part(text, from..at, None);
                        put(&mut out, text, *begin..begin + other.len(), None, quote.is_some());
                        (at, from) = (*end, *end);
                    }
                    _ => at += 1,
                }
            }
            _ => at += 1,
        }
        if out.len() > most {
            return None;
        }
    }
    out.push_part(text, from..source.len(), None);
    (out.len() <= most).then_some(out)
}

/// Appends a value; in double quotes what means something there is escaped.
fn put(out: &mut Text, value: &Text, range: core::ops::Range<usize>, place: Option<Span>, quoted: bool) {
    if !quoted {
        return out.push_part(value, range, place);
    }
    let mut from = range.start;
    for at in range.clone() {
        let escape = match value.as_str().as_bytes().get(at) {
            Some(b'"') => "\\\"",
            Some(b'\\') => "\\\\",
            Some(b'$') => "\\$",
            Some(b'\n') => "\\n",
            Some(b'\r') => "\\r",
            Some(b'\t') => "\\t",
            _ => continue,
        };
        out.push_part(value, from..at, place);
        let here = value.span(at..at + 1);
        out.push(escape, here.start, place);
        from = at + 1;
    }
    out.push_part(value, from..range.end, place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    impl Values for HashMap<&str, Text> {
        fn value(&self, name: &str) -> Option<&Text> {
            self.get(name)
        }
    }

    #[test]
    fn values_stand_instead_of_variables() {
        let values =
            HashMap::from([("x", Text::foreign("1")), ("q", Text::foreign("a\"b\\")), ("e", Text::foreign(""))]);
        let cases = [
            ("$x", "1"),
            ("$x$x ${x}y", "11 1y"),
            ("$xy ${y} $", "$xy ${y} $"),
            ("${y-2} ${x-2} ${y-}", "2 1 "),
            ("'$x' \"$x\" \"\\$x\"", "'$x' \"1\" \"\\$x\""),
            ("\"$q\" $q", "\"a\\\"b\\\\\" a\"b\\"),
            ("$(x) $(x y) $(y) $(add $x 1)", "1 $(x y) $(y) $(add 1 1)"),
            ("[$e]", "[]"),
            ("${x", "${x"),
            ("\"'$x'\"", "\"'1'\""),
        ];
        for (text, expected) in cases {
            let found =
                expand(&Text::written(text, Span::new(0, text.len())), &values, 100).map(|it| it.as_str().to_owned());
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
        assert!(expand(&Text::foreign("$x$x$x"), &values, 2).is_none());
    }
}
