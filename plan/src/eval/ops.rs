//! The operators: meaning, cost, and checks of their operands.

use super::{Fault, Result, Run, Stop};
use crate::code::{Binary, Unary};
use crate::name::Name;
use crate::value::{List, Value, WEIGHT_MAX};

impl Run<'_> {
    /// An operator before one operand.
    pub(super) fn unary(&mut self, operator: Unary, operand: &Value) -> Result<Value> {
        let value = match (operator, operand) {
            (Unary::Neg, Value::Int(number)) => Value::Int(number.wrapping_neg()),
            (Unary::Noti, Value::Int(number)) => Value::Int(!number),
            (Unary::Not, Value::Bool(truth)) => Value::Bool(!truth),
            (Unary::Hd, Value::List(list)) => match list.split() {
                Some((head, _)) => head.clone(),
                None => return Err(Stop::Raise(Name::EMPTY_LIST)),
            },
            (Unary::Tl, Value::List(list)) => match list.split() {
                Some((_, tail)) => Value::List(tail.clone()),
                None => return Err(Stop::Raise(Name::EMPTY_LIST)),
            },
            (Unary::Fst | Unary::Snd, Value::Tuple(tuple)) => match (operator, tuple.items()) {
                (Unary::Fst, [item, _]) | (Unary::Snd, [_, item]) => item.clone(),
                _ => return Err(Fault::Type(operator.text()).into()),
            },
            (Unary::Explode, Value::Text(bytes)) => {
                self.steps(bytes.len() as u32 / 16)?;
                self.cells(bytes.len() as u32)?;
                Value::list(bytes.iter().map(|byte| Value::Char(*byte))).ok_or(Fault::Value)?
            }
            (Unary::Implode, Value::List(list)) => self.implode(list)?,
            (Unary::Ord, Value::Char(byte)) => Value::Int((*byte).into()),
            (Unary::Chr, Value::Int(number)) => match u8::try_from(*number) {
                Ok(byte) => Value::Char(byte),
                Err(_) => return Err(Stop::Raise(Name::BAD_CHR)),
            },
            _ => return Err(Fault::Type(operator.text()).into()),
        };
        Ok(value)
    }

    fn implode(&mut self, list: &List) -> Result<Value> {
        self.steps(list.len() / 16)?;
        self.cells(1 + list.len() / 16)?;
        let byte = |value: &Value| match value {
            Value::Char(byte) => Ok(*byte),
            _ => Err(Stop::Fault(Fault::Type("implode"))),
        };
        Ok(Value::text(list.iter().map(byte).collect::<Result<Vec<u8>>>()?))
    }

    /// An operator between two operands; `and` and `or` never come here.
    #[inline]
    pub(super) fn binary(&mut self, operator: Binary, left: &Value, right: &Value) -> Result<Value> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) if operator < Binary::Eq => arithmetic(operator, *left, *right),
            _ => self.general(operator, left, right),
        }
    }

    fn general(&mut self, operator: Binary, left: &Value, right: &Value) -> Result<Value> {
        match (operator, left, right) {
            (Binary::Eq | Binary::Ne, _, _) => {
                let (one, other) = (left.extent(), right.extent());
                self.look_at(if one.weight < other.weight { one } else { other })?;
                let equal = left.equals(right, &mut |bytes| self.steps(bytes))?;
                Ok(Value::Bool(equal == (operator == Binary::Eq)))
            }
            (Binary::Cons, _, Value::List(list)) => {
                self.cells(1)?;
                list.put(left.clone()).map(Value::List).ok_or(Fault::Value.into())
            }
            (Binary::Concat, Value::Text(left), Value::Text(right)) => {
                let length = left.len() + right.len();
                let weight = u32::try_from(length / 16).ok().filter(|weight| *weight < WEIGHT_MAX);
                let weight = weight.ok_or(Fault::Value)?;
                self.steps(weight / 16)?;
                self.cells(1 + weight)?;
                Ok(Value::text([&left[..], &right[..]].concat()))
            }
            _ => Err(Fault::Type(operator.text()).into()),
        }
    }

    /// A tuple of these.
    pub(super) fn tuple(&mut self, items: impl Into<Box<[Value]>>) -> Result<Value> {
        let items = items.into();
        self.cells(1 + items.len() as u32)?;
        Value::tuple(items).ok_or(Fault::Value.into())
    }

    /// A list of these.
    pub(super) fn list(&mut self, items: impl DoubleEndedIterator<Item = Value> + ExactSizeIterator) -> Result<Value> {
        self.cells(1 + items.len() as u32)?;
        Value::list(items).ok_or(Fault::Value.into())
    }
}

/// The n-th of a tuple, from 1.
pub(super) fn item(place: u8, operand: &Value) -> Result<Value> {
    let item = match operand {
        Value::Tuple(tuple) => tuple.items().get(usize::from(place).wrapping_sub(1)).cloned(),
        _ => None,
    };
    item.ok_or(Fault::Type("#").into())
}

/// A truth value that decides which way to go on.
pub(super) fn truth(value: &Value, operator: &'static str) -> Result<bool> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        _ => Err(Fault::Type(operator).into()),
    }
}

/// The exception that a value is.
pub(super) fn exception(value: Value) -> Stop {
    match value {
        Value::Exn(name) => Stop::Raise(name),
        _ => Fault::Type("raise").into(),
    }
}

#[inline]
fn arithmetic(operator: Binary, left: i64, right: i64) -> Result<Value> {
    use Binary::*;
    let number = match operator {
        Add => left.wrapping_add(right),
        Sub => left.wrapping_sub(right),
        Mul => left.wrapping_mul(right),
        Div if right != 0 => left.wrapping_div(right),
        Mod if right != 0 => left.wrapping_rem(right),
        Div | Mod => return Err(Stop::Raise(Name::DIV_BY_ZERO)),
        // Shifting by the width or more leaves nothing but the sign; so does a negative number of places.
        Shl => u32::try_from(right).ok().and_then(|places| left.checked_shl(places)).unwrap_or(0),
        Shr => left >> u32::try_from(right).unwrap_or(63).min(63),
        Andi => left & right,
        Ori => left | right,
        Xori => left ^ right,
        Lt => return Ok(Value::Bool(left < right)),
        Le => return Ok(Value::Bool(left <= right)),
        Gt => return Ok(Value::Bool(left > right)),
        Ge => return Ok(Value::Bool(left >= right)),
        Eq | Ne | Cons | Concat | And | Or => return Err(Fault::Type(operator.text()).into()),
    };
    Ok(Value::Int(number))
}
