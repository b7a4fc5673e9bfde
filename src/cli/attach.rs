//! Commands of applications reach a node here: they find it, give it their code, and attach to it.

use crate::apps::{App, Attached, Error, Received};
use crate::code::bundle::Bundle;
use crate::manage::client::{Attachment, ClientError, Control, run_dir};
use crate::wire::capsule::Header;
use crate::wire::{Addr, Digest};
use anyhow::{Context as _, bail};
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The option that every application's command has.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The node to attach to, by name or run directory; not needed if one node runs here
    #[arg(long, value_name = "NAME|DIR")]
    node: Option<String>,
}

impl Place {
    /// Gives the node the application's code and attaches to `port` (0: any).
    pub(crate) fn attach(&self, app: &App, port: u16) -> anyhow::Result<(Seat, Digest)> {
        let bundle = app.bundle().context("the embedded application is broken; build anode again")?;
        self.attach_with(&bundle, port)
    }

    /// Gives the node a bundle and attaches to `port` (0: any).
    pub(crate) fn attach_with(&self, bundle: &Bundle, port: u16) -> anyhow::Result<(Seat, Digest)> {
        let code = Control::connect(&self.dir()?)?.add_code(bundle)?;
        Ok((self.seat(port)?, code))
    }

    /// Attaches to `port` (0: any).
    pub(crate) fn seat(&self, port: u16) -> anyhow::Result<Seat> {
        Ok(Seat { attachment: Attachment::attach(&self.dir()?, port)?, begin: Instant::now() })
    }

    pub(crate) fn dir(&self) -> anyhow::Result<PathBuf> {
        match &self.node {
            Some(node) => Ok(run_dir(node)),
            None => the_only_node(),
        }
    }
}

/// The run directory of the one node that runs here.
fn the_only_node() -> anyhow::Result<PathBuf> {
    let base = run_dir("any");
    let base = base.parent().unwrap_or(Path::new("/run/anode"));
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let mut running: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|dir| dir.join("control.sock").exists()).collect();
    running.sort();
    match running.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            bail!("no node runs below {}; start one (anode node run CONFIG.toml), or name one: --node", base.display())
        }
        several => {
            let name = |dir: &PathBuf| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let names: Vec<_> = several.iter().map(name).collect();
            bail!("several nodes run here ({}); say which: --node NAME", names.join(", "))
        }
    }
}

/// An application's place at a real node.
pub(crate) struct Seat {
    attachment: Attachment,
    begin: Instant,
}

impl Seat {
    /// A place at `port` (0: any) of the node with this run directory.
    pub(crate) fn at(dir: &Path, port: u16) -> Result<Seat, ClientError> {
        Ok(Seat { attachment: Attachment::attach(dir, port)?, begin: Instant::now() })
    }

    /// From now on what is received says also which capsules have ended at this node, as refusals.
    pub(crate) fn tell_ends(&mut self) -> anyhow::Result<()> {
        Ok(self.attachment.tell_ends()?)
    }

    /// Waits until the node has taken in what was sent; an error: it has refused something.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.attachment.settle().map_err(failure)
    }
}

impl Attached for Seat {
    fn address(&self) -> Addr {
        self.attachment.address()
    }

    fn port(&self) -> u16 {
        self.attachment.port()
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error> {
        self.attachment.send(header, payload).map_err(failure)
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, Error> {
        self.attachment.receive(timeout).map_err(failure)
    }
}

fn failure(error: ClientError) -> Error {
    match error {
        ClientError::Refused(why) => Error::Refused(why),
        ClientError::NotRunning(_, error) | ClientError::Broken(error) => Error::Gone(error.to_string()),
    }
}

/// Says where to look when nothing has come back from there.
pub(crate) fn say_nothing_came(to: Addr) {
    crate::say!("nothing came back; status of each node on the way says why: anode node status NODE, its lines drop");
    crate::say!("where ports demand nothing, anode trace {to} shows how far it comes. With demand = [\"signed-code\"]");
    crate::say!(
        "neither passes, as nobody has signed them (drop unsigned): anode capsule send of signed code does; with"
    );
    crate::say!(
        "demand = [\"mac\"] nothing of a neighbour passes that has not the same key (unauthenticated, mac-forged)"
    );
}

/// A destination on the command line: an address, or a name that the host's resolver knows.
pub(crate) fn destination(text: &str) -> Result<Addr, String> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    let found =
        (text, 0).to_socket_addrs().map_err(|error| format!("neither an address nor a known name ({error})"))?;
    found.map(|found| Addr::from(found.ip())).next().ok_or_else(|| "a name without address".into())
}

/// A time on the command line, in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a time is a number of seconds, such as 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= Duration::from_secs(86_400) => Ok(time),
        _ => Err("a time is 0 to 86400 seconds".into()),
    }
}

/// A number that is not used twice, for telling runs apart.
pub(crate) fn token() -> u32 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) as u32
}

/// Milliseconds with microseconds behind the point.
pub(crate) fn ms(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_and_times_are_read_or_refused_with_a_reason() {
        assert_eq!(destination("10.0.0.3"), Ok(Addr::v4([10, 0, 0, 3])));
        assert!(destination("2001:db8::1").is_ok());
        assert!(destination("no such name").unwrap_err().contains("neither"));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(seconds("-1").is_err() && seconds("1e9").is_err() && seconds("NaN").is_err());
    }
}
