//! IP packets that may pass.

use crate::graph::arguments::Arguments;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::Engine;
use crate::graph::ip_filters::IpFilters;

/// `IPFilter`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPFilter",
    doc: "Passes or drops IP packets by the first rule that holds. IPFilter(ACTION FILTER, ...): ACTION is \
          allow, deny, or an output",
    make: Make::with("1/-", "h/h", "x/x", make),
};

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (mut rules, mut wrong) = (Vec::new(), false);
    for argument in args.rest() {
        let text = argument.text.trim();
        let (action, filter) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let output = match action {
            "allow" => Some(Some(0)),
            "deny" | "drop" => Some(None),
            number => number.parse().ok().map(Some),
        };
        match output {
            Some(output) => rules.push((argument, filter, output)),
            None => {
                args.say(argument, format!("'{action}' is no action"), "allow, deny, or the number of an output");
                wrong = true;
            }
        }
    }
    if wrong { None } else { IpFilters::make(args, rules) }
}
