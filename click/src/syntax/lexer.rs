//! Text to tokens.
//!
//! `q :: Queue(10)` is a name, `::`, a name, and a configuration. What stands in parentheses behind a name, a compound or a
//! reserved word is one token, since only the element's class knows how to read it. Other parentheses are groups.
//! The lexer never fails: what cannot be a token is reported and left out. Comments and line directives are kept aside for the
//! formatter. A line directive (`# 12 "file"`) is checked and has no other effect: mistakes are shown in the text at hand.

use super::scan::{Kind, directive, piece};
use super::token::{Comment, SIGNS, Spanned, Token, WORDS};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The largest text, in bytes.
pub const SOURCE_MAX: usize = 256 * 1024;

/// The longest name in a text, in bytes. Names of flat graphs have those of all their compounds in them.
pub const NAME_MAX: usize = 1024;

/// Mistakes of a text that are told; who has more mends these first.
pub const MISTAKES_MAX: usize = 100;

/// The tokens of a text, ending in [`Token::End`]; its comments; what is wrong.
#[derive(Debug, Default)]
pub struct Lexed {
    /// The tokens.
    pub tokens: Vec<Spanned>,
    /// The comments.
    pub comments: Vec<Comment>,
    /// What could not be read.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a text.
pub fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer { source, at: 0, open: Vec::new(), closed_class: false, out: Lexed::default() };
    if source.len() > SOURCE_MAX {
        let span = Span::new(SOURCE_MAX, source.len());
        let label = format!("a configuration has at most {SOURCE_MAX} bytes");
        let what = Diagnostic::new(span, "the configuration is too long", label);
        lexer.out.diagnostics.push(what.hint("make several graphs of it"));
    } else {
        while lexer.one() {}
    }
    let end = source.len();
    lexer.out.tokens.push(Spanned { token: Token::End, span: Span::new(end, end) });
    lexer.out
}

