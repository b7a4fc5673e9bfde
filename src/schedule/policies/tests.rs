//! A new scheduler in one file and one row: `meek` runs the lowest priority first. All that goes through every policy in
//! the tests of this folder goes through it too.

use super::*;
use crate::config::cpu::CpuFile;
use crate::schedule::PathScheduler;
use crate::schedule::class::{Uses, WAITS};

pub(super) const CLASS: Class = Class {
    name: "meek",
    runs: "the lowest priority that has work",
    grants: &["priority"],
    uses: Uses { levels: 256, ..WAITS },
};

pub(super) fn place(flow: &Flow) -> Place {
    Place::Level(flow.priority)
}

pub(super) fn next(queues: &mut Queues, _: u64) -> Option<u32> {
    queues.next_level()
}

#[test]
fn a_scheduler_is_one_file_and_one_row() {
    let CpuFile { scheduler, .. } = toml::from_str("scheduler = \"meek\"").unwrap();
    let policy = scheduler.unwrap();
    let mut scheduler = PathScheduler::new(policy);
    for (flow, priority) in [9, 3, 200].into_iter().enumerate() {
        assert!(scheduler.enter(flow, Share { priority, ..Share::default() }, 0));
        scheduler.wake(flow, 0);
    }
    assert_eq!([0; 4].map(|_| scheduler.next(0)), [Some(1), Some(0), Some(2), None]);
    assert!(policy.waits() && "none".parse::<Policy>().unwrap_err().ends_with("bert, meek"));
}

#[test]
fn the_page_of_the_interface_has_a_row_for_each() {
    let page = include_str!("../../../docs/nodeos.md");
    let shipped = Policy::ALL.into_iter().filter(|policy| policy.name() != CLASS.name);
    let table = format!("|---|---|---|\n{}\n", shipped.map(Policy::row).collect::<String>());
    assert!(page.contains(&table), "docs/nodeos.md has another table than:\n{table}");
}
