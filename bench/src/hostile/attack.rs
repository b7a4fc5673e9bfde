//! The attacks, and the codes of attacker and innocent.

use super::super::Error;
use super::super::guests::compile;
use anode::code::author::AuthorOptions;
use anode::code::bundle::{Bundle, Kind};
use anode::wire::{Addr, anep, capsule};
use std::fmt::Write as _;
use std::sync::Arc;

/// Rounds of a loop in the innocent's code: some microseconds.
const WORK: u16 = 1500;

/// Codes that one attacker uses in turn, so that it is many domains.
const MANY: u32 = 8;

/// Modules of the compile bomb, and what is nested in each.
const BOMBS: u32 = 64;
const NESTED: usize = 3000;
const LOCALS: usize = 500;

/// What a neighbour, or an environment, does to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    Flood,
    Loop,
    CompileBomb,
    State,
    Storm,
    Burn,
    Fork,
}

impl Attack {
    pub(super) const ALL: [Attack; 7] =
        [Attack::Flood, Attack::Loop, Attack::CompileBomb, Attack::State, Attack::Storm, Attack::Burn, Attack::Fork];

    pub(super) fn name(self) -> &'static str {
        match self {
            Attack::Flood => "flood",
            Attack::Loop => "loop",
            Attack::CompileBomb => "compile bomb",
            Attack::State => "state",
            Attack::Storm => "storm",
            Attack::Burn => "EE burn",
            Attack::Fork => "EE fork",
        }
    }

    pub(super) fn help(self) -> &'static str {
        match self {
            Attack::Flood => "as many cheap capsules as the generator can send beside the innocent's.",
            Attack::Loop => "capsules that never end, by eight codes in turn.",
            Attack::CompileBomb => {
                "capsules of new codes, each with thousands of nested loops over hundreds of locals."
            }
            Attack::State => "capsules that each put values under eight new keys for five minutes, by eight codes.",
            Attack::Storm => "capsules that send as many children as they may.",
            Attack::Burn => "an environment in a process of its own, in the role of anyone, that computes for ever.",
            Attack::Fork => "an environment in a process of its own that starts processes for ever.",
        }
    }

    /// Whether it is an environment's.
    pub(super) fn needs_environments(self) -> bool {
        matches!(self, Attack::Burn | Attack::Fork)
    }

    /// Packets a second; the flood's are as many as there is time for.
    pub(super) fn rate(self) -> f64 {
        match self {
            Attack::Flood => 1e9,
            Attack::Loop => 50_000.0,
            Attack::CompileBomb => 200.0,
            Attack::State | Attack::Storm => 20_000.0,
            Attack::Burn | Attack::Fork => 0.0,
        }
    }

    /// Lines of the node's configuration.
    pub(super) fn configuration(self) -> String {
        let script = match self {
            Attack::Burn => "while :; do :; done",
            Attack::Fork => "while :; do sleep 60 & done",
            _ => return String::new(),
        };
        format!("[[ee]]\nname = \"hostile\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\nrole = \"anyone\"\n")
    }
}

/// The codes of all, and what they send.
pub(super) struct Codes {
    pub(super) innocent: Bundle,
    pub(super) cheap: Bundle,
    pub(super) loops: Vec<Bundle>,
    pub(super) states: Vec<Bundle>,
    pub(super) storm: Bundle,
    pub(super) bombs: Vec<Bundle>,
}

impl Codes {
    pub(super) fn build() -> Result<Codes, Error> {
        let many = |make: &dyn Fn(u32) -> Result<Bundle, Error>| (0..MANY).map(make).collect::<Result<Vec<_>, _>>();
        Ok(Codes {
            innocent: bundle("innocent", &work())?,
            cheap: bundle("cheap", &plain("(i32.const 0)"))?,
            loops: many(&|number| bundle("loop", &endless(number)))?,
            states: many(&|number| bundle("state", &states(number)))?,
            storm: bundle("storm", &storm())?,
            bombs: (0..BOMBS).map(|number| bundle("bomb", &bomb(number))).collect::<Result<_, _>>()?,
        })
    }

    /// Codes that the node has from the start; bombs it must ask the attacker for.
    pub(super) fn known(&self, attack: Option<Attack>) -> Vec<&Bundle> {
        let more: Vec<&Bundle> = match attack {
            Some(Attack::Flood) => vec![&self.cheap],
            Some(Attack::Loop) => self.loops.iter().collect(),
            Some(Attack::State) => self.states.iter().collect(),
            Some(Attack::Storm) => vec![&self.storm],
            Some(Attack::CompileBomb | Attack::Burn | Attack::Fork) | None => Vec::new(),
        };
        [&self.innocent].into_iter().chain(more).collect()
    }

