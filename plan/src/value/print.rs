//! Values as text for people, as `print` shows them.

use super::{Host, Value};
use std::fmt;
use std::net::Ipv6Addr;

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes_v4() {
            Some([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            None => Ipv6Addr::from(self.0).fmt(f),
        }
    }
}

/// A string alone is shown as it is, one inside another value in quotes, with escapes as in source text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::Char(byte) => write!(f, "{}", char::from(*byte)),
            other => inner(other, f),
        }
    }
}

fn inner(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Unit => f.write_str("()"),
        Value::Bool(value) => write!(f, "{value}"),
        // As source text: a negative number has a tilde.
        Value::Int(value) if *value < 0 => write!(f, "~{}", value.unsigned_abs()),
        Value::Int(value) => write!(f, "{value}"),
        Value::Char(byte) => {
            f.write_str("'")?;
            escaped(*byte, b'\'', f)?;
            f.write_str("'")
        }
        Value::Text(bytes) => {
            f.write_str("\"")?;
            bytes.iter().try_for_each(|byte| escaped(*byte, b'"', f))?;
            f.write_str("\"")
        }
        Value::Tuple(tuple) => row("(", tuple.items().iter(), ", ", ")", f),
        Value::List(list) => row("[", list.iter(), ";", "]", f),
        Value::Chunk(chunk) => {
            write!(f, "<chunk:\n{}", chunk.name())?;
            row("[", chunk.arguments().iter(), ";", "]>", f)
        }
        Value::Host(host) => write!(f, "{host}"),
        Value::Port(_) => f.write_str("<port>"),
        Value::Key(_) => f.write_str("<key>"),
        Value::Blob(bytes) => write!(f, "<blob of {} bytes>", bytes.len()),
        Value::Exn(name) | Value::Service(name) => write!(f, "{name}"),
        Value::Dev(number) => write!(f, "<dev {number}>"),
    }
}

fn row<'a>(
    open: &str,
    items: impl Iterator<Item = &'a Value>,
    between: &str,
    close: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str(open)?;
    for (at, item) in items.enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        inner(item, f)?;
    }
    f.write_str(close)
}

fn escaped(byte: u8, quote: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match byte {
        b'\n' => f.write_str("\\n"),
        b'\t' => f.write_str("\\t"),
        b'\r' => f.write_str("\\r"),
        b'\\' => f.write_str("\\\\"),
        _ if byte == quote => write!(f, "\\{}", char::from(byte)),
        b' '..=b'~' => write!(f, "{}", char::from(byte)),
        _ => write!(f, "\\{byte:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::value::{Callee, Chunk};
    use std::sync::Arc;

    #[test]
    fn values_print_as_in_source_text() {
        let host = Value::Host(Host::v4([10, 0, 0, 1]));
        let chunk = Chunk::new(Callee::Service(Name::new("doit").unwrap()), [Value::Int(1)]).unwrap();
        let cases = [
            (Value::text(*b"a\nb"), "a\nb"),
            (
                Value::list([Value::text(*b"a\"\n\xff"), Value::text(*b"")].into_iter()).unwrap(),
                "[\"a\\\"\\n\\255\";\"\"]",
            ),
            (Value::tuple(vec![host, Value::Int(-5), Value::Char(b'x')]).unwrap(), "(10.0.0.1, ~5, 'x')"),
            (Value::Chunk(Arc::new(chunk)), "<chunk:\ndoit[1]>"),
            (Value::Exn(Name::NOT_ENOUGH_RB), "NotEnoughRB"),
        ];
        for (value, expected) in cases {
            assert_eq!(value.to_string(), expected);
        }
    }
}
