//! `anode node route`: where packets to an address go from a running node.

use crate::manage::client::{Control, run_dir};
use crate::wire::Addr;
use model::ways::Lead;

/// Where to, and how it is said.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// Addresses that packets go to
    #[arg(required = true)]
    to: Vec<Addr>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let ways = Control::connect(&run_dir(&args.node))?.ways(&args.to)?;
    if args.json {
        crate::say!("{}", serde_json::to_string_pretty(&ways)?);
        return Ok(());
    }
    for way in ways {
        let own = if way.here { "this node".to_owned() } else { said(&way.leads) };
        // Code that runs in the kernel is told the same unless rules decide, or changes are on their way.
        let kernel = way.kernel.filter(|_| !way.here).map(|kernel| said(&kernel)).filter(|kernel| *kernel != own);
        let kernel = kernel.map_or(String::new(), |kernel| format!("; to code in the kernel: {kernel}"));
        crate::say!("{}", crate::clean::line(&format!("{}: {own}{kernel}", way.to)));
    }
    Ok(())
}

fn said(lead: &Lead) -> String {
    match (&lead.port, &lead.via) {
        (None, _) => "no route".to_owned(),
        (Some(port), None) => format!("on the link, port {port}"),
        (Some(port), Some(via)) => format!("via {via}, port {port}"),
    }
}
