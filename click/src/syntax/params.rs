//! Tokens to syntax tree: parameters of compounds, `$a, KEYWORD $b |`.

use super::ast::{Ident, Param, REST};
use super::parser::Parser;
use super::token::Token;
use crate::diagnostic::Diagnostic;

/// The most parameters of a compound.
pub const PARAMS_MAX: usize = 64;

impl Parser<'_> {
    /// `$a, KEY $b |`, or nothing.
    pub(super) fn params(&mut self) -> Vec<Param> {
        let mut params = Vec::new();
        let begins = match self.peek() {
            Token::Variable | Token::Sign("|") => true,
            _ => self.peek() == Token::Identifier && self.ahead(1).token == Token::Variable,
        };
        let hint = "parameters are written $a, KEYWORD $b | before the statements";
        let mut more = begins && self.peek() != Token::Sign("|");
        while more {
            let span = self.span();
            let word = self.take(Token::Identifier).then(|| Ident { text: self.text(span), span });
            let span = self.span();
            if !self.take(Token::Variable) {
                self.unexpected("a variable", hint);
                return params;
            }
            let name = Ident { text: self.text(span).trim_start_matches('$').to_owned(), span };
            params.push(Param { keyword: word, name });
            self.order_of(&params);
            if params.len() > PARAMS_MAX {
                let what = Diagnostic::new(span, "too many parameters", format!("a compound has at most {PARAMS_MAX}"));
                self.report(what.hint("use several compounds"));
                return params;
            }
            more = self.take(Token::Sign(","));
            if !more && self.peek() != Token::Sign("|") {
                self.unexpected("',' or '|'", hint);
                return params;
            }
        }
        self.take(Token::Sign("|"));
        params
    }

    /// Parameters by their places come first, then those by keywords, then the rest.
    fn order_of(&mut self, params: &[Param]) {
        let [before @ .., last] = params else { return };
        let is_rest = |param: &Param| param.keyword.as_ref().is_some_and(|word| word.text == REST);
        let wrong = |other: &&Param| is_rest(other) || (last.keyword.is_none() && other.keyword.is_some());
        if let Some(other) = before.iter().find(wrong) {
            let what = Diagnostic::new(last.name.span, "parameters out of order", "this one comes before");
            let hint = format!("the order is $a, then KEYWORD $b, then {REST} $c");
            self.report(what.other(other.name.span, "this one").hint(hint));
        }
    }
}
