//! Text to tokens.
//!
//! The lexer never fails: what cannot be a token is reported and left out. Comments nest, as in ML, and
//! are kept aside for the formatter. `'a'` is a character and `'a` a type variable, told apart by the
//! closing quote, as in OCaml.

use super::token::{Comment, SIGNS, Spanned, Token, WORDS};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use core::ops::Range;

/// The largest source text, in bytes.
pub const SOURCE_MAX: usize = 64 * 1024;

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
    lex_part(source, 0..source.len())
}

/// Reads a part of a text, such as one file of several: nothing begins in it and ends behind it.
pub fn lex_part(whole: &str, part: Range<usize>) -> Lexed {
    let end = part.end.min(whole.len());
    let source = whole.get(..end).unwrap_or("");
    let mut lexer = Lexer { source, at: part.start, out: Lexed::default() };
    if source.len() > SOURCE_MAX {
        let span = Span::new(part.start.max(SOURCE_MAX), source.len());
        lexer.out.diagnostics.push(Diagnostic::new(
            span,
            "the program is too long",
            format!("all its files together have at most {SOURCE_MAX} bytes"),
        ));
    } else {
        while lexer.one() {}
    }
    lexer.out.tokens.push(Spanned { token: Token::End, span: Span::new(end, end) });
    lexer.out
}

/// Operators and brackets of other languages, what they mean here if that is one token, and what to write.
const FOREIGN: &[(&str, Option<Token>, &str)] = &[
    ("==", Some(Token::Sign("=")), "equality is written '=': a = b"),
    ("!=", Some(Token::Sign("<>")), "inequality is written '<>': a <> b"),
    ("&&", Some(Token::Word("and")), "write 'and': a and b; for the bits of numbers, 'andi'"),
    ("&", Some(Token::Word("andi")), "the bits of numbers are joined by 'andi'; for booleans, write 'and'"),
    ("||", Some(Token::Word("or")), "write 'or': a or b; for the bits of numbers, 'ori'"),
    ("!", Some(Token::Word("not")), "write 'not': not a"),
    ("//", None, "comments are written (* … *)"),
    ("{", Some(Token::Sign("(")), "expressions in a row stand in parentheses, (a; b); local names in let … in … end"),
    ("}", Some(Token::Sign(")")), "expressions in a row stand in parentheses, (a; b); local names in let … in … end"),
];

