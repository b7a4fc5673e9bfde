//! Files of domains on a real disk: allowed calls, unreachable files, and an account that stays right.

use anode::manage::files::{CALL_BYTES_MAX, Files, LIST_MAX};
use anode::nodeos::file::{Access, DEPTH_MAX, FileId, FileKind, FileSpec, HANDLES_MAX, OpenFlags, Quota, Used};
use anode::nodeos::interface::{DomainId, Error};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const R: OpenFlags = OpenFlags::READ;
const W: OpenFlags = OpenFlags::WRITE;
const RW: OpenFlags = R.and(W);
const NEW: OpenFlags = RW.and(OpenFlags::CREATE);

const A: DomainId = DomainId(1);
const A2: DomainId = DomainId(2);
const B: DomainId = DomainId(3);

const MUCH: Quota = Quota { files: 1000, bytes: 1 << 24 };

/// Two domains of the holder `a`, one of `b`.
fn files(dir: &Path) -> Files {
    let files = Files::open_at(dir).unwrap();
    files.enter(A, "a", MUCH).unwrap();
    files.enter(A2, "a", MUCH).unwrap();
    files.enter(B, "b", MUCH).unwrap();
    files
}

fn spec(path: &str, flags: OpenFlags) -> FileSpec {
    FileSpec { space: None, path: path.into(), flags }
}

fn of(space: &str, path: &str, flags: OpenFlags) -> FileSpec {
    FileSpec { space: Some(space.into()), ..spec(path, flags) }
}

fn put(files: &Files, domain: DomainId, path: &str, content: &[u8]) {
    let file = files.open(domain, &spec(path, NEW.and(OpenFlags::TRUNCATE))).unwrap();
    assert_eq!(files.write(domain, file, 0, content), Ok(content.len()));
    files.close(domain, file).unwrap();
}

fn content(files: &Files, domain: DomainId, spec: &FileSpec) -> Result<Vec<u8>, Error> {
    let file = files.open(domain, spec)?;
    let mut all = vec![0; 4096];
    let length = files.read(domain, file, 0, &mut all)?;
    files.close(domain, file)?;
    all.truncate(length);
    Ok(all)
}

fn used(files: &Files, holder: &str) -> Used {
    files.status().into_iter().find(|space| space.holder == holder).unwrap().used
}

/// What is there, counted by other means.
fn counted(dir: &Path) -> Used {
    let mut all = Used::default();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        all.files += 1;
        let facts = entry.metadata().unwrap();
        if facts.is_dir() {
            let below = counted(&entry.path());
            all = Used { files: all.files + below.files, bytes: all.bytes + below.bytes };
        } else if facts.is_file() {
            all.bytes += facts.len();
        }
    }
    all
}

#[test]
fn what_is_written_is_read_and_outlives_the_node() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    node.make_directory(A, None, "d").unwrap();
    put(&node, A, "d/f", b"hello");
    let file = node.open(A, &spec("d/f", RW.and(OpenFlags::APPEND))).unwrap();
    assert_eq!(node.write(A, file, 0, b" world"), Ok(6), "to the end, whatever the offset");
    let mut part = [0; 5];
    assert_eq!((node.read(A, file, 6, &mut part), &part), (Ok(5), b"world"));
    assert_eq!((node.read(A, file, 9, &mut part), node.read(A, file, 11, &mut part)), (Ok(2), Ok(0)));
    node.sync(A, file).unwrap();
    let stat = node.stat(A, file).unwrap();
    assert_eq!((stat.kind, stat.size, stat.modified_ns > 0), (FileKind::File, 11, true));
    node.truncate(A, file, 4).unwrap();
    assert_eq!(used(&node, "a"), Used { files: 2, bytes: 4 });
    drop(node);
    let node = files(dir.path());
    assert_eq!(content(&node, A2, &spec("d/f", R)), Ok(b"hell".to_vec()), "another domain of the holder");
    assert_eq!(node.stat_path(A, None, "d").unwrap().kind, FileKind::Directory);
    assert_eq!(used(&node, "a"), Used { files: 2, bytes: 4 });
}

