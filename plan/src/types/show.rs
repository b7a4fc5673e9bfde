//! Types as text for people.

use super::{Type, variables};

/// The longest text of a type; what is more is left out.
const TEXT_MAX: usize = 200;

/// A full type as the language writes it, its variables named `'a`, `'b` … in order.
pub(crate) fn show(kind: &Type) -> String {
    let mut names = Vec::new();
    variables(kind, &mut names);
    let mut text = String::new();
    write(kind, 0, &names, &mut text);
    if text.len() > TEXT_MAX {
        text.truncate(TEXT_MAX);
        text.push('…');
    }
    text
}

/// Writes a type; in parentheses if it binds looser than `level` (0 arrow, 1 tuple, 2 postfix).
fn write(kind: &Type, level: u8, names: &[u32], out: &mut String) {
    if out.len() > TEXT_MAX {
        return;
    }
    let own = match kind {
        Type::Arrow(..) => 0,
        Type::Tuple(_) => 1,
        _ => 2,
    };
    if own < level {
        out.push('(');
    }
    match kind {
        Type::Variable(variable) => {
            let at = names.iter().position(|name| name == variable).unwrap_or(0);
            out.push('\'');
            out.push(char::from(b'a' + (at % 26) as u8));
            if at >= 26 {
                out.push_str(&(at / 26).to_string());
            }
        }
        Type::Base(base) => out.push_str(base.text()),
        Type::List(inner) => {
            write(inner, 2, names, out);
            out.push_str(" list");
        }
        Type::Chunk(inner) => {
            write(inner, 2, names, out);
            out.push_str(" chunk");
        }
        Type::Tuple(items) => row(items, " * ", 2, names, out),
        Type::Arrow(params, result) => {
            match &params[..] {
                [] => out.push_str("void"),
                [only] => write(only, 1, names, out),
                several => {
                    out.push('(');
                    row(several, ", ", 0, names, out);
                    out.push(')');
                }
            }
            out.push_str(" -> ");
            write(result, 0, names, out);
        }
    }
    if own < level {
        out.push(')');
    }
}

fn row(items: &[Type], between: &str, level: u8, names: &[u32], out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        write(item, level, names, out);
    }
}
