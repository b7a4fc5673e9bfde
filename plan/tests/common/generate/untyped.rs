//! Codes with the right form and no sense: a node must survive them.

use super::Choices;
use plan::code::{Binary, Code, Definition, Expr, Kind, Primitive, Target, Unary};
use plan::name::Name;
use plan::span::Span;

/// A code of a few definitions; the last is a function without parameters.
pub fn code(choices: &mut Choices<'_>) -> Code {
    let count = choices.below(5);
    let mut params: Vec<Option<u8>> = (0..count).map(|_| choices.of(&[None, Some(0), Some(1), Some(2)])).collect();
    params.push(Some(0));
    let mut definitions = Vec::new();
    for at in 0..params.len() {
        let mut generator = Generator { choices, params: &params, at };
        let body = generator.expr(params[at].unwrap_or(0).into(), 0);
        let name = Name::new(&format!("d{at}")).unwrap();
        definitions.push(Definition { name, params: params[at], body });
    }
    Code::new(definitions).unwrap()
}

struct Generator<'a, 'b> {
    choices: &'a mut Choices<'b>,
    params: &'a [Option<u8>],
    at: usize,
}

const SERVICES: &[&str] = &[
    "print",
    "thisHost",
    "getSource",
    "boom",
    "twice",
    "limit",
    "eval",
    "eval",
    "getRB",
    "length",
    "abort",
    "nowhere",
];
const EXCEPTIONS: &[&str] = &["Boom", "NoRoute", "NotEnoughRB", "DivByZero", "EmptyList", "Own"];

impl Generator<'_, '_> {
    fn expr(&mut self, scope: u16, depth: usize) -> Expr {
        let leaf = depth > 7 || self.choices.is_done();
        let kind = if leaf { self.leaf(scope) } else { self.compound(scope, depth) };
        Expr { kind, at: Span::NOWHERE }
    }

    fn leaf(&mut self, scope: u16) -> Kind {
        match self.choices.below(12) {
            0 => Kind::Unit,
            1 => Kind::Bool(self.choices.below(2) == 1),
            2 => Kind::Int(self.choices.of(&[0, 1, 2, 3, -1, i64::MAX, i64::MIN, 64, 7])),
            3 => Kind::Char(self.choices.byte()),
            4 => Kind::Text(self.choices.of(&[&b""[..], b"a", b"some longer text"]).into()),
            5 => Kind::List(vec![]),
            6 => Kind::Exn(Name::new(self.choices.of(EXCEPTIONS)).unwrap()),
            7 => Kind::Service(Name::new(self.choices.of(&["RIP", "limit", "getRB", "nowhere"])).unwrap()),
            8 => {
                let values: Vec<_> = (0..self.at).filter(|at| self.params[*at].is_none()).collect();
                if values.is_empty() { Kind::Unit } else { Kind::Val(self.choices.of(&values) as u16) }
            }
            _ if scope > 0 => Kind::Local(self.choices.below(scope.into()) as u16),
            _ => Kind::Int(5),
        }
    }

    fn some(&mut self, count: usize, scope: u16, depth: usize) -> Vec<Expr> {
        (0..count).map(|_| self.expr(scope, depth + 1)).collect()
    }

    fn compound(&mut self, scope: u16, depth: usize) -> Kind {
        let inner = |this: &mut Self, scope| Box::new(this.expr(scope, depth + 1));
        match self.choices.below(20) {
            0 => self.leaf(scope),
            1 | 2 => Kind::Unary(self.choices.of(Unary::ALL), inner(self, scope)),
            3..=6 => {
                let operator = self.choices.of(Binary::ALL);
                Kind::Binary(operator, Box::new([self.expr(scope, depth + 1), self.expr(scope, depth + 1)]))
            }
            7 => Kind::Item(self.choices.of(&[1, 2, 3]), inner(self, scope)),
            8 => Kind::If(Box::new([0; 3].map(|_| self.expr(scope, depth + 1)))),
            9 => {
                let count = 2 + self.choices.below(3);
                Kind::Tuple(self.some(count, scope, depth))
            }
            10 | 11 => {
                let count = self.choices.below(5);
                Kind::List(self.some(count, scope, depth))
            }
            12 => {
                let count = 2 + self.choices.below(2);
                Kind::Sequence(self.some(count, scope, depth))
            }
            13 => Kind::Let(Box::new([self.expr(scope, depth + 1), self.expr(scope + 1, depth + 1)]), None),
            14 => {
                let only = self.choices.of(&[true, false]).then(|| Name::new(self.choices.of(EXCEPTIONS)).unwrap());
                let more = u16::from(only.is_none());
                let body = match self.choices.below(2) {
                    0 => Expr { kind: self.call(scope, depth), at: Span::NOWHERE },
                    _ => self.expr(scope, depth + 1),
                };
                Kind::Try(only, Box::new([body, self.expr(scope + more, depth + 1)]))
            }
            15 => Kind::Raise(inner(self, scope)),
            16 => self.call(scope, depth),
            17 => self.chunk(scope, depth),
            18 => self.fold(scope, depth),
            _ => {
                let primitive = self.choices.of(Primitive::ALL);
                let count = *primitive.operands().start() + self.choices.below(2) % primitive.operands().count();
                Kind::Send(primitive, self.some(count, scope, depth))
            }
        }
    }

    fn function(&mut self, earlier: bool) -> Option<(u16, usize)> {
        let count = if earlier { self.at } else { self.params.len() };
        let functions: Vec<_> = (0..count).filter_map(|at| Some((at as u16, self.params[at]?.into()))).collect();
        (!functions.is_empty()).then(|| self.choices.of(&functions))
    }

    fn service(&mut self) -> Target {
        Target::Service(Name::new(self.choices.of(SERVICES)).unwrap())
    }

    fn call(&mut self, scope: u16, depth: usize) -> Kind {
        match self.function(true).filter(|_| self.choices.below(2) == 0) {
            Some((function, params)) => Kind::Call(Target::Function(function), self.some(params, scope, depth)),
            None => {
                let (target, count) = (self.service(), self.choices.of(&[1, 1, 1, 0, 2]));
                Kind::Call(target, self.some(count, scope, depth))
            }
        }
    }

    fn chunk(&mut self, scope: u16, depth: usize) -> Kind {
        match self.function(false).filter(|_| self.choices.below(4) > 0) {
            Some((function, params)) => Kind::Chunk(Target::Function(function), self.some(params, scope, depth)),
            None => {
                let (target, count) = (self.service(), self.choices.of(&[1, 0, 2]));
                Kind::Chunk(target, self.some(count, scope, depth))
            }
        }
    }

    fn fold(&mut self, scope: u16, depth: usize) -> Kind {
        let left = self.choices.below(2) == 0;
        match self.function(true).filter(|(_, params)| *params >= 2) {
            Some((function, params)) => Kind::Fold(left, Target::Function(function), self.some(params, scope, depth)),
            None => Kind::Fold(left, self.service(), self.some(2, scope, depth)),
        }
    }
}
