//! `anode manual`: the manual pages of all commands, and what shells need to complete them, as files for a package.
//!
//! ```text
//! DIR/man/man1/anode-NOUN-VERB.1
//! DIR/bash-completion/completions/anode
//! DIR/zsh/vendor-completions/_anode
//! DIR/fish/vendor_completions.d/anode.fish
//! ```

use super::complete::{SHELLS, VARIABLE};
use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the completions of a shell are, by its name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/anode"),
    ("fish", "fish/vendor_completions.d/anode.fish"),
    ("zsh", "zsh/vendor-completions/_anode"),
];

/// zsh reads the file when somebody completes for the first time, and has called it by its own name then.
const FIRST_OF_ZSH: &str = "[ \"$funcstack[1]\" = _anode ] && _clap_dynamic_completer_anode \"$@\"\n";

/// The arguments behind `anode manual`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder: /usr/share, or one like it
    dir: PathBuf,
}

/// Runs `anode manual DIR`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &args.dir.join("man/man1"))?;
    for (name, place) in COMPLETIONS {
        let shell = SHELLS.completer(name).with_context(|| format!("nobody completes for {name}"))?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "anode", "anode", "anode", &mut script)?;
        if name == "zsh" {
            script.extend_from_slice(FIRST_OF_ZSH.as_bytes());
        }
        write(&args.dir.join(place), &script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and of all below it that people are shown.
fn pages(command: &Command, dir: &Path) -> anyhow::Result<()> {
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| pages(below, dir))?;
    let page = Man::new(command.clone()).manual("anode");
    let mut text = Vec::new();
    page.render(&mut text)?;
    // What is said after the options is how commands end.
    let text = String::from_utf8(text)?.replacen(".SH EXTRA", ".SH \"EXIT STATUS\"", 1);
    write(&dir.join(page.get_filename()), text.as_bytes())
}

fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let written = std::fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| std::fs::write(path, text));
    written.with_context(|| path.display().to_string())
}
