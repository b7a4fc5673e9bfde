//! The rules of form of a code, such as "a call names an earlier function", and their consequences.

use super::{
    CodeError, DEFINITIONS_MAX, Definition, Expr, Facts, Kind, LOCALS_MAX, NESTING_MAX, OPERANDS_MAX, PARAMS_MAX,
    Target,
};

/// Checks every definition, then works out what each needs.
pub(super) fn check(definitions: &[Definition]) -> Result<Vec<Facts>, CodeError> {
    if definitions.len() > DEFINITIONS_MAX {
        return Err(CodeError::Limit);
    }
    let mut facts = Vec::with_capacity(definitions.len());
    for (position, definition) in (0..).zip(definitions) {
        let params = definition.params.unwrap_or(0);
        if usize::from(params) > PARAMS_MAX {
            return Err(CodeError::Limit);
        }
        let mut checker = Checker { definitions, position, needs: 1 << position };
        let nesting = checker.expr(&definition.body, params.into(), 1)?;
        facts.push(Facts { nesting, needs: checker.needs });
    }
    close(&mut facts);
    Ok(facts)
}

/// What is needed by what is needed, is needed: closes the relation (Warshall's algorithm on bit rows).
fn close(facts: &mut [Facts]) {
    for through in 0..facts.len() {
        let Some(row) = facts.get(through).map(|facts| facts.needs) else { break };
        for facts in facts.iter_mut() {
            if facts.needs >> through & 1 == 1 {
                facts.needs |= row;
            }
        }
    }
}

struct Checker<'a> {
    definitions: &'a [Definition],
    position: u16,
    needs: u128,
}

impl Checker<'_> {
    /// Checks an expression with `scope` variables at depth `depth`; how deep it nests.
    fn expr(&mut self, expr: &Expr, scope: u16, depth: u16) -> Result<u16, CodeError> {
        if depth > NESTING_MAX || scope > LOCALS_MAX {
            return Err(CodeError::Limit);
        }
        let inside = expr.kind.inside();
        if inside.len() > OPERANDS_MAX {
            return Err(CodeError::Limit);
        }
        match &expr.kind {
            Kind::Hole => return Err(CodeError::Form),
            Kind::Local(variable) if *variable >= scope => return Err(CodeError::Scope),
            Kind::Val(value) => self.value(*value)?,
            Kind::Item(0, _) => return Err(CodeError::Form),
            Kind::Tuple(items) | Kind::Sequence(items) if items.len() < 2 => return Err(CodeError::Form),
            Kind::Exn(name) | Kind::Service(name) | Kind::Try(Some(name), _) if name.is_none() => {
                return Err(CodeError::BadName);
            }
            Kind::Call(target, arguments) => self.target(target, arguments.len(), true)?,
            Kind::Chunk(target, arguments) => self.target(target, arguments.len(), false)?,
            Kind::Fold(_, target, arguments) => {
                let captures = matches!(target, Target::Function(_)) || arguments.len() == 2;
                if arguments.len() < 2 || !captures {
                    return Err(CodeError::Form);
                }
                self.target(target, arguments.len(), true)?;
            }
            Kind::Send(primitive, operands) if !primitive.operands().contains(&operands.len()) => {
                return Err(CodeError::Form);
            }
            _ => {}
        }
        let mut deepest = 0;
        for (at, inner) in inside.iter().enumerate() {
            deepest = deepest.max(self.expr(inner, scope + expr.kind.binds(at), depth + 1)?);
        }
        Ok(deepest + 1)
    }

    fn value(&mut self, value: u16) -> Result<(), CodeError> {
        let found = self.definitions.get(usize::from(value)).filter(|_| value < self.position);
        if found.is_none_or(|definition| definition.params.is_some()) {
            return Err(CodeError::NoValue);
        }
        self.needs |= 1 << value;
        Ok(())
    }

    fn target(&mut self, target: &Target, arguments: usize, called: bool) -> Result<(), CodeError> {
        match target {
            Target::Service(name) if name.is_none() => Err(CodeError::BadName),
            Target::Service(_) => Ok(()),
            Target::Function(function) => {
                let found = self.definitions.get(usize::from(*function)).and_then(|definition| definition.params);
                let params = found.ok_or(CodeError::NoFunction)?;
                if called && *function >= self.position {
                    return Err(CodeError::NotEarlier);
                }
                if usize::from(params) != arguments {
                    return Err(CodeError::Arity);
                }
                self.needs |= 1 << *function;
                Ok(())
            }
        }
    }
}
