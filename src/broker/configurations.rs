//! Configurations of a running node, as operators give them: the broker reads, checks and keeps them.
//!
//! ```text
//! anode node apply ── text ──▶ RUN_DIR/operator.sock, root's alone ──▶ broker: an offer with a number
//! anode node apply ── number ─▶ control.sock ──▶ node ── Offer ──▶ broker ── text, keys of neighbours ──▶ node
//!                                                     └── Hold ───▶ from now on requests are checked against that one
//! ```
//!
//! The node cannot read an operator's files, and must not be believed in what it may open: a node that somebody has
//! taken over would give itself a configuration. So it can only choose among those that an operator has given, or that
//! are in the file it was started with. Those that ran are kept in the run directory, the last [`KEPT_MAX`], each in a
//! file that is there whole or not at all.

use super::allowed::Allowed;
use super::alone::Interfaces;
use super::client::Done;
use super::message::{Request, WHO_MAX, Wanted};
use crate::config::environments::Environment;
use crate::config::whole::read_whole;
use crate::config::{ConfigError, NodeFile, difference};
use crate::sys::own;
use crate::trust::{LinkSecret, Roles};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Configurations that are kept, the one that runs among them.
pub const KEPT_MAX: usize = 20;

/// Bytes of the longest configuration that a running node takes over.
pub const TEXT_MAX: usize = 1 << 20;

/// Lines of what has changed that are kept of each.
const LINES_MAX: usize = 100;

/// The folder in a run directory with those that ran.
const FOLDER: &str = "configurations";

/// One configuration that ran, or is offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Its number: later ones have higher ones.
    pub number: u64,
    /// When it was given, in seconds since 1970.
    pub unix_s: u64,
    /// By whom.
    pub who: String,
    /// The file that it was in.
    pub source: String,
    /// What of it needed a restart was left out.
    pub partly: bool,
    /// The one that it returned to, since nobody had confirmed the one before it.
    #[serde(default)]
    pub returns_to: Option<u64>,
    /// What it changed.
    pub changes: Vec<String>,
    /// The configuration.
    pub text: String,
}

/// What the node gets: the configuration, and what its files say that the node cannot read.
#[derive(Serialize, Deserialize)]
pub struct Offer {
    /// The configuration.
    pub kept: Kept,
    /// Keys of neighbours, by their files: number, and secret in hexadecimal.
    pub keys: BTreeMap<PathBuf, (u32, String)>,
}

/// The configurations of a node.
pub struct Configurations {
    run_dir: PathBuf,
    source: Option<PathBuf>,
    /// Those that ran, the one that does last.
    ran: Vec<Kept>,
    offered: Option<(Kept, NodeFile)>,
    next: u64,
    /// The one that runs, and what it has.
    file: NodeFile,
    allowed: Allowed,
    /// What it may have beside that while another one takes its place.
    beside: Option<Allowed>,
    interfaces: Interfaces,
    environments: Vec<Environment>,
}

impl Configurations {
    /// For a node that begins with this one.
    pub fn new(file: &NodeFile, run_dir: &Path) -> io::Result<Configurations> {
        let mut ran = read_all(&run_dir.join(FOLDER));
        let next = ran.last().map_or(1, |last| last.number + 1);
        let text = file.text.to_string();
        let source = file.source.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        let who = "the start of the node".to_owned();
        ran.push(Kept {
            number: next,
            unix_s: unix_s(),
            who,
            source,
            partly: false,
            returns_to: None,
            changes: Vec::new(),
            text,
        });
        let mut all = Configurations {
            run_dir: run_dir.to_owned(),
            source: file.source.clone(),
            ran,
            offered: None,
            next: next + 1,
            file: file.clone(),
            allowed: Allowed::by(file),
            beside: None,
            interfaces: Interfaces::default(),
            environments: environments_of(file)?,
        };
        all.keep_last()?;
        Ok(all)
    }

