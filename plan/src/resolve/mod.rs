//! Name resolution: syntax tree to definitions.
//!
//! Names are looked up from the inside out: variables and local definitions, definitions of the program,
//! then the names every node knows. A call may only name an *earlier* function; a chunk, which is
//! evaluated elsewhere or later, any. Local functions become definitions of the program: what they use
//! of the function around them is handed to them as additional arguments, so a chunk of one carries
//! what it needs.

mod expr;
mod lift;
mod scope;

use crate::code::{self, DEFINITIONS_MAX, Definition};
use crate::diagnostic::Diagnostic;
use crate::name::Name;
use crate::span::Span;
use crate::syntax::ast::{DefinitionKind, Ident, Program, Type};
use scope::{Global, Scope};

/// What the source says of a definition beyond its code.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Types of the parameters where given; captured variables have none.
    pub params: Vec<Option<Type>>,
    /// The type of the result, or of the value.
    pub result: Option<Type>,
    /// Where the name is written.
    pub span: Span,
    /// Whether it is a definition of the program, not of a `let`.
    pub top: bool,
}

/// A program whose names are resolved.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Its definitions, local functions before those around them.
    pub definitions: Vec<Definition>,
    /// What the source says of each.
    pub notes: Vec<Note>,
    /// Types given to local values.
    pub local_notes: Vec<Type>,
    /// The declared services.
    pub services: Vec<(Name, Type)>,
}

/// Resolves a program; mistakes are added to the diagnostics and become holes.
pub fn resolve(program: &Program, diagnostics: &mut Vec<Diagnostic>) -> Resolved {
    let mut resolver = Resolver {
        globals: Vec::new(),
        scope: Scope::default(),
        current: None,
        out: Resolved::default(),
        symbols: Vec::new(),
        last_symbol: program.definitions.len(),
        diagnostics,
    };
    resolver.declare(program);
    for (at, definition) in program.definitions.iter().enumerate() {
        resolver.current = Some(at);
        resolver.top(&definition.kind);
    }
    resolver.place()
}

struct Resolver<'a> {
    /// The definitions of the program, by position in the source.
    globals: Vec<Global>,
    scope: Scope,
    /// The definition of the program being resolved.
    current: Option<usize>,
    out: Resolved,
    /// For each definition made so far, its symbol: calls and chunks name symbols until all have a place.
    symbols: Vec<u16>,
    /// The last symbol given to a local function; those of the program are their positions.
    last_symbol: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Resolver<'_> {
    /// Notes every definition of the program, so that chunks find later ones.
    fn declare(&mut self, program: &Program) {
        for definition in &program.definitions {
            let (ident, what) = match &definition.kind {
                DefinitionKind::Fun { name, params, .. } => (name, scope::What::Function(params.len())),
                DefinitionKind::Val { name, .. } => (name, scope::What::Value),
                DefinitionKind::Exception(name) => (name, scope::What::Exception),
                DefinitionKind::Svc(name, kind) => {
                    if let Some(service) = Name::new(&name.text).filter(|service| !service.is_none()) {
                        self.out.services.push((service, kind.clone()));
                    }
                    (name, scope::What::Service)
                }
            };
            let known = self.globals.iter().find(|global| global.name == ident.text && !ident.text.is_empty());
            if let Some(known) = known {
                let message = format!("'{}' is defined twice", ident.text);
                let what = Diagnostic::new(ident.span, message, "the second definition").other(known.span, "the first");
                self.diagnostics.push(what.hint("chunks find functions by name, so names differ"));
            }
            self.globals.push(Global { name: ident.text.clone(), span: ident.span, what });
        }
    }

    fn top(&mut self, kind: &DefinitionKind) {
        let symbol = u16::try_from(self.current.unwrap_or(0)).unwrap_or(u16::MAX);
        match kind {
            DefinitionKind::Fun { name, params, result, body } => {
                self.check_params(params);
                self.scope.enter(params.iter().map(|(ident, _)| ident.text.as_str()));
                let body = self.expr(body);
                self.scope.leave();
                let note = Note {
                    params: params.iter().map(|(_, note)| note.clone()).collect(),
                    result: result.clone(),
                    span: name.span,
                    top: true,
                };
                self.define(symbol, name, Some(params.len()), body, note);
            }
            DefinitionKind::Val { name, note, value } => {
                self.scope.enter([].into_iter());
                let body = self.expr(value);
                self.scope.leave();
                let note = Note { params: vec![], result: note.clone(), span: name.span, top: true };
                self.define(symbol, name, None, body, note);
            }
            DefinitionKind::Exception(_) | DefinitionKind::Svc(..) => {}
        }
    }

    fn check_params(&mut self, params: &[(Ident, Option<Type>)]) {
        for (at, (param, _)) in params.iter().enumerate() {
            let known = params.iter().take(at).find(|(earlier, _)| earlier.text == param.text);
            if let Some((earlier, _)) = known.filter(|_| !param.text.is_empty()) {
                let message = format!("two parameters are named '{}'", param.text);
                let what = Diagnostic::new(param.span, message, "the second").other(earlier.span, "the first");
                self.diagnostics.push(what);
            }
        }
    }

    /// Adds a definition; its place is the next.
    fn define(&mut self, symbol: u16, ident: &Ident, params: Option<usize>, body: code::Expr, note: Note) {
        let name = Name::new(&ident.text).unwrap_or(Name::NONE);
        let params = params.map(|params| u8::try_from(params).unwrap_or(u8::MAX));
        // Said once, at the first that is too many.
        if self.out.definitions.len() == DEFINITIONS_MAX {
            let label =
                format!("a program has at most {DEFINITIONS_MAX} functions and values, local functions included");
            self.diagnostics.push(Diagnostic::new(ident.span, "too many definitions", label));
        }
        self.symbols.push(symbol);
        self.out.definitions.push(Definition { name, params, body });
        self.out.notes.push(note);
    }

    /// Replaces symbols by places.
    fn place(mut self) -> Resolved {
        let symbols = std::mem::take(&mut self.symbols);
        let most = symbols.iter().copied().max().map_or(0, |most| usize::from(most) + 1);
        let mut places = vec![u16::MAX; most];
        for (place, symbol) in (0u16..).zip(&symbols) {
            if let Some(entry) = places.get_mut(usize::from(*symbol)) {
                *entry = place;
            }
        }
        let place = |symbol: u16| places.get(usize::from(symbol)).copied().unwrap_or(u16::MAX);
        for definition in &mut self.out.definitions {
            code::renumber(&mut definition.body, &place);
        }
        self.out
    }
}
