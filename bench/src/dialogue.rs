//! Dialogue with a program of `bench/c`: a question and an answer, a line each, over its standard input and output. It
//! ends when its input closes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Error;

/// The running program.
#[derive(Debug)]
pub(crate) struct Dialogue {
    child: Child,
    name: String,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Dialogue {
    /// Starts `program` by `launch`; returns it with the first line it said.
    pub(crate) fn start(
        mut launch: Command,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<(Dialogue, String), Error> {
        launch.arg(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = launch.spawn().map_err(|cause| Error::Start { program: program.into(), cause })?;
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Protocol(format!("{name} has no pipes")));
        };
        let mut dialogue = Dialogue { child, name, input: Some(input), output: BufReader::new(output) };
        let line = dialogue.answer()?;
        Ok((dialogue, line))
    }

    /// Says a line and returns the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, Error> {
        if let Some(input) = &mut self.input {
            let written = input.write_all(format!("{line}\n").as_bytes());
            written.map_err(|cause| Error::Protocol(format!("{} has ended: {cause}", self.name)))?;
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(Error::Protocol(format!("{} has ended; its message is above", self.name))),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(cause) => Err(Error::Protocol(format!("{}: {cause}", self.name))),
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