    /// The same of a node that has the interfaces of that one alone.
    pub(super) fn with_interfaces(self, interfaces: Interfaces) -> Configurations {
        Configurations { interfaces, ..self }
    }

    /// Says why a request is beyond what the node may have now; `name_of` knows the names of interfaces.
    pub fn check(&self, request: &Request, name_of: impl Fn(u32) -> Option<String> + Copy) -> Result<(), String> {
        let checked = self.allowed.check(request, name_of);
        match &self.beside {
            Some(beside) => checked.or_else(|why| beside.check(request, name_of).map_err(|_| why)),
            None => checked,
        }
    }

    /// What the configuration that runs has.
    pub fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// The same, of environments.
    pub fn environments(&self) -> &[Environment] {
        &self.environments
    }

    /// An operator gives one.
    pub fn give(&mut self, text: String, source: &str, who: &str) -> Result<u64, String> {
        let file = self.validate(&text)?;
        Ok(self.offer((text, file), source, who))
    }

    /// Why a configuration that was given is not offered any more.
    fn overtaken(&self) -> String {
        let who = self.offered.as_ref().map_or("somebody", |(other, _)| other.who.as_str());
        format!("{who} has given another configuration meanwhile: look at the difference again")
    }

    /// The number under which one is offered from now on; one that was before is not any more.
    fn offer(&mut self, (text, file): (String, NodeFile), source: &str, who: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        let (who, source) = (bounded(who), source.to_owned());
        let kept =
            Kept { number, unix_s: unix_s(), who, source, partly: false, returns_to: None, changes: Vec::new(), text };
        self.offered = Some((kept, file));
        number
    }

