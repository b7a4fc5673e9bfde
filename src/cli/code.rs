//! `anode code`: build, check, sign and keep mobile code.
//!
//! Authors make a key once (`anode cred new`), then build and check bundles (`.anb` files). Operators add bundles to
//! a node's store, where they stay, and look at what it holds. Everything here works on files; no
//! node has to run. `docs/bundle.md` explains what the output means.

mod check;
mod describe;
mod new;
mod running;

use crate::clean;
use crate::code::author::{self, AuthorOptions};
use crate::code::bundle::{Bundle, Kind, Lines};
use crate::code::check as rules;
use crate::code::store::{Store, StoreLimits};
use crate::manage::client::{Control, run_dir};
use crate::manage::revoked::Revocations;
use crate::trust::{CREDENTIALS_MAX, CredentialSet, PrincipalKey, Rights, Roles};
use crate::wire::Digest;
use anyhow::{Context as _, Result, bail, ensure};
use check::Check;
use clap::{Subcommand, ValueEnum};
use describe::{At, describe};
use model::bundles::{self as described, Object, SdkPath, Stored};
use model::code::Named;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What follows `anode code`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build a bundle from C, or from a module of another language.
    Build(Build),
    /// Check a bundle as a node would, without running it: what each half says of it, name, sizes, symbols, limits; what
    /// is refused, with the line of the source and the remedy. As root the kernel's verifier is asked.
    Check(Check),
    /// Make a project: a program, its test, and what clangd needs to know.
    New(new::New),
    /// Print the directory for `-I` in which compilers and clangd find anode/capsule.h and anode/extension.h of this version.
    SdkPath {
        #[command(flatten)]
        print: Print,
    },
    /// Put credentials beside a signed bundle, in place of those that are there. Its name stays.
    Attach {
        /// The bundle file.
        file: PathBuf,
        /// Credential files.
        #[arg(required = true)]
        credentials: Vec<PathBuf>,
        #[command(flatten)]
        print: Print,
    },
    /// Add a bundle to a running node, or to a store, where it stays until it is removed.
    Add {
        /// The node's name or run directory, and the bundle file; a store takes the bundle file alone.
        #[arg(value_names = ["NODE", "FILE"], num_args = 1..=2, required = true)]
        what: Vec<String>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
    /// List the objects of a store.
    Ls {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
    /// Show one bundle of a store.
    Show {
        /// The code name, or its first digits.
        name: String,
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
    /// Have a running node try code again that it has refused, also modules on which its compiler has failed.
    Retry {
        /// The node's name, or its run directory.
        node: String,
        #[command(flatten)]
        print: Print,
    },
    /// Print the soft state of a code at a running node: key, value, time left.
    State {
        /// The node's name, or its run directory.
        node: String,
        /// The code's name, its first digits, or its title.
        code: String,
        #[command(flatten)]
        print: Print,
    },
    /// Remove a bundle from a running node, or a bundle or another object from a store.
    Rm {
        /// The node's name or run directory, and the code's name or its first digits; for a store the name alone.
        #[arg(value_names = ["NODE", "NAME"], num_args = 1..=2, required = true)]
        what: Vec<String>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
}

#[derive(clap::Args)]
struct Build {
    /// The source: .c, .wasm or .wat.
    source: PathBuf,
    /// The bundle file to write [default: the source's name with .anb, in this directory].
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Sign with this key.
    #[arg(long, value_name = "KEY", alias = "key")]
    sign: Option<PathBuf>,
    /// A credential that travels beside the bundle; more than once for more roots.
    #[arg(long, value_name = "FILE", requires = "sign")]
    credential: Vec<PathBuf>,
    /// Payload bytes in the window; C sources say it themselves.
    #[arg(long, value_name = "BYTES")]
    window: Option<u32>,
    /// The title in the manifest [default: the source's name].
    #[arg(long)]
    title: Option<String>,
    /// Build only this representation.
    #[arg(long)]
    only: Option<Only>,
    /// Build a native representation too, for this processor: it runs where the signer's role permits it.
    #[arg(long, conflicts_with = "only")]
    native: bool,
    /// Leave out from which lines of the source the code was made. The name is the same.
    #[arg(long)]
    no_lines: bool,
    /// The compiler [default: clang, or the newest clang-N].
    #[arg(long, value_name = "PROGRAM")]
    clang: Option<PathBuf>,
    #[command(flatten)]
    print: Print,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Wasm,
    Bpf,
    Native,
}

impl Only {
    fn kind(self) -> Kind {
        match self {
            Only::Wasm => Kind::Wasm,
            Only::Bpf => Kind::Bpf,
            Only::Native => Kind::Native,
        }
    }
}

#[derive(clap::Args)]
pub(super) struct Print {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Place {
    /// The store's directory [default: /var/lib/anode for root, else
    /// $XDG_DATA_HOME/anode].
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    match arguments.verb {
        Verb::Build(arguments) => build(arguments)?,
        Verb::Check(arguments) => return check::run(&arguments),
        Verb::New(arguments) => new::run(&arguments)?,
        Verb::SdkPath { print } => {
            let path = new::sdk_path()?.display().to_string();
            if print.json { print.show(&SdkPath { path }) } else { print.show(&path) }
        }
        Verb::Attach { file, credentials, print } => {
            let mut bundle = read(&file)?;
            attach(&mut bundle, &credentials)?;
            super::replace(&file, &bundle.write()).with_context(|| file.display().to_string())?;
            print.show(&describe(&bundle, rules::check(&bundle).ok().as_ref()));
        }
        Verb::Add { what, place, print } => match &what[..] {
            [file] => {
                let (file, store) = (Path::new(file), place.path()?);
                let bundle = running::checked(file)?;
                refuse_revoked(&store, &bundle)?;
                place.open()?.put_bundle(&bundle, true)?;
                print.show(&Named { name: bundle.name().to_string() });
            }
            [node, file, ..] => running::add(node, Path::new(file), &place, &print)?,
            [] => bail!("a bundle file is missing"),
        },
        Verb::Ls { place, print } => list(&place.open()?, &print),
        Verb::Show { name, at, place, print } => {
            let store = place.open()?;
            let name = resolve(&store, &name)?;
            match store.bundle(&name) {
                Some(bundle) => print.show(&at.describe(&bundle, rules::check(&bundle).ok().as_ref())?),
                None => print.show(&Object {
                    name: name.to_string(),
                    kind: "object".into(),
                    bytes: store.object(&name).context("the object is gone or was rotten")?.len() as u64,
                }),
            }
        }
        Verb::Retry { node, print } => {
            print.show(&Control::connect(&run_dir(&node))?.ask(&model::Ask::RetryCode)?);
        }
        Verb::State { node, code, print } => running::state(&node, &code, &print)?,
        Verb::Rm { what, place, print } => match &what[..] {
            [name] => {
                let store = place.open()?;
                let name = resolve(&store, name)?;
                store.remove_bundle(&name)?;
                print.show(&Named { name: name.to_string() });
            }
            [node, name, ..] => running::remove(node, name, &place, &print)?,
            [] => bail!("a name is missing"),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses code that the nodes of a store refuse, whatever roles they have: its principal, or their operator, has revoked it.
fn refuse_revoked(store: &Path, bundle: &Bundle) -> Result<()> {
    let roles = Arc::<Roles>::default();
    Revocations::open(Some(store), roles.clone().into()).with_context(|| store.display().to_string())?;
    let principal = bundle.manifest().principal()?;
    let rights = Rights { code: Some(bundle.name()), principal, ..Rights::default() };
    match roles.revoked(&rights) {
        Some((_, by)) => bail!("{by}; nodes with this store refuse it: anode cred revoked {}", store.display()),
        None => Ok(()),
    }
}

/// Puts the credentials of these files beside a bundle, each bound to it and sealed.
fn attach(bundle: &mut Bundle, files: &[PathBuf]) -> Result<()> {
    let signed = rules::check(bundle)?.principal.is_some();
    ensure!(signed, "nobody has signed the bundle, so no credential can be for it: build it with --sign KEY");
    ensure!(files.len() <= CREDENTIALS_MAX, "at most {CREDENTIALS_MAX} credentials travel with a bundle");
    let bind =
        |file: &PathBuf| super::cred::load(file)?.bind(&bundle.name()).with_context(|| file.display().to_string());
    let credentials = files.iter().map(bind).collect::<Result<_>>()?;
    let set = CredentialSet { code: bundle.name(), credentials };
    Ok(bundle.add_credentials(set.encode().into())?)
}

fn build(arguments: Build) -> Result<()> {
    let key = arguments.sign.as_deref().map(PrincipalKey::load).transpose()?;
    let only = arguments.only.map(Only::kind);
    let Build { title, window, native, clang, .. } = arguments;
    let options = AuthorOptions { key, title, window, only, native, clang, bare: false };
    let (mut bundle, warnings) = author::build_with_warnings(&arguments.source, &options)?;
    if !warnings.is_empty() {
        crate::say_err!("{warnings}");
    }
    if arguments.no_lines {
        bundle.add_lines(Lines::default());
    }
    if !arguments.credential.is_empty() {
        attach(&mut bundle, &arguments.credential)?;
    }
    let output = match arguments.output {
        Some(output) => output,
        None => Path::new(arguments.source.file_name().context("the source has no name")?).with_extension("anb"),
    };
    super::replace(&output, &bundle.write()).with_context(|| output.display().to_string())?;
    if arguments.print.json {
        let described = describe(&bundle, rules::check(&bundle).ok().as_ref());
        arguments.print.show(&described::Bundle { file: Some(output.display().to_string()), ..described });
    } else {
        crate::say!("{}", bundle.name());
    }
    Ok(())
}

fn read(file: &Path) -> Result<Bundle> {
    let mut bytes = Vec::new();
    let limit = Bundle::FILE_MAX as u64 + 1;
    File::open(file)
        .and_then(|open| open.take(limit).read_to_end(&mut bytes))
        .with_context(|| file.display().to_string())?;
    Bundle::read(&bytes).with_context(|| file.display().to_string())
}

fn list(store: &Store, print: &Print) {
    let entries = store.list();
    if print.json {
        let entry = |entry: &crate::code::store::Entry| Stored {
            name: entry.digest.to_string(),
            bytes: entry.size,
            pinned: entry.pinned,
            title: entry.title.clone(),
        };
        return print.show(&entries.iter().map(entry).collect::<Vec<_>>());
    }
    for entry in entries {
        let pinned = if entry.pinned { "pinned" } else { "-" };
        crate::say!("{} {:>6} B  {pinned:6}  {}", entry.digest, entry.size, entry.title.as_deref().unwrap_or("-"));
    }
}

/// The object whose name begins with these digits.
fn resolve(store: &Store, text: &str) -> Result<Digest> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    let found: Vec<_> =
        store.list().into_iter().filter(|entry| entry.digest.to_string().starts_with(&digits)).collect();
    // A bundle goes before representations that happen to begin alike.
    let bundles: Vec<_> = found.iter().filter(|entry| entry.title.is_some()).collect();
    match (&found[..], &bundles[..]) {
        _ if digits.is_empty() => bail!("a name has at least one digit"),
        ([one], _) => Ok(one.digest),
        (_, [one]) => Ok(one.digest),
        ([], _) => bail!("nothing in the store is named {text}; list it with: anode code ls"),
        _ => bail!("{} objects have names that begin with {text}; write more digits", found.len()),
    }
}

impl Print {
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    pub(super) fn show(&self, of: &impl Serialize) {
        // What is shown has names for keys, so it is a value.
        let value = serde_json::to_value(of).unwrap_or_default();
        if self.json { crate::say!("{value}") } else { lines(&value, 0) }
    }
}

/// A value as lines of `name: value`, what is inside indented.
fn lines(value: &Value, indent: usize) {
    let Value::Object(fields) = value else { return crate::say!("{:indent$}{}", "", plain(value)) };
    for (name, value) in fields {
        match value {
            Value::Object(_) => {
                crate::say!("{:indent$}{name}:", "");
                lines(value, indent + 2);
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    crate::say!("{:indent$}{}:", "", name.trim_end_matches('s'));
                    lines(item, indent + 2);
                }
            }
            _ => crate::say!("{:indent$}{name}: {}", "", plain(value)),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => clean::printed(text),
        Value::Null => "-".into(),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

impl Place {
    fn open(&self) -> Result<Store> {
        Ok(Store::open(Some(&self.path()?), StoreLimits::default())?)
    }

    fn path(&self) -> Result<PathBuf> {
        self.store.clone().map_or_else(default_store, Ok)
    }
}

fn default_store() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/anode".into());
    }
    Ok(data_home().context("neither XDG_DATA_HOME nor HOME is set; give --store DIR")?.join("anode"))
}

/// Where a user's programs keep data.
fn data_home() -> Option<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    data.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share")))
}
