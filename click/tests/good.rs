//! Configurations and the flat graphs that they are: `tests/cases/good`.

mod common;

use click::check;
use common::{classes, essence, flat, formatted, run, shown};

#[test]
fn configurations_are_the_graphs_beside_them() {
    let classes = classes();
    run("good", 40, |case| {
        let found = check(&case.source, &classes);
        let Some(graph) = found.graph else { panic!("{}\n{}", case.title, shown(&found.diagnostics, &case.source)) };
        let again = check(&graph.graph.to_string(), &classes);
        let Some(again) = again.graph else {
            panic!("{}: {}\n{}", case.title, graph.graph, shown(&again.diagnostics, &graph.graph.to_string()))
        };
        assert_eq!(essence(&again), essence(&graph), "{}: what is written is read again", case.title);
        let text = formatted(&case.source);
        let again = check(&text, &classes).graph.expect("what is formatted is still right");
        assert_eq!(essence(&again), essence(&graph), "{}: formatted", case.title);
        flat(&graph)
    });
}
