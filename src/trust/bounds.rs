//! The cost of judging a credential, computed before Datalog runs: its shape, and the most steps of its checks.
//!
//! A check asks for facts that fit together: each alternative tries all facts of one name with all of the next, and its
//! expressions once for each such row. A holder of a token can append checks and facts to it, and Datalog looks at the
//! clock between two alternatives only. So their product is bounded here, where all numbers are known. Values count by
//! their length.

use super::credential::CredentialRefusal;
use biscuit_auth::builder::{Binary, Check, Expression, Fact, Op, Predicate, Rule, Term, Unary};

/// The most facts of one credential, over all blocks.
pub const FACTS_MAX: usize = 48;
/// The most checks of one credential, over all blocks.
pub const CHECKS_MAX: usize = 32;
/// The most steps of all checks together.
pub const STEPS_MAX: usize = 8192;
/// The most alternatives of a check (`or`).
const QUERIES_MAX: usize = 8;
/// The most facts that one alternative joins.
const JOIN_MAX: usize = 3;
/// The most operations in one alternative.
const OPERATIONS_MAX: usize = 64;
/// Bytes of a value that are compared in one step.
const STEP_BYTES: usize = 64;

/// Refuses a credential whose checks could take long.
pub(super) fn within_bounds(facts: &[Fact], rules: &[Rule], checks: &[Check]) -> Result<(), CredentialRefusal> {
    limit("facts", facts.len(), FACTS_MAX)?;
    limit("rules", rules.len(), 0)?;
    limit("checks", checks.len(), CHECKS_MAX)?;
    checks.iter().try_for_each(is_of_shape)?;
    let steps = checks
        .iter()
        .flat_map(|check| &check.queries)
        .fold(0, |sum: usize, query| sum.saturating_add(steps(facts, query)));
    limit("steps of checks", steps, STEPS_MAX)
}

fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), CredentialRefusal> {
    if found > limit { Err(CredentialRefusal::Limit { what, limit }) } else { Ok(()) }
}

fn is_of_shape(check: &Check) -> Result<(), CredentialRefusal> {
    limit("alternatives of a check", check.queries.len(), QUERIES_MAX)?;
    for query in &check.queries {
        limit("facts joined by a check", query.body.len(), JOIN_MAX)?;
        limit("operations of a check", operations(query).count(), OPERATIONS_MAX)?;
        limit("closures, patterns or calls", operations(query).filter(|op| is_costly(op)).count(), 0)?;
    }
    Ok(())
}

fn operations(query: &Rule) -> impl Iterator<Item = &Op> {
    query.expressions.iter().flat_map(|Expression { ops }| ops)
}

fn is_costly(op: &Op) -> bool {
    matches!(
        op,
        Op::Closure(..) | Op::Binary(Binary::Regex | Binary::Ffi(_) | Binary::Union) | Op::Unary(Unary::Ffi(_))
    )
}

/// Rows of facts that one alternative tries at most, each with all its operations.
fn steps(facts: &[Fact], query: &Rule) -> usize {
    // The node says one fact of each name.
    let of_name = |predicate: &Predicate| 1 + facts.iter().filter(|fact| fact.predicate.name == predicate.name).count();
    let longest = facts.iter().flat_map(|fact| &fact.predicate.terms).map(size).max().unwrap_or(1);
    let rows = query.body.iter().map(of_name).fold(1, usize::saturating_mul);
    let each = operations(query).map(|op| match op {
        Op::Value(Term::Variable(_)) => longest,
        Op::Value(term) => size(term),
        _ => 1,
    });
    rows.saturating_mul(each.fold(1, usize::saturating_add))
}

/// What a value counts as.
fn size(term: &Term) -> usize {
    match term {
        Term::Str(text) => 1 + text.len() / STEP_BYTES,
        Term::Bytes(bytes) => 1 + bytes.len() / STEP_BYTES,
        Term::Set(set) => 1 + set.iter().map(size).sum::<usize>(),
        Term::Array(array) => 1 + array.iter().map(size).sum::<usize>(),
        Term::Map(map) => 1 + map.values().map(|value| 1 + size(value)).sum::<usize>(),
        _ => 1,
    }
}
