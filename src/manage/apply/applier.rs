//! The way to the thread that applies configurations: wishes of operators, and of hang-ups.
//!
//! While one changes the configuration, another who wishes to is refused and told who it is. A hang-up is never refused: the file is read
//! when its turn comes, so what it says then holds afterwards, however many hang-ups there were.

use super::wish::{Done, Fulfils, Reply, Standing, Wish};
use crate::sys::lock::lock;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What is said when nobody is left who could do something.
const GOING_DOWN: &str = "the node is going down";

/// What a wish has come to.
pub(super) type Answer = Result<Done, String>;

/// The way to the thread that applies configurations.
pub struct Applier {
    tasks: Mutex<Sender<Task>>,
    shared: Shared,
}

/// What the thread and those who wish share.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// Whose task is being done.
    pub at_it: Arc<Mutex<Option<String>>>,
    pub board: Arc<Mutex<Board>>,
    /// Who is told when the file has been read again: all whose wish came before it was.
    pub rereading: Arc<Mutex<Vec<Reply>>>,
}

/// What is to be done, and who is told.
pub(super) struct Task {
    pub wish: Wish,
    pub who: String,
    /// Of the file that is to be read again all are told who wait for that.
    pub reply: Option<Reply>,
}

/// What others see.
#[derive(Default)]
pub(super) struct Board {
    pub standing: Standing,
    pub deadline: Option<Instant>,
}

impl Applier {
    /// One of a thread that takes these tasks.
    pub(super) fn over(tasks: Sender<Task>, shared: Shared) -> Applier {
        Applier { tasks: Mutex::new(tasks), shared }
    }
}

impl Fulfils for Applier {
    fn fulfil(&self, wish: Wish, who: &str) -> Answer {
        let (reply, answer) = channel();
        // Whoever asked may have gone away meanwhile.
        self.begin(wish, who, Box::new(move |done| drop(reply.send(done))))?;
        answer.recv().map_err(|_| GOING_DOWN.to_owned())?
    }

    fn begin(&self, wish: Wish, who: &str, reply: Reply) -> Result<(), String> {
        if wish == Wish::Reread {
            return self.reread(who, reply);
        }
        let mut at_it = lock(&self.shared.at_it);
        // Who only looks waits for his turn.
        if wish.change().is_some() {
            if let Some(other) = &*at_it {
                lock(&self.shared.board).standing.refused += 1;
                return Err(format!("{other} changes the configuration right now; look at it, then ask again"));
            }
            *at_it = Some(who.to_owned());
        }
        lock(&self.tasks)
            .send(Task { wish, who: who.to_owned(), reply: Some(reply) })
            .map_err(|_| GOING_DOWN.to_owned())
    }

    fn standing(&self) -> Standing {
        let board = lock(&self.shared.board);
        let left = board.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).as_millis());
        Standing { unconfirmed_ms: left.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)), ..board.standing.clone() }
    }
}

impl Applier {
    /// What the file says may be newer than what is being applied: so it is read when that is done, once for all who have
    /// wished it by then.
    fn reread(&self, who: &str, reply: Reply) -> Result<(), String> {
        let mut waiting = lock(&self.shared.rereading);
        waiting.push(reply);
        if waiting.len() > 1 {
            return Ok(());
        }
        let task = Task { wish: Wish::Reread, who: who.to_owned(), reply: None };
        lock(&self.tasks).send(task).map_err(|_| GOING_DOWN.to_owned())
    }
}
