//! What is left of a process that falls: the panic with its way through the program, and the last lines of the log, in a
//! file beside the store. `anode node report` has it.
//!
//! The file is open from the start, since a thread that is confined opens none. What one before has left is kept under
//! another name until the next fall but one.

use super::recent;
use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file, and what it is called when another process has begun: `broker/prepare.rs` has both among what is kept.
const FALL: &str = "fall";
const BEFORE: &str = "fall.before";

/// Falls that one process tells of: threads may fall, and be started again.
const FALLS_MAX: u32 = 8;

/// Bytes of one.
const BYTES_MAX: usize = 64 << 10;

/// From now on falls of this process are kept in this directory.
pub fn keep_in(dir: &Path) -> io::Result<()> {
    let path = dir.join(FALL);
    if path.metadata().is_ok_and(|before| before.len() > 0) {
        std::fs::rename(&path, dir.join(BEFORE))?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    let told = AtomicU32::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if told.fetch_add(1, Ordering::Relaxed) < FALLS_MAX {
            // Nothing else can be done about it.
            let _ = tell(&file, info);
        }
    }));
    Ok(())
}

fn tell(mut file: &File, info: &PanicHookInfo<'_>) -> io::Result<()> {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let thread = std::thread::current();
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "fell at {unix_s} s since 1970, anode {}, thread {}: {info}",
        env!("CARGO_PKG_VERSION"),
        thread.name().unwrap_or("?")
    );
    let _ = writeln!(text, "{}", Backtrace::force_capture());
    for line in recent() {
        let _ = writeln!(text, "{} {} {}", line.unix_ms, line.level, line.text);
    }
    text.truncate(text.floor_char_boundary(BYTES_MAX));
    file.write_all(text.as_bytes())
}

/// Whether a process of a node has kept its falls in a directory, with or without one.
pub fn is_kept_in(dir: &Path) -> bool {
    dir.join(FALL).symlink_metadata().is_ok()
}

/// What falls before have left in a directory, the last one first.
pub fn falls(dir: &Path) -> Vec<String> {
    let read = |name: &str| {
        let mut text = Vec::new();
        let most = u64::from(FALLS_MAX) * BYTES_MAX as u64;
        // Whoever reads may be root, and the directory is the node's user's: a link leads nowhere, and nobody waits at a pipe.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(dir.join(name)).ok()?;
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        file.take(most).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty())
    };
    [FALL, BEFORE].into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_leaves_its_way_and_the_next_process_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        keep_in(dir.path()).unwrap();
        let falling = std::thread::Builder::new().name("faller".into()).spawn(|| panic!("on purpose")).unwrap();
        assert!(falling.join().is_err());
        let told =
            |texts: &[String]| texts.iter().any(|text| text.contains("thread faller") && text.contains("on purpose"));
        assert!(told(&falls(dir.path())), "{:?}", falls(dir.path()));
        // As the next process does.
        keep_in(dir.path()).unwrap();
        assert!(told(&falls(dir.path())) && dir.path().join(BEFORE).exists());
        assert_eq!(falls(&dir.path().join("nowhere")), [""; 0]);
    }

    #[test]
    fn nobody_waits_at_a_pipe_that_has_the_name_of_a_fall() {
        let dir = tempfile::tempdir().unwrap();
        for name in [FALL, BEFORE] {
            let own = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, dir.path().join(name), rustix::fs::FileType::Fifo, own, 0).unwrap();
        }
        assert_eq!(falls(dir.path()), [""; 0]);
    }
}
