//! The packets of a node as it tells of them, put together and named.

use super::{ClientError, Control};
use crate::core::bucket::TokenBucket;
use crate::seen::join::{Join, Seen};
use crate::seen::record::{Record, Records, Told};
use crate::seen::words::{Names, Naming as _, questions};
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a look at the connection lasts at most.
const PATIENCE: Duration = Duration::from_millis(50);

/// Beats that are waited for at the end, and looks at the connection meanwhile.
const LAST_BEATS: u64 = 3;
const LAST_LOOKS: usize = 1 << 10;

/// A node that is watched.
pub struct Watched {
    stream: BufReader<UnixStream>,
    /// What records say by number.
    pub names: Names,
    join: Join,
    buffer: Vec<u8>,
    since: Instant,
    /// Questions for names, by the time since then.
    questions: TokenBucket,
    /// How often the node has said what was missed, which it does many times a second.
    beats: u64,
    is_over: bool,
}

impl Watched {
    /// Behind the answer to the request.
    pub(super) fn begin(stream: BufReader<UnixStream>, names: Names) -> Result<Watched, ClientError> {
        stream.get_ref().set_read_timeout(Some(PATIENCE)).map_err(ClientError::Broken)?;
        let join = Join::new(names.ports.iter().map(|port| port.ethernet).collect());
        Ok(Watched {
            stream,
            names,
            join,
            buffer: Vec::new(),
            since: Instant::now(),
            questions: questions(),
            beats: 0,
            is_over: false,
        })
    }

    /// Takes what has come, or waits a moment for something; `each` is handed every record before.
    pub fn look(&mut self, mut each: impl FnMut(&Record<'_>)) -> Result<(), ClientError> {
        let mut more = [0; 1 << 16];
        match self.stream.read(&mut more) {
            Ok(0) => self.is_over = true,
            Ok(count) => self.buffer.extend_from_slice(&more[..count]),
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.is_over = true,
            Err(error) => return Err(ClientError::Broken(error)),
        }
        let mut records = Records::of(&self.buffer);
        for record in records.by_ref() {
            each(&record);
            self.beats += u64::from(matches!(record.what, Told::Missed(..)));
            self.join.take(&record);
        }
        if records.is_broken() {
            return Err(ClientError::Broken(io::Error::new(io::ErrorKind::InvalidData, "no record of packets")));
        }
        let rest = records.rest().len();
        self.buffer.drain(..self.buffer.len() - rest);
        Ok(())
    }

    /// Takes what the node has told until now, and what it has missed, as far as that comes soon.
    pub fn look_to_the_end(&mut self) -> Result<(), ClientError> {
        // The first of them may have been said long ago.
        let enough = self.beats + LAST_BEATS;
        for _ in 0..LAST_LOOKS {
            if self.beats >= enough || self.is_over {
                break;
            }
            self.look(|_| ())?;
        }
        Ok(())
    }

    /// The next frame whose story is whole. With `all`: or is not, as after the end.
    pub fn next(&mut self, all: bool) -> Option<Seen> {
        self.join.next(all || self.is_over)
    }

    /// Whether the node has gone.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Records missed so far, of both halves.
    pub fn missed(&self) -> u64 {
        let (worker, kernel) = self.join.missed();
        worker + kernel
    }

    /// Asks the node with this run directory for names, if one is missing for a packet; not too often.
    pub fn name(&mut self, dir: &Path, seen: &Seen) {
        let now = self.since.elapsed().as_nanos() as u64;
        // A node that goes down has said all names that it will.
        let ask = || Control::connect(dir).and_then(|mut control| control.names()).ok();
        self.names.renew(seen, (&mut self.questions, now), ask);
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
