//! `[cpu]`: the node's share of a CPU. It is carried out in `manage/cpu.rs`.

use crate::frame::WorkerId;
use crate::schedule::{Policy, WEIGHT_MAX};
use crate::sys::threads::WORKERS_MAX;
use serde::{Deserialize, Serialize};

/// The longest time after which a worker that does not come round hangs, in seconds.
pub const HANG_S_MAX: u32 = 3600;

/// `[cpu]` of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuFile {
    /// How the CPU is divided among domains; by weight if nothing is said.
    pub scheduler: Option<Policy>,
    /// What the worker may use of one CPU, in the long run; the rest is the system's.
    pub share: f64,
    /// Whether it runs before all ordinary threads, in memory that stays in RAM.
    pub realtime: bool,
    /// Among real-time threads: 1 to 99.
    pub priority: u8,
    /// Workers that move packets: how many, or as many as there are receive queues.
    pub workers: Workers,
    /// The CPUs that the worker may run on; none: any. Of several workers each has one, in this order, and the first again behind
    /// the last.
    #[serde(deserialize_with = "processors")]
    pub affinity: Vec<usize>,
    /// Seconds for which a worker may be at one round of its work, of which each takes milliseconds; a longer one is a hang, which ends
    /// the process. 0: nobody looks, as when somebody stops one thread in a debugger.
    pub hang_s: u32,
    /// What all capsules together have of it beside other environments, and all PLAN packets: by weight, as `weight` of a role.
    pub capsules_weight: u32,
    /// The same of PLAN.
    pub plan_weight: u32,
}

/// `[cpu] workers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One for each receive queue of the port with most, at most one for each processor that the node may use.
    #[default]
    Auto,
    /// So many.
    Count(WorkerId),
}

impl Serialize for Workers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Workers::Auto => serializer.serialize_str("auto"),
            Workers::Count(count) => serializer.serialize_u16(*count),
        }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Workers, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Count(i64),
            Word(String),
        }
        let not = || serde::de::Error::custom(format!("[cpu] workers: \"auto\", or from 1 to {WORKERS_MAX}"));
        match Written::deserialize(deserializer).map_err(|_| not())? {
            Written::Word(word) if word == "auto" => Ok(Workers::Auto),
            Written::Word(_) => Err(not()),
            Written::Count(count) => {
                let fits = WorkerId::try_from(count).ok().filter(|count| (1..=WORKERS_MAX).contains(count));
                fits.map(Workers::Count).ok_or_else(not)
            }
        }
    }
}

/// Numbers of processors.
fn processors<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let not = |number| serde::de::Error::custom(format!("[cpu] affinity: {number} is no processor: the first is 0"));
    let numbers = Vec::<i64>::deserialize(deserializer)?;
    numbers.into_iter().map(|number| usize::try_from(number).map_err(|_| not(number))).collect()
}

impl CpuFile {
    /// The same as one worker of several has it.
    pub fn of_worker(&self, id: WorkerId, workers: WorkerId) -> CpuFile {
        let own = self.affinity.get(usize::from(id) % self.affinity.len().max(1)).copied();
        let affinity = if workers > 1 { own.into_iter().collect() } else { self.affinity.clone() };
        CpuFile { affinity, ..self.clone() }
    }
}

impl Default for CpuFile {
    fn default() -> CpuFile {
        CpuFile {
            scheduler: None,
            share: 1.0,
            realtime: false,
            priority: 10,
            workers: Workers::Auto,
            affinity: Vec::new(),
            hang_s: 10,
            capsules_weight: 100,
            plan_weight: 100,
        }
    }
}

impl CpuFile {
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), String> {
        if !(0.001..=1.0).contains(&self.share) {
            return Err(format!("[cpu] share = {}: from 0.001 to 1, of one CPU", self.share));
        }
        if !(1..=99).contains(&self.priority) {
            return Err(format!("[cpu] priority = {}: from 1 to 99", self.priority));
        }
        if self.hang_s > HANG_S_MAX {
            return Err(format!("[cpu] hang_s = {}: from 0 to {HANG_S_MAX}; 0: nobody looks", self.hang_s));
        }
        for (name, weight) in [("capsules_weight", self.capsules_weight), ("plan_weight", self.plan_weight)] {
            if !(1..=WEIGHT_MAX).contains(&weight) {
                return Err(format!("[cpu] {name} = {weight}: from 1 to {WEIGHT_MAX}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(CpuFile::default().check().is_ok());
        for share in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(CpuFile { share, ..CpuFile::default() }.check().unwrap_err().contains("share"));
        }
        for weight in [0, WEIGHT_MAX + 1] {
            let (capsules, plan) = (
                CpuFile { capsules_weight: weight, ..CpuFile::default() },
                CpuFile { plan_weight: weight, ..CpuFile::default() },
            );
            assert!(capsules.check().unwrap_err().contains("capsules_weight"));
            assert!(plan.check().unwrap_err().contains("plan_weight"));
        }
        assert!(CpuFile { hang_s: HANG_S_MAX + 1, ..CpuFile::default() }.check().unwrap_err().contains("hang_s"));
        for priority in [0, 100] {
            assert!(CpuFile { priority, ..CpuFile::default() }.check().unwrap_err().contains("priority"));
        }
        assert!(toml::from_str::<CpuFile>("scheduler = \"round-robin\"").is_err());
        assert_eq!(toml::from_str::<CpuFile>("scheduler = \"bert\"").unwrap().scheduler, Some(Policy::Bert));
    }
}
