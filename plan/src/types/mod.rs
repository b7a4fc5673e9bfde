//! Types, and their unification.
//!
//! A type variable is an index into `Table`, which knows what it was found to be. Types can grow
//! exponentially with the program that has them, so the table counts its work and gives up at a limit;
//! then the program is refused as too large to check.

mod annotate;
mod groups;
mod infer;
mod rules;
mod show;

pub use infer::{Checked, infer};
pub(crate) use show::show;

/// How many steps all unifications of a program may take together.
const WORK_MAX: u32 = 200_000;
/// How deep a type may nest.
const DEPTH_MAX: u16 = 300;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Not known yet, or any.
    Variable(u32),
    /// One of the base types.
    Base(Base),
    /// `t list`
    List(Box<Type>),
    /// `t chunk`
    Chunk(Box<Type>),
    /// `t * t …`
    Tuple(Vec<Type>),
    /// `(t, …) -> t`
    Arrow(Vec<Type>, Box<Type>),
}

macro_rules! bases {
    ($($variant:ident = $text:literal,)+) => {
        /// The base types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "their names are the language's")]
        pub enum Base { $($variant,)+ }

        impl Base {
            /// Every one.
            pub const ALL: &'static [Base] = &[$(Base::$variant,)+];

            /// Its name in the language.
            pub fn text(self) -> &'static str {
                match self { $(Base::$variant => $text,)+ }
            }
        }
    };
}

bases! {
    Unit = "unit",
    Int = "int",
    Char = "char",
    String = "string",
    Bool = "bool",
    Host = "host",
    Port = "port",
    Key = "key",
    Blob = "blob",
    Exn = "exn",
    Dev = "dev",
}

/// A type for any choice of some of its variables.
#[derive(Clone, Debug)]
pub struct Scheme {
    variables: Vec<u32>,
    kind: Type,
}

/// What is known of type variables.
#[derive(Debug, Default)]
pub(crate) struct Table {
    known: Vec<Option<Type>>,
    work: u32,
    /// Whether a limit was reached; nothing is certain then.
    pub too_large: bool,
}

