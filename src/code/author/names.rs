//! Names of source files, shortened: relative to the source's directory or to the compiler's place for headers.

use std::path::{Path, PathBuf};

/// How names of files are shortened.
pub(super) struct Names {
    /// Directories that names may lie below, made absolute.
    pub(super) roots: Vec<PathBuf>,
    /// The source's own, and its path.
    source: String,
    path: PathBuf,
}

impl Names {
    /// For a source, and the directory that headers are in, if there is one.
    pub(super) fn new(source: &Path, headers: Option<&Path>) -> Names {
        let below = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let real = |path: &Path| path.canonicalize().ok();
        let as_written = |path: &Path| std::path::absolute(path).ok();
        let roots = [Some(below), headers].into_iter().flatten().flat_map(|root| [real(root), as_written(root)]);
        let name = source.file_name().unwrap_or(source.as_os_str());
        Names { roots: roots.flatten().collect(), source: name.to_string_lossy().into_owned(), path: source.into() }
    }

    /// The path of the source.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the source.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn short(&self, name: &str) -> String {
        let path = Path::new(name.strip_prefix("./").unwrap_or(name));
        let inside = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        let last = || path.file_name().map(Path::new);
        inside.or_else(last).unwrap_or(path).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_nothing_of_the_machine() {
        let names = Names::new(Path::new("/some/where/prog.c"), Some(Path::new("/tmp/headers")));
        let cases = [
            ("/some/where/prog.c", "prog.c"),
            ("/some/where/parts/a.h", "parts/a.h"),
            ("/tmp/headers/anode/capsule.h", "anode/capsule.h"),
            ("/home/author/secret/lib.rs", "lib.rs"),
            ("prog.c", "prog.c"),
        ];
        for (name, short) in cases {
            assert_eq!(names.short(name), short);
        }
    }
}
