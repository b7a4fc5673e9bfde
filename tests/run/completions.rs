//! Shells complete commands, and names of what runs here: by a bash, a zsh and a fish at a terminal of tmux, with the files of packages.
//!
//! A line is typed with tabs in it and sent off; what it has done tells what it was completed to.

use crate::gate;
use crate::single::{ANODE, Node};
use crate::wait;
use anode::apps::PING;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says why a test is skipped, which fails where it must run.
fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}, and continuous integration must run this");
    println!("SKIPPED: {why}");
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    // tmux knows another option, and says so.
    found.is_ok()
}

/// A shell at a terminal, in a folder of its own.
struct Terminal {
    folder: PathBuf,
}

impl Terminal {
    /// Has tmux do something, and gives what it prints.
    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.join("tmux")).args(["-f", "/dev/null"]).args(words);
        let mut paths = vec![Path::new(ANODE).parent().unwrap().to_owned()];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        command.env("PATH", std::env::join_paths(paths).unwrap()).env("XDG_RUNTIME_DIR", &self.folder);
        command.env("HOME", &self.folder).env("LC_ALL", "C.UTF-8").current_dir(&self.folder).env_remove("TMUX");
        let output = command.output().unwrap();
        assert!(output.status.success(), "tmux {words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a shell, and gives it this line, which has to make its prompt `ready>`.
    fn start(folder: PathBuf, shell: &[&str], first: &str) -> Terminal {
        let terminal = Terminal { folder };
        terminal.tmux(&[&["new-session", "-d", "-x", "200", "-y", "50"], shell].concat());
        // It may not read yet: what is typed, if there is no tab in it, waits for it.
        terminal.tmux(&["send-keys", "-l", first]);
        terminal.tmux(&["send-keys", "Enter"]);
        terminal
    }

    /// Types a line and gives what is in a file when it has something in it.
    fn line(&self, line: &str, file: &str) -> String {
        let ready = |shown: &str| shown.trim_end().lines().last().is_some_and(|last| last.trim_end() == "ready>");
        wait::unannounced("a terminal tells nobody that a shell reads", || {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if ready(&shown) { Ok(()) } else { Err(shown.trim().to_owned()) }
        });
        let _ = std::fs::remove_file(self.folder.join(file));
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
        wait::unannounced("a terminal tells nobody that a shell has done something", || {
            let text = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            if text.ends_with('\n') { Ok(text) } else { Err(self.tmux(&["capture-pane", "-p"]).trim().to_owned()) }
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.folder.join("tmux")).arg("kill-server").status();
    }
}

/// A node in the place of one that is called `multitude`, with a code that it has run.
fn node(folder: &Path) -> Node {
    let node = Node::start("");
    std::fs::create_dir_all(folder.join("anode")).unwrap();
    std::os::unix::fs::symlink(node.run_dir(), folder.join("anode/multitude")).unwrap();
    node.control().add_code(&PING.bundle().unwrap()).unwrap();
    let ping = Command::new(ANODE).args(["ping", "10.9.9.1", "--count", "1", "--node"]).arg(node.run_dir()).output();
    let ping = ping.unwrap();
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stderr));
    node
}

fn completes(shell: &[&str], first: impl FnOnce(&Path) -> String) {
    for program in ["tmux", shell[0]] {
        if !is_there(program) {
            return skipped(&format!("{program} is not installed"));
        }
    }
    gate::pass();
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("share");
    let written = Command::new(ANODE).arg("manual").arg(&files).output().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let node = node(folder.path());
    let terminal = Terminal::start(folder.path().to_owned(), shell, &first(&files));
    // A noun, a verb, an option, and the node that runs.
    let status = terminal.line("anode nod\tstat\tmult\t--js\t > status", "status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_else(|error| panic!("{error}: {status}"));
    assert_eq!(status["node"], "m");
    // A code of that node, by its title: others are refused.
    terminal.line("anode code stat\tmult\tpin\t > state && echo done > done", "done");
    let removed = terminal.line("anode code rm mult\tpin\t > removed", "removed");
    assert!(removed.contains(&format!("removed {}", PING.bundle().unwrap().name())), "{removed}");
    // A file.
    std::fs::write(
        folder.path().join("configuration.toml"),
        "name = \"n\"\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.2/24\"]\n",
    )
    .unwrap();
    let checked = terminal.line("anode node chec\tconfigur\t > checked", "checked");
    assert!(checked.ends_with("ok\n"), "{checked}");
    drop(node);
}

#[test]
fn bash_completes_commands_and_what_runs() {
    completes(&["bash", "--norc", "--noprofile", "-i"], |files| {
        format!("PS1='ready> '; source {}", files.join("bash-completion/completions/anode").display())
    });
}

#[test]
fn zsh_completes_commands_and_what_runs() {
    completes(&["zsh", "-f", "-i"], |files| {
        format!(
            "PS1='ready> '; fpath=({} $fpath); autoload -U compinit && compinit -u -D",
            files.join("zsh/vendor-completions").display()
        )
    });
}

#[test]
fn fish_completes_commands_and_what_runs() {
    completes(&["fish", "--no-config", "-i"], |files| {
        format!(
            "function fish_prompt; echo -n 'ready> '; end; source {}",
            files.join("fish/vendor_completions.d/anode.fish").display()
        )
    });
}

/// Every command has its page, with how commands end on the first, and `man` finds nothing wrong with them.
#[test]
fn every_command_has_a_page_that_man_can_read() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new(ANODE).arg("manual").arg(folder.path()).status().unwrap().success());
    let pages = folder.path().join("man/man1");
    let mut names: Vec<PathBuf> = std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for page in ["anode.1", "anode-node.1", "anode-node-run.1", "anode-code-state.1", "anode-manual.1"] {
        assert!(names.contains(&pages.join(page)), "{page} is not among {names:?}");
    }
    assert!(!names.contains(&pages.join("anode-lab-carry.1")), "what is hidden has no page");
    assert!(std::fs::read_to_string(pages.join("anode.1")).unwrap().contains("EXIT STATUS"));
    if !is_there("man") {
        return skipped("man is not installed");
    }
    let read = Command::new("man")
        .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
        .args(&names)
        .env("LC_ALL", "C.UTF-8")
        .env("MANROFFSEQ", "")
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success() && said.is_empty(), "{said}");
}

/// A shell that does not know the node, or any: it is offered nothing, and waits for nobody.
#[test]
fn nothing_is_offered_where_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    for words in [["code", "state", "nobody", ""], ["domain", "kill", "nobody", ""]] {
        let output = Command::new(ANODE)
            .args(["--", "anode"])
            .args(words)
            .env("ANODE_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", "4")
            .env("XDG_RUNTIME_DIR", folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.split(['\u{b}', '\n']).all(|word| word.is_empty() || word.starts_with('-')),
            "{said:?}"
        );
    }
}
