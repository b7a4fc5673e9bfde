//! Services loaded while the node runs. The service itself is behind [`LoadedService`]; its type ([`CallType`]) says what is handed to it,
//! and what it may give, so it can do no harm to evaluation.

use super::PlanOs;
use super::evaluate::{At, raise};
use crate::code::extension::call_type::{CallType, Unfit};
use crate::code::extension::instance::CallFailure;
use plan::eval::{self, Builtin, Fault};
use plan::name::Name;
use plan::value::Value;

/// Services that can be loaded.
pub const SERVICES_MAX: usize = 64;

/// Fuel for one step of evaluation.
const FUEL_PER_STEP: u64 = 8;

/// The name of a service that may be loaded.
pub(super) fn service(name: &str) -> Result<Name, String> {
    let name = Name::new(name).filter(|name| !name.is_none()).ok_or_else(|| format!("'{name}' is no name"))?;
    if !matches!(name.meaning(), None | Some(plan::name::Core::Service(_))) || Builtin::of(&name).is_some() {
        return Err(format!("{name} cannot be a service of this node"));
    }
    Ok(name)
}

/// What a loaded service does.
pub trait LoadedService: Send {
    /// Takes the arguments out of `exchange` and puts the result in; gives how much fuel that took. What it raises is an exception: -1
    /// `NotFound`, -2 `Refused`, -3 `BadHost`, -4 `TooBig`, others `BadService`.
    fn call(&mut self, now: u64, random: u64, fuel: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64);
}

/// A service that was loaded.
pub(super) struct Loaded {
    pub name: Name,
    signature: CallType,
    service: Box<dyn LoadedService>,
    /// Where arguments and results are meanwhile.
    exchange: Vec<u8>,
}

impl Loaded {
    pub fn new(name: Name, signature: CallType, service: Box<dyn LoadedService>) -> Loaded {
        Loaded { name, signature, service, exchange: Vec::new() }
    }

    /// Calls it with so many steps; what it gives, and how many it took.
    pub fn call(&mut self, env: &mut dyn PlanOs, given: &[Value], steps: u32) -> (eval::Result<Value>, u32) {
        let (now, random) = (env.now(), env.random());
        let Loaded { signature, service, exchange, .. } = self;
        exchange.clear();
        if let Err(unfit) = signature.write(given, exchange) {
            let fault = if unfit == Unfit::Count { Fault::Arity } else { Fault::Type("service") };
            return (Err(fault.into()), 0);
        }
        let (result, taken) = service.call(now, random, u64::from(steps) * FUEL_PER_STEP, exchange);
        let bad = || raise(const { Name::known("BadService") });
        let result = match result {
            Ok(()) => signature.read(exchange).ok_or_else(bad),
            Err(CallFailure::Fuel) => Err(Fault::Steps.into()),
            Err(CallFailure::TooBig | CallFailure::Raised(-4)) => Err(raise(const { Name::known("TooBig") })),
            Err(CallFailure::Raised(-1)) => Err(raise(const { Name::known("NotFound") })),
            Err(CallFailure::Raised(-2)) => Err(raise(const { Name::known("Refused") })),
            Err(CallFailure::Raised(-3)) => Err(raise(const { Name::known("BadHost") })),
            Err(_) => Err(bad()),
        };
        (result, u32::try_from(taken / FUEL_PER_STEP).unwrap_or(u32::MAX))
    }
}

impl At<'_> {
    /// Calls the loaded service with this number.
    pub(super) fn call_loaded(
        &mut self,
        number: usize,
        given: &[Value],
        state: &mut eval::State<'_>,
    ) -> eval::Result<Value> {
        let Some(loaded) = self.loaded.get_mut(number) else { return Err(raise(Name::SERVICE_NOT_PRESENT)) };
        let (result, taken) = loaded.call(&mut *self.env, given, state.steps);
        state.steps = state.steps.saturating_sub(taken);
        result
    }
}
