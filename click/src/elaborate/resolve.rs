//! Names to nodes: what the file, and each body of a compound, has in it.
//!
//! An element is declared before it is used, a class is defined before it is used, and a compound sees the classes that were defined
//! before it. Elements without a name are called after their class and how many nodes came before: `Queue@3`, as Click calls them.

use super::connect::{End, admit, connect, useless};
use super::scope::{ClassRef, Kind, Link, Node, Scope};
use crate::arguments;
use crate::classes::Classes;
use crate::diagnostic::Diagnostic;
use crate::mistakes::Mistakes;
use crate::span::Span;
use crate::syntax::ast::{
    Body, Chain, Class, Compound, Ident, Item, ItemKind, Ports, Statement, StatementKind, WrittenPlace,
};
use crate::text::Text;
use std::collections::{HashMap, HashSet};

/// What is said of an element behind its class, where it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub config: Option<Span>,
    pub place: Option<WrittenPlace>,
}

impl Said {
    pub(super) const NOTHING: Said = Said { config: None, place: None };
}

/// The scope that is being filled.
#[derive(Debug)]
pub(super) struct Open {
    pub scope: Scope,
    /// Nodes by their names; `input` and `output` are those of the innermost group.
    pub names: HashMap<String, usize>,
    /// Elements that are declared somewhere in it, for who uses them too early.
    pub declared: HashMap<String, Span>,
    /// The names of nodes without a name of their own, which may change if somebody takes theirs.
    pub nameless: Vec<usize>,
    /// Its variables.
    pub variables: HashSet<String>,
    /// Nodes that count for no anonymous name.
    offset: usize,
}

pub(super) struct Resolver<'a> {
    pub source: &'a str,
    pub classes: &'a dyn Classes,
    pub mistakes: &'a mut Mistakes,
    /// Those that are finished; the file's is the first.
    pub scopes: Vec<Scope>,
    /// Classes of the texts around this place.
    pub known: Vec<HashMap<String, ClassRef>>,
    pub open: Vec<Open>,
}

/// The scopes of a configuration, the file's first.
pub(super) fn resolve(
    source: &str,
    statements: &[Statement],
    classes: &dyn Classes,
    mistakes: &mut Mistakes,
) -> Vec<Scope> {
    let whole = Span::new(0, source.len());
    let body = Body { params: vec![], statements: vec![], span: whole };
    let mut resolver = Resolver { source, classes, mistakes, scopes: vec![], known: vec![], open: vec![] };
    // Its number is 0, and it is finished last.
    resolver.scopes.push(Scope::new("", &body, 0));
    let file = resolver.body("", &body, statements);
    if let Some(first) = resolver.scopes.first_mut() {
        *first = file;
    }
    resolver.scopes
}

impl Scope {
    fn new(name: &str, body: &Body, depth: usize) -> Scope {
        Scope {
            name: name.to_owned(),
            span: body.span,
            depth,
            params: body.params.clone(),
            defines: vec![],
            nodes: vec![],
            links: vec![],
            next: None,
        }
    }
}

