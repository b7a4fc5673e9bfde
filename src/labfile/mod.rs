//! The lab file: a network of nodes and links, and what happens in it. Example: three nodes in a line, ping from end to end.
//!
//! ```text
//! FILE.toml ─▶ LabFile ─┬▶ ground ─▶ resolve ─▶ route ─▶ Topology ─▶ lab: namespaces, interfaces, nodes
//!                       └▶ sim::scenario ─▶ Network, traffic, faults ─▶ virtual time
//! ```
//!
//! One form for both worlds: `anode lab` and `anode sim` read every file. What one of them cannot do is refused at its
//! place (`worlds`). Values keep their place in the file, so that whoever finds a contradiction can name the line. No I/O but
//! reading the file.

mod address;
mod automatic;
mod error;
pub(crate) mod file;
pub(crate) mod ground;
mod names;
pub(crate) mod problem;
mod quality;
pub(crate) mod resolve;
mod route;
pub(crate) mod run;
pub mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod topology;
pub(crate) mod worlds;

use std::path::{Path, PathBuf};

pub use address::{Cidr, Mac};
pub use error::Error;
pub use file::Kind;
use problem::Problem;
pub use run::{Carries, CodeFile, Family};
pub use shape::Shape;
pub use topology::{Interface, Neighbour, Node, Route, Topology};

/// A file that was read: its keys are known and of the right type.
#[derive(Debug)]
pub struct LabFile {
    pub(crate) file: file::File,
    pub(crate) text: String,
    pub(crate) path: PathBuf,
}

impl LabFile {
    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<LabFile, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
        LabFile::parse(&text, path)
    }

    /// Reads the text of a file; `path` is for messages, and for the name of a lab that has none.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<LabFile, Error> {
        let path = path.as_ref().to_path_buf();
        match toml::from_str(text) {
            Ok(file) => Ok(LabFile { file, text: text.to_owned(), path }),
            Err(error) => Err(Error::Syntax { path, message: error.to_string() }),
        }
    }

    /// The place of a contradiction as people count: its line.
    pub(crate) fn error(&self, problem: Problem) -> Error {
        Error::at(&self.path, &self.text, problem)
    }

    /// The lab's name: as the file says, or else as the file is called, or its folder if it is called `topology.toml`.
    pub fn name(&self) -> Result<String, Error> {
        match &self.file.name {
            Some(name) => Ok(name.get_ref().clone()),
            None => resolve::name_of(&self.path).map_err(|problem| self.error(problem)),
        }
    }
}
