//! Code to instructions for the [`machine`](super::machine).
//!
//! All definitions of a code become one row of instructions. Variables are places on the machine's stack,
//! known here because every expression leaves exactly one value; services become the node's numbers.
//! Nothing is looked up by name when instructions run.

use super::Builtin;
use crate::code::{BLOCK, Binary, Code, Expr, Kind, Names, Primitive, Target, Unary};
use crate::name::Name;
use crate::program::{ServiceId, Services};
use crate::value::Value;

/// An instruction. Those that stand for an expression count one step when they run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Puts a constant on the stack.
    Constant(u16),
    /// Puts a small number on the stack.
    Int(i32),
    /// Puts the value of a service's name on the stack.
    ServiceValue(u16),
    /// Copies a variable, counted from the beginning of the function's part of the stack.
    Local(u16),
    /// Copies the value of a definition.
    Val(u16),
    /// Replaces one by a result.
    Unary(Unary),
    /// Replaces two by a result.
    Binary(Binary),
    /// Replaces a tuple by one of its items.
    Item(u8),
    /// If the top is this truth value, goes on there and leaves it; takes it off otherwise.
    Shortcut(Binary, u32),
    /// Fails if the top is no truth value; no step.
    Truth(Binary),
    /// Takes a truth value; goes on there if it is false.
    Branch(u32),
    /// Goes on there; no step.
    Jump(u32),
    /// Replaces so many by a tuple.
    Tuple(u8),
    /// Replaces so many by a list.
    List(u8),
    /// Takes the top off; no step.
    Pop,
    /// Takes off what is under the top; no step.
    Slide,
    /// From here on, the handler with this number catches.
    Try(u16),
    /// No longer; no step.
    EndTry,
    /// Raises the top.
    Raise,
    /// Calls a function.
    Call(u16),
    /// Calls a service with so many arguments.
    Service(u16, u8),
    /// Makes a chunk of a function.
    Chunk(u16, u8),
    /// Makes a chunk of a service.
    ServiceChunk(u16, u8),
    /// Turns the operands of a fold into list and sum.
    Fold(bool),
    /// Begins the next round of the fold with this number, or ends it.
    Next(u16),
    /// Makes the result of the round the sum; no step.
    Again(u16),
    /// Makes a packet.
    Send(Primitive, u8),
    /// Ends a function; no step.
    Return,
}

/// A fold in the code.
#[derive(Clone, Debug)]
pub(crate) struct FoldSite {
    pub left: bool,
    pub callee: FoldCallee,
    /// How many arguments come before sum and element.
    pub captured: u16,
    /// Where its [`Op::Next`] is, and where it goes on when it ends.
    pub next: u32,
    pub end: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FoldCallee {
    Function(u16),
    Service(u16),
}

/// A handler in the code.
#[derive(Clone, Debug)]
pub(crate) struct HandlerSite {
    pub only: Option<Name>,
    pub at: u32,
}

/// A definition's instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub at: u32,
    pub params: Option<u8>,
    pub nesting: u16,
}

/// What a service's name means on this node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Builtin(Builtin),
    Node(Option<ServiceId>),
}

/// A code's instructions and what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub ops: Vec<Op>,
    pub entries: Vec<Entry>,
    pub constants: Vec<Value>,
    pub services: Vec<(Name, Link)>,
    pub folds: Vec<FoldSite>,
    pub handlers: Vec<HandlerSite>,
    /// For each definition, the values it needs.
    pub values: Vec<Vec<u16>>,
}

impl Compiled {
    /// Bytes of memory that it takes, texts and names aside: the code has them too.
    pub fn memory(&self) -> usize {
        fn room<T>(row: &Vec<T>) -> usize {
            row.capacity() * size_of::<T>() + BLOCK
        }
        let values = self.values.iter().map(room).sum::<usize>();
        let rows = room(&self.ops) + room(&self.entries) + room(&self.constants) + room(&self.services);
        rows + room(&self.folds) + room(&self.handlers) + room(&self.values) + values
    }
}

