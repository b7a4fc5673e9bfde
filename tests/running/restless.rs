//! Somebody who has the environments of a node run by worker after worker, again and again, while tests go on as if nothing was.
#![allow(dead_code, reason = "each test program uses its part")]

use crate::pace::Pace;
use anode::manage::client::Control;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two moves, at least.
const GAP: Duration = Duration::from_millis(2);

/// The mover; it ends when it goes.
pub struct Restless {
    pace: Arc<Pace>,
    moves: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Restless {
    /// Moves what there is at the node with this run directory.
    pub fn start(dir: &Path) -> Restless {
        let (pace, dir) = (Arc::new(Pace::apart(GAP)), dir.to_owned());
        let (paced, moves) = (pace.clone(), Arc::<AtomicU64>::default());
        let counted = moves.clone();
        let work = move || {
            let mut control = None;
            paced.run(|_| {
                // The node closes what has asked for long, and goes down in the end.
                let Some(asked) = control.take().or_else(|| Control::connect(&dir).ok()) else { return };
                let mut asked: Control = asked;
                let Ok(all) = asked.ask(&json!({"do": "domains"})) else { return };
                for (domain, worker) in first_domains(&all) {
                    // It may have ended meanwhile.
                    let wanted = json!({"do": "move-domain", "domain": domain, "worker": 1 - worker});
                    counted.fetch_add(asked.ask(&wanted).is_ok().into(), Ordering::Relaxed);
                }
                control = Some(asked);
            });
        };
        Restless { pace, moves, thread: Some(std::thread::spawn(work)) }
    }

    /// How many moves there were so far.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Ends, and says how many moves there were.
    pub fn end(mut self) -> u64 {
        self.pace.stop();
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
        self.moves()
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        self.pace.stop();
        // One that panicked has said so.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Number and worker of the first domain of each environment.
fn first_domains(all: &Value) -> Vec<(u64, u64)> {
    let list = all["domains"].as_array().unwrap();
    let own: Vec<_> =
        list.iter().filter(|it| ["node", "management"].contains(&it["title"].as_str().unwrap())).collect();
    let is_first = |it: &&Value| own.iter().any(|above| above["id"] == it["parent"]);
    list.iter().filter(is_first).filter_map(|it| Some((it["id"].as_u64()?, it["worker"].as_u64()?))).collect()
}
