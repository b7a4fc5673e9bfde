//! Completions: a shell asks this program what may come next. Example: `anode node status <Tab>` offers the nodes that run here.
//!
//! The registration of a shell (`ANODE_COMPLETE=bash anode`) calls this program with the words so far. Subcommands and options are
//! the parser's own; names of nodes, labs, codes and domains come from run directories, from the records of labs and from the node that
//! the words name. A shell expands what it is offered, and authors choose titles, so names of letters, digits, `.`, `_` and `-` alone are
//! offered ([`is_plain`]). A node that does not answer soon is not waited for.

use super::attach;
use crate::clean;
use crate::lab::{self, Lab};
use crate::manage::client::{ClientError, Control, run_dir};
use crate::seen::words::Names;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{Bash, CompleteEnv, Fish, Shells, Zsh};
use model::Ask;
use model::domains::Domains;
use model::extensions::Extension;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable by which a shell asks, with its name as the value.
pub(super) const VARIABLE: &str = "ANODE_COMPLETE";

/// For how long a node may think about its names: somebody waits before a prompt.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names of one kind that are offered at most.
const OFFERED_MAX: usize = 500;

/// Digits of a code's name that are offered.
const DIGITS: usize = 16;

/// The shells that are served.
pub(super) const SHELLS: Shells<'static> = Shells(&[&Bash, &Fish, &Zsh]);

/// Answers a shell that asks, and ends; goes on if none does.
pub(super) fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(move || with_names(command()))
        .var(VARIABLE)
        .bin("anode")
        .completer("anode")
        .shells(SHELLS)
        .complete();
}

/// What is asked for the values of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Node,
    Lab,
    NodeOfLab,
    Code,
    Domain,
    Environment,
    Graph,
    Port,
    Extension,
    Call,
    /// NODE/INTERFACE of a lab
    LinkOfLab,
    /// Words such as port=NAME
    Filter,
    /// A node, then a file.
    NodeAndFile,
    /// A node, then a code of it.
    NodeAndCode,
}

impl Asked {
    /// What is asked for an argument of a noun's command; nothing: its values are no names, or the parser knows them.
    fn of(noun: &str, verb: &str, argument: &Arg) -> Option<Asked> {
        // Files have another type.
        if argument.get_value_parser().type_id() != TypeId::of::<String>() {
            return None;
        }
        match (noun, verb, argument.get_id().as_str()) {
            ("lab", _, "node") => Some(Asked::NodeOfLab),
            (_, _, "node") => Some(Asked::Node),
            (_, _, "lab") => Some(Asked::Lab),
            (_, _, "code") => Some(Asked::Code),
            (_, _, "domain") => Some(Asked::Domain),
            (_, _, "filter") => Some(Asked::Filter),
            ("ee", _, "name") => Some(Asked::Environment),
            ("graph", _, "graph") => Some(Asked::Graph),
            ("classify", "explain", "port") => Some(Asked::Port),
            ("extension", "unload", "extension") => Some(Asked::Extension),
            ("node", "call", "call") => Some(Asked::Call),
            ("lab", _, "link") => Some(Asked::LinkOfLab),
            ("cred", _, "of") => Some(Asked::Node),
            ("code", "add", "what") => Some(Asked::NodeAndFile),
            ("code", "rm", "what") => Some(Asked::NodeAndCode),
            _ => None,
        }
    }
}

/// The command line with names for its arguments.
fn with_names(command: Command) -> Command {
    command.mut_subcommands(|noun| {
        let of = noun.get_name().to_owned();
        let noun = name_arguments(noun, &of, "");
        noun.mut_subcommands(|verb| {
            let named = verb.get_name().to_owned();
            name_arguments(verb, &of, &named)
        })
    })
}

fn name_arguments(command: Command, noun: &str, verb: &str) -> Command {
    command.mut_args(|argument| match Asked::of(noun, verb, &argument) {
        Some(asked) => argument.add(ArgValueCompleter::new(asked)),
        None => argument,
    })
}