/// What a name means on a node with these services.
pub(crate) fn link(name: &Name, services: &dyn Services) -> Link {
    match Builtin::of(name) {
        Some(builtin) => Link::Builtin(builtin),
        None => Link::Node(services.service(name)),
    }
}

/// Compiles a code.
pub(crate) fn compile(code: &Code, services: &dyn Services) -> Compiled {
    let (out, names) = (Compiled::default(), Names::default());
    let mut compiler = Compiler { out, services, names, height: 0, scope: Vec::new() };
    for (at, definition) in (0u16..).zip(code.definitions()) {
        let start = compiler.here();
        compiler.height = definition.params.unwrap_or(0).into();
        compiler.scope = (0..compiler.height).collect();
        compiler.expr(&definition.body);
        compiler.out.ops.push(Op::Return);
        compiler.out.entries.push(Entry { at: start, params: definition.params, nesting: code.facts(at).nesting });
        compiler.out.values.push(code.values_for(at).map(|(at, _)| at).collect());
    }
    compiler.out
}

struct Compiler<'a> {
    out: Compiled,
    services: &'a dyn Services,
    /// Those named so far, in the order of their numbers.
    names: Names,
    /// How many values the function has on the stack at this point.
    height: u16,
    /// Where on the stack each variable is.
    scope: Vec<u16>,
}