    /// A configuration for this node: of its name.
    fn read(&self, text: &str) -> Result<NodeFile, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("it has more than {TEXT_MAX} bytes"));
        }
        let file = NodeFile::parse(text).map_err(|error| error.to_string())?;
        if file.name != self.file.name {
            return Err(format!(
                "name = \"{}\": this node is {}; stop it and run the other one to rename it",
                file.name, self.file.name
            ));
        }
        Ok(file.placed_as(&self.file))
    }

    /// The same as it would be refused at a start, by files that the node cannot read among others.
    fn validate(&self, text: &str) -> Result<NodeFile, String> {
        let file = self.read(text)?;
        let whole = || -> Result<(), ConfigError> {
            let (config, _) = file.plan()?;
            file.environments(&config.roles)?;
            file.plan_environment(&config)?;
            file.guard(&config, 0)?;
            file.hellos().map(drop)
        };
        whole().map_err(|error| error.to_string())?;
        Ok(file)
    }

    /// What the node asks for.
    pub fn offer_to_node(&mut self, wanted: &Wanted) -> Result<Done, String> {
        match wanted {
            Wanted::Given(number) if self.offered.as_ref().is_some_and(|(offered, _)| offered.number == *number) => {}
            Wanted::Given(_) => return Err(self.overtaken()),
            Wanted::Again { number, who, returns } => {
                let Some(known) = self.ran.iter().find(|known| known.number == *number) else {
                    return Err(format!("there is no configuration {number}: see anode node history"));
                };
                let (text, source, partly) = (known.text.clone(), known.source.clone(), known.partly);
                // The node has all that its files said when it ran before: they may be gone, and the way back is open still.
                let file = if *returns { self.read(&text)? } else { self.validate(&text)? };
                self.offer((text, file), &source, who);
                if let (Some((offered, _)), true) = (&mut self.offered, *returns) {
                    (offered.returns_to, offered.partly) = (Some(*number), partly);
                }
            }
            Wanted::Source { who } => {
                let path = self.source.clone().ok_or("the node was started without a file")?;
                let text = read_source(&path).map_err(|why| format!("{}: {why}", path.display()))?;
                let file = self.validate(&text).map_err(|why| format!("{}: {why}", path.display()))?;
                self.offer((text, file), &path.display().to_string(), who);
            }
        }
        let (kept, file) = self.offered.as_ref().ok_or("nothing is offered")?;
        let secrets = if kept.returns_to.is_some() { Ok(BTreeMap::new()) } else { file.secrets() };
        let (kept, secrets) = (kept.clone(), secrets.map_err(|error| error.to_string())?);
        let key = |(path, secret): (PathBuf, LinkSecret)| (path, (secret.id, hex::encode(secret.bytes)));
        let offer = Offer { kept, keys: secrets.into_iter().map(key).collect() };
        given(&offer).map_err(|error| error.to_string())
    }

    /// From now on the node has the configuration that was offered under this number, or has it only in part.
    pub fn hold(&mut self, number: u64, partly: bool) -> Result<(), String> {
        // It stays on offer if it cannot be kept: a full disk is soon less so.
        let offered = self.offered.clone().filter(|(offered, _)| offered.number == number);
        let (mut kept, read) = offered.ok_or_else(|| self.overtaken())?;
        let (file, changes) = self.as_held(read, partly)?;
        let environments = environments_of(&file).map_err(|error| error.to_string())?;
        // What ran in part before does so again, and else all of it.
        kept.partly = if kept.returns_to.is_some() { kept.partly } else { partly };
        let left_out = |change: &&difference::Change| !partly || change.part.is_some();
        kept.changes = changes.iter().filter(left_out).take(LINES_MAX).map(ToString::to_string).collect();
        self.ran.push(kept);
        if let Err(error) = self.keep_last() {
            self.ran.pop();
            return Err(format!("it cannot be kept in {}: {error}", self.run_dir.join(FOLDER).display()));
        }
        self.offered = None;
        let before = core::mem::replace(&mut self.allowed, Allowed::by(&file));
        // What goes is let go of by and by.
        self.beside = self.beside.take().map(|_| before);
        (self.environments, self.file) = (environments, file);
        Ok(())
    }

    /// What the node has of a configuration, and what that changes.
    fn as_held(&self, read: NodeFile, partly: bool) -> Result<(NodeFile, Vec<difference::Change>), String> {
        let changes = difference::between(&self.file, &read).map_err(|error| error.to_string())?;
        let file = match partly {
            true => difference::without_restart(&self.file, &read, &changes).map_err(|error| error.to_string())?,
            false => read,
        };
        Ok((file, changes))
    }

    /// Until it is settled the node may have what the configuration has that was offered under this number, too.
    pub fn reach(&mut self, number: u64, partly: bool) -> Result<(), String> {
        let offered = self.offered.as_ref().filter(|(offered, _)| offered.number == number);
        let (_, read) = offered.ok_or_else(|| self.overtaken())?;
        let (file, _) = self.as_held(read.clone(), partly)?;
        self.interfaces.take(&file).map_err(|error| format!("{error:#}"))?;
        self.beside = Some(Allowed::by(&file));
        Ok(())
    }

    /// The node has no more than the configuration that it has.
    pub fn settle(&mut self) -> io::Result<()> {
        self.beside = None;
        self.interfaces.keep(&self.file).map_err(io::Error::other)
    }

    /// Those that ran, the one that does last.
    pub fn history(&self) -> io::Result<Done> {
        given(&self.ran)
    }

    /// Writes the last one, and takes those away that are too many.
    fn keep_last(&mut self) -> io::Result<()> {
        let folder = self.run_dir.join(FOLDER);
        let Some(last) = self.ran.last() else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (beside, path) = (folder.join("new"), file_of(&folder, last.number));
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(last)?)?;
        fs::rename(&beside, &path)?;
        let more = self.ran.len().saturating_sub(KEPT_MAX);
        for gone in self.ran.drain(..more) {
            // One that stays is left out by the next node.
            let _ = fs::remove_file(file_of(&folder, gone.number));
        }
        Ok(())
    }
}

fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.json"))
}

