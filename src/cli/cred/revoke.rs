//! `anode cred revoke` and `anode cred revoked`: revoke a credential, a principal or a code, and list revocations.

use super::super::attach::Place;
use super::super::code::Print;
use super::{load, time_of};
use crate::clean;
use crate::manage::client::{Control, run_dir};
use crate::manage::revoked;
use crate::trust::{PrincipalId, PrincipalKey, Revocation, Subject};
use crate::wire::Digest;
use anyhow::{Context as _, Result, bail, ensure};
use model::Ask;
use model::revoked::{All, Ended, Revoked, Said};
use model::status::Codes;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Digits of a code's name that people are shown, and that say which is meant.
const DIGITS_LEAST: usize = 8;

/// What is taken back.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Taken {
    /// This credential, and all that were made of it
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// This principal: all that it has signed, and what it was granted
    #[arg(long)]
    principal: Option<PrincipalId>,
    /// This code: all digits of its name, or the first ones, at least 8, of one that the node has
    #[arg(long, value_name = "NAME")]
    code: Option<String>,
}

impl Taken {
    /// Its kind and name, and as a value. A node says which code is meant.
    fn subject(&self, control: &mut Control) -> Result<(&'static str, String, Subject)> {
        Ok(match (&self.token, self.principal, &self.code) {
            (Some(file), ..) => {
                let id = load(file)?.revocation_id().with_context(|| file.display().to_string())?;
                ("token", id.to_string(), Subject::Token(id))
            }
            (_, Some(principal), _) => ("principal", principal.to_string(), Subject::Principal(principal)),
            (.., Some(code)) => {
                let code = match code.parse::<Digest>() {
                    Ok(code) => code,
                    Err(_) => whole(code, &control.asked(&Ask::Status)?)?,
                };
                ("code", code.to_string(), Subject::Code(code))
            }
            _ => anyhow::bail!("one of --token, --principal, --code"),
        })
    }
}

/// The name of the one code of a node's status that begins with these digits.
fn whole(digits: &str, status: &Codes) -> Result<Digest> {
    let shown = clean::shown(digits);
    ensure!(
        digits.len() >= DIGITS_LEAST && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "--code {shown}: the name of a code is 64 hexadecimal digits; at least {DIGITS_LEAST} of them do for one that the node has"
    );
    let names = status.codes.iter().filter_map(|code| code.name.as_deref());
    let mut found = names.filter(|name| name.starts_with(&digits.to_ascii_lowercase()));
    match (found.next(), found.next()) {
        (Some(name), None) => {
            name.parse().map_err(|_| anyhow::anyhow!("the node says {} of a code", clean::shown(name)))
        }
        (None, _) => bail!("--code {shown}: the node has no code whose name begins so; give all 64 digits"),
        _ => bail!("--code {shown}: the node has several codes whose names begin so; give more digits"),
    }
}

/// Asks a node to take something back.
pub(super) fn revoke(taken: &Taken, key: Option<&Path>, place: &Place, print: &Print) -> Result<()> {
    let mut control = Control::connect(&place.dir()?)?;
    let (what, name, subject) = taken.subject(&mut control)?;
    let key = key.map(PrincipalKey::load).transpose()?;
    let wanted = match &key {
        Some(key) => {
            let unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let revocation = Revocation::sign(key, subject, unix_s);
            let message = revocation.wire().map(|repr| hex::encode(repr.bytes())).unwrap_or_default();
            model::Taken::Signed { message }
        }
        None => model::Taken::Here { what: what.to_owned(), name: name.clone() },
    };
    let ended: Ended = control.asked(&Ask::Revoke(wanted))?;
    if !ended.remembered {
        crate::say_err!("the node has no store: it forgets this when it ends");
    }
    if let Some(key) = &key {
        let of_root = match &taken.token {
            Some(file) => load(file)?.root() == key.id(),
            None => false,
        };
        note(key.id(), if of_root { Some(true) } else { ended.issued });
    }
    print.show(&Said::of(what, name, ended));
    Ok(())
}

/// Says whether neighbours will obey a revocation, if they may not.
fn note(key: PrincipalId, issued: Option<bool>) {
    let here = "Here it holds as the operator's word";
    match issued {
        Some(true) => {}
        Some(false) => {
            crate::say_err!("note: {key} has neither signed nor issued this; neighbours will ignore it. {here}");
        }
        None => crate::say_err!(
            "note: nothing here shows that {key} has signed or issued this; if it has not, neighbours will ignore it. {here}"
        ),
    }
}

/// Lists what was revoked at a node that runs, or in a store.
pub(super) fn revoked(of: &str, print: &Print) -> Result<()> {
    let store = Path::new(of);
    let all: Vec<Revoked> = if store.join("objects").is_dir() || store.join(revoked::NAME).is_file() {
        let words = revoked::read(store).with_context(|| store.join(revoked::NAME).display().to_string())?;
        words.iter().map(|(line, word, operator)| revoked::describe(word, *operator, Some(*line))).collect()
    } else {
        Control::connect(&run_dir(of))?.asked(&Ask::Revoked)?
    };
    if print.is_json() {
        print.show(&All { revoked: all });
        return Ok(());
    }
    for Revoked { by, line, name, operator, unix_s, what } in &all {
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let by = match (by.as_ref().map(clean::shown), operator) {
            (Some(by), true) => format!("{by}, and by the operator"),
            (Some(by), false) => by.to_string(),
            (None, _) => "the operator".into(),
        };
        crate::say!("{line}{} {} by {by}, {}", clean::shown(what), clean::shown(name), time_of(*unix_s));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::status::Called;

    #[test]
    fn a_code_is_known_by_its_first_digits_if_the_node_has_one_such() {
        let names = ["12345678", "12345679", "abcdef01"].map(|first| first.repeat(8));
        let status = |names: &[String]| Codes {
            codes: names.iter().map(|name| Called { name: Some(name.clone()), ..Called::default() }).collect(),
        };
        let all = status(&names);
        let found = |digits: &str| whole(digits, &all).map(|code| code.to_string()).map_err(|error| error.to_string());
        assert_eq!(found("ABCDEF01"), Ok(names[2].clone()));
        assert_eq!(found(&names[0][..9]), Ok(names[0].clone()));
        for (digits, part) in [
            ("abcdef0", "at least 8"),
            ("no-digits", "64 hexadecimal digits"),
            ("11111111", "no code whose name begins so"),
        ] {
            assert!(found(digits).unwrap_err().contains(part), "{digits}");
        }
        let both = status(&["12345678".repeat(8), "123456780".repeat(8)[..64].to_owned()]);
        assert!(whole("12345678", &both).unwrap_err().to_string().contains("several"));
    }
}
