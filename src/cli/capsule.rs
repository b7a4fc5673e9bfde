//! `anode capsule`: send capsules of any code from a node, and receive those delivered there.

use super::attach::{Destination, Place, Seat, destination, ms, say_nothing_came, seconds};
use super::say_json;
use crate::apps::{Attached as _, Error, Received, header};
use crate::clean;
use crate::code::bundle::Bundle;
use anyhow::Context as _;
use model::apps::{Arrived, CapsuleLine, NotSent, Sent};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Send capsules, and print what is delivered to the sender's application port
    Send(Send),
    /// Print the capsules delivered to an application port
    Listen {
        /// The port, 1 to 65535
        #[arg(value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
        #[command(flatten)]
        place: Place,
        /// Capsules after which it ends; 0: no end
        #[arg(long, short, default_value_t = 0)]
        count: u64,
        /// Seconds after which it ends; by default never
        #[arg(long, short, value_parser = seconds)]
        timeout: Option<Duration>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Send {
    /// The bundle of its code (anode code build)
    bundle: PathBuf,
    /// Where to, an address or name
    #[arg(value_parser = destination)]
    to: Destination,
    #[command(flatten)]
    place: Place,
    /// The payload as hexadecimal digits; zeroes are added until it fills the window
    #[arg(long, conflicts_with = "text")]
    hex: Option<String>,
    /// The payload as text; zeroes are added until it fills the window
    #[arg(long)]
    text: Option<String>,
    /// Payload bytes at least
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=8192))]
    size: u16,
    /// The application port in the header, which is where it is delivered; by default the sender's
    #[arg(long)]
    app_port: Option<u16>,
    /// Resource bound: links it may pass, its children included
    #[arg(long, default_value_t = 64)]
    bound: u32,
    /// Capsules sent, one after the other
    #[arg(long, short, default_value_t = 1)]
    count: u32,
    /// Answers waited for, over all capsules
    #[arg(long, default_value_t = 1)]
    answers: u64,
    /// Seconds they are waited for
    #[arg(long, short, default_value = "2", value_parser = seconds)]
    timeout: Duration,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Send(send) => send.run(),
        Verb::Listen { port, place, count, timeout, json } => {
            let mut node = place.seat(port)?;
            let wanted = if count == 0 { u64::MAX } else { count };
            let since = node.now();
            let got = receive(&mut node, wanted, timeout, (json, u64::MAX), since)?;
            Ok(if got.got > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

impl Send {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let bundle = read(&self.bundle)?;
        let payload = self.payload(bundle.manifest().window() as usize)?;
        let to = self.place.find(&self.to)?;
        let (mut node, code) = self.place.attach_with(&bundle, 0)?;
        node.tell_ends()?;
        let mut header = header(&node, code, to, self.bound);
        header.app_port = self.app_port.unwrap_or(header.app_port);
        let since = node.now();
        for number in 0..self.count {
            node.send(&header, &payload)?;
            if number == 0 {
                // All are alike: if the node refuses one, nothing was sent.
                node.settle()?;
            }
        }
        if self.json {
            say_json(&CapsuleLine::Sent(Sent {
                sent: self.count,
                code: code.to_string(),
                bytes: payload.len() as u64,
            }))?;
        } else {
            crate::say!("sent {} of {} ({} payload bytes) to {to}", self.count, code.short(), payload.len());
        }
        let Got { got, refused } =
            receive(&mut node, self.answers, Some(self.timeout), (self.json, self.count.into()), since)?;
        if got < self.answers && !self.json {
            crate::say!("{got} of {} answers within {} ms", self.answers, self.timeout.as_millis());
            if got == 0 && refused == 0 {
                say_nothing_came(to);
            }
        }
        Ok(if got == self.answers && refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn payload(&self, window: usize) -> anyhow::Result<Vec<u8>> {
        let mut payload = match (&self.hex, &self.text) {
            (Some(digits), _) => hex::decode(digits).context("--hex takes pairs of hexadecimal digits")?,
            (None, Some(text)) => text.clone().into_bytes(),
            (None, None) => Vec::new(),
        };
        payload.resize(payload.len().max(window).max(self.size.into()), 0);
        Ok(payload)
    }
}

fn read(path: &Path) -> anyhow::Result<Bundle> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read {}; build it: anode code build SOURCE.c", path.display()))?;
    Bundle::read(&bytes).with_context(|| path.display().to_string())
}

/// What has come.
struct Got {
    /// Capsules.
    got: u64,
    /// Those sent from here that have ended at this node.
    refused: u64,
}

/// Prints `wanted` delivered capsules, or as many as come within the time, and what the node says of those sent: nothing
/// more is waited for once all of these have ended there. Times are those `since` the first was sent.
fn receive(
    node: &mut Seat,
    wanted: u64,
    time: Option<Duration>,
    (json, sent): (bool, u64),
    since: Duration,
) -> anyhow::Result<Got> {
    let begin = node.now();
    let mut all = Got { got: 0, refused: 0 };
    while all.got < wanted && all.refused < sent {
        let left = time.map_or(Duration::from_secs(3600), |time| (begin + time).saturating_sub(node.now()));
        match node.receive(left) {
            Ok(Some(received)) => {
                all.got += 1;
                print(&received, node.now().saturating_sub(since), json)?;
            }
            Err(Error::Refused(why)) if sent < u64::MAX => {
                all.refused += 1;
                if json {
                    say_json(&CapsuleLine::NotSent(NotSent { refused: why }))?;
                } else {
                    crate::say!("not sent on by this node: {}", clean::shown(&why));
                }
            }
            Err(error) => return Err(error.into()),
            Ok(None) if time.is_some() => break,
            Ok(None) => {}
        }
    }
    Ok(all)
}

fn print((header, payload): &Received, after: Duration, json: bool) -> anyhow::Result<()> {
    let after = after.as_nanos() as u64;
    if json {
        return say_json(&CapsuleLine::Arrived(Arrived {
            source: header.source.to_string(),
            destination: header.destination.to_string(),
            previous: header.previous.to_string(),
            bound: header.bound,
            app_port: header.app_port,
            code: header.code.to_string(),
            payload: hex::encode(payload),
            after_ns: after,
        }));
    }
    crate::say!("from {}, bound {} left, {} bytes, after {} ms", header.source, header.bound, payload.len(), ms(after));
    show_bytes(payload);
    Ok(())
}

/// Prints bytes as hexadecimal digits and as text, sixteen a line.
pub(crate) fn show_bytes(payload: &[u8]) {
    for (row, bytes) in payload.chunks(16).enumerate() {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        crate::say!("  {:04x}  {:47}  {text}", row * 16, digits.join(" "));
    }
}