/// Those that a node before this one has kept; what is none, or of another number than its file, is left out.
fn read_all(folder: &Path) -> Vec<Kept> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        let mut text = String::new();
        own::open(&path).ok()?.take(4 * TEXT_MAX as u64).read_to_string(&mut text).ok()?;
        let kept = serde_json::from_str::<Kept>(&text).ok()?;
        (kept.number < u64::MAX / 2 && path == file_of(folder, kept.number)).then_some(kept)
    };
    let mut all: Vec<Kept> = files.filter_map(|entry| read(entry.path())).collect();
    all.sort_by_key(|kept| kept.number);
    let more = all.len().saturating_sub(KEPT_MAX - 1);
    all.drain(..more).for_each(|gone| drop(fs::remove_file(file_of(folder, gone.number))));
    all
}

/// The file that a node was started with, as it is now.
fn read_source(path: &Path) -> Result<String, String> {
    super::prepare::check_way(path).map_err(|error| error.to_string())?;
    read_whole(path, TEXT_MAX).map_err(|error| error.to_string())
}

/// The environments of a configuration.
fn environments_of(file: &NodeFile) -> io::Result<Vec<Environment>> {
    let roles = Roles::new(file.roles.clone()).map_err(io::Error::other)?;
    file.environments(&roles).map_err(io::Error::other)
}

