//! `anode node events`: what was done to a node, by whom, and what has changed in it; with `--follow` as it comes.

use super::has_ended;
use crate::clean;
use crate::manage::client::{ClientError, Control, run_dir};
use model::events::{Event, Events, Kind};
use model::{Ask, Subject};

/// What is to be printed.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The node's name, or its run directory
    node: String,
    /// Only events of this kind; more than once for more
    #[arg(long, value_name = "KIND", value_parser = ["node", "code", "role", "session", "neighbour", "route", "link"])]
    kind: Vec<String>,
    /// Only what this user has asked for, by number
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Go on with what comes, until interrupted or the node ends
    #[arg(long, short)]
    follow: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn wants(&self, event: &Event) -> bool {
        let kind = self.kind.is_empty() || self.kind.iter().any(|kind| kind == event.kind.name());
        kind && self.user.is_none_or(|user| event.who.is_some_and(|who| who.uid == user))
    }
}

/// Prints the last events, and then those that come if that is wanted.
pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let mut control = Control::connect(&run_dir(&args.node))?;
    let mut told = Told::default();
    let first: Events = control.asked(&Ask::Events)?;
    told.news(first).iter().for_each(|(event, missed)| say(event, *missed, args));
    if !args.follow {
        return Ok(());
    }
    loop {
        match control.asked_next::<Events>(Subject::Events) {
            Ok(events) => told.news(events).iter().for_each(|(event, missed)| say(event, *missed, args)),
            // Another connection needed the place: this one begins anew, and knows what it has printed.
            Err(ClientError::Broken(_)) => match Control::connect(&run_dir(&args.node)) {
                Ok(anew) => control = anew,
                Err(ClientError::NotRunning(..)) => return has_ended(args.json),
                Err(error) => return Err(error.into()),
            },
            Err(ClientError::Refused(_)) => return has_ended(args.json),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What was printed: of which process, and the last number.
#[derive(Default)]
struct Told {
    process: u32,
    last: Option<u64>,
}

impl Told {
    /// Those that were not printed yet, each with how many before it are missing.
    fn news(&mut self, events: Events) -> Vec<(Event, u64)> {
        if events.process != self.process {
            // A node that was started again counts anew.
            *self = Told { process: events.process, last: None };
        }
        let mut news = Vec::new();
        for event in events.events {
            let number = event.number;
            if self.last.is_none_or(|last| number > last) {
                news.push((event, self.last.map_or(0, |last| number - last - 1)));
                self.last = Some(number);
            }
        }
        news
    }
}

fn say(event: &Event, missed: u64, args: &Args) {
    if missed > 0 && !args.json {
        crate::say!("{missed} events were not kept, or came too fast to be read");
    }
    if !args.wants(event) {
        return;
    }
    if args.json {
        // It came as JSON, so it can be written as such.
        crate::say!("{}", serde_json::to_string(event).unwrap_or_default());
        return;
    }
    let who = event.who.map(|who| format!(", by user {} in process {}", who.uid, who.pid)).unwrap_or_default();
    let refused = event.refused.as_ref().map(|why| format!("; refused: {}", clean::shown(why))).unwrap_or_default();
    let (seconds, ms) = (event.unix_ms / 1000, event.unix_ms % 1000);
    let (kind, what): (Kind, _) = (event.kind, clean::shown(&event.what));
    crate::say!("{seconds}.{ms:03} {:9} {what}{who}{refused}", kind.name());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_news_once_and_what_was_overwritten_is_counted() {
        let event =
            |number| Event { number, unix_ms: 0, kind: Kind::Link, what: String::new(), who: None, refused: None };
        let mut told = Told::default();
        let mut news = |process, numbers: &[u64]| -> Vec<(u64, u64)> {
            let events = Events { process, unkept: 0, events: numbers.iter().copied().map(event).collect() };
            told.news(events).iter().map(|(event, missed)| (event.number, *missed)).collect()
        };
        assert_eq!(news(1, &[0, 1]), [(0, 0), (1, 0)]);
        assert_eq!(news(1, &[1, 4]), [(4, 2)]);
        assert_eq!(news(2, &[0]), [(0, 0)], "another process");
    }
}
