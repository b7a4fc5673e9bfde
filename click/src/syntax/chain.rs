//! Tokens to syntax tree: chains of elements.
//!
//! `[1] name :: Class(config) [0, 2]` is an item, items with commas between them are a set, and sets with arrows between them are a
//! chain. In a compound or group, ports alone are an item too: `-> Counter -> [1]` begins at `input` and ends at `output`.

use super::ast::{Arrow, Chain, Class, Ident, Item, ItemKind, Ports, WrittenPlace};
use super::parser::Parser;
use super::token::Token;
use crate::diagnostic::Diagnostic;
use crate::graph::ElementPlace;
use crate::span::Span;

/// The highest number of a port.
pub const PORT_MAX: u32 = 1023;

/// The most ports of all lists of a text.
pub const PORTS_MAX: usize = 65_536;

/// What is written before the node that an element is to be at.
const REMOTE: &str = "@remote";

/// The number of a port: decimal, octal from `0` on, hexadecimal from `0x` on.
fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (&lower[..], 10),
    };
    u32::from_str_radix(digits, radix).ok().filter(|number| *number <= PORT_MAX)
}

impl Parser<'_> {
    fn arrow(&self) -> Option<Arrow> {
        match self.peek() {
            Token::Sign("->") => Some(Arrow::One),
            Token::Sign("=>") => Some(Arrow::Each),
            _ => None,
        }
    }

    pub(super) fn chain(&mut self) -> Option<Chain> {
        let mut chain = Chain { sets: vec![self.set(true)?], arrows: Vec::new() };
        while let Some(arrow) = self.arrow() {
            let span = self.next().span;
            if let Some(implied) = self.implied_before(&chain) {
                let what =
                    Diagnostic::new(implied, "ports without an element in the middle of a chain", "whose ports?");
                self.report(what.hint("ports alone are those of 'output', where the chain ends"));
                return None;
            }
            chain.arrows.push((arrow, span));
            chain.sets.push(self.set(false)?);
        }
        Some(chain)
    }

    /// An item without an element in the last set, unless it is the first one.
    fn implied_before(&self, chain: &Chain) -> Option<Span> {
        let [_, .., last] = &chain.sets[..] else { return None };
        last.iter().find(|item| item.kind == ItemKind::Implied).map(|item| item.span)
    }

    fn set(&mut self, first: bool) -> Option<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            items.push(self.item(first, items.is_empty())?);
            if !self.take(Token::Sign(",")) {
                return Some(items);
            }
        }
    }

    fn item(&mut self, first: bool, leads: bool) -> Option<Item> {
        let start = self.span();
        let inputs = if self.peek() == Token::Sign("[") { Some(self.ports()?) } else { None };
        let mut item = Item {
            inputs,
            kind: ItemKind::Implied,
            class: None,
            config: None,
            place: None,
            outputs: None,
            span: start,
        };
        match self.peek() {
            Token::Identifier => {
                let span = self.next().span;
                item.kind = ItemKind::Name(Ident { text: self.text(span), span });
                if self.take(Token::Sign("::")) {
                    item.class = Some(self.class()?);
                }
                item.config = self.config();
            }
            Token::Sign("{") => {
                item.kind = ItemKind::Compound(self.compound()?);
                item.config = self.config();
            }
            Token::Sign("(") => item.kind = ItemKind::Group(self.group()?),
            _ => return self.implied(item, first, leads),
        }
        if !matches!(item.kind, ItemKind::Group(_)) {
            item.place = self.place()?;
        }
        if self.peek() == Token::Sign("[") {
            item.outputs = Some(self.ports()?);
        }
        item.span = self.since(start);
        Some(item)
    }

    /// An item of ports alone, or of nothing: where a chain in a compound begins with an arrow or ends with one.
    fn implied(&mut self, mut item: Item, first: bool, leads: bool) -> Option<Item> {
        let arrow = self.arrow().is_some();
        let comma = self.peek() == Token::Sign(",") && item.inputs.is_some();
        let named = item.inputs.is_some() || leads;
        let fits = named && if first { arrow || comma } else { self.peek() != Token::Sign("::") };
        if !fits || !self.is_nested() {
            let hint = match (first, self.is_nested()) {
                (true, true) => "a chain begins with an element, or with '->' for 'input'",
                (false, true) => "a chain ends with an element, or with '->' for 'output'",
                (_, false) => "an element is its name, 'name :: Class(config)', or 'Class(config)' without a name",
            };
            self.unexpected("an element", hint);
            return None;
        }
        if first {
            item.outputs = item.inputs.take();
        }
        item.span = self.since(item.span);
        Some(item)
    }

    fn class(&mut self) -> Option<Class> {
        if self.peek() == Token::Sign("{") {
            return self.compound().map(Class::Compound);
        }
        let hint = "a declaration is written 'name :: Class' or 'name :: { … }'";
        self.ident("the name of a class", hint).map(Class::Name)
    }

    /// `@remote(node)`, `@kernel` or the like, if one is here; nothing: it is wrong, which has been said.
    fn place(&mut self) -> Option<Option<WrittenPlace>> {
        let word = if self.peek() == Token::Identifier { self.text(self.span()) } else { String::new() };
        // An element may have such a name.
        if self.ahead(1).token == Token::Sign("::") {
            return Some(None);
        }
        let start = self.span();
        let is = if word == REMOTE {
            self.next();
            let Some(node) = self.config() else {
                self.unexpected("'(' and a node", "the place of an element is written @remote(10.0.0.2)");
                return None;
            };
            ElementPlace::Remote(node)
        } else {
            let Some(is) = ElementPlace::of(&word) else { return Some(None) };
            self.next();
            is
        };
        Some(Some(WrittenPlace { is, span: self.since(start) }))
    }

    /// `[0, 2-4, 6-]`
    fn ports(&mut self) -> Option<Ports> {
        let start = self.next().span;
        let mut ports = Ports { list: Vec::new(), open: false, span: start };
        loop {
            if self.take(Token::Sign("]")) {
                // Nothing behind '[', ',' or '-': all that follow, from 0 on if none is named.
                if ports.list.is_empty() {
                    ports.list.push(0);
                }
                ports.open = true;
                break;
            }
            let first = self.port()?;
            let before = ports.list.len();
            ports.list.push(first);
            if self.take(Token::Sign("-")) {
                if self.take(Token::Sign("]")) {
                    ports.open = true;
                    break;
                }
                let last = self.port()?;
                ports.list.extend(first + 1..=last);
            }
            self.ports += ports.list.len() - before;
            if ports.list.len() > PORT_MAX as usize + 1 || self.ports > PORTS_MAX {
                let label = format!("at most {} in a list, and {PORTS_MAX} in all lists", PORT_MAX + 1);
                self.report(Diagnostic::new(start, "too many ports", label).hint("use several elements"));
                return None;
            }
            if self.take(Token::Sign("]")) {
                break;
            }
            if !self.take(Token::Sign(",")) {
                self.unexpected("',' or ']'", "ports are written [0], [0, 2] or [0-3]");
                return None;
            }
        }
        ports.span = self.since(start);
        Some(ports)
    }

    fn port(&mut self) -> Option<u32> {
        let span = self.span();
        if self.peek() != Token::Identifier {
            self.unexpected("the number of a port", "ports are written [0], [0, 2] or [0-3]");
            return None;
        }
        let port = number(&self.text(span));
        if port.is_none() {
            let label = format!("expected a number up to {PORT_MAX}");
            self.report(Diagnostic::new(span, "bad number of a port", label).hint("ports count from 0"));
        }
        self.next();
        port
    }
}
