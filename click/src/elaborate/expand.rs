//! Scopes to nodes and links: a copy of each compound where it is used.
//!
//! `c :: { input -> Queue -> output }` becomes the nodes `c/input`, `c/Queue@1` and `c/output`; `c` itself leads to `c/input`, and
//! `c/output` to what is behind `c`. Copies wait in a queue, so no nesting is too deep for the stack; what they make is counted.

use super::overload::{Choice, asked, choose, signature};
use super::scope::{ClassRef, INPUT, Kind, Link, OUTPUT, Scope};
use crate::arguments::{self, Argument};
use crate::classes::Bounds;
use crate::diagnostic::Diagnostic;
use crate::graph::ElementPlace;
use crate::mistakes::Mistakes;
use crate::span::Span;
use crate::syntax::lexer::NAME_MAX;
use crate::syntax::scan::{Kind as PieceKind, pieces};
use crate::text::Text;
use crate::variables::{Values, expand as substitute};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bytes of a node's name, at most.
const PLACE_MAX: usize = 64;

/// What a flat node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FlatKind {
    Element {
        class: String,
        arguments: Vec<Argument>,
    },
    Tunnel {
        exit: Option<usize>,
    },
    /// Of a class that does not exist.
    Missing,
}

/// Where a node is to be; shared by all of a compound.
pub(super) type FlatPlace = ElementPlace<Arc<str>>;

/// A node with its full name.
#[derive(Clone, Debug)]
pub(super) struct FlatNode {
    pub name: String,
    pub kind: FlatKind,
    /// Where it is to be.
    pub place: Option<FlatPlace>,
    pub span: Span,
    pub within: Option<Span>,
}

/// Everything, before tunnels are joined.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub nodes: Vec<FlatNode>,
    pub links: Vec<Link>,
}

/// Variables of a copy of a scope.
struct Variables {
    depth: usize,
    around: Option<usize>,
    values: HashMap<String, Text>,
}

/// The variables that are seen in a copy.
struct Seen<'a>(&'a [Variables], usize);

impl Values for Seen<'_> {
    fn value(&self, name: &str) -> Option<&Text> {
        let mut at = Some(self.1);
        while let Some(own) = at.and_then(|at| self.0.get(at)) {
            if let Some(value) = own.values.get(name) {
                return Some(value);
            }
            at = own.around;
        }
        None
    }
}

/// A scope to be copied.
struct Copy {
    scope: usize,
    /// What stands before its names, with a slash.
    prefix: String,
    variables: usize,
    within: Option<Span>,
    /// Where what is in the compound is to be.
    place: Option<FlatPlace>,
    /// Its `input` and `output`.
    ends: Option<(usize, usize)>,
}

struct Expander<'a> {
    scopes: &'a [Scope],
    bounds: Bounds,
    mistakes: &'a mut Mistakes,
    flat: Flat,
    names: HashMap<String, Span>,
    variables: Vec<Variables>,
    waiting: VecDeque<Copy>,
    spent: usize,
    /// Too large: nothing more is made.
    full: bool,
}

/// Copies every compound where it is used.
pub(super) fn expand(scopes: &[Scope], definitions: &[(&str, &str)], bounds: Bounds, mistakes: &mut Mistakes) -> Flat {
    let mut values = HashMap::new();
    values.extend(definitions.iter().map(|(name, value)| ((*name).to_owned(), Text::foreign(value))));
    let mut expander = Expander {
        scopes,
        bounds,
        mistakes,
        flat: Flat::default(),
        names: HashMap::new(),
        variables: vec![Variables { depth: 0, around: None, values }],
        waiting: VecDeque::new(),
        spent: 0,
        full: false,
    };
    expander.define(0, 0);
    let file = Copy { scope: 0, prefix: String::new(), variables: 0, within: None, place: None, ends: None };
    expander.waiting.push_back(file);
    while let Some(copy) = expander.waiting.pop_front().filter(|_| !expander.full) {
        expander.copy(&copy);
    }
    expander.flat
}

