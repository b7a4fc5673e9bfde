//! Types as written, to types.

use super::{Base, Scheme, Table, Type};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast;
use crate::syntax::parse_type;

/// The type variables that a definition has named so far.
#[derive(Debug, Default)]
pub(super) struct Named(Vec<(String, Type)>);

/// Turns a written type into a type; variables of the same name are the same.
pub(super) fn annotate(
    written: &ast::Type,
    named: &mut Named,
    table: &mut Table,
    diagnostics: &mut Vec<Diagnostic>,
) -> Type {
    let mut inner = |written: &ast::Type| annotate(written, named, table, diagnostics);
    match &written.kind {
        ast::TypeKind::Paren(only) => inner(only),
        ast::TypeKind::List(only) => Type::List(Box::new(inner(only))),
        ast::TypeKind::Chunk(only) => Type::Chunk(Box::new(inner(only))),
        ast::TypeKind::Tuple(items) => Type::Tuple(items.iter().map(inner).collect()),
        ast::TypeKind::Arrow(params, result) => {
            let params = params.iter().map(&mut inner).collect();
            Type::Arrow(params, Box::new(inner(result)))
        }
        ast::TypeKind::Error => table.fresh(),
        ast::TypeKind::Variable(name) => {
            if let Some((_, known)) = named.0.iter().find(|(known, _)| known == name) {
                return known.clone();
            }
            let fresh = table.fresh();
            named.0.push((name.clone(), fresh.clone()));
            fresh
        }
        ast::TypeKind::Base(name) => match Base::ALL.iter().find(|base| base.text() == name) {
            Some(base) => Type::Base(*base),
            None => {
                let known: Vec<_> = Base::ALL.iter().map(|base| base.text()).collect();
                let what = Diagnostic::new(written.span, format!("unknown type '{name}'"), "not a type");
                diagnostics.push(what.hint(format!("the types are {}, lists, tuples and chunks", known.join(", "))));
                table.fresh()
            }
        },
    }
}

/// The scheme of a service whose type is written.
pub(super) fn service(written: &ast::Type, table: &mut Table, diagnostics: &mut Vec<Diagnostic>) -> Scheme {
    let kind = annotate(written, &mut Named::default(), table, diagnostics);
    table.generalise(&kind, &[])
}

/// The scheme of a service of the table of names.
pub(super) fn core_service(text: &str, table: &mut Table) -> Option<Scheme> {
    parse_type(text).map(|written| service(&written, table, &mut Vec::new()))
}