#[test]
fn calls_are_refused_as_they_say() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    node.make_directory(A, None, "d").unwrap();
    put(&node, A, "d/f", b"x");
    let open = |path: &str, flags: OpenFlags| node.open(A, &spec(path, flags)).map(|file| node.close(A, file).unwrap());
    for (path, flags, result) in [
        ("d/f", R, Ok(())),
        ("d/f", NEW.and(OpenFlags::EXCLUSIVE), Err(Error::Exists)),
        ("d/g", R, Err(Error::Unknown)),
        ("d/g", RW, Err(Error::Unknown)),
        ("e/g", NEW, Err(Error::Unknown)),
        ("d/f/g", NEW, Err(Error::Unknown)),
        ("d", R, Err(Error::Invalid)),
        ("d", NEW, Err(Error::Invalid)),
        ("d/f", OpenFlags(0), Err(Error::Invalid)),
        ("d/f", OpenFlags(u32::MAX), Err(Error::Invalid)),
    ] {
        assert_eq!(open(path, flags), result, "{path} {flags:?}");
    }
    assert_eq!(node.make_directory(A, None, "d"), Err(Error::Exists));
    assert_eq!(node.make_directory(A, None, "x/y"), Err(Error::Unknown));
    assert_eq!(node.unlink(A, None, "d"), Err(Error::Exists), "it is not empty");
    assert_eq!(node.unlink(A, None, "d/g"), Err(Error::Unknown));
    assert_eq!(node.rename(A, None, "d", "e"), Err(Error::Invalid), "only files");
    assert_eq!(node.rename(A, None, "d/f", "d"), Err(Error::Invalid), "a directory is in the way");
    let (reader, writer) = (node.open(A, &spec("d/f", R)).unwrap(), node.open(A, &spec("d/f", W)).unwrap());
    assert_eq!(node.write(A, reader, 0, b"y"), Err(Error::Denied));
    assert_eq!(node.truncate(A, reader, 0), Err(Error::Denied));
    assert_eq!(node.read(A, writer, 0, &mut [0]), Err(Error::Denied));
    assert_eq!(node.write(A, writer, u64::MAX, b"y"), Err(Error::Invalid));
    assert_eq!(node.write(A, writer, i64::MAX as u64, b"y"), Err(Error::Invalid));
    assert_eq!(node.truncate(A, writer, u64::MAX), Err(Error::Invalid));
    assert_eq!(node.read(A, reader, u64::MAX, &mut [0]), Err(Error::Invalid));
    assert_eq!(node.write(A, writer, 0, &vec![0; CALL_BYTES_MAX + 1]), Err(Error::Invalid));
    assert_eq!(node.write(A, writer, i64::MAX as u64 - 1, b"y"), Err(Error::Limit), "holes count");
    assert_eq!(used(&node, "a"), Used { files: 2, bytes: 1 });
}

#[test]
fn handles_are_a_domains_own_and_end_with_it() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    let file = node.open(A, &spec("f", NEW)).unwrap();
    let wild = [file, FileId(u32::MAX), FileId(7)];
    for (domain, file) in [(A2, wild[0]), (B, wild[0]), (DomainId(77), wild[0]), (A, wild[1]), (A, wild[2])] {
        assert_eq!(node.read(domain, file, 0, &mut [0]), Err(Error::Stale));
        assert_eq!(node.write(domain, file, 0, &[0]), Err(Error::Stale));
        assert_eq!(node.truncate(domain, file, 0), Err(Error::Stale));
        assert_eq!(node.stat(domain, file).err(), Some(Error::Stale));
        assert_eq!(node.close(domain, file), Err(Error::Stale));
    }
    let more: Vec<_> = (1..HANDLES_MAX).map(|_| node.open(A, &spec("f", R)).unwrap()).collect();
    assert_eq!(node.open(A, &spec("f", R)), Err(Error::Limit));
    node.close(A, more[0]).unwrap();
    assert_eq!(node.close(A, more[0]), Err(Error::Stale));
    node.write(A, file, 0, b"kept until closed").unwrap();
    node.unlink(A, None, "f").unwrap();
    assert_eq!(used(&node, "a"), Used { files: 1, bytes: 17 }, "it has no name and is there");
    assert_eq!((node.opened_by(A), node.leave(A), node.opened_by(A)), (HANDLES_MAX - 1, HANDLES_MAX - 1, 0));
    assert_eq!(used(&node, "a"), Used::default());
    assert_eq!(node.open(A, &spec("f", NEW)), Err(Error::Stale), "a domain that has ended opens nothing");
    assert_eq!(node.enter(A2, "b", MUCH), Err(Error::Exists));
    assert_eq!(node.inherit(DomainId(9), A, MUCH), Err(Error::Stale));
    node.inherit(DomainId(9), A2, MUCH).unwrap();
    put(&node, DomainId(9), "of-below", b"");
    assert_eq!(content(&node, A2, &spec("of-below", R)), Ok(vec![]));
}

