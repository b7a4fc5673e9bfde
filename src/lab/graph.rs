//! Drawings of a topology: its links as lines of text, and as a picture (SVG 1.1).

use std::f64::consts::TAU;
use std::fmt::Write;

use crate::labfile::Kind;
use crate::labfile::topology::{Interface, Node, Topology};
use crate::link::LinkQuality;
use crate::manage::observe::told::told;
use model::labs::{Graph, GraphLink, GraphNode};

/// Radius of the circle on which nodes stand, for each of them, and at least; in pixels.
const ROOM: f64 = 28.0;
const RADIUS_MIN: f64 = 120.0;
/// From the circle to the edge of the picture.
const MARGIN: f64 = 90.0;

/// What a link is like, in a few words; nothing for a plain one.
fn words(quality: &LinkQuality) -> String {
    let mut words = Vec::new();
    let mut word = |number: f64, text: String| words.extend((number > 0.0).then_some(text));
    let LinkQuality { rate_mbit, delay_ms, jitter_ms, loss, duplicate, reorder, .. } = *quality;
    word(rate_mbit, format!("{rate_mbit} Mbit/s"));
    word(delay_ms, if jitter_ms > 0.0 { format!("{delay_ms}±{jitter_ms} ms") } else { format!("{delay_ms} ms") });
    for (share, what) in [(loss, "lost"), (duplicate, "doubled"), (reorder, "reordered")] {
        word(share, format!("{} % {what}", (share * 1e6).round() / 1e4));
    }
    words.join(", ")
}

/// The first ends of all links, with their nodes, in the order of the file.
fn links(topology: &Topology) -> Vec<(&Node, &Interface)> {
    let ends = topology.nodes.iter().flat_map(|node| node.interfaces.iter().map(move |end| (node, end)));
    let mut firsts: Vec<_> = ends.filter(|(_, end)| end.end == 0).collect();
    firsts.sort_by_key(|(_, end)| end.link);
    firsts
}

fn shown(node: &Node) -> String {
    let active = if node.active { ", active" } else { "" };
    format!("{} ({}{active})", node.name, node.kind)
}

/// Each node with its links below it, and what those are like.
pub fn text(topology: &Topology) -> String {
    let mut text = format!("{}\n", topology.name);
    for node in &topology.nodes {
        let _ = writeln!(text, "{}", shown(node));
        let last = node.interfaces.len().saturating_sub(1);
        for (at, end) in node.interfaces.iter().enumerate() {
            let branch = if at == last { "└" } else { "├" };
            let addresses: Vec<String> = end.addresses.iter().map(ToString::to_string).collect();
            let words = [words(&end.quality), addresses.join(" ")].into_iter().filter(|word| !word.is_empty());
            let line = [format!("{branch}─ {}", end.peer.0)].into_iter().chain(words).collect::<Vec<_>>().join("  ");
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Nodes, and links with what they are like and both ends, each a node and its interface.
pub fn json(topology: &Topology) -> Result<Graph, String> {
    let node = |node: &Node| GraphNode { name: node.name.clone(), kind: node.kind.to_string(), active: node.active };
    let link = |(node, end): (&Node, &Interface)| {
        let ends = [[node.name.clone(), end.name.clone()], [end.peer.0.clone(), end.peer.1.clone()]];
        Ok(GraphLink { ends, quality: told(&end.quality)? })
    };
    let (nodes, links) = (topology.nodes.iter().map(node).collect(), links(topology).into_iter().map(link));
    Ok(Graph { lab: topology.name.clone(), nodes, links: links.collect::<Result<_, String>>()? })
}

/// A picture: nodes on a circle, those that are active filled, switches square. Names need no escaping: they are letters and digits.
pub fn svg(topology: &Topology) -> String {
    let count = topology.nodes.len().max(1) as f64;
    let radius = (count * ROOM / 2.0).max(RADIUS_MIN);
    let size = 2.0 * (radius + MARGIN);
    let place = |name: &str| {
        let at = topology.nodes.iter().position(|node| node.name == name).unwrap_or_default() as f64;
        let angle = TAU * (at / count - 0.25);
        (radius.mul_add(angle.cos(), size / 2.0), radius.mul_add(angle.sin(), size / 2.0))
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size:.0}\" height=\"{size:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\" text-anchor=\"middle\">\n<title>{}</title>\n",
        topology.name
    );
    for (node, end) in links(topology) {
        let ((x1, y1), (x2, y2)) = (place(&node.name), place(&end.peer.0));
        let _ = writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#777\"/>");
        let words = words(&end.quality);
        if !words.is_empty() {
            let (x, y) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0 - 4.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#a40\">{words}</text>");
        }
    }
    for node in &topology.nodes {
        let (x, y) = place(&node.name);
        let fill = if node.active { "#9cf" } else { "#fff" };
        let _ = match node.kind {
            Kind::Switch => {
                let (left, top) = (x - 12.0, y - 12.0);
                writeln!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"24\" height=\"24\" fill=\"{fill}\" stroke=\"#000\"/>"
                )
            }
            _ => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"12\" fill=\"{fill}\" stroke=\"#000\"/>"),
        };
        let (below, name) = (y + 26.0, &node.name);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{below:.1}\">{name}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LAB: &str = "name = 'g'\nnodes.a = { active = true }\nnodes.b = {}\nnodes.s = { kind = 'switch' }\n\
        links = [{ ends = ['a', 's'] }, { ends = ['b', 'a'], prefixes = ['10.0.1.0/24'], rate_mbit = 2.5, delay_ms = 5, \
        jitter_ms = 1, loss = 0.001 }]";

    #[test]
    fn text_has_each_node_with_its_links() {
        let topology = Topology::parse(LAB, "g").unwrap();
        let wanted = "g\na (router, active)\n├─ s\n└─ b  2.5 Mbit/s, 5±1 ms, 0.1 % lost  10.0.1.2/24\nb (host)\n\
            └─ a  2.5 Mbit/s, 5±1 ms, 0.1 % lost  10.0.1.1/24\ns (switch)\n└─ a\n";
        assert_eq!(text(&topology), wanted);
    }

    #[test]
    fn as_json_it_has_nodes_and_links_with_both_ends() {
        let drawn = serde_json::to_value(super::json(&Topology::parse(LAB, "g").unwrap()).unwrap()).unwrap();
        assert_eq!((&drawn["lab"], drawn["nodes"].as_array().map(Vec::len)), (&json!("g"), Some(3)));
        assert_eq!(drawn["nodes"][0], json!({"name": "a", "kind": "router", "active": true}));
        let link = &drawn["links"][1];
        assert_eq!((&link["ends"][0][0], &link["ends"][1][0]), (&json!("b"), &json!("a")), "{drawn}");
        assert_eq!(link["quality"]["rate_mbit"], json!(2.5), "{drawn}");
    }

    #[test]
    fn a_picture_has_a_line_for_each_link_and_a_shape_for_each_node() {
        let svg = svg(&Topology::parse(LAB, "g").unwrap());
        let count = |what: &str| svg.matches(what).count();
        assert_eq!([count("<line"), count("<circle"), count("<rect"), count("#9cf")], [2, 2, 1, 1]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("5±1 ms"), "{svg}");
    }
}
