//! `anode cred`: principals' keys, and the credentials by which a root key grants them roles.
//!
//! Everything here works on files. Which roots a node trusts for which role, and what the roles may, stands in
//! the node's configuration; `docs/trust.md` explains the whole.

mod revoke;

use super::attach::Place;
use super::code::Print;
use crate::code::bundle::Kind;
use crate::trust::{Credential, LinkSecret, PLAN, PrincipalId, PrincipalKey, Restrictions, Terms, check_role_name};
use crate::wire::Digest;
use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use model::bundles::{self, Inspected, Principal, Secret};
use revoke::Taken;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes of a credential file: one line.
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
        #[arg(long, value_parser = role)]
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
    /// List what was revoked: what, by whom and when
    Revoked {
        /// A running node, by name or run directory, or a store
        #[arg(value_name = "NODE|STORE")]
        of: String,
        #[command(flatten)]
        print: Print,
    },
    /// Show what a credential says, whether its time is now, and whether its signatures are right; of a key file, whose it is
    Inspect {
        /// The credential, a principal's key, or a secret of neighbours
        file: PathBuf,
        #[command(flatten)]
        print: Print,
    },
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
    /// For this representation only (wasm, bpf, native; plan: for PLAN packets); may be repeated
    #[arg(long, value_name = "KIND", value_parser = kind)]
    only: Vec<String>,
}

/// Runs one verb.
pub(crate) fn run(arguments: Args) -> Result<ExitCode> {
    match arguments.verb {
        Verb::New { file, print } => {
            let key = PrincipalKey::new()?;
            key.save(&file)?;
            print.show(&Principal { principal: key.id().to_string() });
        }
        Verb::Secret { file, print } => {
            let secret = LinkSecret::new()?;
            secret.save(&file)?;
            print.show(&Secret { key: format!("{:08x}", secret.id) });
        }
        Verb::Grant { root, to, role, checks, output, print } => {
            checks.are_timely()?;
            let terms = Terms { principal: to, role, checks: checks.into() };
            write(&Credential::grant(&PrincipalKey::load(&root)?, &terms)?, &output, &print)?;
        }
        Verb::Attenuate { file, checks, output, print } => {
            checks.are_timely()?;
            write(&load(&file)?.attenuate(&checks.into())?, &output, &print)?;
        }
        Verb::Revoke { taken, key, place, print } => revoke::revoke(&taken, key.as_deref(), &place, &print)?,
        Verb::Revoked { of, print } => revoke::revoked(&of, &print)?,
        Verb::Inspect { file, print } => print.show(&inspect(&file)?),
    }
    Ok(ExitCode::SUCCESS)
}

impl Checks {
    /// Refuses what would never be good.
    fn are_timely(&self) -> Result<()> {
        let Checks { from, until, .. } = self;
        let ends = until.map_or(u64::MAX, |until| until);
        ensure!(ends >= now(), "--until {}: this is over; name a time to come", time_of(ends));
        ensure!(from.is_none_or(|from| from <= ends), "--from is behind --until");
        Ok(())
    }
}