#[test]
fn others_do_what_a_share_lets_them() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    put(&node, A, "f", b"secret");
    let refused = |flags| node.open(B, &of("a", "f", flags)).err();
    assert_eq!((refused(R), refused(NEW)), (Some(Error::Denied), Some(Error::Denied)));
    assert_eq!(node.open(B, &of("nobody", "f", R)), Err(Error::Denied), "as if it were there");
    assert_eq!(node.list(B, Some("a"), None, "").err(), Some(Error::Denied));
    assert_eq!(node.stat_path(B, Some("a"), "f").err(), Some(Error::Denied));
    node.share(A, "b", Access::Read).unwrap();
    assert_eq!(content(&node, B, &of("a", "f", R)), Ok(b"secret".to_vec()));
    for denied in [
        node.open(B, &of("a", "f", RW)).map(drop),
        node.open(B, &of("a", "g", NEW)).map(drop),
        node.unlink(B, Some("a"), "f"),
        node.make_directory(B, Some("a"), "d"),
        node.rename(B, Some("a"), "f", "g"),
    ] {
        assert_eq!(denied, Err(Error::Denied));
    }
    drop(node);
    let node = files(dir.path());
    assert_eq!(content(&node, B, &of("a", "f", R)), Ok(b"secret".to_vec()), "shares outlive the node");
    node.share(A, "*", Access::Write).unwrap();
    let file = node.open(B, &of("a", "g", NEW)).unwrap();
    node.write(B, file, 0, b"of b").unwrap();
    assert_eq!((used(&node, "a").files, content(&node, A, &spec("g", R))), (2, Ok(b"of b".to_vec())));
    node.share(A, "b", Access::None).unwrap();
    node.share(A, "*", Access::None).unwrap();
    assert_eq!(node.open(B, &of("a", "g", R)), Err(Error::Denied));
    assert_eq!(node.write(B, file, 4, b"!"), Ok(1), "what is open stays so");
    // A record that is spoilt gives nobody anything.
    node.share(A, "b", Access::Write).unwrap();
    drop(node);
    fs::write(dir.path().join("records/a"), b"{").unwrap();
    let node = files(dir.path());
    assert_eq!(node.open(B, &of("a", "g", R)), Err(Error::Denied));
}

#[test]
fn quotas_hold_for_all_who_write_together() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = Files::open_at(dir.path()).unwrap();
    node.enter(A, "a", Quota { files: 3, bytes: 100 }).unwrap();
    node.enter(A2, "a", Quota { files: 2, bytes: 1000 }).unwrap();
    node.enter(B, "b", MUCH).unwrap();
    node.enter(DomainId(4), "poor", Quota::default()).unwrap();
    put(&node, A, "f", &[0; 60]);
    put(&node, A2, "g", &[0; 60]);
    assert_eq!(used(&node, "a"), Used { files: 2, bytes: 120 });
    assert_eq!(node.open(A2, &spec("h", NEW)), Err(Error::Limit), "two files are all it was granted");
    let file = node.open(A, &spec("f", RW)).unwrap();
    assert_eq!(node.write(A, file, 60, &[0]), Err(Error::Limit));
    assert_eq!(node.truncate(A, file, 61), Err(Error::Limit));
    assert_eq!(node.write(A, file, 0, &[1; 60]), Ok(60), "it does not grow");
    assert_eq!(node.truncate(A, file, 10), Ok(()));
    assert_eq!(node.write(A, file, 40, &[]), Ok(0), "nothing makes no hole");
    assert_eq!(node.write(A, file, 30, &[0; 10]), Ok(10));
    assert_eq!(used(&node, "a").bytes, 100);
    node.share(A, "*", Access::Write).unwrap();
    let theirs = node.open(B, &of("a", "f", RW)).unwrap();
    assert_eq!(node.write(B, theirs, 40, &[0]), Err(Error::Limit), "others come no further than the holder");
    node.make_directory(A, None, "d").unwrap();
    assert_eq!(node.make_directory(A, None, "e"), Err(Error::Limit), "directories count");
    assert_eq!(node.open(DomainId(4), &spec("f", NEW)), Err(Error::Unknown));
    assert_eq!(node.share(DomainId(4), "*", Access::Write), Err(Error::Unknown));
    assert!(!dir.path().join("spaces/poor").exists(), "who may have no file has no name space");
    let refused = node.status()[0].refused;
    assert_eq!(refused, 5);
    // Replacing a file by another frees it.
    node.rename(A, None, "g", "f").unwrap();
    assert_eq!(used(&node, "a"), Used { files: 3, bytes: 100 }, "it is open");
    node.close(A, file).unwrap();
    node.close(B, theirs).unwrap();
    assert_eq!(used(&node, "a"), Used { files: 2, bytes: 60 });
}