impl ValueCompleter for Asked {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(begun) = current.to_str() else { return Vec::new() };
        let asked = match self {
            // The engine counts no values of positional arguments: the words say whether the node is there.
            Asked::NodeAndFile if named().is_some() => return PathCompleter::file().complete(current),
            Asked::NodeAndCode if named().is_some() => Asked::Code,
            Asked::NodeAndFile | Asked::NodeAndCode => Asked::Node,
            other => *other,
        };
        match asked {
            Asked::Lab => {
                let mut all = offer(labs(), begun);
                all.extend(PathCompleter::file().complete(current));
                all
            }
            Asked::NodeOfLab => offer(nodes_of_lab(), begun),
            Asked::LinkOfLab => offer(links_of_lab(), begun),
            Asked::Domain => offer(domains(), begun),
            Asked::Environment => offer(environments(), begun),
            Asked::Port => offer(ports(), begun),
            Asked::Extension => offer(extensions(false), begun),
            Asked::Call => offer(extensions(true), begun),
            Asked::Graph => offer(graphs(), begun),
            Asked::Filter => filter(begun),
            Asked::Code => offer(codes(), begun),
            _ if begun.contains('/') => PathCompleter::dir().complete(current),
            _ => offer(nodes(), begun),
        }
    }
}

/// What is offered and what is said of it.
type Offered = BTreeMap<String, Option<String>>;

/// Those that begin so and that a shell leaves as they are.
fn offer(all: Offered, begun: &str) -> Vec<CompletionCandidate> {
    let fits = all.into_iter().filter(|(name, _)| name.starts_with(begun) && is_plain(name));
    let candidate = |(name, help): (String, Option<String>)| {
        CompletionCandidate::new(name).help(help.map(|help| clean::shown(&help).to_string().into()))
    };
    fits.take(OFFERED_MAX).map(candidate).collect()
}

/// Whether a name means itself in every shell, and is no option.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

fn without_help(names: impl IntoIterator<Item = String>) -> Offered {
    names.into_iter().map(|name| (name, None)).collect()
}

/// The nodes that run here.
fn nodes() -> Offered {
    let name = |dir: PathBuf| dir.file_name()?.to_str().map(str::to_owned);
    without_help(attach::running().into_iter().filter_map(name))
}

/// The labs of this machine.
fn labs() -> Offered {
    without_help(lab::list().unwrap_or_default().into_iter().map(|lab| lab.name))
}

/// The lab that a word names, or the file of its topology.
fn named_lab() -> Option<Lab> {
    let named = |word: &OsString| {
        let word = word.to_str()?;
        let name = if Path::new(word).is_file() { lab::name_in(word).ok()? } else { word.to_owned() };
        Lab::open(&name).ok()
    };
    words().iter().find_map(named)
}

/// The nodes of that lab.
fn nodes_of_lab() -> Offered {
    let lab = named_lab();
    without_help(lab.iter().flat_map(|lab| lab.topology().nodes.iter().map(|node| node.name.clone())))
}

/// The first ends of the links of the lab that a word names, and the other ones.
fn links_of_lab() -> Offered {
    let lab = named_lab();
    let nodes = lab.iter().flat_map(|lab| &lab.topology().nodes);
    let ends = nodes.flat_map(|node| node.interfaces.iter().map(move |end| format!("{}/{}", node.name, end.name)));
    without_help(ends)
}

/// What a word of a filter may be the name of: `port=` is there, or bash has cut it off.
fn filter(begun: &str) -> Vec<CompletionCandidate> {
    let before = words();
    let (prefix, key, value) = match (begun.split_once('='), &before[..]) {
        (Some((key, value)), _) => (format!("{key}="), key.to_owned(), value),
        (None, [.., key, is]) if is == "=" => (String::new(), key.to_string_lossy().into_owned(), begun),
        _ => return Vec::new(),
    };
    let all = match key.as_str() {
        "port" => ports(),
        "code" => codes(),
        "domain" => domains(),
        _ => return Vec::new(),
    };
    offer(all, value).into_iter().map(|one| one.add_prefix(prefix.clone())).collect()
}

