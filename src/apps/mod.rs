//! The shipped active applications, such as `ping`: a capsule in C and a host side in Rust each.
//!
//! Each is a capsule (`apps/NAME.c`, compiled by `build.rs` and embedded here) and a host side (the
//! module of the same name) that makes payloads, sends them by a node and understands what comes
//! back. A host side reaches its node only through [`Attached`], so the same logic serves the
//! command line over a node's local socket and tests in virtual time. Nothing here opens sockets
//! or prints; that is `cli`'s business.

mod attached;
pub mod cache;
pub mod heavy;
pub mod multicast;
mod payload;
pub mod ping;
pub mod plan;
mod times;
pub mod trace;
pub mod workload;

pub use attached::{Attached, Error, Received, header};
pub use times::Times;

use crate::code::author;
use crate::code::bundle::Bundle;

/// A shipped application: what clang made of its source.
#[derive(Debug)]
pub struct App {
    /// The title of its bundle, and the name of its source file.
    pub title: &'static str,
    /// The C source.
    pub source: &'static str,
    module: &'static [u8],
    object: &'static [u8],
}

macro_rules! app {
    ($title:literal) => {
        App {
            title: $title,
            source: include_str!(concat!("../../apps/", $title, ".c")),
            module: include_bytes!(concat!(env!("OUT_DIR"), "/", $title, ".wasm")),
            object: include_bytes!(concat!(env!("OUT_DIR"), "/", $title, ".bpf.o")),
        }
    };
}

/// Round-trip times to a node.
pub static PING: App = app!("ping");
/// The nodes on the way to a node and back.
pub static TRACE: App = app!("trace");
/// One packet to many, branching in the network.
pub static MULTICAST: App = app!("multicast");
/// Values of an origin, with copies in the nodes.
pub static CACHE: App = app!("cache");
/// The heaviest sources, counted in the nodes.
pub static HEAVY: App = app!("heavy");

/// All shipped applications.
pub static APPS: [&App; 5] = [&PING, &TRACE, &MULTICAST, &CACHE, &HEAVY];

impl App {
    /// Its bundle, unsigned, with both representations. Fails only if this program was built by a
    /// compiler that breaks the rules of bundles.
    pub fn bundle(&self) -> Result<Bundle, author::Error> {
        author::from_compiled(self.title, self.module, self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::bundle::Kind;
    use crate::code::check;

    #[test]
    fn every_application_passes_the_check_in_both_representations() {
        for app in APPS {
            let bundle = app.bundle().unwrap_or_else(|error| panic!("{}: {error}", app.title));
            let report = check::check(&bundle).unwrap_or_else(|refusal| panic!("{}: {refusal}", app.title));
            let (wasm, bpf) = (report.wasm.expect("wasm"), report.bpf.expect("bpf"));
            assert_eq!(wasm.imports.len(), bpf.symbols.len(), "{}: both call the same", app.title);
            assert!(bundle.representation(Kind::Wasm).is_some_and(|bytes| bytes.len() < 8192));
        }
    }

    #[test]
    fn titles_and_names_are_unique() {
        let names: std::collections::BTreeSet<_> = APPS.iter().map(|app| app.bundle().unwrap().name()).collect();
        assert_eq!(names.len(), APPS.len());
    }
}
