//! A configuration file that is read as a whole: not while somebody writes it, and not half of one.

use super::{ConfigError, wrong};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The text of a file of so many bytes at most that nobody is writing.
pub fn read_whole(path: &Path, most: usize) -> Result<String, ConfigError> {
    let shown = path.display();
    let cannot = |error: std::io::Error| ConfigError(format!("cannot read {shown}: {error}"));
    // Whether it is a pipe is asked before it is opened, which would wait for its other end.
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => {}
        Ok(_) => return wrong(format!("{shown} is no file: a configuration is a file, which can be read again")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return wrong(format!(
                "cannot read {shown}: {error}; the file of a configuration is wanted, as in anode node apply r1.toml"
            ));
        }
        Err(error) => return Err(cannot(error)),
    }
    let mut file = File::open(path).map_err(cannot)?;
    let before = file.metadata().map_err(cannot)?;
    let mut text = String::new();
    (&mut file).take(most as u64 + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() > most {
        return wrong(format!("{shown} has more than {most} bytes"));
    }
    let after = std::fs::metadata(path).map_err(cannot)?;
    let facts = |of: &Metadata| (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec());
    if facts(&before) != facts(&after) || before.size() != text.len() as u64 {
        return wrong(format!("{shown} changes while it is read: apply it when whoever writes it has done so"));
    }
    check_end(path, &text)?;
    Ok(text)
}

/// Refuses the text of a file that may be half of one.
pub fn check_end(path: &Path, text: &str) -> Result<(), ConfigError> {
    let shown = path.display();
    match text {
        "" => wrong(format!("{shown} is empty: a configuration has a name and a [[port]] at least")),
        text if text.ends_with('\n') => Ok(()),
        _ => wrong(format!("{shown}: its last line does not end, so it may be half of a file: end it with a new line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.toml");
        std::fs::write(&path, "name = \"n\"\n").unwrap();
        assert_eq!(read_whole(&path, 11).unwrap(), "name = \"n\"\n");
        assert!(read_whole(&path, 9).unwrap_err().to_string().contains("more than 9 bytes"));
        std::fs::write(&path, "name = \"n").unwrap();
        let refused = |path: &Path| read_whole(path, 99).unwrap_err().to_string();
        assert!(refused(&path).contains("its last line does not end"));
        std::fs::write(&path, "").unwrap();
        assert!(refused(&path).contains("is empty"));
        assert!(refused(dir.path()).contains("is no file") && refused(Path::new("/dev/null")).contains("is no file"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(refused(&pipe).contains("is no file"));
        assert!(refused(Path::new("r1")).contains("the file of a configuration is wanted"));
    }
}
