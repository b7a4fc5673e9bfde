//! `[[role.graphs.edits]]`: edits of graphs that capsules wish for are looked at when the file is read.
//!
//! ```text
//! text of the graph ─▶ which edits can be made of it? ─▶ the texts that come of these ─▶ which of those? ─▶ …
//! ```
//!
//! One edit may take back what another has done, so an edit has to fit the graph as the file has it, or as other edits of the role leave
//! it. One that fits none of these is refused with what is wrong with it in the file's own text.

use super::{ConfigError, NodeFile, wrong};
use crate::node::graphs::{BroughtClasses, GraphEditor, GraphSpec};
use crate::trust::Role;
use crate::trust::edits::{EditDeed, NamedEdit};
use std::sync::Arc;

/// Texts of one graph that are looked at; what no edit has come to until then is left to the node that runs.
const TEXTS_MAX: usize = 64;

impl NodeFile {
    /// Refuses an edit of no graph of its role, or one that can never be made.
    pub(super) fn check_edits(&self, classes: &BroughtClasses) -> Result<(), ConfigError> {
        for role in self.roles.iter().filter(|role| !role.graphs.named.is_empty()) {
            for edit in &role.graphs.named {
                self.check_graph_of(role, edit)?;
            }
            let of_role = self.graphs.iter().filter(|graph| graph.role == role.name);
            let editor = GraphEditor { role: Arc::new(role.clone()) };
            of_role.into_iter().try_for_each(|graph| self.check_fit(graph, &editor, classes))?;
        }
        Ok(())
    }

    fn check_graph_of(&self, role: &Role, edit: &NamedEdit) -> Result<(), ConfigError> {
        let place = format!("[[role]] {}: graphs.edits: {}", role.name, edit.name);
        let names = || self.graphs.iter().map(|graph| &*graph.name);
        match self.graphs.iter().find(|graph| graph.name == edit.graph) {
            Some(graph) if graph.role != role.name => wrong(format!(
                "{place}: graph {} is of the role {}, and code of {} changes graphs of its own role only",
                graph.name, graph.role, role.name
            )),
            Some(_) => Ok(()),
            None => {
                let near = click::classes::nearest(&edit.graph, names());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                wrong(format!("{place}: there is no [[graph]] {}{near}", edit.graph.escape_debug()))
            }
        }
    }

    /// Looks for a text of the graph that each of its edits can be made of.
    fn check_fit(&self, graph: &GraphSpec, editor: &GraphEditor, classes: &BroughtClasses) -> Result<(), ConfigError> {
        let edits: Vec<&NamedEdit> = editor.role.graphs.named.iter().filter(|edit| edit.graph == graph.name).collect();
        let mut refused: Vec<Option<String>> = vec![None; edits.len()];
        let mut fits = vec![false; edits.len()];
        let mut texts = vec![graph.text.clone()];
        let mut at = 0;
        while let Some(text) = texts.get(at).cloned()
            && !fits.iter().all(|fits| *fits)
        {
            let spec = GraphSpec { text, ..graph.clone() };
            for ((edit, fits), refused) in edits.iter().zip(&mut fits).zip(&mut refused) {
                match self.made_of(&spec, edit, editor, classes) {
                    Ok(text) => {
                        *fits = true;
                        if texts.len() < TEXTS_MAX && !texts.contains(&text) {
                            texts.push(text);
                        }
                    }
                    Err(why) => drop(refused.get_or_insert(why)),
                }
            }
            at += 1;
        }
        if texts.len() >= TEXTS_MAX {
            return Ok(());
        }
        match edits.iter().zip(fits).zip(refused).find(|((_, fits), _)| !fits) {
            Some(((edit, _), why)) => wrong(format!(
                "[[role]] {}: graphs.edits: {}: it cannot be made of graph {}, nor of what other edits make of that: {}",
                editor.role.name,
                edit.name,
                graph.name,
                why.unwrap_or_default()
            )),
            None => Ok(()),
        }
    }

