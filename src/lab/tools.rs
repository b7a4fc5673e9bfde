//! The programs that a lab is built with: `ip` of iproute2, and `ethtool`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::error::Error;
use super::observe::{self, Observed};
use crate::sys::netns::Namespace;

/// Runs lines of `ip -batch`, in a namespace or in ours; stops at the first refused line.
pub(super) fn ip(namespace: Option<&Namespace>, lines: &[String]) -> Result<(), Error> {
    batch("ip", namespace, &["-batch", "-"], lines).map(drop)
}

/// As [`ip`], but goes on after refused lines and does not report them.
pub(super) fn ip_if_possible(namespace: &Namespace, lines: &[String]) -> Result<(), Error> {
    match batch("ip", Some(namespace), &["-force", "-batch", "-"], lines) {
        Err(Error::Command { .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// What a namespace holds.
pub(super) fn observe(namespace: &Namespace) -> Result<Observed, Error> {
    let output = batch("ip", Some(namespace), &["-json", "-details", "-batch", "-"], &observe::questions())?;
    observe::parse(&output.stdout).map_err(|error| Error::Command {
        command: "ip -json address, route, neighbour show".into(),
        message: format!("its output is not understood ({error})"),
    })
}

/// The offloads of a veth that capsules need: without `tx off` locally generated UDP leaves with
/// a partial checksum that only the kernel's own stack completes; without `gro on` frames that a
/// native XDP program redirects to the peer are lost; without `txvlan off` VLAN tags go beside frames, where the
/// peer's XDP program does not see them.
pub(super) fn offloads(namespace: &Namespace, interface: &str) -> Result<(), Error> {
    let mut command = namespace.command("ethtool");
    command.args(["-K", interface, "tx", "off", "gro", "on", "txvlan", "off"]);
    let output = run("ethtool", command, &[])?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::Command { command: format!("ethtool -K {interface} tx off gro on txvlan off"), message })
}

fn batch(
    program: &'static str,
    namespace: Option<&Namespace>,
    arguments: &[&str],
    lines: &[String],
) -> Result<Output, Error> {
    let mut command = namespace.map_or_else(|| Command::new(program), |namespace| namespace.command(program));
    command.args(arguments);
    let output = run(program, command, lines)?;
    if output.status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    // Both programs end with "Command failed -:LINE".
    let number = message.rsplit_once("Command failed -:").and_then(|(_, number)| number.trim().parse::<usize>().ok());
    let line = number.and_then(|number| lines.get(number.checked_sub(1)?)).map_or("-batch", String::as_str);
    let message = message.lines().filter(|line| !line.starts_with("Command failed")).collect::<Vec<_>>().join(", ");
    Err(Error::Command { command: format!("{program} {line}"), message })
}

fn run(program: &'static str, mut command: Command, lines: &[String]) -> Result<Output, Error> {
    let tool = |source| Error::Tool { program, source };
    // Minimal environments leave out the directories of these programs.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(tool)?;
    if let Some(mut input) = child.stdin.take() {
        let mut text = lines.join("\n");
        text.push('\n');
        // A program that ended early says why in its status, so a broken pipe is not the error to report.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait_with_output().map_err(tool)
}
