//! `anode extension`: make and check extensions, and load them into a running node.

use crate::clean;
use crate::cli::say_json;
use crate::code::extension::compiled::Offered;
use crate::code::extension::manifest::{ExtensionManifest, binary, is_native, packed};
use crate::code::extension::registry::{Registry, fits};
use crate::config::extensions::{ExtensionFile, of_manifests};
use crate::graph::class::BroughtClasses;
use crate::manage::client::{Control, run_dir};
use crate::manage::extensions::{Extensions, described};
use crate::sys::clock::Clock;
use crate::wire::Digest;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use model::Ask;
use model::extensions::{Call, Changed, Extension, OfferedAdmission, OfferedEngine, OfferedMarshal};
use model::wish::Wish;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say what an extension is, and what is wrong with it
    Check {
        /// The module, or its text form, with a manifest in it
        module: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a manifest into a module
    Pack {
        /// The module, or its text form
        module: PathBuf,
        /// The manifest, in TOML (docs/extensions.md)
        manifest: PathBuf,
        /// Where the extension is written
        #[arg(short, long)]
        output: PathBuf,
    },
    /// Print the table of an extension for a node's configuration
    Table {
        /// The module, or its text form, with a manifest in it
        module: PathBuf,
    },
    /// Load extensions into a running node, all or none, in the order of their needs
    Load {
        /// The node's name, or its run directory
        node: String,
        /// The modules
        #[arg(required = true)]
        modules: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the extensions of a running node: those of every node, and what is loaded
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Unload an extension of a running node
    Unload {
        /// The node's name, or its run directory
        node: String,
        /// The extension's name
        extension: String,
        /// Unload those, too, that need it, and though rules of channels name protocols of theirs
        #[arg(long)]
        cascade: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.verb {
        Verb::Check { module, json } => check(&module, json)?,
        Verb::Table { module } => table(&module)?,
        Verb::Pack { module, manifest, output } => pack(&module, &manifest, &output)?,
        Verb::Load { node, modules, json } => {
            let read = |module: &PathBuf| read(module).map(hex::encode);
            let wish = Wish::Load { modules: modules.iter().map(read).collect::<Result<_>>()? };
            changed(&node, wish, "loaded", json)?;
        }
        Verb::Ls { node, json } => {
            let all: Vec<Extension> = Control::connect(&run_dir(&node))?.asked(&Ask::Extensions)?;
            if json {
                say_json(&all)?;
            } else {
                all.iter().for_each(say);
            }
        }
        Verb::Unload { node, extension, cascade, json } => {
            changed(&node, Wish::Unload { name: extension, cascade }, "unloaded", json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `anode node call`: calls an extension for somebody, and prints what it gives.
pub(crate) fn call(node: &str, call: String, arguments: Vec<String>, json: bool) -> Result<()> {
    let called: model::extensions::Called = Control::connect(&run_dir(node))?.asked(&Ask::Call { call, arguments })?;
    if json {
        return say_json(&called);
    }
    crate::say!("{}", clean::line(&called.value));
    Ok(())
}

fn read(module: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(module).with_context(|| module.display().to_string())?;
    let wasm = binary(&bytes).map_err(anyhow::Error::msg).with_context(|| module.display().to_string())?;
    Ok(wasm.into_owned())
}

/// The classes of engines that the extensions in these files bring, which may need each other.
///
/// Unless they may run, nothing of a shared object does: its classes are known by their ports.
pub(crate) fn classes(modules: &[PathBuf], may_run: bool) -> Result<BroughtClasses> {
    if modules.is_empty() {
        return Ok(BroughtClasses::default());
    }
    let modules: Vec<_> = modules.iter().map(|module| read(module)).collect::<Result<_>>()?;
    if !may_run && modules.iter().any(|module| is_native(module)) {
        let offered = modules.iter().map(|module| Offered::read(module).map(|offered| offered.manifest));
        return Ok(of_manifests(&offered.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?));
    }
    let loading = Extensions::start(Clock::start(), true)?.prepare(modules);
    Ok(loading.map_err(|why| anyhow::anyhow!("--extension: {why}"))?.classes)
}

fn check(module: &Path, json: bool) -> Result<()> {
    let wasm = read(module)?;
    let offered = Offered::read(&wasm).map_err(anyhow::Error::msg).with_context(|| module.display().to_string())?;
    check_built_in(&offered.manifest).map_err(anyhow::Error::msg).with_context(|| module.display().to_string())?;
    let extension = described(&offered.manifest, &Digest::of(&wasm), offered.is_native);
    if json {
        return say_json(&extension);
    }
    say(&extension);
    Ok(())
}

/// What an extension needs of those that every node has is known without a node.
fn check_built_in(manifest: &ExtensionManifest) -> Result<(), String> {
    let every = Registry::of_every_node(|_| Ok(()))?;
    for need in &manifest.needs {
        if let Some((known, ())) = every.get(&need.extension) {
            fits(known, need).map_err(|why| format!("{} needs {need}: {why}", manifest.name))?;
        }
    }
    Ok(())
}

/// A table that is the extension by itself: `anode extension table MODULE >> node.toml`.
fn table(module: &Path) -> Result<()> {
    let wasm = read(module)?;
    let offered = Offered::read(&wasm).map_err(anyhow::Error::msg).with_context(|| module.display().to_string())?;
    let extension = ExtensionFile { name: offered.manifest.name, module: hex::encode(&wasm) };
    let table = toml::to_string(&BTreeMap::from([("extension", [extension])]))?;
    crate::say!("{}", table.trim_end());
    Ok(())
}

fn pack(module: &Path, manifest: &Path, output: &Path) -> Result<()> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    text.parse::<ExtensionManifest>().map_err(anyhow::Error::msg).with_context(|| manifest.display().to_string())?;
    let bytes = read(module)?;
    anyhow::ensure!(
        !is_native(&bytes),
        "{}: a shared object has its manifest from its compiler: AN_EXTENSION of anode/extension.h",
        module.display()
    );
    let whole = packed(&bytes, &text).map_err(anyhow::Error::msg)?;
    Offered::read(&whole).map_err(anyhow::Error::msg).with_context(|| module.display().to_string())?;
    std::fs::write(output, whole).with_context(|| output.display().to_string())
}

fn changed(node: &str, what: Wish, done: &str, json: bool) -> Result<()> {
    let changed: Changed = Control::connect(&run_dir(node))?.asked(&Ask::Configure { what })?;
    if json {
        return say_json(&changed);
    }
    changed.names.iter().for_each(|name| crate::say!("{done} {}", clean::line(name)));
    Ok(())
}

/// An extension, its needs, what it teaches, and its calls.
fn say(of: &Extension) {
    let Extension {
        name,
        about,
        needs,
        protocols,
        calls,
        engines,
        admissions,
        marshals,
        called,
        failed,
        native,
        built_in,
        ..
    } = of;
    crate::say!("{name:20} {} {called} calls, {failed} of them failed", clean::line(&format!("{about:60}")));
    if *built_in {
        crate::say!("  part of every node");
    }
    if *native {
        crate::say!("  native code: it runs in the node's process, and nothing bounds it");
    }
    for need in needs {
        crate::say!("  needs {}", clean::line(need));
    }
    if !protocols.is_empty() {
        let names = protocols.match_indices("(protocol ").map(|(at, begun)| &protocols[at + begun.len()..]);
        let names =
            names.map(|rest| rest.split(|c: char| c.is_whitespace() || c == '(' || c == ')').next().unwrap_or(""));
        crate::say!("  teaches {}", clean::line(&names.collect::<Vec<_>>().join(", ")));
    }
    for OfferedEngine { name: class, ports, order, about } in engines {
        let what = if *order { ", an order" } else { "" };
        crate::say!("  {}", clean::line(&format!("{class} ({ports}{what})  {about}")));
    }
    for OfferedAdmission { name: class, about } in admissions {
        crate::say!("  {}", clean::line(&format!("{class} (admission)  {about}")));
    }
    for OfferedMarshal { name: class, about } in marshals {
        crate::say!("  {}", clean::line(&format!("{class} (marshals packets)  {about}")));
    }
    for Call { name: call, kind, about, service, everywhere } in calls {
        let seen = match (service, everywhere) {
            (true, _) => " (PLAN sees it)",
            (false, true) => " (everywhere)",
            (false, false) => "",
        };
        crate::say!("  {}", clean::line(&format!("{name}.{call} : {kind}{seen}  {about}")));
    }
}