/// Ports of the node that a word names.
fn ports() -> Offered {
    without_help(names().into_iter().flat_map(|names| names.ports).map(|port| port.name))
}

/// Graphs of the node that a word names.
fn graphs() -> Offered {
    let all = asked(|control| control.asked::<Vec<model::graphs::Graph>>(&Ask::Graphs));
    without_help(all.into_iter().flatten().map(|graph| graph.name))
}

/// Environments of the node that a word names.
fn environments() -> Offered {
    let all = asked(|control| control.asked::<Domains>(&Ask::Domains));
    without_help(all.into_iter().flat_map(|domains| domains.environments).map(|environment| environment.name))
}

/// Codes of the node that a word names: by their titles, if those are plain and of one code each, and by digits.
fn codes() -> Offered {
    let codes = names().map(|names| names.codes).unwrap_or_default();
    let mut offered = Offered::new();
    for code in &codes {
        offered.insert(code.name.chars().take(DIGITS).collect(), Some(code.title.clone()));
        if codes.iter().filter(|other| other.title == code.title).count() == 1 && !takes_digits_alone() {
            offered.insert(code.title.clone(), None);
        }
    }
    offered
}

/// Whether the command wants digits: what cannot be undone is not done by a title that an author has chosen.
fn takes_digits_alone() -> bool {
    words().iter().any(|word| word == "revoke")
}

/// Domains of the node that a word names, by their numbers.
fn domains() -> Offered {
    let domains = names().map(|names| names.domains).unwrap_or_default();
    domains.into_iter().map(|(number, title)| (number.to_string(), Some(title))).collect()
}

/// The run directory of the first node among the words.
fn named() -> Option<PathBuf> {
    words().iter().find_map(|word| {
        let dir = run_dir(word.to_str()?);
        attach::runs(&dir).then_some(dir)
    })
}

/// The names of the first node among the words.
fn names() -> Option<Names> {
    asked(Control::names)
}

/// The extensions of the first node among the words, or their calls.
fn extensions(calls: bool) -> Offered {
    let all = asked(|control| control.asked::<Vec<Extension>>(&Ask::Extensions)).unwrap_or_default();
    let names = |one: Extension| match calls {
        false => vec![(one.name, Some(one.about))],
        true => {
            one.calls.iter().map(|call| (format!("{}.{}", one.name, call.name), Some(call.about.clone()))).collect()
        }
    };
    all.into_iter().flat_map(names).collect()
}

/// What the first node among the words says, or else the one that runs here; nothing: it does not answer in time.
fn asked<T: Send + 'static>(
    question: impl FnOnce(&mut Control) -> Result<T, ClientError> + Send + 'static,
) -> Option<T> {
    let only = || match &attach::running()[..] {
        [one] => Some(one.clone()),
        _ => None,
    };
    let dir = named().or_else(only)?;
    attach::ask_apart(dir, question).recv_timeout(PATIENCE).ok()?.ok()
}

