//! The command line: `anode NOUN VERB`. One file per noun, one line each here.
//!
//! Exit status: 0 done, 1 refused or failed, 2 wrong usage.

mod attach;
mod bench;
mod cache;
mod capsule;
mod capture;
mod channel;
mod classify;
mod code;
mod complete;
mod cred;
mod demo;
mod domain;
mod ee;
mod extension;
mod graph;
mod heavy;
mod lab;
mod manual;
mod multicast;
mod node;
mod packet;
mod ping;
mod plan;
mod schema;
mod sim;
mod store;
mod trace;

use crate::code::{compiler, http, module};
use crate::kernel::loader;
use crate::manage::management;
use crate::sys::jail;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

/// What commands have found out, in the words in which it is printed.
fn told<T: DeserializeOwned>(of: &impl Serialize) -> anyhow::Result<T> {
    crate::manage::observe::told::told(of).map_err(anyhow::Error::msg)
}

/// Prints a line of JSON.
fn say_json(of: &impl Serialize) -> anyhow::Result<()> {
    crate::say!("{}", serde_json::to_string(of)?);
    Ok(())
}

/// What the help and the manual say of how commands end.
const STATUS: &str = "Exit status: 0 done; 1 refused or failed, with the cause and the remedy as the last line of standard error; \
2 wrong usage. `anode lab exec` has that of its command.";

/// Every noun: its variant, its module, and its line in `anode --help`.
macro_rules! nouns {
    ($($(#[doc = $help:literal])+ $variant:ident = $module:ident;)+) => {
        /// An active network node for Linux: deploy code into the packet path at run time.
        #[derive(Parser)]
        #[command(name = "anode", version, after_long_help = STATUS)]
        struct Cli {
            #[command(subcommand)]
            noun: Noun,
        }

        #[derive(Subcommand)]
        enum Noun { $($(#[doc = $help])+ $variant($module::Args),)+ }

        fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
            match cli.noun { $(Noun::$variant(args) => $module::run(args),)+ }
        }
    };
}

nouns! {
    /// The two-minute tour
    Demo = demo;
    /// Run a node, and ask a running one
    Node = node;
    /// Code bundles: make, check and keep them
    Code = code;
    /// Domains of a running node: who owns what, and how to end it
    Domain = domain;
    /// Environments of a running node: list, start and stop them
    Ee = ee;
    /// Channels of a running node: how packets reach domains and leave them
    Channel = channel;
    /// Extensions: make and check them, and load them into a running node
    Extension = extension;
    /// Named stores of a running node's domains: list them, and look into them
    Store = store;
    /// Protocols and rules: check them, and show what a frame is to them
    Classify = classify;
    /// Graphs of engines in Click's language: check them, and run them over captures
    Graph = graph;
    /// Keys, and credentials that grant roles to them
    Cred = cred;
    /// Programs in the packet language PLAN: check and format them
    Plan = plan;
    /// Networks of namespaces on this machine
    Lab = lab;
    /// Networks in virtual time, from a seed
    Sim = sim;
    /// Capture what enters and leaves a node, with what became of it
    Capture = capture;
    /// Follow a packet over nodes
    Packet = packet;
    /// Send capsules of any code, and receive them
    Capsule = capsule;
    /// Round-trip times to a node, by capsule
    Ping = ping;
    /// Every node on the way to a destination and back
    Trace = trace;
    /// Send to a group and listen to one: packets branch in the network
    Multicast = multicast;
    /// Values of an origin, with copies in the nodes
    Cache = cache;
    /// Which sources send most, counted in the nodes
    Heavy = heavy;
    /// Experiments beside plain baselines
    Bench = bench;
    /// What the JSON is made of that commands print of a node with --json: JSON Schema
    Schema = schema;
    /// Write the manual pages and the completions of shells as files
    Manual = manual;
}

/// The whole command line.
fn command() -> clap::Command {
    Cli::command()
}

/// Runs a function of this program in a jail, by its name.
fn run_jailed(name: &str) -> std::io::Result<()> {
    let (title, serve): (_, fn(OwnedFd) -> std::io::Result<()>) = match name {
        compiler::ARGUMENT => (c"anode-compiler", compiler::serve),
        http::ARGUMENT => (c"anode-http", http::serve),
        loader::ARGUMENT | loader::TRUSTED => (c"anode-loader", loader::serve),
        _ => {
            let why = format!("nothing of this program is called {name:?}");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        }
    };
    crate::sys::process::set_name(title);
    // The node is behind its standard input. What this process has as that from now on has an end.
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    crate::sys::process::end_input()?;
    serve(socket)
}

/// Runs the command line of this process, or what a node starts it as.
pub fn run() -> ExitCode {
    crate::clean::end_quietly_without_reader();
    let done = if std::env::args_os().nth(1).is_some_and(|first| first == jail::ARGUMENT) {
        jail::serve(run_jailed).map(|never| match never {}).map_err(Into::into)
    } else if std::env::args_os().nth(1).is_some_and(|first| first == management::OBJECT_ARGUMENT) {
        let status = management::run_object(std::env::args_os().skip(2));
        status.map(|status| ExitCode::from(u8::try_from(status).unwrap_or(1))).map_err(Into::into)
    } else if std::env::args_os().nth(1).is_some_and(|first| first == module::ARGUMENT) {
        let status = module::run(std::env::args_os().skip(2)).map_err(anyhow::Error::msg);
        status.map(|status| ExitCode::from(u8::try_from(status).unwrap_or(1)))
    } else {
        complete::answer(command);
        dispatch(Cli::parse())
    };
    done.unwrap_or_else(|error| {
        crate::say_err!("anode: {error:#}");
        ExitCode::FAILURE
    })
}

/// Writes a file beside, with the old one's permissions, and renames it, so that an interrupted write
/// leaves the old one. Nothing that somebody else has put beside it is written to. A device, a pipe, and what this process has
/// open are written to as they are.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if is_written_to(path) {
        return File::options().append(true).open(path)?.write_all(bytes);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let mut file = File::create_new(&beside)?;
    if let Ok(old) = path.metadata() {
        let _ = file.set_permissions(old.permissions());
    }
    let written = file.write_all(bytes);
    let renamed = written.and_then(|()| std::fs::rename(&beside, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    renamed
}

/// Whether what is there must not be replaced: it is no file, or a name of /dev or /proc for one that is open.
fn is_written_to(path: &Path) -> bool {
    let of_system = path.starts_with("/dev") || path.starts_with("/proc");
    path.metadata().is_ok_and(|there| !there.is_file()) || of_system && path.is_symlink()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

    #[test]
    fn files_are_replaced_and_devices_and_pipes_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("old"), "old").unwrap();
        std::fs::set_permissions(at("old"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(at("old"), at("link")).unwrap();
        replace(&at("link"), b"new").unwrap();
        assert!(!at("link").is_symlink() && std::fs::read(at("old")).unwrap() == b"old", "a link is replaced");
        assert_eq!(at("link").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
        replace(&at("null"), b"nothing").unwrap();
        assert!(at("null").is_symlink() && at("null").metadata().unwrap().file_type().is_char_device());
        // As /dev/stdout is one.
        let (mut read, written) = std::io::pipe().unwrap();
        replace(Path::new(&format!("/proc/self/fd/{}", written.as_raw_fd())), b"through").unwrap();
        drop(written);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let file = File::options().append(true).open(at("old")).unwrap();
        replace(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b" and more").unwrap();
        assert_eq!(std::fs::read(at("old")).unwrap(), b"old and more");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left beside them");
    }
}
