//! A connection that is told what happens to packets: `{"do":"watch"}`.
//!
//! The answer is a line as others are, with the names of what records say by number. Behind it come records ([`crate::seen::record`]) until
//! the other end goes or the node does. The thread of the connection writes them, so whoever reads slowly misses some, which is counted,
//! and holds up nobody.

use super::Handle;
use super::answers::line;
use super::places::Place;
use super::serving::{refuse, say};
use crate::manage::watching::{LOOK, Watch};
use model::Answer;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Between two records that say the time, if nothing else is said.
const BEAT: Duration = Duration::from_millis(50);

/// Tells until there is nobody to be told.
pub(super) fn serve(place: &Place, handle: &Handle, one_in: u32) -> io::Result<()> {
    let connection = &*place.stream;
    let begun = match &handle.watching {
        Some(watching) => watching.begin(handle, one_in).and_then(|watch| Ok((watch, watching.names(handle)?))),
        None => Err("this node cannot be watched".into()),
    };
    match begun {
        Ok((watch, names)) => {
            say(connection, line(&Answer::Ok(names)))?;
            tell(place, watch)
        }
        Err(why) => {
            refuse(connection, &why);
            Ok(())
        }
    }
}

fn tell(place: &Place, mut watch: Watch) -> io::Result<()> {
    let (mut bytes, mut beat) = (Vec::new(), Instant::now());
    loop {
        let is_over = watch.is_over();
        bytes.clear();
        let more = watch.hear(&mut bytes, beat.elapsed() >= BEAT);
        if !bytes.is_empty() {
            beat = Instant::now();
            place.stream.as_ref().write_all(&bytes)?;
        }
        if place.is_hung_up() || is_over && !more {
            return Ok(());
        }
        if !more {
            std::thread::sleep(LOOK);
        }
    }
}