impl From<Checks> for Restrictions {
    fn from(checks: Checks) -> Restrictions {
        let Checks { from, until, code, node, only } = checks;
        Restrictions { from, until, codes: code, nodes: node, representations: only }
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

/// What a file says that `anode cred` writes; nothing of a key that is secret.
fn inspect(file: &Path) -> Result<Inspected> {
    let mut begins = [0; 12];
    let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let length = opened.take(begins.len() as u64).read(&mut begins).with_context(|| file.display().to_string())?;
    match &begins[..length] {
        begins if begins.starts_with(b"anode-key ") => {
            let principal = PrincipalKey::load(file)?.id().to_string();
            Ok(Inspected::Key { key: "to sign and to grant with".into(), principal })
        }
        begins if begins.starts_with(b"anode-secret") => {
            let number = format!("{:08x}", LinkSecret::load(file)?.id);
            Ok(Inspected::Secret { key: "of two neighbours".into(), number })
        }
        _ => Ok(Inspected::Credential(describe(&load(file)?)?)),
    }
}

fn describe(credential: &Credential) -> Result<bundles::Credential> {
    let verified = credential.verify();
    let blocks = credential.describe()?;
    Ok(bundles::Credential {
        root: credential.root().to_string(),
        signatures: match &verified {
            Ok(_) => "right".to_owned(),
            Err(refusal) => refusal.to_string(),
        },
        valid: if verified.is_ok() { validity(&blocks, now()) } else { "no, its signatures are wrong".into() },
        blocks: blocks.iter().map(|block| block.trim_end().to_owned()).collect(),
    })
}

/// Whether a time is within the times of a credential's checks, as `anode cred` writes them.
fn validity(blocks: &[String], now: u64) -> String {
    let checks = blocks.iter().flat_map(|block| block.lines()).filter(|line| line.starts_with("check if time("));
    let (mut begins, mut ends) = (0, u64::MAX);
    for check in checks {
        let bound = |operator: &str| {
            let text = check.split_once(operator)?.1.trim_end_matches(';');
            moment(text.trim()).ok()
        };
        begins = bound(" >= ").unwrap_or(0).max(begins);
        ends = bound(" <= ").unwrap_or(u64::MAX).min(ends);
    }
    match (now < begins, now > ends, ends) {
        (_, true, _) => format!("no, ended {}", time_of(ends)),
        (true, ..) => format!("not yet, begins {}", time_of(begins)),
        (.., u64::MAX) => "yes, without end".into(),
        _ => format!("yes, until {}", time_of(ends)),
    }
}

fn role(text: &str) -> Result<String, String> {
    check_role_name(text).map(|()| text.to_owned())
}

/// What nodes ask credentials about: a representation of code, or PLAN packets.
fn kind(text: &str) -> Result<String, String> {
    let known = text == PLAN || Kind::ALL.iter().any(|kind| kind.to_string() == text);
    if known { Ok(text.to_owned()) } else { Err("wasm, bpf, native or plan".into()) }
}

/// Seconds since 1970 of a time in words.
fn time(text: &str) -> Result<u64, String> {
    let expected = || "expected 2027-01-31, 2027-01-31T12:00:00Z, +30d, +12h or +5m".to_owned();
    if let Some(span) = text.strip_prefix('+') {
        let units = [('d', 86_400), ('h', 3600), ('m', 60)];
        let unit = units.into_iter().find_map(|(letter, seconds)| Some((span.strip_suffix(letter)?, seconds)));
        let (count, seconds) = unit.ok_or_else(expected)?;
        let count: u64 = count.parse().map_err(|_| expected())?;
        return count.checked_mul(seconds).and_then(|span| now().checked_add(span)).ok_or_else(expected);
    }
    moment(text).map_err(|_| expected())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time in UTC, as RFC 3339 writes it.
fn time_of(unix_s: u64) -> String {
    let (mut days, rest) = (unix_s / 86_400, unix_s % 86_400);
    let mut year = 1970;
    while days >= year_days(year) && year < 9999 {
        days -= year_days(year);
        year += 1;
    }
    let mut month = 0;
    while month < 11 && days >= month_days(year)[month] {
        days -= month_days(year)[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

fn year_days(year: u64) -> u64 {
    month_days(year).iter().sum()
}

fn month_days(year: u64) -> [u64; 12] {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// A date, or a date and a time in UTC, as RFC 3339 writes them.
fn moment(text: &str) -> Result<u64> {
    let (date, clock) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let numbers = |text: &str, by: char| text.split(by).map(str::parse).collect::<Result<Vec<u64>, _>>();
    let (date, clock) = (numbers(date, '-')?, numbers(clock.strip_suffix('Z').context("no Z")?, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &clock[..]) else { anyhow::bail!("parts") };
    ensure!((1970..=9999).contains(year) && (1..=12).contains(month) && *hour < 24 && *minute < 60 && *second < 60);
    let months = month_days(*year);
    ensure!((1..=months[*month as usize - 1]).contains(day));
    let years: u64 = (1970..*year).map(year_days).sum();
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
            assert!(time_of(expected).starts_with(text.trim_end_matches('Z')), "{text}");
        }
        for unix_s in (0..5_000_000_000).step_by(86_400 * 13 + 7) {
            assert_eq!(time(&time_of(unix_s)), Ok(unix_s));
        }
        for text in ["", "2026-02-29", "2026-13-01", "2026-01-01T00:00:00", "tomorrow", "+1", "+99999999999999999999d"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_credential_is_valid_within_the_times_of_its_checks() {
        let root = PrincipalKey::from_seed([1; 32]);
        let of = |from: Option<u64>, until: Option<u64>, later: Option<u64>| {
            let checks = |from, until| Restrictions { from, until, ..Restrictions::default() };
            let terms = Terms { principal: root.id(), role: "guest".into(), checks: checks(from, until) };
            let credential = Credential::grant(&root, &terms).unwrap().attenuate(&checks(None, later)).unwrap();
            validity(&credential.describe().unwrap(), 1000)
        };
        for (given, expected) in [
            ((None, None, None), "yes, without end"),
            ((Some(1000), Some(1000), None), "yes, until 1970-01-01T00:16:40Z"),
            ((None, Some(2000), Some(999)), "no, ended 1970-01-01T00:16:39Z"),
            ((Some(1001), Some(2000), None), "not yet, begins 1970-01-01T00:16:41Z"),
        ] {
            assert_eq!(of(given.0, given.1, given.2), expected, "{given:?}");
        }
        for (role_name, good) in [("guest", true), ("no such role!", false), ("", false)] {
            assert_eq!(role(role_name).is_ok(), good, "{role_name}");
        }
    }
}
