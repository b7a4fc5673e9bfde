//! `anode code new` and `anode code sdk-path`: what an author begins with.
//!
//! ```text
//! visit/visit.c            a program that counts the nodes it passes
//! visit/test.toml, test.sh three nodes in virtual time, and what must come of a hundred capsules there
//! visit/compile_flags.txt  what clangd and `clang @compile_flags.txt` need to know
//! ```

use crate::code::author::{self, toolchain};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where the header is for all users of a host.
const HOST: &str = "/usr/local/share";

#[derive(clap::Args)]
pub(super) struct New {
    /// What the program is called: letters of C, and the directory that is made.
    name: String,
    /// Make the directory in this one.
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    place: PathBuf,
}

/// The directory for `-I`, with the header of this version in it.
pub(super) fn sdk_path() -> Result<PathBuf> {
    let asked = std::env::var_os("XDG_DATA_HOME").is_some_and(|path| !path.is_empty());
    let data = match rustix::process::geteuid().is_root() {
        true if !asked => Some(HOST.into()),
        _ => super::data_home(),
    };
    let path = data.context("neither XDG_DATA_HOME nor HOME is set; set one of them")?.join("anode/sdk");
    author::write_header(&path).map_err(|(file, error)| anyhow::anyhow!("{}: {error}", file.display()))?;
    Ok(path)
}

pub(super) fn run(arguments: &New) -> Result<()> {
    let New { name, place } = arguments;
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    ensure!(
        begins && name.len() <= 32 && letters.all(|c| c.is_ascii_alphanumeric() || c == '_'),
        "'{name}' is no name of a function in C; take 1 to 32 of a-z, A-Z, 0-9 and _, a letter first"
    );
    let project = place.join(name);
    let flags = flags(&sdk_path()?)?;
    fs::create_dir(&project).with_context(|| {
        format!("{} cannot be made; take another name, or another directory by --in", project.display())
    })?;
    let done = fill(&project, name, &flags);
    if done.is_err() {
        // Half a project is none.
        let _ = fs::remove_dir_all(&project);
    }
    done?;
    crate::say!("{}", project.display());
    Ok(())
}

fn fill(project: &Path, name: &str, flags: &str) -> Result<()> {
    for (file, text) in [
        (format!("{name}.c"), PROGRAM.replace("NAME", name)),
        ("test.toml".into(), SCENARIO.replace("NAME", name)),
        ("test.sh".into(), TEST.replace("NAME", name)),
        ("compile_flags.txt".into(), flags.to_owned()),
    ] {
        let path = project.join(&file);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        if file == "test.sh" {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// The flags of a wasm representation, one a line, as clangd reads them.
fn flags(sdk: &Path) -> Result<String> {
    let sdk = sdk.to_str().filter(|path| !path.contains(char::is_whitespace));
    let sdk = sdk.context(
        "the directory of the header has a space in its name, which a file of flags cannot have; set XDG_DATA_HOME",
    )?;
    let include = format!("-I{sdk}");
    let of_clang =
        |flag: &&str| !["-fno-crash-diagnostics", "-fno-ident", "-fno-asynchronous-unwind-tables"].contains(flag);
    let flags =
        toolchain::COMMON.iter().filter(|flag| of_clang(flag)).chain(&toolchain::WASM).copied().chain([&*include]);
    Ok(flags.map(|flag| format!("{flag}\n")).collect())
}

const PROGRAM: &str = r#"#include <anode/capsule.h>

// What the capsule carries. What the network sees is in network byte order: be32, of which an_be32() makes a number.
struct NAME {
    be32 nodes; // nodes passed so far
};

AN_CAPSULE(NAME, struct NAME)
{
    w->payload.nodes = an_be32(an_be32(w->payload.nodes) + 1);
    an_state_add(1, 1, 60000); // soft state of this node: capsules in the last minute
    if (ctx->flags & AN_HERE)
        return an_deliver();
    return an_forward();
}
"#;

const SCENARIO: &str = r#"# Three nodes in a line, and capsules from the first to the last.
about = "NAME on a line of three"
duration_s = 2

[topology]
shape = "line"
nodes = 3

[[code]]
name = "NAME"
file = "NAME.c"

[[traffic]]
code = "NAME"
from = ["n0"]
to = ["n2"]
per_second = 50
"#;

const TEST: &str = r#"#!/bin/sh
# Both halves take the program, and in virtual time every capsule arrives. A seed of your choice: ./test.sh 7
set -eu
cd "$(dirname "$0")"
anode code check NAME.c
said=$(anode sim run test.toml --seed "${1:-1}")
echo "$said"
count() { echo "$said" | awk -v what="$1" '$1 == what { print $2; exit }'; }
test "$(count sent)" -gt 0
test "$(count sent)" = "$(count delivered)"
"#;
