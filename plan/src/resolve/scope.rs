//! The names in scope.

use crate::span::Span;

/// What a definition of the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A function with so many parameters.
    Function(usize),
    /// A value.
    Value,
    /// An exception.
    Exception,
    /// A declared service.
    Service,
}

/// A definition of the program.
#[derive(Clone, Debug)]
pub(super) struct Global {
    pub name: String,
    pub span: Span,
    pub what: What,
}

/// What a local name stands for.
#[derive(Clone, Debug)]
pub(super) enum Local {
    /// The variable with this number.
    Variable(u16),
    /// A function that was made a definition; the variables it captures come first among its arguments.
    Function {
        /// Its symbol.
        symbol: u16,
        /// The variables of the function around it that it takes along.
        captures: Vec<u16>,
    },
    /// The local function whose body this is; only its chunks may be made.
    Itself(u16),
    /// The same from inside a function in it, where nothing can be done with it.
    Beyond,
    /// An exception.
    Exception,
}

/// The local names, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Scope {
    names: Vec<(String, Local)>,
    /// How many variables are in scope.
    pub variables: u16,
}

impl Scope {
    /// Begins a definition of the program.
    pub fn enter<'a>(&mut self, params: impl Iterator<Item = &'a str>) {
        self.leave();
        for param in params {
            self.bind(param);
        }
    }

    /// Ends it.
    pub fn leave(&mut self) {
        self.names.clear();
        self.variables = 0;
    }

    /// Adds a variable.
    pub fn bind(&mut self, name: &str) {
        self.names.push((name.to_owned(), Local::Variable(self.variables)));
        self.variables = self.variables.saturating_add(1);
    }

    /// Adds another local name.
    pub fn add(&mut self, name: &str, what: Local) {
        self.names.push((name.to_owned(), what));
    }

    /// What is in scope now, to come back to.
    pub fn mark(&self) -> (usize, u16) {
        (self.names.len(), self.variables)
    }

    /// Forgets what was added since the mark.
    pub fn back(&mut self, (names, variables): (usize, u16)) {
        self.names.truncate(names);
        self.variables = variables;
    }

    /// What a name stands for.
    pub fn find(&self, name: &str) -> Option<&Local> {
        self.names.iter().rev().find(|(known, _)| known == name).map(|(_, what)| what)
    }

    /// From inside another local function, the one around it can be neither called nor sent. Gives back
    /// what was hidden, for [`show`](Scope::show).
    pub fn hide(&mut self) -> Vec<(usize, Local)> {
        let mut hidden = Vec::new();
        for (at, (_, what)) in self.names.iter_mut().enumerate() {
            if matches!(what, Local::Itself(_)) {
                hidden.push((at, std::mem::replace(what, Local::Beyond)));
            }
        }
        hidden
    }

    /// Brings back what was hidden.
    pub fn show(&mut self, hidden: Vec<(usize, Local)>) {
        for (at, what) in hidden {
            if let Some(entry) = self.names.get_mut(at) {
                entry.1 = what;
            }
        }
    }

    /// The local names, to suggest one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }
}
