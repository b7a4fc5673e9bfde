//! `anode cred`: principals' keys, and the credentials by which a root key grants them roles.
//!
//! Everything here works on files. Which roots a node trusts for which role, and what the roles may, stands in
//! the node's configuration; `docs/trust.md` explains the whole.

use super::attach::Place;
use super::code::Print;
use crate::code::bundle::Kind;
use crate::manage::client::Control;
use crate::trust::{Credential, LinkSecret, PrincipalId, PrincipalKey, Restrictions, Revocation, Subject, Terms};
use crate::wire::Digest;
use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most octets of a credential file: one line.
const FILE_MAX: u64 = 8192;

/// What follows `anode cred`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a principal's key, to sign bundles or to grant roles with
    New {
        /// The file to write, readable by its owner only; it must not exist
        file: PathBuf,
        #[command(flatten)]
        print: Print,
    },
    /// Make a secret that two neighbours share, to prove to each other what they send
    Secret {
        /// The file to write, readable by its owner only; it must not exist. The neighbour needs a copy
        file: PathBuf,
        #[command(flatten)]
        print: Print,
    },
    /// Grant a principal a role, with a root key
    Grant {
        /// The key of a root that nodes trust for the role
        #[arg(long, value_name = "KEY")]
        root: PathBuf,
        /// Who gets it: ed25519:HEX
        #[arg(long, value_name = "PRINCIPAL")]
        to: PrincipalId,
        /// The role
        #[arg(long)]
        role: String,
        #[command(flatten)]
        checks: Checks,
        /// The credential file to write; it must not exist
        #[arg(short, long)]
        output: PathBuf,
        #[command(flatten)]
        print: Print,
    },
    /// Restrict a credential further; needs no key
    Attenuate {
        /// The credential
        file: PathBuf,
        #[command(flatten)]
        checks: Checks,
        /// The credential file to write; it must not exist
        #[arg(short, long)]
        output: PathBuf,
        #[command(flatten)]
        print: Print,
    },
    /// Take back what a credential, a principal or a code has at a node, now and from now on
    Revoke {
        #[command(flatten)]
        taken: Taken,
        /// Sign with this key, and have the node tell its neighbours: they obey as far as the key has issued or signed what is revoked
        #[arg(long, value_name = "KEY")]
        key: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
    /// Show what a credential says, and whether its signatures are right
    Inspect {
        /// The credential
        file: PathBuf,
        #[command(flatten)]
        print: Print,
    },
}

/// What is taken back.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Taken {
    /// This credential, and all that were made of it
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// This principal: all that it has signed, and what it was granted
    #[arg(long)]
    principal: Option<PrincipalId>,
    /// This code
    #[arg(long, value_name = "NAME")]
    code: Option<Digest>,
}

impl Taken {
    /// Its kind and name, and as a value.
    fn subject(&self) -> Result<(&'static str, String, Subject)> {
        Ok(match (&self.token, self.principal, self.code) {
            (Some(file), ..) => {
                let id = load(file)?.revocation_id().with_context(|| file.display().to_string())?;
                ("token", id.to_string(), Subject::Token(id))
            }
            (_, Some(principal), _) => ("principal", principal.to_string(), Subject::Principal(principal)),
            (.., Some(code)) => ("code", code.to_string(), Subject::Code(code)),
            _ => anyhow::bail!("one of --token, --principal, --code"),
        })
    }
}

/// Asks a node to take something back.
fn revoke(taken: &Taken, key: Option<&Path>, place: &Place, print: &Print) -> Result<()> {
    let (what, name, subject) = taken.subject()?;
    let wanted = match key {
        Some(key) => {
            let unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let revocation = Revocation::sign(&PrincipalKey::load(key)?, subject, unix_s);
            let message = revocation.wire().map(|repr| hex::encode(repr.bytes()));
            json!({"do": "revoke", "message": message})
        }
        None => json!({"do": "revoke", "what": what, "name": name}),
    };
    let mut answer = Control::connect(&place.dir()?)?.ask(&wanted)?;
    answer[what] = name.into();
    if !answer["remembered"].as_bool().unwrap_or(false) {
        crate::say_err!("the node has no store: it forgets this when it ends");
    }
    print.show(&answer);
    Ok(())
}

