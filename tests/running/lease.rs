//! A file whose opening and execution block, since another process has leased it (fcntl(2), F_SETLEASE).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Says "held" when it has the lease of a file, and "asked" when somebody waits for that.
const LEASE: &str = "import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
signal.sigwait([signal.SIGIO])
print('asked', flush=True)
signal.pause()";

/// A file that nobody else can open.
pub struct Lease {
    holder: Child,
    said: BufReader<ChildStdout>,
}

impl Lease {
    /// Leases a file.
    pub fn of(file: &Path) -> Lease {
        let mut command = Command::new("python3");
        let mut holder = command.args(["-c", LEASE]).arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let mut lease = Lease { said: BufReader::new(holder.stdout.take().unwrap()), holder };
        lease.await_said("held");
        lease
    }

    /// Waits until the holder says this.
    pub fn await_said(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
