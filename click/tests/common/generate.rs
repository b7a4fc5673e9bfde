//! Configurations from random bytes: all of them have the right form, and many are graphs.

/// A row of choices; when it ends, every choice is the first one, so what is generated ends.
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: 0 }
    }

    fn pick(&mut self, count: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % count
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.pick(of.len())]
    }
}

const NAMES: &[&str] = &["a", "b", "c", "q/in", "x@1"];
const CONFIGS: &[&str] = &[
    "",
    "()",
    "(1)",
    "(1, 2)",
    "(\"a, b\", 'c')",
    "($a)",
    "(KEY $a, ${b-2})",
    "(\n1,\n  2)",
    "(f(x) \\<00 /*)*/ 41>)",
    "(1 // c\n, 2)",
    "(1,,)",
    "(,)",
    "(\"$a\" /* ) */)",
    "(a\n b)",
];
const PLACES: &[&str] = &["", "", "", " @remote(b)", "\n@remote( $a )", " @remote (10.0.0.2)"];
const PORTS: &[&str] = &["[0]", "[1]", "[0,1]", "[0-2]", "[ 1- ]", "[]", "[0x1]"];
const CLASSES: &[&str] =
    &["Counter", "Queue", "Null", "Discard", "FromDevice", "Tee", "Idle", "Script", "Mine", "Unknown"];

/// A configuration.
pub fn source(choices: &mut Choices<'_>) -> String {
    let mut out = String::new();
    statements(choices, &mut out, 0);
    out
}

fn statements(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    let count = choices.pick(6);
    for at in 0..count {
        statement(choices, out, depth);
        if at + 1 < count || choices.pick(2) == 0 {
            *out += choices.one(&[";", ";\n", "\n;;\n\n\n", "; "]);
        }
    }
}

fn statement(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    match choices.pick(10) {
        0 | 1 => {
            *out += choices.one(&["a", "b", "c, x@1", "q/in ,c"]);
            *out += choices.one(&[" :: ", "::", "\n ::  "]);
            class(choices, out, depth);
            *out += choices.one(CONFIGS);
        }
        2 => {
            *out += "elementclass Mine ";
            if choices.pick(3) == 0 { *out += "Counter" } else { compound(choices, out, depth) }
        }
        3 => *out += choices.one(&["define($a 1)", "define($b \"x\",\n$c $b)", "require(local)", "provide(p, q)"]),
        4 if depth == 0 => *out += choices.one(&["connectiontunnel t->u", "connectiontunnel v -> w,w -> v"]),
        _ => chain(choices, out, depth),
    }
}

fn chain(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    if depth > 0 && choices.pick(4) == 0 {
        *out += choices.one(&["-> ", "[1] => ", "[0], [1] =>\n"]);
    }
    set(choices, out, depth);
    for _ in 0..choices.pick(4) {
        *out += choices.one(&[" -> ", "->", "\n    -> ", " ->\n", "=>"]);
        set(choices, out, depth);
    }
    if depth > 0 && choices.pick(4) == 0 {
        *out += choices.one(&[" ->", "-> [1]", " => [0],\n[1]"]);
        *out += ";";
    }
}

fn set(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    item(choices, out, depth);
    if choices.pick(6) == 0 {
        *out += choices.one(&[",", ", ", "\n, "]);
        item(choices, out, depth);
    }
}

fn item(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    if choices.pick(5) == 0 {
        *out += choices.one(PORTS);
        *out += choices.one(&["", " "]);
    }
    match choices.pick(8) {
        0 | 1 => *out += choices.one(NAMES),
        2 if depth < 4 => compound(choices, out, depth),
        3 if depth < 4 => {
            *out += "(";
            statements(choices, out, depth + 1);
            *out += ")";
        }
        4 => {
            *out += choices.one(NAMES);
            *out += " :: ";
            class(choices, out, depth);
            *out += choices.one(CONFIGS);
        }
        _ => {
            *out += choices.one(CLASSES);
            *out += choices.one(CONFIGS);
            *out += choices.one(PLACES);
        }
    }
    if choices.pick(5) == 0 {
        *out += choices.one(&["", " "]);
        *out += choices.one(PORTS);
    }
}

fn class(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    if choices.pick(5) == 0 && depth < 4 { compound(choices, out, depth) } else { *out += choices.one(CLASSES) }
}

fn compound(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    *out += choices.one(&["{ ", "{\n", "{"]);
    for at in 0..1 + choices.pick(2) {
        if at > 0 {
            *out += choices.one(&[" || ", "||", "\n||\n"]);
        }
        *out += choices.one(&["", "$a | ", "$a,KEY $b|", "__REST__ $r |\n", "| "]);
        *out += choices.one(&["", "input -> output; ", "input -> Counter -> output;\n"]);
        statements(choices, out, depth + 1);
    }
    *out += choices.one(&[" }", "}", "\n}"]);
}
