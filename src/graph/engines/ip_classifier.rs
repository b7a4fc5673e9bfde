//! An output for each kind of IP packets.

use crate::graph::class::{EngineClass, Make};
use crate::graph::ip_filters::IpFilters;

/// `IPClassifier`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPClassifier",
    doc: "Sends IP packets to the output of the first filter that holds. IPClassifier(FILTER, ...): as src \
          10.0.0.1 && tcp dst port 80; - holds for all",
    make: Make::with("1/-", "h/h", "x/x", |args| {
        let rules = args
            .rest()
            .into_iter()
            .enumerate()
            .map(|(output, argument)| (argument, argument.text.as_str(), Some(output as u16)));
        IpFilters::make(args, rules.collect())
    }),
};
