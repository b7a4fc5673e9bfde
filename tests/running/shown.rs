//! What the pages of examples show: commands and what they print. Example: `$ anode sim run lab.toml --seed 1` and the lines below it.
//!
//! A block fenced as `console sim` or `console lab` is run line by line, in a copy of its folder. In a line of output `…` stands for
//! anything, such as a time; a line that is `…` alone for any lines, or none. A lab has another name here than on the page, so that it
//! meets nobody's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the sources.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The folders of examples with a lab file `lab.toml`.
pub fn examples() -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(ROOT).join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let with_lab = entries.filter(|path| path.join("lab.toml").exists());
    let mut names: Vec<_> = with_lab.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What the page of an example shows of a kind: each command with its lines of output.
pub fn shown(example: &str, kind: &str) -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("examples").join(example).join("README.md")).unwrap();
    let (mut found, mut inside) = (Vec::<(String, Vec<String>)>::new(), false);
    for line in page.lines() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => inside = line == format!("```console {kind}"),
            Some(command) if inside => found.push((command.to_owned(), Vec::new())),
            None if inside => {
                let (command, lines) = found.last_mut().expect("a command comes first");
                match command.strip_suffix('\\') {
                    Some(begun) => *command = format!("{begun}{}", line.trim_start()),
                    None => lines.push(line.to_owned()),
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether a line is as a page shows it.
fn fits(shown: &str, said: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = said.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, inner)) = parts.split_last() else { return rest.is_empty() };
    for part in inner {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether all lines are.
fn all_fit(shown: &[String], said: &[&str]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((first, rest)) if first == "…" => (0..=said.len()).any(|skipped| all_fit(rest, &said[skipped..])),
        Some((first, rest)) => said.split_first().is_some_and(|(line, more)| fits(first, line) && all_fit(rest, more)),
    }
}

/// A copy of an example's folder, and its lab's name there.
pub struct Copy {
    example: String,
    lab: String,
    folder: tempfile::TempDir,
}

impl Copy {
    /// Copies the folder; the lab will be called `lab`.
    pub fn of(example: &str, lab: &str) -> Copy {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("examples").join(example);
        std::fs::create_dir_all(&here).unwrap();
        std::os::unix::fs::symlink(Path::new(ROOT).join("apps"), folder.path().join("apps")).unwrap();
        for entry in std::fs::read_dir(Path::new(ROOT).join("examples").join(example)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), here.join(entry.file_name())).unwrap();
        }
        let file = here.join("lab.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let named = format!("name = \"{example}\"\n");
        assert!(text.contains(&named), "{example}: its lab is called as its folder");
        std::fs::write(&file, text.replacen(&named, &format!("name = \"{lab}\"\n"), 1)).unwrap();
        Copy { example: example.to_owned(), lab: lab.to_owned(), folder }
    }

    /// Runs a command, and compares what it prints.
    pub fn run(&self, command: &str, shown: &[String]) {
        let word = |word: &str| match word.strip_prefix(self.example.as_str()) {
            Some(rest)
                if rest.is_empty() || (rest.starts_with('.') && !rest.ends_with(".c") && !rest.ends_with(".anb")) =>
            {
                format!("{}{rest}", self.lab)
            }
            _ => word.to_owned(),
        };
        let here: Vec<String> = command.split(' ').map(word).collect();
        let binary = Path::new(env!("CARGO_BIN_EXE_anode"));
        let mut paths: Vec<PathBuf> = vec![binary.parent().unwrap().to_owned()];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let output = Command::new("timeout")
            .args(["--kill-after=5", "120", "bash", "-c", &here.join(" ")])
            .current_dir(self.folder.path().join("examples").join(&self.example))
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).replace(&self.lab, &self.example);
        let lines: Vec<&str> = said.lines().collect();
        let (example, errors) = (&self.example, String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{example}: {command}: {}\n{said}{errors}", output.status);
        assert!(all_fit(shown, &lines), "{example}: {command} prints\n{said}and its page shows\n{}", shown.join("\n"));
    }
}

#[test]
fn lines_fit_what_a_page_shows() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (shown, said, fit) in [
        ("a\nb … c", "a\nb 1 2 c", true),
        ("a\nb … c", "a\nb 1 2 d", false),
        ("a\n…\nz", "a\nz", true),
        ("a\n…\nz", "a\n1\n2\nz", true),
        ("a\n…\nz", "a\n1\n2", false),
        ("…", "", true),
        ("a", "a b", false),
        ("a…a", "a", false),
    ] {
        assert_eq!(all_fit(&lines(shown), &said.lines().collect::<Vec<_>>()), fit, "{shown:?} {said:?}");
    }
}
