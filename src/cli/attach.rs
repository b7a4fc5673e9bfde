//! Commands of applications reach a node here: they find it, give it their code, and attach to it.

use crate::apps::{App, Attached, Error, Received};
use crate::code::bundle::Bundle;
use crate::config::plan::read_hosts;
use crate::manage::client::{Attachment, ClientError, Control, run_dir, run_places};
use crate::wire::capsule::Header;
use crate::wire::{Addr, Digest};
use anyhow::{Context as _, bail};
use core::fmt;
use std::collections::BTreeMap;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
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

    /// The address of a destination: as given, or that of the name in the hosts file of the node's run directory, or else the one that
    /// the system's resolver finds.
    pub(crate) fn find(&self, to: &Destination) -> anyhow::Result<Addr> {
        let name = match to {
            Destination::Addr(addr) => return Ok(*addr),
            Destination::Name(name) => name,
        };
        let hosts = self.dir()?.join("hosts");
        if let Some(addr) = hosts_in(&self.dir()?)?.get(name) {
            return Ok(*addr);
        }
        let found = (name.as_str(), 0).to_socket_addrs().ok().and_then(|mut found| found.next());
        let found = found.map(|found| Addr::from(found.ip()));
        found.with_context(|| {
            format!(
                "nobody is called '{name}': neither {} has the name, nor does the system know it; give an address",
                hosts.display()
            )
        })
    }

    pub(crate) fn dir(&self) -> anyhow::Result<PathBuf> {
        match &self.node {
            Some(node) => Ok(run_dir(node)),
            None => the_only_node(),
        }
    }
}

/// The run directories that are here, of nodes that run and of others, sorted: in the place of who asks, and in the system's.
pub(crate) fn run_dirs() -> Vec<PathBuf> {
    let entries = run_places().into_iter().filter_map(|base| std::fs::read_dir(base).ok()).flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Whether a node runs with this run directory, as far as its sockets say.
pub(crate) fn runs(dir: &Path) -> bool {
    dir.join("control.sock").exists()
}

/// The run directories of the nodes that run here, sorted.
pub(crate) fn running() -> Vec<PathBuf> {
    run_dirs().into_iter().filter(|dir| runs(dir)).collect()
}

/// Asks a node, in a thread of its own. One that waits for a node that does not answer ends with this process, which is soon.
pub(crate) fn ask_apart<T: Send + 'static>(
    dir: PathBuf,
    question: impl FnOnce(&mut Control) -> Result<T, ClientError> + Send + 'static,
) -> Receiver<Result<T, ClientError>> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let answer = Control::connect(&dir).and_then(|mut control| question(&mut control));
        // Nobody may wait for it any more.
        let _ = tell.send(answer);
    });
    told
}

/// The run directory of the one node that runs here.
fn the_only_node() -> anyhow::Result<PathBuf> {
    let running = running();
    match running.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let places: Vec<_> = run_places().iter().map(|place| place.display().to_string()).collect();
            let places = places.join(" or ");
            bail!("no node runs below {places}; start one (anode node run CONFIG.toml), or name one: --node")
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

/// A destination on the command line: an address, or a name that stands for one where the node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// An address.
    Addr(Addr),
    /// A name.
    Name(String),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Addr(addr) => addr.fmt(f),
            Destination::Name(name) => f.write_str(name),
        }
    }
}

/// Reads a destination.
pub(crate) fn destination(text: &str) -> Result<Destination, String> {
    match text.parse() {
        Ok(addr) => Ok(Destination::Addr(addr)),
        Err(_) if is_name(text) => Ok(Destination::Name(text.to_owned())),
        Err(_) => Err("neither an address nor a name, which is letters, digits, '-', '_' and '.'".into()),
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=253).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('-')
}

/// The hosts that a node with this run directory knows, if they are listed there, as a lab does.
pub(crate) fn hosts_in(dir: &Path) -> anyhow::Result<BTreeMap<String, Addr>> {
    let hosts = dir.join("hosts");
    if hosts.exists() { Ok(read_hosts(&hosts)?) } else { Ok(BTreeMap::new()) }
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
    fn names_are_those_of_the_nodes_hosts_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hosts"), "10.0.0.3 gate-2\nfd00::3 gate-2\n").unwrap();
        let place = Place { node: Some(dir.path().display().to_string()) };
        let find = |name: &str| place.find(&destination(name).unwrap());
        assert_eq!(find("gate-2").unwrap(), Addr::v4([10, 0, 0, 3]), "the first line of a name");
        assert_eq!(find("fd00::3").unwrap(), "fd00::3".parse().unwrap());
        let why = find("nobody.invalid").unwrap_err().to_string();
        assert!(why.contains("nobody is called 'nobody.invalid'") && why.contains("/hosts"), "{why}");
    }

    #[test]
    fn destinations_and_times_are_read_or_refused_with_a_reason() {
        assert_eq!(destination("10.0.0.3"), Ok(Destination::Addr(Addr::v4([10, 0, 0, 3]))));
        assert!(matches!(destination("2001:db8::1"), Ok(Destination::Addr(_))));
        assert_eq!(destination("gate-2"), Ok(Destination::Name("gate-2".into())));
        assert!(destination("no such name").unwrap_err().contains("neither"));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(seconds("-1").is_err() && seconds("1e9").is_err() && seconds("NaN").is_err());
    }
}
