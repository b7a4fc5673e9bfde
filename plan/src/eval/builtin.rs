//! Services that are part of evaluation itself, on every node.

use super::{Fault, Result, Run};
use crate::name::Name;
use crate::value::{Chunk, Value};
use std::sync::Arc;

/// Their numbers in the table of names.
const EVAL: usize = 16;
const GET_RB: usize = 17;
const LENGTH: usize = 18;
const ABORT: usize = 19;

/// A service that the evaluator gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// Evaluates a chunk in place.
    Eval,
    /// What is left of the resource bound.
    GetRb,
    /// How long a list is.
    Length,
    /// Has a chunk evaluated at the source, with all that is left of the resource bound.
    Abort,
}

impl Builtin {
    /// The builtin of this name.
    pub fn of(name: &Name) -> Option<Builtin> {
        match name.number()? {
            EVAL => Some(Builtin::Eval),
            GET_RB => Some(Builtin::GetRb),
            LENGTH => Some(Builtin::Length),
            ABORT => Some(Builtin::Abort),
            _ => None,
        }
    }
}

/// What a builtin gives at once, or the chunk that is still to be evaluated.
pub(super) enum Given {
    Value(Value),
    Evaluate(Arc<Chunk>),
}

impl Run<'_> {
    pub(super) fn builtin(&mut self, builtin: Builtin, arguments: &[Value]) -> Result<Given> {
        let value = match (builtin, arguments) {
            (Builtin::GetRb, []) => Value::Int(self.bound().into()),
            (Builtin::Length, [Value::List(list)]) => Value::Int(list.len().into()),
            (Builtin::Eval, [Value::Chunk(chunk)]) => return Ok(Given::Evaluate(chunk.clone())),
            (Builtin::Abort, [Value::Chunk(chunk)]) => {
                self.abort(chunk)?;
                Value::Unit
            }
            (Builtin::Length, [_]) => return Err(Fault::Type("length").into()),
            (Builtin::Eval, [_]) => return Err(Fault::Type("eval").into()),
            (Builtin::Abort, [_]) => return Err(Fault::Type("abort").into()),
            _ => return Err(Fault::Arity.into()),
        };
        Ok(Given::Value(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_found_by_their_numbers() {
        let expected = [
            ("eval", Builtin::Eval),
            ("getRB", Builtin::GetRb),
            ("length", Builtin::Length),
            ("abort", Builtin::Abort),
        ];
        for (name, builtin) in expected {
            assert_eq!(Name::new(name).and_then(|name| Builtin::of(&name)), Some(builtin), "{name}");
        }
        assert_eq!(Name::new("print").and_then(|name| Builtin::of(&name)), None);
    }
}
