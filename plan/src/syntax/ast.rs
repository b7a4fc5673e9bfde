//! The syntax tree of a program.
//!
//! The tree has every parenthesis of the source, so that the formatter can write it again; it knows
//! nothing of what names mean, which is [`resolve`](crate::resolve)'s business.

use crate::span::Span;

/// The deepest nesting of expressions, types and local definitions in a source text.
pub const DEPTH_MAX: u16 = 120;

/// A name where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// Its text.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its definitions in order.
    pub definitions: Vec<Definition>,
}

/// One definition, at the top or in a `let`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// What it defines.
    pub kind: DefinitionKind,
    /// The whole definition.
    pub span: Span,
}

/// What a definition defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// `fun name(params): result = body`
    Fun {
        /// The function's name.
        name: Ident,
        /// Parameters, each perhaps with its type.
        params: Vec<(Ident, Option<Type>)>,
        /// The type of the result.
        result: Option<Type>,
        /// What it computes.
        body: Expr,
    },
    /// `val name: note = value`
    Val {
        /// The value's name.
        name: Ident,
        /// Its type.
        note: Option<Type>,
        /// The expression.
        value: Expr,
    },
    /// `exception name`
    Exception(Ident),
    /// `svc name : type`
    Svc(Ident, Type),
}

/// A type as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// What type.
    pub kind: TypeKind,
    /// Where.
    pub span: Span,
}

/// The forms of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// `int`, `host` …; what is known is the checker's business.
    Base(String),
    /// `'a`, without the quote.
    Variable(String),
    /// `t list`
    List(Box<Type>),
    /// `t chunk`
    Chunk(Box<Type>),
    /// `t * t …`
    Tuple(Vec<Type>),
    /// `(t)`
    Paren(Box<Type>),
    /// `void -> t` (no parameters), `t -> t`, `(t, t) -> t`
    Arrow(Vec<Type>, Box<Type>),
    /// What could not be read.
    Error,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
    /// How deep it nests, 1 for a leaf.
    pub depth: u16,
}

/// The forms of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// `()`
    Unit,
    /// `true` and `false`
    Bool(bool),
    /// A number.
    Int(i64),
    /// A character.
    Char(u8),
    /// A string's bytes.
    Text(Vec<u8>),
    /// A name alone.
    Var(Ident),
    /// `[a; b]`
    List(Vec<Expr>),
    /// `(a)`
    Paren(Box<Expr>),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `(a; b)`
    Sequence(Vec<Expr>),
    /// `f(a, b)`
    Call(Ident, Vec<Expr>),
    /// `|f|(a, b)`
    Chunk(Ident, Vec<Expr>),
    /// `not a`, `hd a`, `~a` …
    Unary(Unary, Box<Expr>),
    /// `#2 a`
    Item(u8, Box<Expr>),
    /// `a + b` …
    Binary(Binary, Box<[Expr; 2]>),
    /// `if a then b else c`
    If(Box<[Expr; 3]>),
    /// `raise E`
    Raise(Ident),
    /// `try a handle E => b`
    Try(Box<[Expr; 2]>, Ident),
    /// `let … in a end`
    Let(Vec<Definition>, Box<Expr>),
    /// `foldl(f, a, l)`, `foldr(f, l, a)`
    Fold {
        /// From the left.
        left: bool,
        /// The function.
        function: Ident,
        /// The other operands in their order.
        operands: Box<[Expr; 2]>,
    },
    /// `OnRemote(…)` and its kin.
    Send(Primitive, Vec<Expr>),
    /// What could not be read.
    Error,
}

macro_rules! operators {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$item])* $variant,)+ }

        impl $name {
            /// Every one, in the order of their numbers in the binary form.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// How it is written.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }
    };
}