/// Something of more than a message, as a file without a name.
fn given(value: &impl Serialize) -> io::Result<Done> {
    let mut file = File::from(memfd_create("configuration", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(value)?)?;
    file.rewind()?;
    Ok(Done::of(file.into()))
}

fn bounded(who: &str) -> String {
    who.chars().take(WHO_MAX).collect()
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    crate::sys::clock::unix_ns() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n";

    /// Those of a node that begins with this file.
    fn begin(dir: &Path) -> Configurations {
        let path = dir.join("node.toml");
        fs::write(&path, NODE).unwrap();
        Configurations::new(&NodeFile::read(&path).unwrap(), dir).unwrap()
    }

    fn with(more: &str) -> String {
        format!("{NODE}{more}")
    }

    fn offered(done: Result<Done, String>) -> Result<Offer, String> {
        let file = File::from(done?.descriptor().map_err(|error| error.to_string())?);
        serde_json::from_reader(file).map_err(|error| error.to_string())
    }

    #[test]
    fn the_node_can_only_have_what_an_operator_has_given() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = begin(dir.path());
        let has = |all: &Configurations, name: &str| all.environments().iter().any(|known| known.name == name);
        assert!(all.hold(2, false).is_err() && all.hold(0, false).is_err());
        assert!(offered(all.offer_to_node(&Wanted::Given(1))).is_err());
        assert!(offered(all.offer_to_node(&Wanted::Again { number: 7, who: "x".into(), returns: false })).is_err());
        let given = all.give(with("[[ee]]\nname = \"e\"\ncommand = [\"sh\"]\n"), "f", "w").unwrap();
        assert!(!has(&all, "e"), "not before the node has it");
        let offer = offered(all.offer_to_node(&Wanted::Given(given))).unwrap();
        assert_eq!((offer.kept.number, offer.kept.who.as_str()), (given, "w"));
        assert!(all.hold(given + 1, false).is_err() && !has(&all, "e"));
        all.hold(given, false).unwrap();
        assert!(has(&all, "e") && all.hold(given, false).is_err(), "once");
        // What it was started with can be had again, and no more.
        let file = dir.path().join("node.toml");
        let again = offered(all.offer_to_node(&Wanted::Source { who: "hup".into() })).unwrap().kept.number;
        fs::write(&file, "name = \"other\"\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n").unwrap();
        let why = offered(all.offer_to_node(&Wanted::Source { who: "hup".into() })).map(drop).unwrap_err();
        assert!(why.contains("this node is a"), "{why}");
        all.hold(again, false).unwrap();
        assert!(!has(&all, "e"));
    }

    #[test]
    fn what_is_left_out_gives_the_node_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = begin(dir.path());
        let port = "[[port]]\nudp = \"127.0.0.1:4009\"\naddress = [\"10.0.9.1/24\"]\npcap = \"/tmp/p.pcap\"\n";
        let more = &format!("{port}[cpu]\nshare = 0.5\n");
        let given = all.give(with(more), "f", "w").unwrap();
        all.hold(given, true).unwrap();
        let request = |at: &str| super::super::Request::Udp { at: at.parse().unwrap(), shared: false };
        assert!(all.allowed().check(&request("127.0.0.1:4001"), |_| None).is_ok());
        assert!(all.allowed().check(&request("127.0.0.1:4009"), |_| None).is_err());
        assert_eq!(all.ran.last().unwrap().changes, ["cpu.share: 1.0 → 0.5"]);
    }

    #[test]
    fn while_one_takes_the_place_of_another_the_node_may_have_what_either_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = begin(dir.path());
        let request = Request::Udp { at: "127.0.0.1:4009".parse().unwrap(), shared: false };
        let may = |all: &Configurations| all.check(&request, |_| None).is_ok();
        let port = "[[port]]\nudp = \"127.0.0.1:4009\"\naddress = [\"10.0.9.1/24\"]\n";
        let given = all.give(with(port), "f", "w").unwrap();
        assert!(!may(&all) && all.reach(given + 1, false).is_err());
        // One that is given up.
        all.reach(given, false).unwrap();
        assert!(may(&all));
        all.settle().unwrap();
        assert!(!may(&all));
        // One that comes, and goes again.
        all.reach(given, false).unwrap();
        all.hold(given, false).unwrap();
        all.settle().unwrap();
        assert!(may(&all));
        let back = all.give(NODE.into(), "f", "w").unwrap();
        all.reach(back, false).unwrap();
        all.hold(back, false).unwrap();
        assert!(may(&all), "it still closes it");
        all.settle().unwrap();
        assert!(!may(&all));
        // Where nobody has privileges there are no interfaces.
        let native = all.give(with("[[port]]\npacket = \"lo9\"\n"), "f", "w").unwrap();
        let why = all.reach(native, false).unwrap_err();
        assert!(why.contains("port lo9: packet = \"lo9\"") && why.contains("no privilege"), "{why}");
    }

    #[test]
    fn what_cannot_be_kept_is_still_on_offer() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = begin(dir.path());
        let given = all.give(with("[cpu]\nshare = 0.5\n"), "f", "w").unwrap();
        let (folder, away) = (dir.path().join(FOLDER), dir.path().join("away"));
        fs::rename(&folder, &away).unwrap();
        fs::write(&folder, "").unwrap();
        let why = all.hold(given, false).unwrap_err();
        assert!(why.contains("it cannot be kept"), "{why}");
        fs::remove_file(&folder).unwrap();
        fs::rename(&away, &folder).unwrap();
        all.hold(given, false).unwrap();
        assert!(all.hold(given, false).is_err(), "once");
    }

    #[test]
    fn twenty_are_kept_each_whole_and_what_is_no_configuration_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = begin(dir.path());
        for share in 1..=30 {
            let given = all.give(with(&format!("[cpu]\nshare = 0.{share:02}\n")), "f", "w").unwrap();
            all.hold(given, false).unwrap();
        }
        assert_eq!((all.ran.len(), fs::read_dir(dir.path().join(FOLDER)).unwrap().count()), (KEPT_MAX, KEPT_MAX));
        let folder = dir.path().join(FOLDER);
        // Somebody was killed while he wrote.
        fs::write(folder.join("new"), "{\"number\":99").unwrap();
        fs::write(folder.join("98.json"), "{\"number\":98").unwrap();
        let all = begin(dir.path());
        let numbers: Vec<u64> = all.ran.iter().map(|kept| kept.number).collect();
        assert_eq!((numbers.len(), numbers[0], numbers[KEPT_MAX - 1]), (KEPT_MAX, 13, 32));
    }
}