/// The words before the one that is asked for, without `anode` itself. The shell says how many there are; fish says only them.
fn words() -> Vec<OsString> {
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(2).collect();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse::<usize>().ok());
    let before = index.map_or(words.len().saturating_sub(1), |index| index.saturating_sub(1));
    words.into_iter().take(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_expand_is_not_offered() {
        for name in ["$(id)", "a b", "`id`", "x;y", "*", "-rf", "", "a\u{1b}[2J", "ä"] {
            assert!(!is_plain(name), "{name}");
        }
        let names = ["r1", "lab.west", "a-b_c"].map(str::to_owned);
        let evil = ["r1 $(id)".to_owned(), "r\u{b}2".to_owned()];
        let offered = offer(without_help(names.into_iter().chain(evil)), "");
        let values: Vec<_> = offered.iter().map(|one| one.get_value().to_str().unwrap()).collect();
        assert_eq!(values, ["a-b_c", "lab.west", "r1"]);
    }

    #[test]
    fn what_is_said_beside_a_name_is_clean() {
        let offered = Offered::from([("ab".to_owned(), Some("x\u{1b}]0;y\u{7}\nz".to_owned()))]);
        let help = offer(offered, "a")[0].get_help().unwrap().to_string();
        assert!(help.contains("\\u001b") && !help.contains(char::is_control), "{help:?}");
    }

    /// Arguments that are words of whoever types them, of nouns.
    const WORDS: [(&str, &[&str]); 13] = [
        ("cache", &["key", "value"]),
        ("capsule", &["hex", "text"]),
        ("channel", &["from", "to", "role", "title"]),
        ("classify", &["frame", "from"]),
        ("code", &["name", "title"]),
        ("cred", &["role", "only"]),
        (
            "graph",
            &[
                "class",
                "define",
                "from",
                "write",
                "read",
                "handler",
                "what",
                "role",
                "take",
                "connect",
                "disconnect",
                "remove",
            ],
        ),
        ("lab", &["name"]),
        ("multicast", &["text"]),
        ("node", &["part", "arguments"]),
        (
            "plan",
            &[
                "name",
                "signature",
                "call",
                "port",
                "eval_dest",
                "routing",
                "handler",
                "principal",
                "expression",
                "files",
            ],
        ),
        ("sim", &["scenario"]),
        ("store", &["store", "prefix", "key"]),
    ];

    /// Arguments of a command and all below it that nobody has decided about.
    fn undecided(noun: &str, command: &Command, into: &mut Vec<String>) {
        let verb = command.get_name();
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let is_text = argument.get_value_parser().type_id() == TypeId::of::<String>()
                && argument.get_action().takes_values()
                && argument.get_possible_values().is_empty();
            let is_word = WORDS.iter().any(|(of, words)| *of == noun && words.contains(&id));
            let verb = if verb == noun { "" } else { verb };
            if is_text && !is_word && Asked::of(noun, verb, argument).is_none() {
                into.push(format!("{noun} {verb} {id}"));
            }
        }
        command.get_subcommands().for_each(|below| undecided(noun, below, into));
    }

    #[test]
    fn every_argument_that_is_a_text_is_a_name_that_is_asked_for_or_somebodys_own_words() {
        let command = crate::cli::command();
        let mut left = Vec::new();
        command.get_subcommands().for_each(|noun| undecided(noun.get_name(), noun, &mut left));
        assert_eq!(left, [""; 0], "name them in Asked::of, or in WORDS");
    }

    /// Every argument that takes the name of a node has somebody who lists them.
    #[test]
    fn arguments_of_names_are_found_in_the_command_line() {
        let command = crate::cli::command();
        let asked = |noun: &str, verb: &str, argument: &str| {
            let of = command.find_subcommand(noun).unwrap();
            let of = if verb.is_empty() { of } else { of.find_subcommand(verb).unwrap() };
            let argument = of.get_arguments().find(|found| found.get_id() == argument).unwrap();
            Asked::of(noun, verb, argument)
        };
        for (noun, verb, argument, expected) in [
            ("node", "status", "node", Some(Asked::Node)),
            ("node", "run", "config", None),
            ("node", "log", "code", None),
            ("capture", "", "node", Some(Asked::Node)),
            ("ping", "", "node", Some(Asked::Node)),
            ("packet", "explain", "lab", Some(Asked::Lab)),
            ("lab", "exec", "node", Some(Asked::NodeOfLab)),
            ("lab", "down", "lab", Some(Asked::Lab)),
            ("code", "state", "code", Some(Asked::Code)),
            ("code", "check", "node", None),
            ("code", "rm", "what", Some(Asked::NodeAndCode)),
            ("domain", "kill", "domain", Some(Asked::Domain)),
            ("ee", "stop", "name", Some(Asked::Environment)),
            ("lab", "capture", "link", Some(Asked::LinkOfLab)),
            ("capture", "", "filter", Some(Asked::Filter)),
        ] {
            assert_eq!(asked(noun, verb, argument), expected, "{noun} {verb} {argument}");
        }
    }
}