operators! {
    /// Operators before one operand.
    Unary {
        /// Minus.
        Neg = "~",
        /// Logical complement.
        Not = "not",
        /// Bitwise complement.
        Noti = "noti",
        /// The first of a list.
        Hd = "hd",
        /// All but the first of a list.
        Tl = "tl",
        /// The first of a pair.
        Fst = "fst",
        /// The second of a pair.
        Snd = "snd",
        /// The characters of a string.
        Explode = "explode",
        /// The string of a list of characters.
        Implode = "implode",
        /// The number of a character.
        Ord = "ord",
        /// The character of a number.
        Chr = "chr",
    }
}

operators! {
    /// Operators between two operands.
    Binary {
        /// Sum, wrapping.
        Add = "+",
        /// Difference, wrapping.
        Sub = "-",
        /// Product, wrapping.
        Mul = "*",
        /// Quotient, towards zero.
        Div = "/",
        /// Remainder, with the sign of the dividend.
        Mod = "%",
        /// Shift to the left.
        Shl = "<<",
        /// Arithmetic shift to the right.
        Shr = ">>",
        /// Bitwise and.
        Andi = "andi",
        /// Bitwise or.
        Ori = "ori",
        /// Bitwise exclusive or.
        Xori = "xori",
        /// Less, of numbers.
        Lt = "<",
        /// At most.
        Le = "<=",
        /// Greater.
        Gt = ">",
        /// At least.
        Ge = ">=",
        /// Equal, of any two values.
        Eq = "=",
        /// Not equal.
        Ne = "<>",
        /// Puts before a list.
        Cons = "::",
        /// Joins strings.
        Concat = "^",
        /// Both; the right side only if the left is true.
        And = "and",
        /// One of both; the right side only if the left is false.
        Or = "or",
    }
}

operators! {
    /// What makes packets.
    Primitive {
        /// To a host, routed.
        OnRemote = "OnRemote",
        /// To a neighbour, not routed.
        OnNeighbor = "OnNeighbor",
        /// To a host, repeatedly until it is known to have arrived.
        RetransOnRemote = "RetransOnRemote",
    }
}

impl Primitive {
    /// How many operands it takes.
    pub fn operands(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Primitive::OnRemote => 4..=4,
            Primitive::OnNeighbor => 3..=4,
            Primitive::RetransOnRemote => 6..=6,
        }
    }
}

impl Expr {
    /// An expression and how deep it is.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let inner = depth_inside(&kind);
        Expr { kind, span, depth: inner.saturating_add(1) }
    }
}

fn deepest(exprs: &[Expr]) -> u16 {
    exprs.iter().map(|expr| expr.depth).max().unwrap_or(0)
}

fn depth_inside(kind: &ExprKind) -> u16 {
    match kind {
        ExprKind::Paren(inner) | ExprKind::Unary(_, inner) | ExprKind::Item(_, inner) => inner.depth,
        ExprKind::List(items) | ExprKind::Tuple(items) | ExprKind::Sequence(items) => deepest(items),
        ExprKind::Call(_, items) | ExprKind::Chunk(_, items) | ExprKind::Send(_, items) => deepest(items),
        ExprKind::Binary(_, sides) | ExprKind::Try(sides, _) => deepest(&sides[..]),
        ExprKind::Fold { operands, .. } => deepest(&operands[..]),
        ExprKind::If(parts) => deepest(&parts[..]),
        ExprKind::Let(definitions, body) => {
            // Each definition is inside the ones before it, so the n-th counts as n deep.
            let depth = |(at, definition): (usize, &Definition)| {
                let own = match &definition.kind {
                    DefinitionKind::Fun { body, .. } => body.depth,
                    DefinitionKind::Val { value, .. } => value.depth,
                    DefinitionKind::Exception(_) | DefinitionKind::Svc(..) => 0,
                };
                own.saturating_add(u16::try_from(at).unwrap_or(u16::MAX))
            };
            let count = u16::try_from(definitions.len()).unwrap_or(u16::MAX);
            let inner = definitions.iter().enumerate().map(depth).max().unwrap_or(0);
            inner.max(body.depth.saturating_add(count))
        }
        _ => 0,
    }
}
