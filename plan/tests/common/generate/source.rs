//! Correct source texts: every expression is made for the wanted type.

use super::Choices;

#[derive(Clone, Debug, PartialEq)]
enum Type {
    Unit,
    Int,
    Bool,
    Text,
    Char,
    Host,
    Exn,
    List(Box<Type>),
    Pair(Box<[Type; 2]>),
    Chunk(Box<Type>),
}

struct Function {
    name: String,
    params: Vec<Type>,
    result: Type,
}

struct Generator<'a, 'b> {
    choices: &'a mut Choices<'b>,
    functions: Vec<Function>,
    values: Vec<(String, Type)>,
    locals: Vec<(String, Type)>,
    names: usize,
}

/// A program with a function `main` without parameters.
pub fn source(choices: &mut Choices<'_>) -> String {
    let mut generator = Generator { choices, functions: vec![], values: vec![], locals: vec![], names: 0 };
    let mut text = String::from("exception Own\nsvc boom : int -> unit svc twice : int -> int\n");
    for _ in 0..generator.choices.below(5) {
        text += &generator.definition(true, 0);
    }
    let kind = generator.kind(0);
    let body = generator.expr(&kind, 0);
    text + &format!("fun main() = {body}\n")
}

impl Generator<'_, '_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn kind(&mut self, depth: usize) -> Type {
        let inner = |this: &mut Self| Box::new(this.kind(depth + 1));
        match self.choices.below(if depth > 2 { 7 } else { 12 }) {
            0 | 1 => Type::Int,
            2 => Type::Bool,
            3 => Type::Text,
            4 => Type::Unit,
            5 => Type::Host,
            6 => self.choices.of(&[Type::Char, Type::Exn]),
            7 | 8 => Type::List(inner(self)),
            9 | 10 => Type::Pair(Box::new([self.kind(depth + 1), self.kind(depth + 1)])),
            _ => Type::Chunk(inner(self)),
        }
    }

    /// A definition of a function or value; local ones see the variables around them.
    fn definition(&mut self, top: bool, depth: usize) -> String {
        if self.choices.below(3) == 0 {
            let (name, kind) = (self.fresh("v"), self.kind(1));
            let value = self.expr(&kind, depth);
            if top {
                self.values.push((name.clone(), kind))
            } else {
                self.locals.push((name.clone(), kind))
            }
            return format!("val {name} = {value}\n");
        }
        let name = self.fresh("f");
        let params: Vec<Type> = (0..self.choices.below(3)).map(|_| self.kind(1)).collect();
        let result = self.kind(1);
        let locals = if top { std::mem::take(&mut self.locals) } else { self.locals.clone() };
        let mut written = Vec::new();
        for param in &params {
            let param_name = self.fresh("x");
            written.push(format!("{param_name} : {}", text(param)));
            self.locals.push((param_name, param.clone()));
        }
        let mut body = self.expr(&result, depth + 1);
        match self.choices.below(4) {
            0 => body = format!("(if {} then raise Own else {body})", self.expr(&Type::Bool, depth + 4)),
            1 => body = format!("(boom({}); {body})", self.leaf(&Type::Int)),
            _ => {}
        }
        self.locals = locals;
        let definition = format!("fun {name}({}) : {} = {body}\n", written.join(", "), text(&result));
        self.functions.push(Function { name, params, result });
        definition
    }

    fn expr(&mut self, kind: &Type, depth: usize) -> String {
        if depth > 6 || self.choices.is_done() {
            return self.leaf(kind);
        }
        let deeper = depth + 1;
        match self.choices.below(12) {
            0 | 1 => self.leaf(kind),
            2 => {
                let condition = self.expr(&Type::Bool, deeper);
                format!("(if {condition} then {} else {})", self.expr(kind, deeper), self.expr(kind, deeper))
            }
            3 => {
                let first = match self.choices.below(3) {
                    0 => {
                        let first = self.kind(2);
                        self.expr(&first, deeper)
                    }
                    _ => self.send(deeper),
                };
                format!("({first}; {})", self.expr(kind, deeper))
            }
            4 => self.let_(kind, deeper),
            5 => self.try_(kind, deeper),
            6 => {
                let pair = self.kind(2);
                let pair = Type::Pair(Box::new([kind.clone(), pair]));
                format!("(fst {})", self.operand(&pair, deeper))
            }
            7 => {
                let list = Type::List(Box::new(kind.clone()));
                format!("(hd {})", self.operand(&list, deeper))
            }
            8 | 9 => self.call(kind, deeper),
            10 => {
                let chunk = Type::Chunk(Box::new(kind.clone()));
                format!("eval({})", self.expr(&chunk, deeper))
            }
            _ => self.own(kind, deeper),
        }
    }

    fn operand(&mut self, kind: &Type, depth: usize) -> String {
        format!("({})", self.expr(kind, depth))
    }

    fn leaf(&mut self, kind: &Type) -> String {
        let known: Vec<_> = self.values.iter().chain(&self.locals).filter(|(_, known)| known == kind).collect();
        let known: Vec<String> = known.into_iter().map(|(name, _)| name.clone()).collect();
        if !known.is_empty() && self.choices.below(4) > 0 {
            return self.choices.of(&known);
        }
        match kind {
            Type::Unit => "()".into(),
            Type::Int => self.choices.of(&["1", "0", "2", "~3", "getRB()", "9223372036854775807"]).into(),
            Type::Bool => self.choices.of(&["true", "false"]).into(),
            Type::Text => self.choices.of(&["\"\"", "\"a\\n\"", "\"longer text, longer than sixteen\""]).into(),
            Type::Char => self.choices.of(&["'a'", "'\\''", "'\\255'"]).into(),
            Type::Host => self.choices.of(&["getSource()", "hd thisHost()"]).into(),
            Type::Exn => self.choices.of(&["Own", "DivByZero", "NotEnoughRB"]).into(),
            Type::List(inner) => match self.choices.below(3) {
                0 => "[]".into(),
                _ => format!("[{}; {}]", self.leaf(inner), self.leaf(inner)),
            },
            Type::Pair(both) => format!("({}, {})", self.leaf(&both[0]), self.leaf(&both[1])),
            Type::Chunk(inner) => self.small_chunk(inner),
        }
    }

    fn let_(&mut self, kind: &Type, depth: usize) -> String {
        let (locals, functions) = (self.locals.clone(), self.functions.len());
        let mut definitions = String::new();
        for _ in 0..1 + self.choices.below(2) {
            definitions += &self.definition(false, depth);
        }
        let body = self.expr(kind, depth);
        self.locals = locals;
        self.functions.truncate(functions);
        format!("(let {definitions} in {body} end)")
    }

    fn try_(&mut self, kind: &Type, depth: usize) -> String {
        let body = match self.choices.below(3) {
            0 => {
                let exn = self.leaf(&Type::Exn);
                let exn = if exn.contains(['(', '"']) { "Own".into() } else { exn };
                format!("(if {} then raise {exn} else {})", self.expr(&Type::Bool, depth), self.expr(kind, depth))
            }
            1 if !self.functions.is_empty() => {
                let at = self.choices.below(self.functions.len());
                let (name, params) = (self.functions[at].name.clone(), self.functions[at].params.clone());
                format!("({name}({}); {})", self.arguments(&params, depth), self.expr(kind, depth))
            }
            _ => self.expr(kind, depth),
        };
        let name = self.choices.of(&["Own", "any", "EmptyList"]);
        if name == "any" {
            self.locals.push(("any".into(), Type::Exn));
        }
        let handler = self.expr(kind, depth);
        if name == "any" {
            self.locals.pop();
        }
        format!("(try {body} handle {name} => {handler})")
    }

    fn arguments(&mut self, params: &[Type], depth: usize) -> String {
        let arguments: Vec<_> = params.iter().map(|param| self.expr(param, depth)).collect();
        arguments.join(", ")
    }

    /// A function that gives this type, by name and parameters.
    fn function(&mut self, kind: &Type) -> Option<(String, Vec<Type>)> {
        let fitting = self.functions.iter().filter(|function| function.result == *kind);
        let fitting: Vec<_> = fitting.map(|function| (function.name.clone(), function.params.clone())).collect();
        (!fitting.is_empty()).then(|| self.choices.of(&fitting))
    }

    fn call(&mut self, kind: &Type, depth: usize) -> String {
        match self.function(kind) {
            Some((name, params)) => format!("{name}({})", self.arguments(&params, depth)),
            None => self.leaf(kind),
        }
    }

    fn chunk(&mut self, kind: &Type, depth: usize) -> String {
        match self.function(kind) {
            Some((name, params)) => format!("|{name}|({})", self.arguments(&params, depth)),
            None => self.small_chunk(kind),
        }
    }

    /// A chunk whose arguments are no chunks, so that making it ends.
    fn small_chunk(&mut self, kind: &Type) -> String {
        let chunk = match kind {
            Type::Unit => return format!("|print|({})", self.leaf(&Type::Int)),
            Type::Int => return format!("|twice|({})", self.leaf(&Type::Int)),
            other => Type::Chunk(Box::new(other.clone())),
        };
        // `eval` of a chunk that is there; else a fault of arithmetic, which has any type.
        match self.locals.iter().find(|(_, known)| *known == chunk) {
            Some((name, _)) => format!("|eval|({name})"),
            None => "(if 1 / 0 = 1 then raise Own else raise Own)".into(),
        }
    }

    /// Operators that give this type.
    fn own(&mut self, kind: &Type, depth: usize) -> String {
        match kind {
            Type::Int => {
                let operator = self.choices.of(&["+", "-", "*", "/", "%", "<<", ">>", "andi", "ori", "xori"]);
                match self.choices.below(5) {
                    0 => format!("length({})", self.expr(&Type::List(Box::new(Type::Bool)), depth)),
                    1 => format!("(ord {})", self.operand(&Type::Char, depth)),
                    2 => self.fold(depth),
                    _ => {
                        format!("({} {operator} {})", self.operand(&Type::Int, depth), self.operand(&Type::Int, depth))
                    }
                }
            }
            Type::Bool => {
                let operator = self.choices.of(&["=", "<>", "and", "or", "<"]);
                let side = match operator {
                    "=" | "<>" => self.kind(1),
                    "<" => Type::Int,
                    _ => Type::Bool,
                };
                format!("({} {operator} {})", self.operand(&side, depth), self.operand(&side, depth))
            }
            Type::Text => {
                format!(
                    "({} ^ implode {})",
                    self.operand(kind, depth),
                    self.operand(&Type::List(Box::new(Type::Char)), depth)
                )
            }
            Type::Char => format!("(chr {})", self.operand(&Type::Int, depth)),
            Type::List(inner) if **inner == Type::Char && self.choices.below(2) == 0 => {
                format!("(explode {})", self.operand(&Type::Text, depth))
            }
            Type::List(inner) => format!("({} :: {})", self.operand(inner, depth), self.operand(kind, depth)),
            Type::Pair(both) => format!("({}, {})", self.expr(&both[0], depth), self.expr(&both[1], depth)),
            Type::Chunk(inner) => self.chunk(inner, depth),
            Type::Unit => self.send(depth),
            Type::Host => format!("(fst defaultRoute({}))", self.expr(kind, depth)),
            Type::Exn => self.leaf(kind),
        }
    }

    /// A fold of a local function that uses what is around it.
    fn fold(&mut self, depth: usize) -> String {
        let (name, list) = (self.fresh("g"), self.expr(&Type::List(Box::new(Type::Int)), depth));
        let start = self.expr(&Type::Int, depth);
        self.locals.push(("sum".into(), Type::Int));
        self.locals.push(("each".into(), Type::Int));
        let body = self.expr(&Type::Int, depth);
        self.locals.truncate(self.locals.len() - 2);
        match self.choices.below(2) {
            0 => format!("(let fun {name}(sum, each) = {body} + sum * 0 + each in foldl({name}, {start}, {list}) end)"),
            _ => format!("(let fun {name}(each, sum) = {body} + sum * 0 + each in foldr({name}, {list}, {start}) end)"),
        }
    }

    fn send(&mut self, depth: usize) -> String {
        let known: Vec<_> = self.functions.iter().map(|function| function.result.clone()).collect();
        let kind = self.choices.of(&[&known[..], &[Type::Unit, Type::Int]].concat());
        let chunk = self.chunk(&kind, depth);
        let (host, bound) = (self.expr(&Type::Host, depth), self.leaf(&Type::Int));
        match self.choices.below(6) {
            0 => format!("OnRemote({chunk}, {host}, {bound}, defaultRoute)"),
            1 => format!("OnNeighbor({chunk}, {host}, {bound})"),
            2 => format!("OnNeighbor({chunk}, {host}, {bound}, snd defaultRoute({host}))"),
            3 => format!("RetransOnRemote({chunk}, {host}, {bound}, RIP, 2, 100)"),
            4 => format!("abort({chunk})"),
            _ => format!("boom({bound})"),
        }
    }
}

fn text(kind: &Type) -> String {
    match kind {
        Type::Unit => "unit".into(),
        Type::Int => "int".into(),
        Type::Bool => "bool".into(),
        Type::Text => "string".into(),
        Type::Char => "char".into(),
        Type::Host => "host".into(),
        Type::Exn => "exn".into(),
        Type::List(inner) => format!("({}) list", text(inner)),
        Type::Pair(both) => format!("(({}) * ({}))", text(&both[0]), text(&both[1])),
        Type::Chunk(inner) => format!("({}) chunk", text(inner)),
    }
}
