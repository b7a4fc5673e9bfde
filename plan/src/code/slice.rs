//! Slices: the part of a code that travels with a chunk.
//!
//! The definition of the chunk's function, everything it calls, every value it uses, and every function
//! of which it makes a chunk, and so on for each of these: enough whatever happens on the way, never
//! less (and the analysis does not ask whether a branch is ever taken, so perhaps more).

use super::{Code, Definition, Expr, Facts, Kind, Target};

impl Code {
    /// The part of this code that a chunk of `function` needs, and the function's position in it.
    pub fn slice(&self, function: u16) -> (Code, u16) {
        let needs = self.facts(function).needs;
        let place = |old: u16| (needs & ((1u128 << old) - 1)).count_ones() as u16;
        let kept = |(at, _): &(u16, &Definition)| needs >> *at & 1 == 1;
        let mut definitions: Vec<_> =
            (0..).zip(&self.definitions).filter(kept).map(|(_, definition)| definition.clone()).collect();
        for definition in &mut definitions {
            renumber(&mut definition.body, &place);
        }
        let renumbered = |needs: u128| {
            let old = (0..self.definitions.len() as u16).filter(|old| needs >> old & 1 == 1);
            old.fold(0, |new, old| new | 1u128 << place(old))
        };
        let facts = self.facts.iter().enumerate().filter(|(at, _)| needs >> at & 1 == 1);
        let facts = facts.map(|(_, facts)| Facts { needs: renumbered(facts.needs), ..*facts }).collect();
        (Code { definitions, facts }, place(function))
    }

    /// Whether a chunk of `function` needs every definition of this code.
    pub fn is_slice_for(&self, function: u16) -> bool {
        self.facts(function).needs.count_ones() as usize == self.definitions.len()
    }
}

/// Gives every definition that an expression names its new position.
pub(crate) fn renumber(expr: &mut Expr, place: &impl Fn(u16) -> u16) {
    match &mut expr.kind {
        Kind::Val(value) => *value = place(*value),
        Kind::Call(Target::Function(function), _)
        | Kind::Chunk(Target::Function(function), _)
        | Kind::Fold(_, Target::Function(function), _) => *function = place(*function),
        _ => {}
    }
    for inner in expr.kind.inside_mut() {
        renumber(inner, place);
    }
}