#[derive(clap::Args)]
struct Checks {
    /// Good from then on: 2027-01-31, 2027-01-31T12:00:00Z, or +DAYSd, +HOURSh, +MINUTESm from now
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<u64>,
    /// Good until then
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<u64>,
    /// For this code only; may be repeated
    #[arg(long, value_name = "NAME")]
    code: Vec<Digest>,
    /// At the node of this name only; may be repeated
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// For this representation only (wasm, bpf, native); may be repeated
    #[arg(long, value_name = "KIND", value_parser = kind)]
    only: Vec<Kind>,
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    match arguments.verb {
        Verb::New { file, print } => {
            let key = PrincipalKey::new()?;
            key.save(&file)?;
            print.show(&json!({"principal": key.id().to_string()}));
        }
        Verb::Secret { file, print } => {
            let secret = LinkSecret::new()?;
            secret.save(&file)?;
            print.show(&json!({"key": format!("{:08x}", secret.id)}));
        }
        Verb::Grant { root, to, role, checks, output, print } => {
            let terms = Terms { principal: to, role, checks: checks.into() };
            write(&Credential::grant(&PrincipalKey::load(&root)?, &terms)?, &output, &print)?;
        }
        Verb::Attenuate { file, checks, output, print } => {
            write(&load(&file)?.attenuate(&checks.into())?, &output, &print)?;
        }
        Verb::Revoke { taken, key, place, print } => revoke(&taken, key.as_deref(), &place, &print)?,
        Verb::Inspect { file, print } => print.show(&describe(&load(&file)?)?),
    }
    Ok(ExitCode::SUCCESS)
}

impl From<Checks> for Restrictions {
    fn from(checks: Checks) -> Restrictions {
        let Checks { from, until, code, node, only } = checks;
        let representations = only.iter().map(Kind::to_string).collect();
        Restrictions { from, until, codes: code, nodes: node, representations }
    }
}

/// Reads a credential file.
pub(super) fn load(file: &Path) -> Result<Credential> {
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(FILE_MAX).read_to_string(&mut text))
        .with_context(|| file.display().to_string())?;
    text.parse::<Credential>().with_context(|| file.display().to_string())
}

fn write(credential: &Credential, output: &Path, print: &Print) -> Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(output)
        .with_context(|| format!("{} (it is not overwritten if it exists)", output.display()))?;
    writeln!(file, "{credential}").with_context(|| output.display().to_string())?;
    print.show(&describe(credential)?);
    Ok(())
}

fn describe(credential: &Credential) -> Result<serde_json::Value> {
    let verified = credential.verify();
    Ok(json!({
        "root": credential.root().to_string(),
        "signatures": match &verified { Ok(_) => "right".to_owned(), Err(refusal) => refusal.to_string() },
        "blocks": credential.describe()?.iter().map(|block| block.trim_end()).collect::<Vec<_>>(),
    }))
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::ALL.into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| "wasm, bpf or native".into())
}

/// Seconds since 1970 of a time in words.
fn time(text: &str) -> Result<u64, String> {
    let expected = || "expected 2027-01-31, 2027-01-31T12:00:00Z, +30d, +12h or +5m".to_owned();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if let Some(span) = text.strip_prefix('+') {
        let units = [('d', 86_400), ('h', 3600), ('m', 60)];
        let unit = units.into_iter().find_map(|(letter, seconds)| Some((span.strip_suffix(letter)?, seconds)));
        let (count, seconds) = unit.ok_or_else(expected)?;
        let count: u64 = count.parse().map_err(|_| expected())?;
        return count.checked_mul(seconds).and_then(|span| now().checked_add(span)).ok_or_else(expected);
    }
    moment(text).map_err(|_| expected())
}

/// A date, or a date and a time in UTC, as RFC 3339 writes them.
fn moment(text: &str) -> Result<u64> {
    let (date, clock) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let numbers = |text: &str, by: char| text.split(by).map(str::parse).collect::<Result<Vec<u64>, _>>();
    let (date, clock) = (numbers(date, '-')?, numbers(clock.strip_suffix('Z').context("no Z")?, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &clock[..]) else { anyhow::bail!("parts") };
    ensure!((1970..=9999).contains(year) && (1..=12).contains(month) && *hour < 24 && *minute < 60 && *second < 60);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let february = if leap(*year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    ensure!((1..=months[*month as usize - 1]).contains(day));
    let years: u64 = (1970..*year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let days = years + months[..*month as usize - 1].iter().sum::<u64>() + day - 1;
    Ok(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in
            [("1970-01-01", 0), ("2000-02-29T12:00:00Z", 951_825_600), ("2026-11-21T00:00:01Z", 1_795_219_201)]
        {
            assert_eq!(time(text), Ok(expected), "{text}");
        }
        for text in ["", "2026-02-29", "2026-13-01", "2026-01-01T00:00:00", "tomorrow", "+1", "+99999999999999999999d"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
