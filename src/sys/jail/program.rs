//! The process of a jail's program, from fork to its first instruction.

use super::enter::{Birth, HIGH, place};
use super::message::Said;
use super::{Program, confine, seccomp};
use rustix::process::Signal;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What is said of a kernel without Landlock.
pub const NO_LANDLOCK: u8 = 0;

/// What the process has from the one that it is a copy of.
pub(super) struct Child<'a> {
    pub birth: &'a Birth,
    pub descriptors: Vec<OwnedFd>,
    pub nothing: OwnedFd,
    /// Closed when the program begins; until then it says why not.
    pub saying: OwnedFd,
}

/// Becomes the program.
pub(super) fn begin(child: Child<'_>) -> ! {
    let saying =
        child.saying.as_fd().try_clone_to_owned().and_then(|saying| Ok(rustix::io::fcntl_dupfd_cloexec(saying, HIGH)?));
    let (own, name) = match &child.birth.jail.program {
        Program::Own(name) => (Some(child.birth.own), name.clone()),
        Program::File(_) => (None, String::new()),
    };
    if let Err(error) = become_program(child) {
        // Nobody hears it where the init process is gone.
        let _ = saying.map(|saying| rustix::io::write(&saying, error.to_string().as_bytes()));
        std::process::exit(127)
    }
    drop(saying);
    close_high();
    let status = own.map_or(127, |own| match own(&name) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{name}: {error}");
            1
        }
    });
    std::process::exit(status)
}

/// Executes the program, or makes ready for a function of this one and returns.
fn become_program(child: Child<'_>) -> io::Result<()> {
    let Child { birth, descriptors, nothing, saying } = child;
    let jail = &birth.jail;
    // With process 1 all others end, where they have a namespace; this is for where they have none.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    birth.control.send(&Said::Program.encode())?;
    let command = match &jail.program {
        Program::File(words) => Some(Command::of(words, &jail.variables)?),
        Program::Own(_) => None,
    };
    let filters = seccomp::compile(&jail.seccomp)?;
    place(descriptors, &jail.keep, nothing.as_fd())?;
    let mut limits = jail.limits;
    if birth.user.is_none() && birth.mapped.is_none() {
        // They would count what others of the user have.
        limits.processes = None;
    }
    confine::limit(&limits)?;
    if !confine::hide_files(&jail.paths, jail.host_network)? {
        rustix::io::write(&saying, &[NO_LANDLOCK])?;
    }
    let Some(command) = command else { return Ok(()) };
    usual_signals()?;
    seccomp::apply_compiled(&filters, !birth.namespaces)?;
    Err(command.execute())
}

/// A command as execve(2) wants it.
struct Command {
    words: Vec<CString>,
    variables: Vec<CString>,
}

impl Command {
    fn of(words: &[String], variables: &[(String, String)]) -> io::Result<Command> {
        let words = words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        let variables = variables.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        Ok(Command { words, variables: variables.collect::<Result<_, _>>()? })
    }

    /// Executes it; returns only why not.
    fn execute(&self) -> io::Error {
        let list = |of: &[CString]| -> Vec<*const libc::c_char> {
            of.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (words, variables) = (list(&self.words), list(&self.variables));
        // SAFETY: both lists end with a null pointer, and all they point to are strings that end with NUL and live for the call.
        unsafe { libc::execve(words[0], words.as_ptr(), variables.as_ptr()) };
        let error = io::Error::last_os_error();
        io::Error::new(error.kind(), format!("{}: {error}", self.words[0].to_string_lossy()))
    }
}

/// Signals as programs expect them: none blocked, none ignored.
fn usual_signals() -> io::Result<()> {
    // SAFETY: the set is initialised by sigemptyset(3) and lives for the calls; no handler is installed.
    let done = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes what execution would have closed.
fn close_high() {
    // SAFETY: closing numbers touches no memory; nothing from HIGH up is used or dropped any more: this process ends without returning to
    // what had it.
    unsafe { libc::syscall(libc::SYS_close_range, HIGH as u32, u32::MAX, 0) };
}