    /// Codes for the kernel half: one that does little, one that does as much as it may.
    pub(super) fn kernel(&self) -> Result<[Bundle; 2], Error> {
        let [cheap, dear] =
            [include_str!("../../../tests/guests/forward.c"), include_str!("../../../tests/guests/costly.c")];
        Ok([
            compile("forward", cheap, &AuthorOptions::default())?,
            compile("costly", &format!("#define ALWAYS 1\n{dear}"), &AuthorOptions::default())?,
        ])
    }

    /// Packets that an attacker sends in turn.
    pub(super) fn of(&self, attack: Attack, from: Addr, to: Addr) -> Vec<Vec<u8>> {
        let each = |bundles: &[Bundle]| bundles.iter().map(|bundle| packet(bundle, from, to)).collect();
        match attack {
            Attack::Flood => vec![packet(&self.cheap, from, to)],
            Attack::Loop => each(&self.loops),
            Attack::State => each(&self.states),
            Attack::Storm => vec![packet(&self.storm, from, to)],
            Attack::CompileBomb => each(&self.bombs),
            Attack::Burn | Attack::Fork => Vec::new(),
        }
    }
}

/// An ANEP packet with a capsule that has eight bytes of payload.
pub(super) fn packet(code: &Bundle, from: Addr, to: Addr) -> Vec<u8> {
    let header =
        capsule::Header { app_port: 7, bound: 32, code: code.name(), previous: from, source: from, destination: to };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER + 8];
    let inside = bytes.len() - anep::HEADER;
    let written = anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, inside)
        .and_then(|_| header.emit(&mut bytes[anep::HEADER..]));
    debug_assert_eq!(written, Ok(capsule::HEADER));
    bytes
}

fn bundle(title: &str, text: &str) -> Result<Bundle, Error> {
    let wasm: Arc<[u8]> = wat::parse_str(text).map_err(|error| Error::Guest(format!("{title}: {error}")))?.into();
    Bundle::build(title, 8, &[(Kind::Wasm, wasm)], None).map_err(|error| Error::Guest(format!("{title}: {error}")))
}

/// A module around what its function does, with these calls of the node.
fn module(imports: &str, locals: &str, body: &str) -> String {
    format!(
        r#"(module {imports} (memory (export "memory") 1 1) (global (export "an_arena") i32 (i32.const 0))
            (func (export "capsule") (param $context i32) (param $window i32) (result i32) {locals} {body}))"#
    )
}

fn plain(verdict: &str) -> String {
    module("", "", verdict)
}

/// Counts down, and goes on.
fn work() -> String {
    let body = format!(
        "(local.set $i (i32.const {WORK}))
         (loop $again (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
         (i32.const 1)"
    );
    module("", "(local $i i32)", &body)
}

fn endless(number: u32) -> String {
    module("", "", &format!("(drop (i32.const {number})) (loop $again (br $again)) (i32.const 1)"))
}

/// Puts a value under keys that nobody had, and goes nowhere.
fn states(number: u32) -> String {
    let imports = r#"(import "anode" "an_state_put" (func $put (param i64 i32 i32) (result i32)))
                     (import "anode" "an_random" (func $random (result i64)))"#;
    let one = "(drop (call $put (call $random) (i32.const 1024) (i32.const 300000)))";
    module(imports, "", &format!("(drop (i32.const {number})) {} (i32.const 0)", one.repeat(8)))
}

/// Sends what it may, and goes nowhere.
fn storm() -> String {
    let imports = r#"(import "anode" "an_send" (func $send (param i32) (result i32)))"#;
    module(imports, "", &format!("{} (i32.const 0)", "(drop (call $send (i32.const 1)))".repeat(16)))
}

/// Loops in loops, each of which changes locals: what a compiler has most to do with.
fn bomb(number: u32) -> String {
    let (mut open, mut close) = (String::new(), String::new());
    for at in 0..NESTED {
        let (from, to) = (at % LOCALS, (at * 7 + 1) % LOCALS);
        let _ = write!(open, "(loop (local.set {} (local.get {}))", to + 2, from + 2);
        close.push(')');
    }
    let body = format!("(drop (i32.const {number})) {open} {close} (i32.const 1)");
    module("", &format!("(local{})", " i32".repeat(LOCALS)), &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_codes_are_what_a_node_checks() {
        let names: std::collections::HashSet<_> = Attack::ALL.iter().map(|attack| attack.name()).collect();
        assert_eq!(names.len(), Attack::ALL.len());
        let codes = Codes::build().unwrap();
        let known = Attack::ALL.into_iter().flat_map(|attack| codes.known(Some(attack)));
        for bundle in known {
            anode::code::check::wasm(bundle.representation(Kind::Wasm).unwrap(), 8).unwrap();
        }
        assert_ne!(codes.bombs[0].name(), codes.bombs[1].name());
    }
}
