//! Services that come in packets: modules that become services of the node, as with `anode plan load-service`.
//!
//! Only principals whose role lists `installServices` see it. Modules say themselves what they are; they are compiled
//! by the outside, one after the other, while the packet waits.

use super::super::evaluate::{At, raise};
use super::super::outside::Install;
use super::super::work;
use super::{Given, wrong};
use crate::wire::Digest;
use plan::eval::{Fault, State, spend};
use plan::name::Name;
use plan::value::Value;

pub fn install(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [Value::List(modules)] = given else { return wrong(super::INSTALL) };
    for module in modules.iter() {
        let Value::Blob(module) = module else { return wrong(super::INSTALL) };
        spend(&mut state.steps, work::writing(module.len()))?;
        let digest = Digest::of(module);
        match at.state.installs.outcome(at.env.now(), &digest) {
            Some(Some(name)) if at.loaded.iter().any(|loaded| loaded.name.as_str() == name) => {}
            Some(None) => return Err(raise(const { Name::known("BadService") })),
            _ => {
                at.state.installs.wanted = Some(Box::new(Install { module: module.clone(), digest }));
                return Err(Fault::Wait.into());
            }
        }
    }
    Ok(Value::Unit)
}