impl Resolver<'_> {
    pub(super) fn at(&mut self) -> &mut Open {
        // There is always one: `body` opens it before anything is read.
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn body(&mut self, name: &str, body: &Body, statements: &[Statement]) -> Scope {
        let scope = Scope::new(name, body, self.open.len());
        let offset = if scope.is_file() { 0 } else { 2 };
        let mut declared = HashMap::new();
        declarations(statements, &mut declared);
        let variables = body.params.iter().map(|param| param.name.text.clone()).collect();
        self.open.push(Open { scope, names: HashMap::new(), declared, nameless: vec![], variables, offset });
        self.known.push(HashMap::new());
        if offset > 0 {
            self.tunnel("input", body.span, false, true);
            self.tunnel("output", body.span, true, false);
        }
        self.params_differ(body);
        self.statements(statements);
        self.known.pop();
        self.name_the_nameless();
        self.gaps(name);
        let open = self.open.pop();
        open.map_or_else(|| Scope::new(name, body, 0), |open| open.scope)
    }

    fn params_differ(&mut self, body: &Body) {
        for (at, param) in body.params.iter().enumerate() {
            let word = |other: &Option<Ident>| other.as_ref().map(|word| word.text.clone());
            let same = |other: &&crate::syntax::ast::Param| {
                other.name.text == param.name.text
                    || (param.keyword.is_some() && word(&other.keyword) == word(&param.keyword))
            };
            if let Some(other) = body.params.iter().take(at).find(same) {
                let message = format!("two parameters are named '${}'", param.name.text);
                let what = Diagnostic::new(param.name.span, message, "the second");
                self.mistakes.add(what.other(other.name.span, "the first").hint("rename one of them"));
            }
        }
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Chain(chain) => self.chain(chain),
                StatementKind::Compound(name, compound) => {
                    let class = self.compound(compound, &name.text);
                    self.define_class(name, class);
                }
                StatementKind::Synonym(name, other) => {
                    let class = self.class_named(other);
                    self.define_class(name, class);
                }
                StatementKind::Define(span) => self.define(*span),
                StatementKind::Require(_) | StatementKind::Provide(_)
                    if self.open.len() > 1 || self.known.len() > 1 =>
                {
                    let what =
                        Diagnostic::new(statement.span, "packages in a compound or group", "expected at the top only");
                    self.mistakes.add(what.hint("move the statement out of all braces and parentheses"));
                }
                StatementKind::Require(_) | StatementKind::Provide(_) => {}
                StatementKind::Tunnels(pairs) => pairs.iter().for_each(|(from, to)| self.connection_tunnel(from, to)),
            }
        }
    }

    fn define(&mut self, span: Span) {
        let text = Text::inside(self.source, span);
        for (range, argument) in arguments::parts(&text) {
            let name = argument.text.strip_prefix('$').unwrap_or("");
            let length = name.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
            let ends = name.get(length..).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
            if length == 0 || !ends {
                let what = Diagnostic::new(argument.span, "this defines no variable", "expected '$name value'");
                self.mistakes.add(what.hint("write define($name value, $other value)"));
                continue;
            }
            let name = name.get(..length).unwrap_or("").to_owned();
            let rest = text.as_str().get(range.start + 1 + length..range.end).unwrap_or("");
            let start = range.end - rest.trim_start().len();
            let mut value = Text::default();
            value.push_part(&text, start..range.end, None);
            if !self.at().variables.insert(name.clone()) {
                let message = format!("'${name}' is defined twice");
                let what = Diagnostic::new(argument.span, message, "it has a value already");
                self.mistakes.add(what.hint("a value does not change: use another name"));
                continue;
            }
            self.at().scope.defines.push((name, value));
        }
    }

    fn chain(&mut self, chain: &Chain) {
        let last = chain.sets.len() - 1;
        let mut before: Vec<End> = Vec::new();
        for (at, set) in chain.sets.iter().enumerate() {
            let shared = if last == 0 { self.shared_class(set) } else { None };
            let ends: Vec<End> = set.iter().map(|item| self.item(item, at == 0, shared.as_ref())).collect();
            if let Some(arrow) = at.checked_sub(1).and_then(|at| chain.arrows.get(at)) {
                let links = connect(&before, &ends, *arrow, self.mistakes);
                let both: Vec<End> = before.iter().chain(&ends).cloned().collect();
                self.link(links, &both);
            }
            for item in set.iter().filter(|_| at == 0) {
                useless(item.inputs.as_ref(), "input", "beginning", self.mistakes);
            }
            for item in set.iter().filter(|_| at == last) {
                useless(item.outputs.as_ref(), "output", "end", self.mistakes);
            }
            before = ends;
        }
    }

    fn link(&mut self, links: Vec<Link>, ends: &[End]) {
        let last = self.open.len() - 1;
        let scope = &mut self.open[last].scope;
        let links = admit(links, &mut scope.nodes, ends, self.mistakes);
        scope.links.extend(links);
    }

    /// What `a, b :: Class(config) @remote(c)` says of both elements.
    fn shared_class(&mut self, set: &[Item]) -> Option<(ClassRef, Said)> {
        let [others @ .., last] = set else { return None };
        let bare = |item: &Item| item.inputs.is_none() && item.outputs.is_none() && item.kind != ItemKind::Implied;
        let name =
            |item: &Item| matches!(item.kind, ItemKind::Name(_)) && item.class.is_none() && item.config.is_none();
        let spreads = !others.is_empty() && set.iter().all(bare) && others.iter().all(name);
        let class = last.class.as_ref().filter(|_| spreads)?;
        Some((self.class(class), Said { config: last.config, place: last.place }))
    }

    fn class(&mut self, class: &Class) -> ClassRef {
        match class {
            Class::Name(name) => self.class_named(name),
            Class::Compound(compound) => self.compound(compound, ""),
        }
    }

    fn item(&mut self, item: &Item, first: bool, shared: Option<&(ClassRef, Said)>) -> End {
        let mut implied = (None, None);
        let said = Said { config: item.config, place: item.place };
        let node = match (&item.kind, shared) {
            (ItemKind::Name(name), Some((class, said))) => self.declare(name, class.clone(), *said),
            (ItemKind::Name(name), None) => match &item.class {
                Some(class) if self.is_turned(name, class) => {
                    self.anonymous(&name.text, ClassRef::Missing, Said::NOTHING, name.span)
                }
                Some(class) => {
                    let class = self.class(class);
                    self.declare(name, class, said)
                }
                None => self.named(name, said),
            },
            (ItemKind::Compound(compound), _) => {
                let class = self.compound(compound, "");
                self.anonymous("", class, said, item.span)
            }
            (ItemKind::Group(statements), _) => {
                let (node, [inputs, outputs]) = self.group(statements, item.span);
                implied = (all_of(inputs, item.span), all_of(outputs, item.span));
                node
            }
            (ItemKind::Implied, _) => {
                let name = if first { "input" } else { "output" };
                // The parser has them in compounds and groups only, where both are known.
                self.at().names.get(name).copied().unwrap_or(0)
            }
        };
        End {
            node,
            inputs: item.inputs.clone().or(implied.0),
            outputs: item.outputs.clone().or(implied.1),
            span: item.span,
        }
    }

    /// `( … )`: the same scope, but for what `input` and `output` are. Its node, and how many ports it has.
    fn group(&mut self, statements: &[Statement], span: Span) -> (usize, [u32; 2]) {
        let name = self.anonymous_name("");
        let node = self.tunnel(&name, span, true, true);
        self.at().nameless.push(node);
        let outside = ["input", "output"].map(|name| self.at().names.get(name).copied());
        let input = self.tunnel(&format!("{name}/input"), span, false, true);
        let output = self.tunnel(&format!("{name}/output"), span, true, false);
        self.lead(node, input);
        self.lead(output, node);
        self.at().names.extend([("input".to_owned(), input), ("output".to_owned(), output)]);
        self.known.push(HashMap::new());
        let first = self.at().scope.links.len();
        self.statements(statements);
        // What a group defines is seen behind it: it is no scope.
        if let (Some(inner), Some(outer)) = (self.known.pop(), self.known.last_mut()) {
            outer.extend(inner);
        }
        for (name, before) in ["input", "output"].into_iter().zip(outside) {
            match before {
                Some(before) => self.at().names.insert(name.to_owned(), before),
                None => self.at().names.remove(name),
            };
        }
        let place = ("the group", Span { end: span.start + 1, ..span });
        (node, [self.ports_of(input, 1, first, place), self.ports_of(output, 0, first, place)])
    }

    /// A compound: the number of its first body, each of which knows the next.
    fn compound(&mut self, compound: &Compound, name: &str) -> ClassRef {
        let mut next = compound.extends.and_then(|span| self.class_before(name, span));
        let mut bodies = Vec::new();
        for body in &compound.bodies {
            bodies.push(self.body(name, body, &body.statements));
        }
        for mut scope in bodies.into_iter().rev() {
            scope.next = next;
            next = Some(ClassRef::Compound(self.scopes.len()));
            self.scopes.push(scope);
        }
        next.unwrap_or(ClassRef::Missing)
    }

    /// The ports of a compound or group count from 0 without a gap; its links are the scope's from `first` on.
    fn ports_of(&mut self, node: usize, side: usize, first: usize, (whose, span): (&str, Span)) -> u32 {
        let scope = &self.at().scope;
        let word = if side == 1 { "input" } else { "output" };
        let count = scope.nodes.get(node).map_or(0, |node| node.used[side]);
        let mut used = vec![false; count as usize];
        for link in scope.links.iter().skip(first) {
            let (at, port) = if side == 1 { link.from } else { link.to };
            if let Some(place) = used.get_mut(port as usize).filter(|_| at == node) {
                *place = true;
            }
        }
        if let Some(gap) = used.iter().position(|used| !used) {
            let message = format!("{whose} has an {word} {} and no {word} {gap}", count - 1);
            let what = Diagnostic::new(span, message, format!("{word} {gap} is not used in it"));
            self.mistakes.add(what.hint(format!("ports count from 0: use '{word}' [{gap}], or smaller numbers")));
        }
        count
    }

    fn gaps(&mut self, name: &str) {
        if self.at().scope.is_file() {
            return;
        }
        let span = self.at().scope.span;
        let whose = if name.is_empty() { "the compound".to_owned() } else { format!("'{name}'") };
        for (node, side) in [(super::scope::INPUT, 1), (super::scope::OUTPUT, 0)] {
            self.ports_of(node, side, 0, (&whose, Span { end: span.start + 1, ..span }));
        }
    }

    /// A node that is an end of a tunnel.
    pub(super) fn tunnel(&mut self, name: &str, span: Span, can_enter: bool, can_leave: bool) -> usize {
        let kind = Kind::Tunnel { exit: None };
        let config = Text::default();
        let name = name.to_owned();
        self.push(Node { name, kind, config, place: None, span, can_enter, can_leave, used: [0, 0] })
    }

    /// What enters one node goes on behind another.
    pub(super) fn lead(&mut self, from: usize, to: usize) {
        if let Some(Node { kind: Kind::Tunnel { exit }, .. }) = self.at().scope.nodes.get_mut(from) {
            *exit = Some(to);
        }
    }

    pub(super) fn push(&mut self, node: Node) -> usize {
        let open = self.at();
        let at = open.scope.nodes.len();
        open.names.insert(node.name.clone(), at);
        open.scope.nodes.push(node);
        at
    }

    pub(super) fn anonymous_name(&mut self, class: &str) -> String {
        let open = self.at();
        format!(";{class}@{}", open.scope.nodes.len() - open.offset + 1)
    }
}

/// The ports that a group has by itself.
fn all_of(count: u32, span: Span) -> Option<Ports> {
    (count > 0).then(|| Ports { list: (0..count).collect(), open: false, span })
}

/// Elements that statements declare, those in groups included.
fn declarations(statements: &[Statement], found: &mut HashMap<String, Span>) {
    let chains = statements.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Chain(chain) => Some(chain),
        _ => None,
    });
    for chain in chains {
        // `a, b :: Class` declares both.
        let lists = chain.arrows.is_empty() && chain.sets.iter().flatten().any(|item| item.class.is_some());
        for item in chain.sets.iter().flatten() {
            match &item.kind {
                ItemKind::Name(name) if item.class.is_some() || lists => {
                    found.entry(name.text.clone()).or_insert(name.span);
                }
                ItemKind::Group(inner) => declarations(inner, found),
                _ => {}
            }
        }
    }
}