#[test]
fn lists_come_in_order_and_in_parts() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    let names: Vec<_> = (0..LIST_MAX + 10).map(|at| format!("n{at:04}")).collect();
    names.iter().for_each(|name| put(&node, A, name, name.as_bytes()));
    let first = node.list(A, None, None, "").unwrap();
    let rest = node.list(A, None, None, &first.last().unwrap().name).unwrap();
    let listed: Vec<_> = first.iter().chain(&rest).map(|entry| entry.name.clone()).collect();
    assert_eq!((first.len(), listed), (LIST_MAX, names));
    assert!(rest.iter().all(|entry| entry.stat.size == 5 && entry.stat.kind == FileKind::File));
    assert_eq!(node.list(A, None, Some("n0001"), "").err(), Some(Error::Unknown), "a file has no names");
}

/// What somebody with the right to write there could put into the tree.
#[test]
fn nothing_leads_out_of_a_name_space() {
    crate::gate::pass();
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = files(dir.path());
    put(&node, B, "f", b"of b");
    put(&node, A, "own", b"own");
    let (space, secret) = (dir.path().join("spaces/a"), outside.path().join("secret"));
    fs::write(&secret, b"secret").unwrap();
    for (name, target) in [
        ("to-file", secret.as_path()),
        ("to-dir", outside.path()),
        ("to-neighbour", Path::new("../b")),
        ("to-above", Path::new("..")),
        ("to-own", Path::new("own")),
        ("to-nothing", &outside.path().join("made")),
        ("to-root", Path::new("/proc/self/root")),
        ("to-cwd", Path::new("/proc/self/cwd")),
        ("to-stdin", Path::new("/proc/self/fd/0")),
        ("to-null", Path::new("/dev/null")),
        ("loop", Path::new("loop")),
    ] {
        symlink(target, space.join(name)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(space.join("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(space.join("socket")).unwrap();
    // Only root may make devices; then they are tried too.
    let _ = Command::new("mknod").arg(space.join("device")).args(["c", "1", "5"]).stderr(Stdio::null()).status();
    let planted = ["to-file", "to-nothing", "to-own", "to-stdin", "to-null", "loop", "pipe", "socket", "device"];
    for name in planted.iter().filter(|name| space.join(name).symlink_metadata().is_ok()) {
        for flags in [R, W, RW, NEW, NEW.and(OpenFlags::TRUNCATE), NEW.and(OpenFlags::EXCLUSIVE)] {
            assert_eq!(node.open(A, &spec(name, flags)), Err(Error::Denied), "{name} {flags:?}");
        }
        assert_eq!(node.stat_path(A, None, name).err(), Some(Error::Denied), "{name}");
        assert_eq!(node.make_directory(A, None, name), Err(Error::Exists));
        assert_eq!(node.rename(A, None, name, "mine"), Err(Error::Invalid), "{name}");
    }
    for path in
        ["to-dir/secret", "to-neighbour/f", "to-above/b/f", "to-root/etc/passwd", "to-cwd/x", "loop/x", "to-own/x"]
    {
        for flags in [R, NEW] {
            assert_eq!(node.open(A, &spec(path, flags)), Err(Error::Denied), "{path}");
        }
        assert_eq!(node.unlink(A, None, path), Err(Error::Denied), "{path}");
        assert_eq!(node.make_directory(A, None, path), Err(Error::Denied), "{path}");
        assert_eq!(node.rename(A, None, path, "mine"), Err(Error::Denied), "{path}");
        assert_eq!(node.rename(A, None, "own", path), Err(Error::Denied), "{path}");
    }
    for name in ["to-dir", "to-neighbour", "to-above", "to-root"] {
        assert_eq!(node.list(A, None, Some(name), "").err(), Some(Error::Denied), "{name}");
    }
    let listed: Vec<_> = node.list(A, None, None, "").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(listed, ["own"], "what is no file is not shown");
    for path in ["../b/f", "/etc/passwd", "./own", "own/../own", "a/../../b/f", "", "own\0", "..", "."] {
        assert_eq!(node.open(A, &spec(path, NEW)), Err(Error::Invalid), "{path:?}");
        assert_eq!(node.unlink(A, None, path), Err(Error::Invalid), "{path:?}");
        assert_eq!(node.list(A, None, Some(path), "").err(), Some(Error::Invalid), "{path:?}");
    }
    for space in ["..", "../spaces/b", "b/", "/", "", ".", "b/../b", "b\0"] {
        assert_eq!(node.open(A, &of(space, "f", R)), Err(Error::Invalid), "{space:?}");
    }
    // A name can be taken away; what it led to stays.
    node.unlink(A, None, "to-file").unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing was made outside");
}

#[test]
fn nothing_leads_out_while_the_tree_changes_under_the_call() {
    crate::gate::pass();
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = files(dir.path());
    node.make_directory(A, None, "d").unwrap();
    put(&node, A, "d/f", b"own");
    fs::write(outside.path().join("f"), b"secret").unwrap();
    let space = dir.path().join("spaces/a");
    let (inside, away, link) = (space.join("d"), space.join("away"), space.join("link"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                fs::rename(&inside, &away).unwrap();
                symlink(outside.path(), &link).unwrap();
                fs::rename(&link, &inside).unwrap();
                fs::remove_file(&inside).unwrap();
                fs::rename(&away, &inside).unwrap();
            }
        });
        let (mut read, mut kept_out) = (0, 0);
        for at in 0.. {
            match content(&node, A, &spec("d/f", R)) {
                Ok(content) => {
                    assert_eq!(content, b"own");
                    read += 1;
                }
                Err(Error::Denied) => kept_out += 1,
                Err(error) => assert!(matches!(error, Error::Unknown | Error::Again), "{error}"),
            }
            let _ = node.open(A, &spec(&format!("d/new{}", at % 50), NEW)).map(|file| node.close(A, file));
            let _ = node.unlink(A, None, &format!("d/new{}", (at + 25) % 50));
            if (read > 100 && kept_out > 100) || at > 2_000_000 {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(read > 0 && kept_out > 0, "{read} times read, {kept_out} times kept out");
    });
    let there: Vec<_> = fs::read_dir(outside.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(there, ["f"]);
    assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"secret");
}

#[test]
fn a_directory_belongs_to_one_node() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    let refused = Files::open_at(dir.path()).err().unwrap();
    assert!(refused.to_string().contains("another node uses this directory"));
    drop(node);
    Files::open_at(dir.path()).unwrap();
}

/// A source of numbers that is the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Does something by chance.
fn anything(node: &Files, numbers: &mut Numbers, open: &mut Vec<(DomainId, FileId)>) {
    let domain = [A, A2, B][numbers.below(3) as usize];
    let space = ["a", "b"][numbers.below(2) as usize];
    let mut path = format!("n{}", numbers.below(6));
    for _ in 0..numbers.below(3) {
        path = format!("d{}/{path}", numbers.below(3));
    }
    let flags = OpenFlags(numbers.below(64) as u32);
    let offset = numbers.below(20_000);
    match numbers.below(12) {
        0 => drop(node.make_directory(domain, Some(space), &path.replace('n', "d"))),
        1 | 2 => drop(node.unlink(domain, Some(space), &path)),
        3 => drop(node.unlink(domain, Some(space), &path.replace('n', "d"))),
        4 => drop(node.rename(domain, Some(space), &path, &format!("n{}", numbers.below(6)))),
        5 | 6 => open.extend(node.open(domain, &of(space, &path, flags)).map(|file| (domain, file))),
        choice => {
            let Some(&(domain, file)) = open.get(numbers.below(open.len().max(1) as u64) as usize) else { return };
            match choice {
                7 => drop(node.truncate(domain, file, offset)),
                8 | 9 => drop(node.write(domain, file, offset, &vec![1; numbers.below(5000) as usize])),
                10 => drop(node.read(domain, file, offset, &mut [0; 100])),
                _ => {
                    node.close(domain, file).unwrap();
                    open.retain(|other| *other != (domain, file));
                }
            }
        }
    }
}

fn shared(dir: &Path, quota: Quota) -> Files {
    let node = Files::open_at(dir).unwrap();
    for (domain, holder) in [(A, "a"), (A2, "a"), (B, "b")] {
        node.enter(domain, holder, quota).unwrap();
    }
    node.share(A, "*", Access::Write).unwrap();
    node.share(B, "*", Access::Write).unwrap();
    node
}

#[test]
fn the_account_is_right_whatever_comes() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let quota = Quota { files: 25, bytes: 60_000 };
    let mut node = shared(dir.path(), quota);
    let mut numbers = Numbers(7);
    let mut most = Used::default();
    for round in 0..150 {
        let mut open = Vec::new();
        for _ in 0..100 {
            anything(&node, &mut numbers, &mut open);
            for holder in ["a", "b"] {
                let now = used(&node, holder);
                assert!(now.files <= quota.files && now.bytes <= quota.bytes, "{now:?}");
                most = Used { files: most.files.max(now.files), bytes: most.bytes.max(now.bytes) };
            }
        }
        match round % 3 {
            0 => open.drain(..).for_each(|(domain, file)| node.close(domain, file).unwrap()),
            // Those that are open have no handle any more, whoever held it.
            1 => [(A, "a"), (A2, "a"), (B, "b")].into_iter().for_each(|(domain, holder)| {
                node.leave(domain);
                node.enter(domain, holder, quota).unwrap();
            }),
            _ => {
                drop(node);
                node = shared(dir.path(), quota);
            }
        }
        for holder in ["a", "b"] {
            let there = counted(&dir.path().join("spaces").join(holder));
            assert_eq!(used(&node, holder), there, "round {round}");
        }
        assert!(node.status().iter().all(|space| space.open == 0));
    }
    assert_eq!(most.files, quota.files);
    assert!(most.bytes > quota.bytes * 9 / 10, "{most:?}");
}

/// Says where the writer of the test below works.
const WRITER: &str = "ANODE_TEST_WRITER";

#[test]
fn the_account_is_right_after_the_node_is_killed() {
    crate::gate::pass();
    let quota = Quota { files: 60, bytes: 200_000 };
    if let Some(dir) = std::env::var_os(WRITER) {
        let (node, mut open) = (shared(Path::new(&dir), quota), Vec::new());
        let mut numbers = Numbers(std::process::id().into());
        for step in 0.. {
            anything(&node, &mut numbers, &mut open);
            if step % 200 == 0 {
                eprintln!("{step}");
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer
            .args(["files::the_account_is_right_after_the_node_is_killed", "--exact", "--nocapture"])
            .env(WRITER, dir.path());
        let mut writer = writer.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(writer.stderr.take().unwrap()).lines().map_while(Result::ok);
        let steps = said.filter(|line| line.parse::<u64>().is_ok()).take(3 + round).count();
        assert_eq!(steps, 3 + round);
        writer.kill().unwrap();
        writer.wait().unwrap();
        let node = shared(dir.path(), quota);
        let mut all = 0;
        for holder in ["a", "b"] {
            let there = counted(&dir.path().join("spaces").join(holder));
            assert_eq!(used(&node, holder), there, "round {round}");
            assert!(there.files <= quota.files && there.bytes <= quota.bytes);
            all += there.files;
        }
        assert!(all > 0);
        // Records are whole, and what was being written of them is gone.
        let records: Vec<_> =
            fs::read_dir(dir.path().join("records")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(records.len(), 2, "{records:?}");
    }
}

#[test]
fn paths_end_where_they_are_counted() {
    crate::gate::pass();
    let dir = tempfile::tempdir().unwrap();
    let node = files(dir.path());
    let mut path = String::from("d");
    for _ in 1..DEPTH_MAX {
        node.make_directory(A, None, &path).unwrap();
        path += "/d";
    }
    put(&node, A, &path, b"deepest");
    assert_eq!(node.make_directory(A, None, &format!("{path}/d")), Err(Error::Invalid));
    drop(node);
    let node = files(dir.path());
    assert_eq!(used(&node, "a"), Used { files: DEPTH_MAX as u32, bytes: 7 });
}