impl Compiler<'_> {
    fn here(&self) -> u32 {
        self.out.ops.len() as u32
    }

    /// Adds an instruction after which the stack has this many more values.
    fn push(&mut self, op: Op, more: i32) -> usize {
        self.out.ops.push(op);
        self.height = self.height.saturating_add_signed(more as i16);
        self.out.ops.len() - 1
    }

    /// Lets a jump go on at the next instruction.
    fn land(&mut self, at: usize) {
        let here = self.here();
        if let Some(Op::Jump(to) | Op::Branch(to) | Op::Shortcut(_, to)) = self.out.ops.get_mut(at) {
            *to = here;
        }
    }

    fn constant(&mut self, value: Value) {
        self.out.constants.push(value);
        self.push(Op::Constant((self.out.constants.len() - 1) as u16), 1);
    }

    fn service(&mut self, name: &Name) -> u16 {
        let known = self.names.place(name);
        let at = known.unwrap_or_else(|| {
            self.names.add(name);
            self.out.services.push((name.clone(), link(name, self.services)));
            self.out.services.len() - 1
        });
        at as u16
    }

    fn exprs(&mut self, exprs: &[Expr]) -> i32 {
        exprs.iter().for_each(|expr| self.expr(expr));
        1 - exprs.len() as i32
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Unit | Kind::Hole => self.constant(Value::Unit),
            Kind::Bool(value) => self.constant(Value::Bool(*value)),
            Kind::Int(value) => match i32::try_from(*value) {
                Ok(small) => drop(self.push(Op::Int(small), 1)),
                Err(_) => self.constant(Value::Int(*value)),
            },
            Kind::Char(value) => self.constant(Value::Char(*value)),
            Kind::Text(bytes) => self.constant(Value::Text(bytes.clone())),
            Kind::Exn(name) => self.constant(Value::Exn(name.clone())),
            Kind::Service(name) => {
                let service = self.service(name);
                self.push(Op::ServiceValue(service), 1);
            }
            Kind::Local(at) => {
                let place = self.scope.get(usize::from(*at)).copied().unwrap_or(0);
                self.push(Op::Local(place), 1);
            }
            Kind::Val(at) => drop(self.push(Op::Val(*at), 1)),
            Kind::Unary(operator, _) => self.after(expr, Op::Unary(*operator)),
            Kind::Item(place, _) => self.after(expr, Op::Item(*place)),
            Kind::Raise(_) => self.after(expr, Op::Raise),
            Kind::Tuple(items) => self.after(expr, Op::Tuple(items.len() as u8)),
            Kind::List(items) => self.after(expr, Op::List(items.len() as u8)),
            Kind::Send(primitive, operands) => self.after(expr, Op::Send(*primitive, operands.len() as u8)),
            Kind::Call(Target::Function(function), _) => self.after(expr, Op::Call(*function)),
            Kind::Call(Target::Service(name), arguments) => {
                let service = self.service(name);
                self.after(expr, Op::Service(service, arguments.len() as u8));
            }
            Kind::Chunk(Target::Function(function), arguments) => {
                self.after(expr, Op::Chunk(*function, arguments.len() as u8));
            }
            Kind::Chunk(Target::Service(name), arguments) => {
                let service = self.service(name);
                self.after(expr, Op::ServiceChunk(service, arguments.len() as u8));
            }
            Kind::Binary(operator @ (Binary::And | Binary::Or), sides) => self.logic(*operator, sides),
            Kind::Binary(operator, _) => self.after(expr, Op::Binary(*operator)),
            Kind::If(parts) => self.branch(parts),
            Kind::Sequence(items) => self.sequence(items),
            Kind::Let(parts, _) => {
                let [value, body] = &**parts;
                self.expr(value);
                self.scope.push(self.height.saturating_sub(1));
                self.expr(body);
                self.scope.pop();
                self.push(Op::Slide, -1);
            }
            Kind::Try(only, parts) => self.try_(only.as_ref(), parts),
            Kind::Fold(left, target, arguments) => self.fold(*left, target, arguments),
        }
    }

    /// The inner expressions, then an instruction that replaces their values by one.
    fn after(&mut self, expr: &Expr, op: Op) {
        let more = self.exprs(expr.kind.inside());
        self.push(op, more);
    }

    fn logic(&mut self, operator: Binary, sides: &[Expr; 2]) {
        let [left, right] = sides;
        self.expr(left);
        let shortcut = self.push(Op::Shortcut(operator, 0), -1);
        self.expr(right);
        self.push(Op::Truth(operator), 0);
        self.land(shortcut);
    }

    fn branch(&mut self, parts: &[Expr; 3]) {
        let [condition, then, otherwise] = parts;
        self.expr(condition);
        let branch = self.push(Op::Branch(0), -1);
        self.expr(then);
        let jump = self.push(Op::Jump(0), -1);
        self.land(branch);
        self.expr(otherwise);
        self.land(jump);
    }

    fn sequence(&mut self, items: &[Expr]) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.push(Op::Pop, -1);
            }
            self.expr(item);
        }
    }

    fn try_(&mut self, only: Option<&Name>, parts: &[Expr; 2]) {
        let [body, handler] = parts;
        let site = self.out.handlers.len();
        self.out.handlers.push(HandlerSite { only: only.cloned(), at: 0 });
        self.push(Op::Try(site as u16), 0);
        self.expr(body);
        self.push(Op::EndTry, 0);
        let jump = self.push(Op::Jump(0), -1);
        let here = self.here();
        if let Some(site) = self.out.handlers.get_mut(site) {
            site.at = here;
        }
        if only.is_none() {
            self.scope.push(self.height);
            self.height += 1;
        }
        self.expr(handler);
        if only.is_none() {
            self.scope.pop();
            self.push(Op::Slide, -1);
        }
        self.land(jump);
    }

    fn fold(&mut self, left: bool, target: &Target, arguments: &[Expr]) {
        let more = self.exprs(arguments);
        let callee = match target {
            Target::Function(function) => FoldCallee::Function(*function),
            Target::Service(name) => FoldCallee::Service(self.service(name)),
        };
        let site = self.out.folds.len() as u16;
        self.push(Op::Fold(left), 0);
        let next = self.here();
        self.push(Op::Next(site), 0);
        self.push(Op::Again(site), more);
        let end = self.here();
        let captured = arguments.len().saturating_sub(2) as u16;
        self.out.folds.push(FoldSite { left, callee, captured, next, end });
    }
}