/// What is nearly a sign, what is meant, and what to write.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("-->", "->", "a connection is written '->'"),
    ("==>", "=>", "connections of many ports to as many are written '=>'"),
    (":=", "::", "a declaration is written 'name :: Class'"),
    (":", "::", "a declaration is written 'name :: Class'"),
    (">", "->", "a connection is written '->'"),
    ("=", "=>", "connections of many ports to as many are written '=>'"),
    ("→", "->", "a connection is written '->'"),
];

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    /// For each open brace whether it is the body of an `elementclass`.
    open: Vec<bool>,
    /// The last closing brace ended the body of an `elementclass`.
    closed_class: bool,
    out: Lexed,
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '@'
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or("")
    }

    /// Reads one token, comment or space; false at the end.
    fn one(&mut self) -> bool {
        let Some(first) = self.rest().chars().next() else { return false };
        match first {
            c if c.is_ascii_whitespace() || c == '\x0b' => self.at += 1,
            c if in_name(c) => self.name(),
            '/' | '#' if self.comment() => {}
            '$' => self.variable(),
            '(' if self.is_config() => self.config(),
            _ => self.sign(first),
        }
        true
    }

    fn push(&mut self, token: Token, start: usize) {
        self.out.tokens.push(Spanned { token, span: Span::new(start, self.at) });
    }

    fn complain(&mut self, span: Span, message: &str, label: &str, hint: &str) {
        if self.out.diagnostics.len() < MISTAKES_MAX {
            self.out.diagnostics.push(Diagnostic::new(span, message, label).hint(hint));
        }
    }

    fn skip(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    }

    fn name(&mut self) {
        let start = self.at;
        loop {
            self.skip(in_name);
            let more = self.rest().strip_prefix('/').is_some_and(|rest| rest.starts_with(in_name));
            if !more {
                break;
            }
            self.at += 1;
        }
        let text = self.source.get(start..self.at).unwrap_or("");
        let word = WORDS.iter().find(|word| **word == text);
        self.push(word.map_or(Token::Identifier, |word| Token::Word(word)), start);
        if text.len() > NAME_MAX {
            let span = Span::new(start, self.at);
            self.complain(span, "the name is too long", &format!("at most {NAME_MAX} bytes"), "shorten it");
        }
    }

    fn variable(&mut self) {
        let start = self.at;
        self.at += 1;
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        if self.at == start + 1 {
            let span = Span::new(start, self.at);
            self.complain(span, "a '$' alone", "expected a name behind it", "a variable is written $name");
            return;
        }
        self.push(Token::Variable, start);
    }

    /// Reads a comment or line directive if one is here.
    fn comment(&mut self) -> bool {
        let start = self.at;
        let first = start == 0 && self.rest().starts_with('#');
        let found = if first { Some(directive(self.source, start)) } else { piece(self.source, start) };
        let Some(found) = found else { return false };
        let to_line_end = matches!(found.kind, Kind::Line | Kind::Directive);
        if !to_line_end && found.kind != Kind::Block {
            return false;
        }
        self.at = found.end;
        if !found.closed {
            let span = Span::new(start, start + 2);
            let hint = "write '*/' where it ends; such comments do not nest";
            self.complain(span, "the comment does not end", "it begins here", hint);
        }
        if found.kind == Kind::Directive {
            self.directive(start);
        }
        let before = self.out.tokens.len();
        self.out.comments.push(Comment { span: Span::new(start, self.at), before, to_line_end });
        true
    }

    fn directive(&mut self, start: usize) {
        let text = self.source.get(start + 1..self.at).unwrap_or("").trim_start();
        let number = text.strip_prefix("line").map_or(text, str::trim_start);
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            let hint = "a line directive is written # 12 \"file\"; a comment begins with //";
            self.complain(Span::new(start, self.at), "unknown directive", "expected the number of a line", hint);
        }
    }

    /// Whether the parenthesis here opens a configuration, and not a group.
    fn is_config(&self) -> bool {
        let last = |back: usize| {
            let at = self.out.tokens.len().checked_sub(back);
            at.and_then(|at| self.out.tokens.get(at)).map(|spanned| spanned.token)
        };
        match last(1) {
            Some(Token::Word(word)) => matches!(word, "define" | "require" | "provide"),
            Some(Token::Identifier) => !(last(3) == Some(Token::Word("elementclass")) && last(2) == last(1)),
            Some(Token::Sign("}")) => !self.closed_class,
            _ => false,
        }
    }

    /// Reads a configuration up to its parenthesis.
    fn config(&mut self) {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(found) = piece(self.source, self.at) {
            self.at = found.end;
            if !found.closed {
                self.open_piece(found.kind, found.start);
            }
            match found.kind {
                Kind::Byte(b'(') => depth += 1,
                Kind::Byte(b')') => depth -= 1,
                Kind::Directive => self.directive(found.start),
                _ => {}
            }
            if depth == 0 {
                return self.push(Token::Config, start);
            }
            if !found.closed {
                return self.push(Token::Config, start);
            }
        }
        let span = Span::new(start, start + 1);
        let hint = "write ')' where it ends; a parenthesis that means itself stands in quotes";
        self.complain(span, "the configuration does not end", "this '(' is not closed", hint);
        self.push(Token::Config, start);
    }

    fn open_piece(&mut self, kind: Kind, start: usize) {
        let (message, length, hint) = match kind {
            Kind::Double => ("the string does not end", 1, "write '\"' where it ends; in it, a quote is \\\""),
            Kind::Single => ("the string does not end", 1, "write ''' where it ends; a quote alone stands in \"…\""),
            Kind::Data => ("the data does not end", 2, "write '>' where it ends: \\<0800 45>"),
            _ => ("the comment does not end", 2, "write '*/' where it ends; such comments do not nest"),
        };
        self.complain(Span::new(start, start + length), message, "it begins here", hint);
    }

    fn sign(&mut self, first: char) {
        let start = self.at;
        if let Some(sign) = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)).filter(|_| !self.is_foreign()) {
            self.at += sign.len();
            match *sign {
                "{" => self.open.push(self.opens_class()),
                "}" => self.closed_class = self.open.pop().unwrap_or(false),
                _ => {}
            }
            return self.push(Token::Sign(sign), start);
        }
        if let Some((text, meant, hint)) = FOREIGN.iter().find(|(text, ..)| self.rest().starts_with(text)) {
            self.at += text.len();
            let span = Span::new(start, self.at);
            self.complain(span, &format!("unknown sign '{text}'"), &format!("expected '{meant}'"), hint);
            return self.push(Token::Sign(meant), start);
        }
        self.at += first.len_utf8();
        // What belongs together is blamed once.
        let known = |c: char| {
            c.is_ascii_whitespace() || in_name(c) || c == '$' || "([{}]),;|/#".contains(c) || "-=:>.→".contains(c)
        };
        self.skip(|c| !known(c));
        let span = Span::new(start, self.at);
        let hint = "what is for a class to read stands in the parentheses behind its name";
        self.complain(span, "unknown character", &format!("{first:?} means nothing here"), hint);
    }

    fn is_foreign(&self) -> bool {
        self.rest().starts_with("-->")
    }

    /// Whether a brace here is the body of an `elementclass`.
    fn opens_class(&self) -> bool {
        let tokens = &self.out.tokens;
        let before = tokens.len().checked_sub(2).and_then(|at| tokens.get(at));
        before.is_some_and(|spanned| spanned.token == Token::Word("elementclass"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        let lexed = lex(source);
        assert!(lexed.diagnostics.is_empty(), "{source}: {:?}", lexed.diagnostics);
        let spans = lexed.tokens.iter().map(|spanned| spanned.span);
        spans.map(|span| span.text(source)).filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn names_end_before_two_slashes() {
        assert_eq!(texts("a/b//c\nd@1/* x */e/f/* */"), ["a/b", "d@1", "e/f"]);
    }

    #[test]
    fn a_configuration_is_one_token_and_a_group_is_not() {
        assert_eq!(texts("A(b(c) \")\") -> (a -> b)"), ["A", "(b(c) \")\")", "->", "(", "a", "->", "b", ")"]);
        assert_eq!(texts("{ a }(x)"), ["{", "a", "}", "(x)"]);
        assert_eq!(texts("elementclass A { b } (x)"), ["elementclass", "A", "{", "b", "}", "(", "x", ")"]);
        assert_eq!(texts("elementclass A B (x)"), ["elementclass", "A", "B", "(", "x", ")"]);
        assert_eq!(texts("define($x 1)[0](a)"), ["define", "($x 1)", "[", "0", "]", "(", "a", ")"]);
    }

    #[test]
    fn longer_signs_win() {
        assert_eq!(
            texts("a||b|c...d::e=>f->g-h"),
            "a || b | c ... d :: e => f -> g - h".split(' ').collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_mistake_is_reported_once() {
        for bad in [
            "a(", "a(\"b)", "a('b)", "a(\\<00)", "a(/* )", "/* a", "a : B", "a > b", "a = b", "$", "# x", "%%", "a → b",
        ] {
            assert_eq!(lex(bad).diagnostics.len(), 1, "{bad}: {:?}", lex(bad).diagnostics);
        }
    }
}