/// Where the ';' stands that ends a call: one in no bracket, string, character or comment.
pub fn end_of_call(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for Spanned { token, span } in lex(text).tokens {
        match token {
            Token::Sign("(" | "[") => open += 1,
            Token::Sign(")" | "]") => open = open.saturating_sub(1),
            Token::Sign(";") if open == 0 => return Some(span.start as usize),
            _ => {}
        }
    }
    None
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    out: Lexed,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.source.get(self.at..).unwrap_or("")
    }

    /// Reads one token, comment or space; false at the end.
    fn one(&mut self) -> bool {
        let Some(first) = self.rest().chars().next() else { return false };
        let start = self.at;
        match first {
            c if c.is_ascii_whitespace() => self.at += 1,
            '(' if self.rest().starts_with("(*") => self.comment(),
            '=' | '&' | '|' | '!' | '/' | '{' | '}' if self.foreign() => {}
            c if c.is_ascii_alphabetic() || c == '_' => {
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_' || c == '\'');
                let text = self.source.get(start..self.at).unwrap_or("");
                let word = WORDS.iter().find(|word| **word == text);
                self.push(word.map_or(Token::Identifier, |word| Token::Word(word)), start);
                if text.len() > crate::name::NAME_MAX {
                    self.complain(start, "the name is too long", "at most 48 characters");
                }
            }
            c if c.is_ascii_digit() => self.number(),
            '"' => self.text(),
            '\'' => self.quote(),
            _ => match SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) {
                Some(sign) => {
                    self.at += sign.len();
                    self.push(Token::Sign(sign), start);
                }
                None => {
                    self.at += first.len_utf8();
                    self.complain(start, "unknown character", &format!("{first:?} means nothing in PLAN"));
                }
            },
        }
        true
    }

    /// What other languages write: said once, and read as what is meant. False if there is nothing of the kind here.
    fn foreign(&mut self) -> bool {
        let Some((text, meant, hint)) = FOREIGN.iter().find(|(text, ..)| self.rest().starts_with(text)) else {
            return false;
        };
        let start = self.at;
        self.at += text.len();
        let span = Span::new(start, self.at);
        let what = Diagnostic::new(span, format!("'{text}' means nothing in PLAN"), "other languages write this");
        // A closing brace says no more than the opening one did.
        let known = |known: &Diagnostic| *text == "}" && known.hint.as_deref() == Some(hint);
        if !self.out.diagnostics.iter().any(known) {
            self.out.diagnostics.push(what.hint(*hint));
        }
        match meant {
            Some(token) => self.push(*token, start),
            None if *text == "//" => self.skip(|c| c != '\n'),
            None => {}
        }
        true
    }

    fn skip(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    }

    fn push(&mut self, token: Token, start: usize) {
        self.out.tokens.push(Spanned { token, span: Span::new(start, self.at) });
    }

    fn complain(&mut self, start: usize, message: &str, label: &str) {
        let span = Span::new(start, self.at);
        self.out.diagnostics.push(Diagnostic::new(span, message, label));
    }

    fn comment(&mut self) {
        let (start, mut depth) = (self.at, 0usize);
        loop {
            let rest = self.rest();
            if rest.starts_with("(*") {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*)") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    break;
                }
            } else if let Some(c) = rest.chars().next() {
                self.at += c.len_utf8();
            } else {
                let span = Span::new(start, start + 2);
                let what = Diagnostic::new(span, "the comment does not end", "it begins here");
                self.out.diagnostics.push(what.hint("comments nest: every '(*' needs its '*)'"));
                break;
            }
        }
        let before = self.out.tokens.len();
        self.out.comments.push(Comment { span: Span::new(start, self.at), before });
    }

    fn number(&mut self) {
        let start = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        let text = self.source.get(start..self.at).unwrap_or("");
        if text.parse::<i64>().is_err() {
            let decimal = text.bytes().all(|c| c.is_ascii_digit());
            let label = if decimal { "at most 9223372036854775807" } else { "a number has decimal digits only" };
            self.complain(start, "bad number", label);
        }
        self.push(Token::Int, start);
    }

    fn text(&mut self) {
        let start = self.at;
        self.at += 1;
        loop {
            match self.rest().chars().next() {
                Some('"') => {
                    self.at += 1;
                    break;
                }
                Some('\\') => {
                    self.escape();
                }
                None | Some('\n') => {
                    let span = Span::new(start, self.at);
                    let what = Diagnostic::new(span, "the string does not end", "expected '\"' before the line ends");
                    self.out.diagnostics.push(what.hint("write '\"' where it ends; a line feed in a string is \\n"));
                    break;
                }
                Some(c) => self.at += c.len_utf8(),
            }
        }
        self.push(Token::Text, start);
    }

    /// Reads a backslash and what belongs to it.
    fn escape(&mut self) {
        let start = self.at;
        match unescape(self.rest()) {
            Some((_, length)) => self.at += length,
            None => {
                self.at += 1;
                self.complain(start, "unknown escape", "there are \\n \\t \\r \\\\ \\\" \\' and \\ddd, up to \\255");
            }
        }
    }

    fn quote(&mut self) {
        let start = self.at;
        self.at += 1;
        let rest = self.rest();
        let first = rest.chars().next();
        if first == Some('\\') {
            self.escape();
        } else if let Some(c) = first.filter(|c| *c != '\'' && *c != '\n' && rest[c.len_utf8()..].starts_with('\'')) {
            self.at += c.len_utf8();
            if !c.is_ascii() {
                self.complain(start, "bad character", "a character is one byte");
            }
        } else {
            self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            if self.at == start + 1 {
                return self.complain(start, "a quote alone", "a character is written 'c', a type variable 'a");
            }
            return self.push(Token::TypeVariable, start);
        }
        if self.rest().starts_with('\'') {
            self.at += 1;
        } else {
            self.complain(start, "the character does not end", "a character is written 'c'");
        }
        self.push(Token::Char, start);
    }
}