impl Expander<'_> {
    /// Counts what is made; false if it is too much.
    fn spend(&mut self, bytes: usize, span: Span) -> bool {
        self.spent += bytes;
        let Bounds { elements, connections, bytes: most } = self.bounds;
        let too_large = self.spent > most || self.flat.nodes.len() > elements || self.flat.links.len() > connections;
        if too_large && !self.full {
            self.full = true;
            let label = format!("at most {elements} elements, {connections} connections, {most} bytes");
            let what = Diagnostic::new(span, "the configuration is too large with all its compounds", label);
            self.mistakes.add(what.hint("use compounds less often, or put fewer elements into them"));
        }
        !self.full
    }

    /// Replaces variables; nothing if that is too much.
    fn text(&mut self, text: &Text, variables: usize, span: Span) -> Option<Text> {
        let most = self.bounds.bytes.saturating_sub(self.spent);
        let found = substitute(text, &Seen(&self.variables, variables), most);
        let bytes = found.as_ref().map_or(self.bounds.bytes, |found| text.len() + found.size());
        self.spend(bytes, span).then_some(found).flatten()
    }

    /// Gives values to what a scope defines, in order.
    fn define(&mut self, scope: usize, variables: usize) {
        let scopes = self.scopes;
        let Some(scope) = scopes.get(scope) else { return };
        for (name, value) in &scope.defines {
            let given = self.variables.get(variables).is_some_and(|own| own.values.contains_key(name));
            let value = self.text(value, variables, scope.span);
            // What the caller gives goes before what the file says.
            if let (Some(value), Some(own), false) = (value, self.variables.get_mut(variables), given) {
                own.values.insert(name.clone(), value);
            }
        }
    }

    fn node(&mut self, name: String, kind: FlatKind, span: Span, within: Option<Span>) -> usize {
        if name.len() > NAME_MAX {
            let message = "the name is too long with all its compounds";
            let what = Diagnostic::new(span, message, format!("at most {NAME_MAX} bytes"));
            self.mistakes.add(what.hint("use shorter names, or fewer compounds in each other"));
            self.full = true;
        }
        self.spend(size_of::<FlatNode>() + 2 * name.len(), span);
        if let Some(other) = self.names.insert(name.clone(), span) {
            let what = Diagnostic::new(span, format!("'{name}' is declared twice"), "in a compound of this name");
            self.mistakes.add(what.other(other, "the other one").hint("rename the element that has a '/' in its name"));
        }
        self.flat.nodes.push(FlatNode { name, kind, place: None, span, within });
        self.flat.nodes.len() - 1
    }

    fn copy(&mut self, copy: &Copy) {
        let scopes = self.scopes;
        let Some(scope) = scopes.get(copy.scope) else { return };
        let (mut places, mut elements) = (Vec::with_capacity(scope.nodes.len()), Vec::new());
        for (at, node) in scope.nodes.iter().enumerate() {
            if let Some((input, output)) = copy.ends.filter(|_| at == INPUT || at == OUTPUT) {
                places.push(if at == INPUT { input } else { output });
                continue;
            }
            let kind = match &node.kind {
                Kind::Tunnel { exit } => FlatKind::Tunnel { exit: *exit },
                Kind::Element(_) => FlatKind::Missing,
            };
            let place = self.node(format!("{}{}", copy.prefix, node.name), kind, node.span, copy.within);
            places.push(place);
            if self.full {
                return;
            }
            if let Kind::Element(class) = &node.kind {
                elements.push((place, at, class));
            }
        }
        self.settle(&places, copy.ends.is_some());
        let there = |(node, port): (usize, u32)| (places.get(node).copied().unwrap_or(0), port);
        let links = scope.links.iter().map(|link| Link { from: there(link.from), to: there(link.to), span: link.span });
        self.flat.links.extend(links);
        for (place, at, class) in elements {
            self.element(copy, place, at, class);
        }
        self.spend(scope.links.len() * size_of::<Link>(), scope.span);
    }

    /// Exits of tunnels in a copied scope are numbers of that scope's nodes, up to here.
    fn settle(&mut self, places: &[usize], has_ends: bool) {
        let own = places.iter().skip(if has_ends { 2 } else { 0 });
        for place in own {
            if let Some(FlatNode { kind: FlatKind::Tunnel { exit: Some(exit) }, .. }) = self.flat.nodes.get_mut(*place)
            {
                *exit = places.get(*exit).copied().unwrap_or(0);
            }
        }
    }

    fn element(&mut self, copy: &Copy, place: usize, at: usize, class: &ClassRef) {
        let scopes = self.scopes;
        let Some(node) = scopes.get(copy.scope).and_then(|scope| scope.nodes.get(at)) else { return };
        let Some(text) = self.text(&node.config, copy.variables, node.span) else { return };
        let parts = arguments::parts(&text);
        let bytes = parts.iter().map(|(_, argument)| size_of::<Argument>() + argument.text.len()).sum();
        if !self.spend(bytes, node.span) {
            return;
        }
        let (class, first) = match class {
            ClassRef::Missing => return,
            ClassRef::Known(name) => (name.clone(), None),
            ClassRef::Compound(first) => (String::new(), Some(*first)),
        };
        let at_node = match &node.place {
            None => copy.place.clone(),
            Some(ElementPlace::Remote(own)) => match self.place(own, copy.variables, node.span) {
                None => return,
                Some(own) => Some(ElementPlace::Remote(own)),
            },
            Some(own) => Some(own.clone().map(|_| "".into())),
        };
        if let Some(flat) = self.flat.nodes.get_mut(place) {
            flat.place = at_node;
        }
        let known = match first.map(|first| choose(scopes, first, &text, &parts, node.used)) {
            None => class,
            Some(Choice::Known(name)) => name,
            Some(Choice::Body(body, values)) => return self.open(copy, place, at, (body, values)),
            Some(Choice::None(bodies)) => return self.nothing_fits(&bodies, node.span, parts.len(), node.used),
        };
        let arguments: Vec<Argument> = parts.into_iter().map(|(_, argument)| argument).collect();
        if !arguments.iter().all(|argument| is_whole(&argument.text)) || !is_balanced(&arguments) {
            let message = "the configuration is torn by its variables";
            let what = Diagnostic::new(node.span, message, "a parenthesis or quote is alone after they are replaced");
            self.mistakes.add(what.hint("write parentheses and quotes in pairs in each value"));
            return;
        }
        if let Some(flat) = self.flat.nodes.get_mut(place) {
            flat.kind = FlatKind::Element { class: known, arguments };
        }
    }

    /// Has the body of a compound copied.
    fn open(&mut self, copy: &Copy, place: usize, at: usize, (body, values): (usize, Vec<Text>)) {
        let scopes = self.scopes;
        let Some(scope) = scopes.get(body) else { return };
        let Some(node) = scopes.get(copy.scope).and_then(|around| around.nodes.get(at)) else { return };
        self.ports_exist(copy.scope, at, scope);
        // The variables around its text, which need not be those around its use.
        let mut around = Some(copy.variables);
        while let Some(own) = around.and_then(|at| self.variables.get(at)).filter(|own| own.depth >= scope.depth) {
            around = own.around;
        }
        let names = scope.params.iter().map(|param| param.name.text.clone());
        let values: HashMap<String, Text> = names.zip(values).collect();
        let bytes = values.values().map(|value| value.size() + size_of::<Text>()).sum();
        self.variables.push(Variables { depth: scope.depth, around, values });
        let variables = self.variables.len() - 1;
        self.spend(bytes, node.span);
        self.define(body, variables);
        let Some((name, at_node)) = self.flat.nodes.get(place).map(|flat| (flat.name.clone(), flat.place.clone()))
        else {
            return;
        };
        let within = copy.within.or(Some(node.span));
        let input = self.node(format!("{name}/input"), FlatKind::Tunnel { exit: None }, node.span, within);
        let output = self.node(format!("{name}/output"), FlatKind::Tunnel { exit: Some(place) }, node.span, within);
        if let Some(flat) = self.flat.nodes.get_mut(place) {
            flat.kind = FlatKind::Tunnel { exit: Some(input) };
        }
        let ends = Some((input, output));
        let prefix = format!("{name}/");
        self.waiting.push_back(Copy { scope: body, prefix, variables, within, place: at_node, ends });
    }

    /// The name of the node that an element is to be at.
    fn place(&mut self, text: &Text, variables: usize, span: Span) -> Option<Arc<str>> {
        let text = self.text(text, variables, span)?;
        let name = text.as_str().trim();
        let is_plain = |name: &str, more: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !name.is_empty() && name.len() <= PLACE_MAX && name.chars().all(plain)
        };
        let (node, by) = name.split_once(',').map_or((name, None), |(node, by)| (node.trim(), Some(by.trim())));
        if let Some(by) = by.filter(|by| !is_plain(by, "_/") || by.matches('/').count() != 1) {
            let message = format!("'{}' is no procedure that marshals packets", by.escape_debug());
            let what = Diagnostic::new(span, message, "expected that of an extension: EXTENSION/NAME");
            self.mistakes.add(what.hint("it stands behind the node: @remote(10.0.0.2, codec/PackBits)"));
            return None;
        }
        if !is_plain(node, "_-.:") {
            let message = format!("'{}' is no node", name.escape_debug());
            let label = format!("expected a neighbour's address or name, of at most {PLACE_MAX} bytes");
            let what = Diagnostic::new(span, message, label);
            self.mistakes.add(what.hint("the place of an element is written @remote(10.0.0.2)"));
            return None;
        }
        Some(by.map_or_else(|| node.into(), |by| format!("{node},{by}").into()))
    }

    /// Says which connected ports a compound does not have.
    fn ports_exist(&mut self, around: usize, at: usize, scope: &Scope) {
        let scopes = self.scopes;
        let Some(around) = scopes.get(around) else { return };
        let Some(node) = around.nodes.get(at) else { return };
        for (side, word) in ["input", "output"].into_iter().enumerate() {
            let (has, used) = (scope.ports()[side], node.used[side]);
            if used <= has {
                continue;
            }
            let label = match has {
                0 => format!("its compound has no {word}s"),
                1 => format!("its compound has {word} 0 only"),
                _ => format!("its compound has {word}s 0 to {}", has - 1),
            };
            let end = |link: &&Link| (if side == 0 { link.to } else { link.from }) == (at, used - 1);
            let span = around.links.iter().find(end).map_or(node.span, |link| link.span);
            let what = Diagnostic::new(span, format!("'{}' has no {word} {}", node.name, used - 1), label);
            let hint = format!("connect a port that it has, or use '{word}' [{}] in the compound", used - 1);
            self.mistakes.add(what.other(Span { end: scope.span.start + 1, ..scope.span }, "begins here").hint(hint));
        }
    }

    fn nothing_fits(&mut self, bodies: &[usize], span: Span, arguments: usize, used: [u32; 2]) {
        let known: Vec<&Scope> = bodies.iter().filter_map(|body| self.scopes.get(*body)).collect();
        let name = known.first().map_or("", |scope| scope.name.as_str());
        let whose = if name.is_empty() { "the compound".to_owned() } else { format!("'{name}'") };
        let all: Vec<String> = known.iter().map(|scope| signature(scope)).collect();
        let label = format!("found {}", asked(arguments, used));
        let what = Diagnostic::new(span, format!("{whose} cannot be used so"), label);
        self.mistakes.add(what.hint(format!("there is {}", all.join("; or "))));
    }
}

/// Whether every quote of an argument ends in it, and its comments are gone.
fn is_whole(text: &str) -> bool {
    let goes = |kind| matches!(kind, PieceKind::Line | PieceKind::Block | PieceKind::Directive);
    pieces(text).all(|piece| piece.closed && !goes(piece.kind))
}

/// Whether no parenthesis ends what none began.
fn is_balanced(arguments: &[Argument]) -> bool {
    let mut open = 0usize;
    for piece in arguments.iter().flat_map(|argument| pieces(&argument.text)) {
        match piece.kind {
            PieceKind::Byte(b'(') => open += 1,
            PieceKind::Byte(b')') if open == 0 => return false,
            PieceKind::Byte(b')') => open -= 1,
            _ => {}
        }
    }
    open == 0
}
