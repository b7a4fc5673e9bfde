//! Whether nodes would take what a lab file gives them, asked before anything is built. Example: `[nodes.r.anode]` with `sizes.codez`
//! is refused at its line, and no namespace is made for a node that would not start.
//!
//! What depends on the host, such as interfaces, shows when the node starts.

use std::path::Path;

use super::nodes::configuration;
use crate::config::NodeFile;
use crate::labfile::problem::Problem;
use crate::labfile::{self, LabFile, Topology};

/// Checks the configurations of the active nodes of a topology that was read from this file: what they would remark on them.
pub fn configurations(topology: &Topology, path: &Path) -> Result<Vec<String>, labfile::Error> {
    let mut remarks = Vec::new();
    for node in topology.nodes.iter().filter(|node| node.active) {
        let config = configuration(&topology.name, node).to_string();
        let error = match NodeFile::parse(&config) {
            Ok(file) => {
                let named = |line: String| format!("[nodes.{}.anode]: {line}", node.name);
                remarks.extend(file.remarks().into_iter().map(named));
                continue;
            }
            Err(error) => error,
        };
        let (lab, (cause, word)) = (LabFile::load(path)?, words(&error.to_string()));
        let at = lab.file.nodes.keys().find(|name| *name.get_ref() == node.name).map_or(0, |name| name.span().start);
        // The word is in the file, unless the topology has put it there.
        let behind = lab.text.get(at..).and_then(|text| text.find(&word)).unwrap_or(0);
        let what = format!("[nodes.{}.anode]: {cause}", node.name);
        let remedy = "correct it there; docs/node.md has what a node can be given";
        return Err(lab.error(Problem { offset: at + behind, what, remedy: remedy.into() }));
    }
    Ok(remarks)
}

/// What a node says of its configuration, and a word that stands in it there. Where TOML's parser shows a place, that is of a text which
/// nobody has written like that; the lines in which a graph is shown are the author's own.
fn words(said: &str) -> (String, String) {
    if let Some((first, _)) = said.split_once('\n').filter(|_| !said.starts_with("TOML parse error")) {
        let key = first
            .split_once("[[")
            .and_then(|(_, rest)| rest.split_once("]]"))
            .map_or(String::new(), |(table, _)| format!("{table}]]"));
        return (said.trim_end().to_owned(), key);
    }
    let last = said.lines().last().unwrap_or_default();
    let mut shown = said.lines().filter_map(|line| line.split_once(" | ")).map(|(_, text)| text.trim());
    let shown = shown.rfind(|text| !text.is_empty() && !text.starts_with('^'));
    match (shown, last.split('`').nth(1)) {
        (Some(_), Some(word)) if last.starts_with("unknown") => (last.to_owned(), word.to_owned()),
        (Some(line), _) => {
            let key = line.split('=').next().unwrap_or_default().trim();
            (format!("{line}: {last}"), key.to_owned())
        }
        (None, _) => {
            let words = last.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let key = words.into_iter().find(|word| word.contains('_')).unwrap_or_default();
            (last.to_owned(), key.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        let text = format!("name = 't'\n[nodes.a]\nactive = true\n[nodes.a.anode]\n{settings}\n[nodes.b]\n");
        let text = format!("{text}[[links]]\nends = ['a', 'b']\n");
        std::fs::write(&path, text).unwrap();
        let topology = Topology::load(&path).unwrap();
        configurations(&topology, &path).map_or_else(|error| error.to_string(), |_| "taken".into())
    }

    #[test]
    fn a_wrong_graph_is_shown_whole() {
        let graph = "[[nodes.a.anode.graph]]\nname = 'g'\nrole = 'r'\ntext = 'Idle -> Discrd -> Discrad;'\n";
        let said = refused(&format!("[[nodes.a.anode.role]]\nname = 'r'\n{graph}"));
        let begin = "t.toml:7: [nodes.a.anode]: [[graph]]: graph g: ";
        assert!(said.contains(begin) && said.ends_with("has what a node can be given"), "{said}");
        for part in ["Discrd", "Discrad", "^^^^^^", "Discard"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn what_nodes_remark_is_told() {
        let topology = |settings: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.toml");
            let text = format!("name = 't'\n[nodes.a]\nactive = true\n[nodes.a.anode]\n{settings}\n[nodes.b]\n");
            std::fs::write(&path, format!("{text}[[links]]\nends = ['a', 'b']\n")).unwrap();
            configurations(&Topology::load(&path).unwrap(), &path).unwrap()
        };
        assert_eq!(topology("sizes.codes = 7"), [""; 0]);
        let said = topology("plan.open = ['nothing']");
        assert!(said.len() == 1 && said[0].starts_with("[nodes.a.anode]: [plan] open: no service"), "{said:?}");
    }

    #[test]
    fn what_a_node_would_refuse_is_refused_at_its_line() {
        assert_eq!(refused("sizes.codes = 7"), "taken");
        for (settings, words) in [
            ("sizes.codes = 7\nsizes.codez = 7", "t.toml:6: [nodes.a.anode]: unknown field `codez`, expected one of"),
            ("sizes.codes = 'many'", "t.toml:5: [nodes.a.anode]: codes = \"many\": invalid type: string \"many\""),
            ("xdp.frames_per_queue = 7", "t.toml:5: [nodes.a.anode]: [xdp] frames_per_queue = 7: a power of two"),
            ("port = []", "t.toml:2: [nodes.a.anode]: no [[port]]: a node needs at least one"),
        ] {
            let said = refused(settings);
            assert!(said.contains(words) && said.ends_with("has what a node can be given"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
