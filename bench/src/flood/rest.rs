//! Work that the kernel still does for routers that have ended.
//!
//! A node leaves thousands of programs and maps behind, which the kernel's workers free later: up to a thousand of them at once, each of
//! which takes the CPU from what is measured next. Nothing says when they are done, so they are watched.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::report::Report;

/// The time between two looks, a few times what work takes to come to a worker.
const LOOK: Duration = Duration::from_millis(20);
/// So many looks in a row must find no more than so many workers at work; one may serve others than us.
const LOOKS: u32 = 4;
const OTHERS: usize = 1;
/// After this time what is measured is measured beside them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the kernel's workers rest; a note says so if they do not.
pub(crate) fn rest(report: &mut Report) {
    let limit = Instant::now() + PATIENCE;
    let mut resting = 0;
    while resting < LOOKS {
        if Instant::now() > limit {
            report.note(
                "The kernel's workers were busy for a minute after a round: what came then was measured beside them.",
            );
            return;
        }
        sleep(LOOK);
        resting = if working() > OTHERS { 0 } else { resting + 1 };
    }
}

/// Workers of the kernel that run or wait for each other.
fn working() -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| is_working(stat)).count()
}

/// Whether a line of /proc/PID/stat is of a worker at work: number, name in parentheses, state.
fn is_working(stat: &str) -> bool {
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    stat.contains("(kworker/") && state.is_some_and(|state| state.starts_with(['R', 'D']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_at_work_or_not() {
        assert!(is_working("12 (kworker/1:3+events) D 2 0 0"));
        assert!(is_working("12 (kworker/u8:0) R 2 0 0"));
        assert!(!is_working("12 (kworker/1:3-events) I 2 0 0"));
        assert!(!is_working("12 (anode (kworker) x) R 2 0 0"));
        assert!(!is_working("12 (rustc) D 2 0 0"));
        assert!(!is_working(""));
    }
}
