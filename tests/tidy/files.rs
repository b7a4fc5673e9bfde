//! The imports among files: no circles, except those that a table names. Example: `key.rs` uses `secret.rs`, so that must not use `key.rs`.

use super::source::Source;
use super::{Complaints, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Files that import each other, without `src/` and `.rs`, and why they stay.
type Circle = (&'static [&'static str], &'static str);

const CIRCLES: &[Circle] = &[];

/// The module that a file is: `["wire", "udp"]`.
fn module(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<_> = rest.split('/').map(str::to_owned).collect();
    if parts.last()? == "mod" {
        parts.pop();
    }
    // The crate's root is no place that anybody needs.
    (!["lib", "main"].contains(&rest)).then_some(parts)
}

/// The files of a crate by their modules, and what each file's imports call other things.
struct Tree<'a> {
    files: BTreeMap<Vec<String>, &'a Source>,
    names: BTreeMap<&'a str, BTreeMap<String, Vec<String>>>,
}

impl<'a> Tree<'a> {
    fn of(sources: &'a [Source]) -> Tree<'a> {
        let live = sources.iter().filter(|source| !source.is_test());
        let files = live.filter_map(|source| Some((module(&source.path)?, source))).collect();
        let mut tree = Tree { files, names: BTreeMap::new() };
        let names = tree.files.iter().map(|(at, source)| (&*source.path, tree.imported(at, source))).collect();
        tree.names = names;
        tree
    }

    /// A path as one from the crate's root.
    fn absolute(&self, at: &[String], path: &str) -> Option<Vec<String>> {
        let parts: Vec<_> = path.split("::").map(str::to_owned).collect();
        let (first, rest) = parts.split_first()?;
        let up = parts.iter().take_while(|part| *part == "super").count();
        let base = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some([at, rest].concat()),
            "super" => at.get(..at.len().checked_sub(up)?)?,
            child if self.files.contains_key(&[at, &[child.to_owned()]].concat()) => at,
            _ => return None,
        };
        Some([base, &parts[up..]].concat())
    }

    /// What a file's imports call things: the last word of each path.
    fn imported(&self, at: &[String], source: &Source) -> BTreeMap<String, Vec<String>> {
        let paths = source.imports().into_iter().filter_map(|path| self.absolute(at, &path));
        paths.filter_map(|path| Some((path.last()?.clone(), path))).collect()
    }

    /// The file that has what a path from the root means, through the imports of the files on the way.
    fn file(&self, path: &[String], steps: usize) -> Option<&'a Source> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let source = self.files[&path[..length]];
        let other = path.get(length).and_then(|name| self.names.get(&*source.path)?.get(name));
        match other {
            Some(other) if steps > 0 && other[..] != path[..=length] => {
                self.file(&[&other[..], &path[length + 1..]].concat(), steps - 1)
            }
            _ => Some(source),
        }
    }

    /// Which files each file needs.
    fn needs(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let of = |at: &[String], source: &Source| {
            let paths = source.paths().into_iter().filter_map(|(_, path)| self.absolute(at, &path));
            let files = paths.filter_map(|path| Some(&*self.file(&path, 8)?.path));
            files.filter(|path| *path != source.path).collect()
        };
        self.files.iter().map(|(at, source)| (&*source.path, of(at, source))).collect()
    }
}

/// Groups of files of which each needs the others, perhaps through others.
fn groups<'a>(needs: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let (mut found, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(at) = todo.pop() {
            let new = needs.get(at).into_iter().flatten().filter(|file| !found.contains(*file));
            let new: Vec<_> = new.copied().collect();
            found.extend(&new);
            todo.extend(new);
        }
        found
    };
    let reached: BTreeMap<_, _> = needs.keys().map(|file| (*file, reached(file))).collect();
    let mut groups = BTreeSet::new();
    for (file, others) in &reached {
        let group: Vec<_> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups.into_iter().collect()
}

#[test]
fn show() {
    let sources = sources();
    let needs = Tree::of(&sources).needs();
    for group in groups(&needs) {
        println!("== {}", group.len());
        for file in &group {
            let others: Vec<_> = needs[file].iter().filter(|other| group.contains(other)).collect();
            println!("  {file} -> {others:?}");
        }
    }
}
