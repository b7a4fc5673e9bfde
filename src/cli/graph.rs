//! `anode graph`: graphs of engines in Click's language. They are checked, shown, formatted, run over captures, and run in nodes.
//!
//! What is run over captures asks no node, and sends nothing: devices are files with packets. `node` has what is asked of a running node.
//! docs/graphs.md has the language and the classes.

mod draw;
mod edit;
mod node;
mod run;
mod show;

use crate::clean;
use crate::graph::class::BroughtClasses;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use click::diagnostic::{Diagnostic, Severity, render_all};
use click::source::Sources;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a graph's text.
const TEXT_MAX: u64 = 4 << 20;

/// What follows `anode graph`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say what is wrong with graphs: their form, connections, classes and arguments
    Check {
        /// The files; `-` is standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        variables: Variables,
        #[command(flatten)]
        with: With,
    },
    /// Put graphs into their canonical form, in place
    Fmt {
        /// The files; `-` is standard input, written to standard output
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Write nothing; name the files that are not in canonical form and fail if there are any
        #[arg(long)]
        check: bool,
    },
    /// Show a graph without compounds, and how packets go through each port; or one that a node runs, with its counts
    Show {
        /// The file, `-` is standard input; or a node's name or run directory, with the name of a graph
        file: PathBuf,
        /// The graph that a node runs
        graph: Option<String>,
        #[command(flatten)]
        variables: Variables,
        /// Print JSON of a graph that runs
        #[arg(long, requires = "graph")]
        json: bool,
    },
    /// List the graphs that a node runs
    Ls {
        /// The node's name, or its run directory
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a text in the place of a graph of a node, or a new one; the node's configuration stays as it is
    Apply(node::ApplyArgs),
    /// Connect engines of a graph that a node runs, and new ones: 'a -> c :: Counter -> b'
    Connect(edit::ConnectArgs),
    /// Take connections of a graph that a node runs away: 'a -> b'
    Disconnect(edit::DisconnectArgs),
    /// Say how a text differs from a graph that a node runs
    Diff {
        /// The node's name, or its run directory
        node: String,
        /// The graph's name
        graph: String,
        /// The file with the text; `-` is standard input
        file: PathBuf,
    },
    /// Draw a graph that a node runs, with the rates of its connections
    Draw(node::DrawArgs),
    /// Follow the rates of a graph that a node runs
    Top(node::TopArgs),
    /// Read a handler of an engine in a node, as c.count
    Read {
        /// The node's name, or its run directory
        node: String,
        /// The graph's name
        graph: String,
        /// Engine and handler
        handler: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write to a handler of an engine in a node, as c.reset=
    Write {
        /// The node's name, or its run directory
        node: String,
        /// The graph's name
        graph: String,
        /// ENGINE.HANDLER=VALUE
        what: String,
    },
    /// Say what classes there are, or what one does
    Doc {
        /// The class
        class: Option<String>,
        /// A node whose extensions' classes there are, too: its name, or its run directory
        #[arg(long)]
        node: Option<String>,
    },
    /// Run a graph over captures, in the captures' own time
    Run(run::RunArgs),
}

/// Extensions, for texts that are not for a node.
#[derive(clap::Args, Default)]
pub(super) struct With {
    /// An extension whose classes of engines there are, too; with it those that it needs
    #[arg(long = "extension", value_name = "MODULE")]
    extensions: Vec<PathBuf>,
}

/// Variables of a text.
#[derive(clap::Args, Default)]
pub(super) struct Variables {
    /// The value of a variable of the graph, as `rate=10`
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    define: Vec<String>,
}

impl Variables {
    fn pairs(&self) -> Result<Vec<(&str, &str)>> {
        self.define
            .iter()
            .map(|text| text.split_once('=').with_context(|| format!("--define {text}: NAME=VALUE")))
            .collect()
    }
}

/// Runs `anode graph VERB`.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    let good = match arguments.verb {
        Verb::Check { files, variables, with } => check(&files, &variables, &with)?,
        Verb::Fmt { files, check } => format(&files, check)?,
        Verb::Show { file, graph: Some(graph), json, .. } => node::show(&file.to_string_lossy(), &graph, json)?,
        Verb::Show { file, variables, .. } => show::show(&file, &variables)?,
        Verb::Ls { node, json } => node::list(&node, json)?,
        Verb::Apply(arguments) => node::apply(arguments)?,
        Verb::Connect(arguments) => edit::connect(arguments)?,
        Verb::Disconnect(arguments) => edit::disconnect(arguments)?,
        Verb::Diff { node, graph, file } => node::diff(&node, &graph, &file)?,
        Verb::Draw(arguments) => node::draw(&arguments)?,
        Verb::Top(arguments) => node::top(&arguments)?,
        Verb::Read { node, graph, handler, json } => node::read(&node, &graph, &handler, json)?,
        Verb::Write { node, graph, what } => node::write(&node, &graph, &what)?,
        Verb::Doc { class, node } => show::doc(class.as_deref(), node.as_deref())?,
        Verb::Run(arguments) => run::run(&arguments)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The text of a graph.
fn read(file: &Path) -> Result<String> {
    use std::io::Read as _;
    let name = || file.display().to_string();
    let source: Box<dyn std::io::Read> = if is_input(file) {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).with_context(name)?)
    };
    let mut bytes = Vec::new();
    source.take(TEXT_MAX + 1).read_to_end(&mut bytes).with_context(name)?;
    anyhow::ensure!(bytes.len() as u64 <= TEXT_MAX, "{}: a graph has at most {TEXT_MAX} bytes", name());
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{}: this is no text", name()))
}

/// Shows what is wrong.
fn complain(file: &Path, text: &str, diagnostics: &[Diagnostic]) {
    let mut sources = Sources::default();
    sources.add(&file.display().to_string(), "", text);
    let cleaned = sources.shown_as(clean::line, clean::blotted);
    let colour = std::io::stderr().is_terminal();
    let shown = render_all(diagnostics, &cleaned, Severity::Error, colour);
    let _ = std::io::stderr().write_all(shown.as_bytes());
}

/// The graph of a text; nothing if mistakes were shown.
fn load(
    file: &Path,
    text: &str,
    variables: &Variables,
    classes: &BroughtClasses,
) -> Result<Option<crate::graph::table::Graph>> {
    match crate::graph::load::load_with(text, &variables.pairs()?, classes) {
        Ok(graph) => Ok(Some(graph)),
        Err(wrong) => {
            complain(file, text, &wrong);
            Ok(None)
        }
    }
}

fn check(files: &[PathBuf], variables: &Variables, with: &With) -> Result<bool> {
    let (mut good, classes) = (true, super::extension::classes(&with.extensions, false)?);
    for file in files {
        let text = read(file)?;
        match load(file, &text, variables, &classes)? {
            Some(graph) => crate::say!("{}: {} engines", file.display(), graph.engines().len()),
            None => good = false,
        }
    }
    Ok(good)
}

fn format(files: &[PathBuf], check: bool) -> Result<bool> {
    let mut good = true;
    for file in files {
        let text = read(file)?;
        match click::format::format(&text) {
            Err(wrong) => {
                complain(file, &text, &wrong);
                good = false;
            }
            Ok(formatted) if is_input(file) => std::io::stdout().write_all(formatted.as_bytes())?,
            Ok(formatted) if formatted == text => {}
            Ok(_) if check => {
                crate::say!("{}", file.display());
                good = false;
            }
            Ok(formatted) => super::replace(file, formatted.as_bytes()).with_context(|| file.display().to_string())?,
        }
    }
    Ok(good)
}
