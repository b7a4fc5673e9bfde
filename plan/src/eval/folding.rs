//! The beginning of a fold, common to both evaluators.

use super::{Fault, Result, Run};
use crate::value::{List, Value};

/// A fold under way: what is left of the list, in the order in which it is gone through, and the sum so far.
pub(super) struct Folding {
    pub list: List,
    pub sum: Value,
}

/// Takes the operands as written: start and list from the left, list and start from the right.
pub(super) fn fold_list(run: &mut Run<'_>, left: bool, first: Value, second: Value) -> Result<Folding> {
    match (left, first, second) {
        (true, sum, Value::List(list)) => Ok(Folding { list, sum }),
        (false, Value::List(list), sum) => {
            run.steps(list.len() / 16)?;
            run.cells(list.len())?;
            Ok(Folding { list: list.reversed(), sum })
        }
        (true, ..) => Err(Fault::Type("foldl").into()),
        (false, ..) => Err(Fault::Type("foldr").into()),
    }
}