    /// The text of a graph after an edit, or why it cannot be made.
    fn made_of(
        &self,
        spec: &GraphSpec,
        edit: &NamedEdit,
        editor: &GraphEditor,
        classes: &BroughtClasses,
    ) -> Result<String, String> {
        let most = editor.engines();
        let text = match edit.deed() {
            Some(EditDeed::Connect(said)) => spec.edited_as(said, classes, most)?,
            Some(EditDeed::Text(text)) => text.to_owned(),
            Some(EditDeed::Write(handler, value)) => {
                spec.clone().prepare_with(classes)?.write(handler, value)?;
                return Ok(spec.text.clone());
            }
            None => return Err("it does nothing".into()),
        };
        editor.check_text(&text)?;
        let prepared = GraphSpec { text: text.clone(), ..spec.clone() }.prepare_within(classes, most)?;
        editor.check(&prepared)?;
        self.check_devices(&prepared).map_err(|error| error.to_string())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "[[graph]]\nname = \"path\"\nrole = \"r\"\ntake = [\"eth0/ip *\"]\n\
         text = \"FromDevice(eth0) -> a :: Null -> b :: Counter -> d :: Discard;\"\n\
         [[graph]]\nname = \"other\"\nrole = \"q\"\ntext = \"Idle -> Discard;\"\n";

    /// What is said of a role with these edits of the graph: number, name, what it does.
    fn refused(edits: &[(u32, &str, &str, &str)]) -> Option<String> {
        let head = "name = \"n\"\n[[port]]\npacket = \"eth0\"\n[[role]]\nname = \"q\"\n\
             [[role]]\nname = \"r\"\ngrants = { channels = 1 }\n\
             [role.graphs]\nedits_per_second = 5\nengines = 8\ntext_bytes = 400\n";
        let edit = |(number, name, graph, does): &(u32, &str, &str, &str)| {
            format!("[[role.graphs.edits]]\nnumber = {number}\nname = \"{name}\"\ngraph = \"{graph}\"\n{does}\n")
        };
        let edits: String = edits.iter().map(edit).collect();
        NodeFile::parse(&format!("{head}{edits}{GRAPH}")).err().map(|error| error.to_string())
    }

    const AWAY: &str = "disconnect = \"a -> b\"\nconnect = \"a -> q :: Queue(9) -> u :: Unqueue -> b\"";
    const BACK: &str = "remove = \"q u\"\nconnect = \"a -> b\"";

    #[test]
    fn an_edit_fits_the_graph_or_what_others_make_of_it() {
        assert_eq!(refused(&[(0, "away", "path", AWAY)]), None);
        assert_eq!(refused(&[(1, "reset", "path", "write = \"b.reset=\"")]), None);
    }

    #[test]
    fn an_edit_may_take_back_what_another_has_done() {
        let alone = refused(&[(0, "back", "path", BACK)]).unwrap_or_default();
        assert!(
            alone.contains("graphs.edits: back: it cannot be made of graph path") && alone.contains("'q'"),
            "{alone}"
        );
        let both = refused(&[(0, "back", "path", BACK), (1, "away", "path", AWAY)]);
        assert_eq!(both, None);
    }

    #[test]
    fn what_can_never_be_done_is_said_with_its_place() {
        let nulls = "Null -> ".repeat(8);
        let long = format!("disconnect = \"a -> b\"\nconnect = \"a -> {nulls} b\"");
        for (name, graph, does, why) in [
            ("e", "pth", AWAY, "[[role]] r: graphs.edits: e: there is no [[graph]] pth; did you mean path?"),
            ("e", "other", AWAY, "graph other is of the role q, and code of r changes graphs of its own role only"),
            ("e", "path", "disconnect = \"a -> b\"\nconnect = \"a -> Nul -> b\"", "unknown class 'Nul'"),
            ("e", "path", "remove = \"b d\"\nconnect = \"a -> Queue -> ToDevice(eth0)\"", "leads to no device eth0"),
            ("e", "path", "write = \"c.reset=\"", "'c' is no engine of graph path"),
            ("e", "path", "write = \"b.rest=\"", "b has no handler rest"),
            ("e", "path", &long, "(graphs.engines)"),
        ] {
            let said = refused(&[(3, name, graph, does)]).unwrap_or_default();
            assert!(said.contains(why), "{said}, not {why}");
        }
    }
}
