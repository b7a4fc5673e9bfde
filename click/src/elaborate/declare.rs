//! Names to nodes: declarations, references, classes and tunnels.

use super::resolve::{Resolver, Said};
use super::scope::{ClassRef, Kind, Node};
use crate::classes::nearest;
use crate::diagnostic::Diagnostic;
use crate::graph::ElementPlace;
use crate::span::Span;
use crate::syntax::ast::{Class, Ident};
use crate::text::Text;
use std::collections::HashMap;

impl Resolver<'_> {
    fn lookup(&self, name: &str) -> Option<ClassRef> {
        let own = self.known.iter().rev().find_map(|classes| classes.get(name)).cloned();
        own.or_else(|| self.classes.class(name).map(|_| ClassRef::Known(name.to_owned())))
    }

    /// Whether a declaration has the class before the name, which is said.
    pub(super) fn is_turned(&mut self, name: &Ident, class: &Class) -> bool {
        let Class::Name(class) = class else { return false };
        let turned = self.lookup(&name.text).is_some() && self.lookup(&class.text).is_none();
        if turned {
            let message = "the class stands before the name".to_owned();
            let what = Diagnostic::new(name.span, message, format!("'{}' is a class", name.text));
            self.mistakes.add(what.hint(format!("write {} :: {}", class.text, name.text)));
        }
        turned
    }

    /// A class by its name; one that is not known is said once.
    pub(super) fn class_named(&mut self, name: &Ident) -> ClassRef {
        if let Some(class) = self.lookup(&name.text) {
            return class;
        }
        self.unknown_class(&name.text, name.span);
        ClassRef::Missing
    }

    fn unknown_class(&mut self, name: &str, span: Span) {
        if self.mistakes.is_full() {
            return;
        }
        let own = self.known.iter().flat_map(|classes| classes.keys().map(String::as_str));
        let hint = match nearest(name, own.chain(self.classes.names())) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "classes are the node's own, and those of elementclass before this place".to_owned(),
        };
        let message = format!("unknown class '{name}'");
        self.mistakes.add(Diagnostic::new(span, message, "neither known nor defined before").hint(hint));
        // From here on it is known, and known to be missing.
        if let Some(file) = self.known.first_mut() {
            file.insert(name.to_owned(), ClassRef::Missing);
        }
    }

    pub(super) fn define_class(&mut self, name: &Ident, class: ClassRef) {
        if self.at().names.contains_key(&name.text) {
            let message = format!("'{}' is an element", name.text);
            let what = Diagnostic::new(name.span, message, "expected a name that no element has");
            return self.mistakes.add(what.hint("rename the class or the element"));
        }
        if let Some(last) = self.known.last_mut() {
            last.insert(name.text.clone(), class);
        }
    }

    /// The class that a compound with `...` extends.
    pub(super) fn class_before(&mut self, name: &str, span: Span) -> Option<ClassRef> {
        let found = self.lookup(name).filter(|_| !name.is_empty());
        if found.is_none() {
            let what = Diagnostic::new(span, "'...' extends nothing", "expected a class that has the name already");
            self.mistakes
                .add(what.hint("write elementclass Name { … || ... } for a 'Name' that exists, or leave '...' out"));
        }
        found
    }

    /// `name :: class(config) @remote(node)`
    pub(super) fn declare(&mut self, name: &Ident, class: ClassRef, said: Said) -> usize {
        if let Some(&before) = self.at().names.get(&name.text) {
            self.declared_twice(name, before);
            return before;
        }
        if self.lookup(&name.text).is_some() {
            let message = format!("'{}' is a class", name.text);
            let what = Diagnostic::new(name.span, message, "expected a name that no class has");
            self.mistakes.add(what.hint("names of elements begin with a small letter, by custom"));
        }
        if name.text.split('/').any(|part| part.bytes().all(|c| c.is_ascii_digit())) {
            let message = format!("'{}' has a part of digits alone", name.text);
            let what = Diagnostic::new(name.span, message, "digits alone are a port");
            self.mistakes.add(what.hint("put a letter before them"));
        }
        self.element(name.text.clone(), class, said, name.span)
    }

    fn declared_twice(&mut self, name: &Ident, before: usize) {
        let node = self.at().scope.nodes.get(before);
        let known = node.map(|node| (node.span, matches!(node.kind, Kind::Tunnel { .. })));
        let message = format!("'{}' is declared twice", name.text);
        let what = Diagnostic::new(name.span, message, "the second declaration");
        let what = match known {
            Some((span, false)) => what.other(span, "the first"),
            _ => what,
        };
        self.mistakes.add(what.hint("use another name, or refer to the first by its name alone"));
    }

    fn element(&mut self, name: String, class: ClassRef, said: Said, span: Span) -> usize {
        let inside = |said| Text::inside(self.source, said);
        let place = said.place.map(|place| place.is.map(inside));
        let (kind, config) = (Kind::Element(class), said.config.map(inside).unwrap_or_default());
        self.push(Node { name, kind, config, place, span, can_enter: true, can_leave: true, used: [0, 0] })
    }

    /// A new element without a name.
    pub(super) fn anonymous(&mut self, class: &str, of: ClassRef, said: Said, span: Span) -> usize {
        let name = self.anonymous_name(class);
        let node = self.element(name, of, said, span);
        self.at().nameless.push(node);
        node
    }

    /// A name without a class behind it: a class, of which this is a new element, or an element.
    pub(super) fn named(&mut self, name: &Ident, said: Said) -> usize {
        let Some(class) = self.lookup(&name.text) else {
            return match self.at().names.get(&name.text).copied() {
                Some(node) => self.refer(name, node, said),
                None => self.undeclared(name, said.config),
            };
        };
        self.anonymous(&name.text, class, said, name.span)
    }

    fn refer(&mut self, name: &Ident, node: usize, said: Said) -> usize {
        for (said, word) in [(said.config, "configuration"), (said.place.map(|place| place.span), "place")] {
            let Some(said) = said else { continue };
            let what = Diagnostic::new(said, format!("'{}' has its {word} already", name.text), "a second one");
            let first = self.at().scope.nodes.get(node).map(|node| node.span);
            let what = first.map_or(what.clone(), |first| what.other(first, "declared here"));
            self.mistakes.add(what.hint(format!("write the {word} where the element is declared")));
        }
        node
    }

    /// A word as places are, which is none; elements may have such names too.
    fn no_place(&mut self, name: &Ident) {
        let places = ElementPlace::<Span>::WORDS;
        if places.contains(&&name.text[..]) {
            let message = format!("'{}' stands behind no class", name.text);
            let what = Diagnostic::new(name.span, message, "expected an element");
            return self.mistakes.add(what.hint("an element has one place, behind its class: a :: Counter @user"));
        }
        let message = format!("'{}' is neither a place nor an element", name.text);
        let what = Diagnostic::new(name.span, message, "places are @kernel, @user, @auto and @remote(NODE)");
        let names = self.at().names.keys().map(String::as_str).filter(|known| !known.starts_with(';'));
        let near = nearest(&name.text, places.into_iter().chain(names)).map(|near| format!("did you mean '{near}'?"));
        self.mistakes.add(what.hint(near.unwrap_or_else(|| "the place of an element stands behind its class".into())));
    }

    fn undeclared(&mut self, name: &Ident, config: Option<Span>) -> usize {
        let later = self.at().declared.get(&name.text).copied().filter(|span| span.start > name.span.start);
        if later.is_none() && name.text.starts_with('@') {
            self.no_place(name);
            return self.anonymous(&name.text, ClassRef::Missing, Said::NOTHING, name.span);
        }
        if later.is_none() && (config.is_some() || name.text.starts_with(|c: char| c.is_ascii_uppercase())) {
            self.unknown_class(&name.text, name.span);
            return self.anonymous(&name.text, ClassRef::Missing, Said::NOTHING, name.span);
        }
        let what = Diagnostic::new(name.span, format!("unknown element '{}'", name.text), "not declared before");
        let what = match later {
            Some(span) => what.other(span, "declared here").hint("move the declaration before its use"),
            None if matches!(&name.text[..], "input" | "output") => {
                what.hint("'input' and 'output' are in compounds and groups only")
            }
            None if self.mistakes.is_full() => what,
            None => {
                let names = self.at().names.keys().map(String::as_str).filter(|known| !known.starts_with(';'));
                let near = nearest(&name.text, names).map(|near| format!("did you mean '{near}'?"));
                what.hint(near.unwrap_or_else(|| format!("declare it: {} :: Class", name.text)))
            }
        };
        self.mistakes.add(what);
        let node = self.element(name.text.clone(), ClassRef::Missing, Said::NOTHING, name.span);
        if later.is_some() {
            // Its own declaration is right.
            self.at().names.remove(&name.text);
        }
        node
    }

    /// Gives nodes without a name the one that is theirs, or if somebody has taken that, the next that is free.
    pub(super) fn name_the_nameless(&mut self) {
        let nameless = std::mem::take(&mut self.at().nameless);
        let mut free: HashMap<String, usize> = HashMap::new();
        for node in nameless {
            let open = self.at();
            let Some(known) = open.scope.nodes.get(node).map(|node| node.name.clone()) else { continue };
            let mut name = known.trim_start_matches(';').to_owned();
            if let Some((class, number)) = known.trim_start_matches(';').rsplit_once('@') {
                let next = free.entry(class.to_owned()).or_insert(0);
                while open.names.contains_key(&name) {
                    // What was taken once stays so: no number is looked at twice.
                    *next = number.parse().map_or(*next, |number: usize| number.max(*next)) + 1;
                    name = format!("{class}@{next}");
                }
            }
            open.names.insert(name.clone(), node);
            // A group's ends stand behind it and are called after it.
            let is_group = open.scope.nodes.get(node).is_some_and(|node| matches!(node.kind, Kind::Tunnel { .. }));
            let ends = if is_group { &["", "/input", "/output"][..] } else { &[""] };
            for (node, end) in open.scope.nodes.iter_mut().skip(node).zip(ends) {
                node.name = format!("{name}{end}");
            }
        }
    }

    /// `connectiontunnel from -> to`
    pub(super) fn connection_tunnel(&mut self, from: &Ident, to: &Ident) {
        let [entrance, exit] = [from, to].map(|name| self.tunnel_end(name));
        let (Some(entrance), Some(exit)) = (entrance, exit) else { return };
        let nodes = &mut self.at().scope.nodes;
        let taken = [
            nodes.get(entrance).is_some_and(|node| node.can_enter).then_some(from),
            nodes.get(exit).is_some_and(|node| node.can_leave).then_some(to),
        ];
        if let Some(name) = taken.into_iter().flatten().next() {
            let message = format!("'{}' is this end of two tunnels", name.text);
            let what = Diagnostic::new(name.span, message, "it is the end of another one");
            return self.mistakes.add(what.hint("use another name"));
        }
        if let Some(node) = nodes.get_mut(entrance) {
            node.can_enter = true;
        }
        if let Some(node) = nodes.get_mut(exit) {
            node.can_leave = true;
        }
        self.lead(entrance, exit);
    }

    /// The node of a tunnel's end, which may be one of another tunnel already.
    fn tunnel_end(&mut self, name: &Ident) -> Option<usize> {
        let Some(&node) = self.at().names.get(&name.text) else {
            return Some(self.tunnel(&name.text, name.span, false, false));
        };
        let found = self.at().scope.nodes.get(node)?;
        let is_tunnel = matches!(found.kind, Kind::Tunnel { .. }) && !matches!(&name.text[..], "input" | "output");
        if is_tunnel {
            return Some(node);
        }
        let (what, span) = (format!("'{}' is an element", name.text), found.span);
        let what = Diagnostic::new(name.span, what, "expected a name that no element has");
        self.mistakes.add(what.other(span, "declared here").hint("a tunnel's ends have names of their own"));
        None
    }
}