impl Table {
    pub fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Variable((self.known.len() - 1) as u32)
    }

    /// Counts a step; whether there may be more.
    fn step(&mut self, depth: u16) -> bool {
        self.work += 1;
        self.too_large |= self.work > WORK_MAX || depth > DEPTH_MAX;
        !self.too_large
    }

    fn of(&self, variable: u32) -> Option<&Type> {
        self.known.get(variable as usize).and_then(Option::as_ref)
    }

    /// The type itself, if it is a variable that is known.
    pub fn head(&mut self, kind: &Type) -> Type {
        let mut kind = kind;
        let mut steps = 0;
        while let Type::Variable(variable) = kind {
            match self.known.get(*variable as usize).and_then(Option::as_ref) {
                Some(next) => kind = next,
                None => break,
            }
            steps += 1;
        }
        let kind = kind.clone();
        self.work = self.work.saturating_add(steps);
        kind
    }

    /// The type with everything that is known filled in.
    pub fn full(&mut self, kind: &Type) -> Type {
        self.full_at(kind, 0)
    }

    fn full_at(&mut self, kind: &Type, depth: u16) -> Type {
        if !self.step(depth) {
            return Type::Base(Base::Unit);
        }
        let mut all =
            |items: &[Type]| -> Vec<Type> { items.iter().map(|item| self.full_at(item, depth + 1)).collect() };
        match kind {
            Type::Variable(variable) => match self.of(*variable).cloned() {
                Some(known) => self.full_at(&known, depth + 1),
                None => kind.clone(),
            },
            Type::Base(_) => kind.clone(),
            Type::List(inner) => Type::List(Box::new(self.full_at(inner, depth + 1))),
            Type::Chunk(inner) => Type::Chunk(Box::new(self.full_at(inner, depth + 1))),
            Type::Tuple(items) => Type::Tuple(all(items)),
            Type::Arrow(params, result) => {
                let params = all(params);
                Type::Arrow(params, Box::new(self.full_at(result, depth + 1)))
            }
        }
    }

    /// Makes two types equal; false if they cannot be.
    pub fn unify(&mut self, one: &Type, other: &Type) -> bool {
        self.unify_at(one, other, 0)
    }

    fn unify_at(&mut self, one: &Type, other: &Type, depth: u16) -> bool {
        if !self.step(depth) {
            return true;
        }
        let (one, other) = (self.head(one), self.head(other));
        let mut all = |these: &[Type], those: &[Type]| {
            these.len() == those.len()
                && these.iter().zip(those).all(|(this, that)| self.unify_at(this, that, depth + 1))
        };
        match (&one, &other) {
            (Type::Variable(this), Type::Variable(that)) if this == that => true,
            (Type::Variable(variable), kind) | (kind, Type::Variable(variable)) => {
                if self.occurs(*variable, kind, depth) {
                    return self.too_large;
                }
                if let Some(entry) = self.known.get_mut(*variable as usize) {
                    *entry = Some(kind.clone());
                }
                true
            }
            (Type::Base(this), Type::Base(that)) => this == that,
            (Type::List(this), Type::List(that)) | (Type::Chunk(this), Type::Chunk(that)) => {
                self.unify_at(this, that, depth + 1)
            }
            (Type::Tuple(these), Type::Tuple(those)) => all(these, those),
            (Type::Arrow(these, this), Type::Arrow(those, that)) => {
                all(these, those) && self.unify_at(this, that, depth + 1)
            }
            _ => false,
        }
    }

    fn occurs(&mut self, variable: u32, kind: &Type, depth: u16) -> bool {
        if !self.step(depth) {
            return true;
        }
        match self.head(kind) {
            Type::Variable(found) => found == variable,
            Type::Base(_) => false,
            Type::List(inner) | Type::Chunk(inner) => self.occurs(variable, &inner, depth + 1),
            Type::Tuple(items) => items.iter().any(|item| self.occurs(variable, item, depth + 1)),
            Type::Arrow(params, result) => {
                params.iter().any(|param| self.occurs(variable, param, depth + 1))
                    || self.occurs(variable, &result, depth + 1)
            }
        }
    }

    /// The scheme of a type whose variables may be chosen, except `fixed` ones.
    pub fn generalise(&mut self, kind: &Type, fixed: &[Type]) -> Scheme {
        let kind = self.full(kind);
        let mut kept = Vec::new();
        for fixed in fixed {
            let fixed = self.full(fixed);
            variables(&fixed, &mut kept);
        }
        let mut all = Vec::new();
        variables(&kind, &mut all);
        all.retain(|variable| !kept.contains(variable));
        Scheme { variables: all, kind }
    }

    /// A scheme's type with new variables.
    pub fn instance(&mut self, scheme: &Scheme) -> Type {
        let fresh: Vec<_> = scheme.variables.iter().map(|variable| (*variable, self.fresh())).collect();
        self.replace(&scheme.kind, &fresh, 0)
    }

    fn replace(&mut self, kind: &Type, fresh: &[(u32, Type)], depth: u16) -> Type {
        if !self.step(depth) {
            return Type::Base(Base::Unit);
        }
        let mut all =
            |items: &[Type]| -> Vec<Type> { items.iter().map(|item| self.replace(item, fresh, depth + 1)).collect() };
        match kind {
            Type::Variable(variable) => {
                let found = fresh.iter().find(|(old, _)| old == variable);
                found.map_or_else(|| kind.clone(), |(_, new)| new.clone())
            }
            Type::Base(_) => kind.clone(),
            Type::List(inner) => Type::List(Box::new(self.replace(inner, fresh, depth + 1))),
            Type::Chunk(inner) => Type::Chunk(Box::new(self.replace(inner, fresh, depth + 1))),
            Type::Tuple(items) => Type::Tuple(all(items)),
            Type::Arrow(params, result) => {
                let params = all(params);
                Type::Arrow(params, Box::new(self.replace(result, fresh, depth + 1)))
            }
        }
    }
}

impl Scheme {
    /// One type for all uses.
    pub(crate) fn one(kind: Type) -> Scheme {
        Scheme { variables: Vec::new(), kind }
    }

    /// The type.
    pub fn kind(&self) -> &Type {
        &self.kind
    }
}

/// Adds the variables of a full type in the order of their appearance, each once.
fn variables(kind: &Type, found: &mut Vec<u32>) {
    match kind {
        Type::Variable(variable) => {
            if !found.contains(variable) {
                found.push(*variable);
            }
        }
        Type::Base(_) => {}
        Type::List(inner) | Type::Chunk(inner) => variables(inner, found),
        Type::Tuple(items) => items.iter().for_each(|item| variables(item, found)),
        Type::Arrow(params, result) => {
            params.iter().for_each(|param| variables(param, found));
            variables(result, found);
        }
    }
}
