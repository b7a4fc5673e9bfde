//! What a configuration means on this host: which interfaces its ports are at, which keys its files have. Example: `anode
//! node check` plans a file and says what it found; `anode node run` gives the same plan to `assemble_planned`, which opens
//! ports by it. Nothing is opened or changed here.

use super::crew::Room;
use super::follow::choice::Choices;
use crate::config::environments::Environment;
use crate::config::{NodeFile, Plan};
use crate::link::meter::LinkMeter;
use crate::node::NodeConfig;
use crate::node::proofs::Guard;
use crate::port::Opening;
use anyhow::Result;

/// What a configuration means on this host; with what it has in files of its own, which a node may not read any more later.
pub struct Planned {
    /// The node.
    pub config: NodeConfig,
    pub(super) plans: Vec<Plan>,
    /// At which of its ports the kernel half stands, where link and traffic decide.
    pub choices: Choices,
    /// Its environments.
    pub environments: Vec<Environment>,
    /// Its PLAN environment.
    pub plan: crate::ee::plan::Config,
    /// What its ports demand, and keys of neighbours.
    pub guard: Guard,
    pub(super) meters: Vec<Option<LinkMeter>>,
    /// Ports that say hello, and how often.
    pub(super) hellos: Vec<(usize, u16)>,
    /// The text of the configuration, for reports.
    pub text: String,
}

impl Planned {
    /// Reads all of it.
    pub fn of(file: &NodeFile) -> Result<Planned> {
        Planned::with(file, false)
    }

    /// The same for a node that has a helper or has none.
    pub fn with(file: &NodeFile, helped: bool) -> Result<Planned> {
        file.check_host(helped)?;
        let (config, mut plans) = file.plan()?;
        let choices = Choices::of(file, &mut plans);
        let environments = file.environments(&config.roles)?;
        let plan = file.plan_environment(&config)?;
        let guard = file.guard(&config, 0)?;
        let meters = file.meters()?;
        let hellos = file.hellos()?;
        let text = String::new();
        Ok(Planned { config, plans, choices, environments, plan, guard, meters, hellos, text })
    }

    /// What there is for workers here.
    pub fn room(&self) -> Room {
        Room::of(&self.plans)
    }

    /// How its ports are opened.
    pub fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.plans.iter().map(|plan| &plan.opening)
    }
}
