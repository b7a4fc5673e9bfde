//! The types of operators.

use super::{Base, Table, Type};
use crate::code::{Binary, Primitive, Unary};

pub(super) const UNIT: Type = Type::Base(Base::Unit);
pub(super) const INT: Type = Type::Base(Base::Int);
pub(super) const BOOL: Type = Type::Base(Base::Bool);
pub(super) const CHAR: Type = Type::Base(Base::Char);
pub(super) const STRING: Type = Type::Base(Base::String);
pub(super) const HOST: Type = Type::Base(Base::Host);
pub(super) const DEV: Type = Type::Base(Base::Dev);
pub(super) const EXN: Type = Type::Base(Base::Exn);

/// Operand and result of an operator before one operand.
pub(super) fn unary(operator: Unary, table: &mut Table) -> (Type, Type) {
    let list = |inner: &Type| Type::List(Box::new(inner.clone()));
    match operator {
        Unary::Neg | Unary::Noti => (INT, INT),
        Unary::Not => (BOOL, BOOL),
        Unary::Hd => {
            let inner = table.fresh();
            (list(&inner), inner)
        }
        Unary::Tl => {
            let inner = table.fresh();
            (list(&inner), list(&inner))
        }
        Unary::Fst | Unary::Snd => {
            let (first, second) = (table.fresh(), table.fresh());
            let result = if operator == Unary::Fst { first.clone() } else { second.clone() };
            (Type::Tuple(vec![first, second]), result)
        }
        Unary::Explode => (STRING, list(&CHAR)),
        Unary::Implode => (list(&CHAR), STRING),
        Unary::Ord => (CHAR, INT),
        Unary::Chr => (INT, CHAR),
    }
}

/// Operands and result of an operator between two operands.
pub(super) fn binary(operator: Binary, table: &mut Table) -> (Type, Type, Type) {
    use Binary::*;
    match operator {
        Add | Sub | Mul | Div | Mod | Shl | Shr | Andi | Ori | Xori => (INT, INT, INT),
        Lt | Le | Gt | Ge => (INT, INT, BOOL),
        And | Or => (BOOL, BOOL, BOOL),
        Concat => (STRING, STRING, STRING),
        Eq | Ne => {
            let both = table.fresh();
            (both.clone(), both, BOOL)
        }
        Cons => {
            let inner = table.fresh();
            let list = Type::List(Box::new(inner.clone()));
            (inner, list.clone(), list)
        }
    }
}

/// The operands of what makes packets.
pub(super) fn primitive(primitive: Primitive, operands: usize, table: &mut Table) -> Vec<Type> {
    let chunk = Type::Chunk(Box::new(table.fresh()));
    let routing = Type::Arrow(vec![HOST], Box::new(Type::Tuple(vec![HOST, DEV])));
    let mut types = match primitive {
        Primitive::OnRemote => vec![chunk, HOST, INT, routing],
        Primitive::OnNeighbor => vec![chunk, HOST, INT, DEV],
        Primitive::RetransOnRemote => vec![chunk, HOST, INT, routing, INT, INT],
    };
    types.truncate(operands);
    types
}
