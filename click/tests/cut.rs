//! Graphs in parts: `tests/cases/cut` has graphs, and what each node has of them.

mod common;

use click::check;
use click::classes::Class;
use click::cut::{FROM_REMOTE, TO_REMOTE, cut};
use common::{classes, essence, flat, formatted, run, shown};

#[test]
fn parts_have_what_is_at_their_nodes_and_are_graphs_by_themselves() {
    let mut classes = classes();
    for (name, ports, processing) in [(TO_REMOTE, "1/0", "h/"), (FROM_REMOTE, "0/1", "/h")] {
        classes.add(name, Class::new(ports).unwrap().processing(processing).unwrap());
    }
    run("cut", 10, |case| {
        let found = check(&case.source, &classes);
        let Some(whole) = found.graph else { panic!("{}\n{}", case.title, shown(&found.diagnostics, &case.source)) };
        let again = check(&whole.graph.to_string(), &classes).graph.expect("a flat graph has its places");
        assert_eq!(again.graph.to_string(), whole.graph.to_string(), "{}", case.title);
        let again = check(&formatted(&case.source), &classes).graph.expect("so has a formatted text");
        assert_eq!(again.graph.to_string(), whole.graph.to_string(), "{}", case.title);
        let parts = cut(&whole, |element| element.class == "Script");
        let mut text = String::new();
        let all = [("here", &parts.here)].into_iter().chain(parts.away.iter().map(|part| (&*part.node, &part.graph)));
        for (node, part) in all {
            let alone = check(&part.graph.to_string(), &classes);
            let Some(alone) = alone.graph else {
                panic!("{}: {}", case.title, shown(&alone.diagnostics, &part.graph.to_string()))
            };
            assert_eq!(essence(&alone), essence(part), "{}: the part at {node} by its text", case.title);
            text += &format!("{node}:\n{}", flat(part));
        }
        text
    });
}
