//! What modules import of the node: one table for PLAN services and extensions, with who may have what. Example: `nodeos.an_timeNow` is
//! the call of `anode/nodeos.h`, for both; `nodeos.an_storeOpen` is refused by its name, as a store is a domain's and its calls wait.
//!
//! A module is called in the middle of a packet, by its worker. So it has those calls of the header that end at once and need neither
//! a domain nor a thread of its own. `anode` are calls that the header has not.

use crate::classify::taught::token::nearest;
use crate::clean::shown;
use libanode::c::module::CALLS;
use wasmparser::{Parser, Payload};

/// The two modules whose functions are the node's.
const ANODE: &str = "anode";
const NODEOS: &str = "nodeos";

/// What a function of the node gives; [`super::given`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Now,
    Random,
    Time,
    Line,
    Error,
}

/// A function of the node.
pub(super) struct Own {
    pub module: &'static str,
    pub name: &'static str,
    pub gives: Gives,
}

pub(super) const OWN: [Own; 5] = [
    Own { module: ANODE, name: "an_now", gives: Gives::Now },
    Own { module: ANODE, name: "an_random", gives: Gives::Random },
    Own { module: NODEOS, name: "an_timeNow", gives: Gives::Time },
    Own { module: NODEOS, name: "an_say", gives: Gives::Line },
    Own { module: NODEOS, name: "an_error", gives: Gives::Error },
];

/// Why other calls of the header are for environments alone, by the beginning of their names. The last is of all others.
const OTHERS: [(&str, &str); 6] = [
    ("an_graph", "it waits for a text to be read; a PLAN program has graphEdit()"),
    ("an_store", "a store is a domain's, and its calls wait for other workers; memory stays from call to call"),
    ("an_file", "it waits for the disk"),
    ("an_state", "soft state is a domain's; memory stays from call to call"),
    ("an_thread", "the caller's thread is a worker's, which goes on with packets"),
    ("an_", "it is called in the middle of a packet, without a domain or a connection of its own"),
];

/// Refuses what a module imports and may not have, by its name and with the reason.
pub fn check_all(wasm: &[u8]) -> Result<(), String> {
    for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
        if let Payload::ImportSection(section) = payload {
            section.into_imports().map_while(Result::ok).try_for_each(|of| check(of.module, of.name))?;
        }
    }
    Ok(())
}

/// The same of one import.
pub fn check(module: &str, name: &str) -> Result<(), String> {
    let imports = |why: &str| Err(format!("the module imports {}.{}{why}", shown(module), shown(name)));
    if OWN.iter().any(|own| (own.module, own.name) == (module, name)) {
        return Ok(());
    }
    if module == NODEOS {
        if CALLS.iter().all(|call| call.name != name) {
            return imports(&format!(
                ": anode/nodeos.h has no such call{}",
                nearest(name, CALLS.iter().map(|it| it.name))
            ));
        }
        let why = OTHERS.iter().find(|(begins, _)| name.starts_with(begins)).map_or("", |(_, why)| why);
        return imports(&format!(", which environments alone have: {why}"));
    }
    if let ("an_fetch" | "an_fetch_state", ANODE) = (name, module) {
        let call =
            if name == "an_fetch" { "code.fetch : (string, string) -> int" } else { "code.state : int -> string" };
        return imports(&format!(", which is a call that every node has: needs = ['{call}']"));
    }
    let all: Vec<_> = OWN.iter().map(|own| format!("{}.{}", own.module, own.name)).collect();
    imports(&format!("; there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_import_may_not_be_is_said_by_its_name_with_the_reason() {
        for (module, name, why) in [
            ("anode", "an_now", ""),
            ("nodeos", "an_timeNow", ""),
            ("nodeos", "an_storeOpen", "imports nodeos.an_storeOpen, which environments alone have: a store is"),
            ("nodeos", "an_graphEdit", "a PLAN program has graphEdit()"),
            ("nodeos", "an_domainWait", "in the middle of a packet"),
            ("nodeos", "an_sya", "imports nodeos.an_sya: anode/nodeos.h has no such call; do you mean 'an_say'?"),
            ("anode", "an_fetch", "every node has: needs = ['code.fetch : (string, string) -> int']"),
            ("env", "puts", "imports env.puts; there are anode.an_now, "),
        ] {
            let said = check(module, name).err().unwrap_or_default();
            assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{module}.{name}: {said}");
        }
        let of_header = OWN.iter().filter(|own| own.module == NODEOS);
        assert!(
            of_header.clone().count() > 0 && of_header.clone().all(|own| CALLS.iter().any(|it| it.name == own.name))
        );
    }
}
