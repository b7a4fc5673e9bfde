//! PLAN in a simulated network: applications at PLAN ports, and messages on links.

use super::host::{Host, Inmate};
use super::run::Action;
use super::{SendError, Simulation};
use crate::code::extension::call_type::CallType;
use crate::ee::plan::wasm::WasmService;
use crate::ee::plan::{Seat, Wish};
use crate::trust::Moment;
use crate::wire::{anep, plan as wire};
use plan::packet::View;

/// A message for an application at a PLAN port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// When, in nanoseconds.
    pub at: u64,
    /// At which node.
    pub node: usize,
    /// The application's port.
    pub port: u64,
    /// The message: see `docs/plan.md`.
    pub message: Vec<u8>,
}

impl Told {
    /// What was printed, if it is that.
    pub fn printed(&self) -> Option<String> {
        let (kind, rest) = self.message.split_first()?;
        let printed = *kind == crate::ee::plan::message::PRINTED;
        printed.then(|| String::from_utf8_lossy(rest.get(8..).unwrap_or(&[])).into_owned())
    }
}

impl Simulation {
    /// An application attaches to a PLAN port of a node, to listen as `number` if that is not 0.
    pub fn attach_plan(&mut self, node: usize, number: u32) -> Option<Seat> {
        self.enter(node, |node, turn| node.attach_plan(turn, number).ok()).flatten()
    }

    /// A wasm module becomes a PLAN service of a node; the error says why it cannot be.
    pub fn load_service(&mut self, node: usize, name: &str, signature: &str, module: &[u8]) -> Result<(), String> {
        let signature = CallType::parse(signature)?;
        let service = Box::new(WasmService::load(module)?);
        let node = self.inmates.get_mut(node).and_then(Inmate::node_mut).ok_or("the node is down")?;
        node.load_service(name, signature, service)
    }

    /// The outside answers a node's PLAN environment.
    pub(super) fn grant(&mut self, at: usize, life: u32, wish: Wish) {
        let Host { config, life: now_lives, born, .. } = &self.world.hosts[at];
        if *now_lives != life {
            return;
        }
        match wish {
            Wish::Resolve(name) => {
                let addr = self.world.network.number(&name).map(|number| self.world.network.address(number));
                self.turn(at, |node, turn| node.resolved(turn, &name, addr));
            }
            Wish::Vouch(question, statement) => {
                let unix = |ns: u64| self.world.network.unix_s * super::SECOND + ns;
                let moment = Moment { now: unix(self.world.now), since: unix(*born) };
                let judged = config.roles.vouch(&config.name, moment, &statement).map_err(|why| why.to_string());
                self.turn(at, |node, turn| node.vouched(turn, question, judged));
            }
            Wish::Install(install) => {
                let brought = WasmService::named(&install.module, None);
                self.turn(at, |node, turn| node.installed(turn, install.digest, brought));
            }
            wish @ Wish::Graph(_) => drop(self.turn(at, |node, turn| node.wished_in_vain(turn, wish))),
        }
    }

    /// An application of a node is gone.
    pub fn detach_plan(&mut self, node: usize, port: u64) {
        self.enter(node, |node, _| node.detach_plan(port));
    }

    /// An application of a node injects a PLAN packet now.
    pub fn inject_plan(&mut self, node: usize, port: u64, bytes: &[u8]) -> Result<(), SendError> {
        let mut bytes = bytes.to_vec();
        let result = self.turn(node, |node, turn| node.inject_plan(turn, port, &mut bytes));
        result.unwrap_or(Ok(())).map_err(SendError::Refused)
    }

    /// The messages for applications at PLAN ports since the last call, in the order of time.
    pub fn take_plan(&mut self) -> Vec<Told> {
        core::mem::take(&mut self.world.told)
    }

    /// What was printed since the last call, in the order of time.
    pub fn take_printed(&mut self) -> Vec<String> {
        self.take_plan().iter().filter_map(Told::printed).collect()
    }

    /// PLAN packets on links, pieces of such aside: how many, and their bounds.
    pub fn plan_in_flight(&self) -> (usize, u64) {
        let mut sum = (0, 0);
        for action in self.world.queue.iter() {
            let Action::Arrive { node, frame } = action else { continue };
            let Some((anep::type_id::PLAN, message)) = self.world.anep_at(*node as usize, frame.port, frame.bytes())
            else {
                continue;
            };
            if let Ok(wire::Message::Packet(bytes)) = wire::Message::parse(message) {
                let bound = View::new_checked(bytes).map_or(0, |view| view.bound());
                sum = (sum.0 + 1, sum.1 + u64::from(bound));
            }
        }
        sum
    }
}