/// The byte that an escape at the beginning of a text stands for, and the escape's length.
fn unescape(text: &str) -> Option<(u8, usize)> {
    let mut bytes = text.bytes().skip(1);
    let simple = match bytes.next()? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        c @ (b'\\' | b'"' | b'\'') => c,
        _ => {
            let digits = text.get(1..4).filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()))?;
            return Some((digits.parse().ok()?, 4));
        }
    };
    Some((simple, 2))
}

/// The bytes that a string or character token stands for, from the text between its quotes.
pub fn contents(token: &str) -> Vec<u8> {
    let inner = token.get(1..).unwrap_or("");
    let quote = token.bytes().next().unwrap_or(b'"');
    let (mut bytes, mut at) = (Vec::with_capacity(inner.len()), 0);
    while let Some(&byte) = inner.as_bytes().get(at) {
        if byte == b'\\' {
            let (byte, length) = inner.get(at..).and_then(unescape).unwrap_or((b'\\', 1));
            bytes.push(byte);
            at += length;
        } else if byte == quote {
            break;
        } else {
            bytes.push(byte);
            at += 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<Token> {
        let lexed = lex(source);
        assert!(lexed.diagnostics.is_empty(), "{source}: {:?}", lexed.diagnostics);
        lexed.tokens.iter().map(|spanned| spanned.token).collect()
    }

    #[test]
    fn characters_and_type_variables_are_told_apart() {
        assert_eq!(
            tokens("'a' 'a '\\n' '\\''"),
            [Token::Char, Token::TypeVariable, Token::Char, Token::Char, Token::End]
        );
    }

    #[test]
    fn longer_signs_win() {
        let signs: Vec<_> = tokens("=> = >= >> <> << :: :").into_iter().map(|token| token.to_string()).collect();
        assert_eq!(signs, ["'=>'", "'='", "'>='", "'>>'", "'<>'", "'<<'", "'::'", "':'", "the end of the file"]);
    }

    #[test]
    fn comments_nest_and_are_kept() {
        let lexed = lex("a (* b (* c *) d *) e (* f");
        assert_eq!(lexed.tokens.len(), 3);
        assert_eq!(lexed.comments.iter().map(|comment| comment.before).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(lexed.diagnostics.len(), 1);
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(contents("\"a\\n\\255\\\"\\\\\""), b"a\n\xff\"\\");
        assert_eq!(contents("'\\''"), b"'");
        assert_eq!(lex("\"\\q\"").diagnostics.len(), 1);
        assert_eq!(lex("\"\\256\"").diagnostics.len(), 1);
    }

    #[test]
    fn a_call_ends_with_the_semicolon_that_stands_in_nothing() {
        let cases = [
            ("f(1);", Some(4)),
            ("f([1; 2], \"a;b\", ';') (* ; *) ; rest", Some(30)),
            ("f((1; 2)", None),
            ("f(\"a;", None),
            ("f(';'", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(end_of_call(text), expected, "{text}");
        }
    }

    #[test]
    fn operators_of_other_languages_are_said_once_and_read_as_what_is_meant() {
        for (bad, hint) in
            [("a == b", "'='"), ("a && b", "'and'"), ("a || b", "'or'"), ("!a", "'not'"), ("a != b", "'<>'")]
        {
            let lexed = lex(bad);
            assert_eq!(lexed.diagnostics.len(), 1, "{bad}: {:?}", lexed.diagnostics);
            assert!(lexed.diagnostics[0].hint.as_deref().unwrap().contains(hint), "{bad}: {:?}", lexed.diagnostics);
        }
        assert_eq!(lex("{ a; b }").diagnostics.len(), 1);
        assert_eq!(lex("|f|(x) (* a == b *) \"&&\"").diagnostics.len(), 0);
    }

    #[test]
    fn every_mistake_is_reported_once() {
        for bad in ["\"abc", "'", "12x", "99999999999999999999", "@", "'ab'"] {
            assert_eq!(lex(bad).diagnostics.len(), 1, "{bad}: {:?}", lex(bad).diagnostics);
        }
    }
}
