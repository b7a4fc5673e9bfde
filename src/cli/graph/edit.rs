//! `anode graph connect` and `disconnect`: connections of a running graph, changed in one step.

use super::node::said;
use crate::manage::client::{Control, run_dir};
use anyhow::Result;
use model::{Ask, GraphEdit};

/// What both are told.
#[derive(clap::Args)]
struct Common {
    /// The node's name, or its run directory
    node: String,
    /// The graph's name
    graph: String,
    /// An engine that goes, with what is connected to it
    #[arg(long, value_name = "ENGINE")]
    remove: Vec<String>,
    /// The generation that you have looked at: another one is not changed
    #[arg(long, value_name = "GENERATION")]
    base: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is connected.
#[derive(clap::Args)]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    common: Common,
    /// Statements in Click's language: 'a [1] -> c :: Counter -> b'
    #[arg(required = true)]
    connect: Vec<String>,
    /// A connection that goes in the same step: 'a -> b'
    #[arg(long, value_name = "CHAIN")]
    disconnect: Vec<String>,
}

/// What is not connected any more.
#[derive(clap::Args)]
pub(super) struct DisconnectArgs {
    #[command(flatten)]
    common: Common,
    /// Chains of engines by their names: 'a [1] -> b'
    #[arg(required = true)]
    disconnect: Vec<String>,
    /// Statements that come in the same step: 'a -> c :: Counter -> b'
    #[arg(long, value_name = "TEXT")]
    connect: Vec<String>,
}

pub(super) fn connect(ConnectArgs { common, connect, disconnect }: ConnectArgs) -> Result<bool> {
    edit(common, disconnect, connect)
}

pub(super) fn disconnect(DisconnectArgs { common, disconnect, connect }: DisconnectArgs) -> Result<bool> {
    edit(common, disconnect, connect)
}

fn edit(common: Common, disconnect: Vec<String>, connect: Vec<String>) -> Result<bool> {
    let Common { node, graph: name, remove, base, json } = common;
    let wanted = GraphEdit { name, disconnect, remove, connect, base };
    said(Control::connect(&run_dir(&node))?.asked(&Ask::EditGraph(wanted))?, json)
}
