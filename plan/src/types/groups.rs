//! The order in which definitions are inferred.

use crate::code::{Definition, Expr, Kind, Target};

/// The definitions in groups that name each other, each group after those it names.
pub(super) fn groups(definitions: &[Definition]) -> Vec<Vec<usize>> {
    fn names(expr: &Expr, found: &mut u128) {
        match &expr.kind {
            Kind::Val(at)
            | Kind::Call(Target::Function(at), _)
            | Kind::Chunk(Target::Function(at), _)
            | Kind::Fold(_, Target::Function(at), _) => *found |= 1u128.checked_shl((*at).into()).unwrap_or(0),
            _ => {}
        }
        expr.kind.inside().iter().for_each(|inner| names(inner, found));
    }
    let mut needs: Vec<u128> = Vec::new();
    for (at, definition) in (0u32..).zip(definitions) {
        let mut found = 1u128.checked_shl(at).unwrap_or(0);
        names(&definition.body, &mut found);
        needs.push(found);
    }
    for through in 0..needs.len() {
        let row = needs.get(through).copied().unwrap_or(0);
        for entry in needs.iter_mut().filter(|entry| **entry >> through & 1 == 1) {
            *entry |= row;
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut order: Vec<usize> = (0..needs.len()).collect();
    // What needs less comes first; those that need the same need each other.
    let needs_of = |at: usize| needs.get(at).copied().unwrap_or(0);
    order.sort_by_key(|at| (needs_of(*at).count_ones(), needs_of(*at), *at));
    for at in order {
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(|first| needs_of(*first) == needs_of(at)) => group.push(at),
            _ => groups.push(vec![at]),
        }
    }
    groups
}
