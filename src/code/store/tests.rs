//! The store under bad luck: processes killed while they write, rotten files, full disks.

use super::*;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{FlockOperation, flock};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

const SMALL: StoreLimits = StoreLimits { memory_bytes: 4000, memory_entries: 4, disk_bytes: 40_000, disk_entries: 12 };

/// Where a child process keeps its store, and its seed.
const DIRECTORY: &str = "ANODE_TEST_STORE";
const SEED: &str = "ANODE_TEST_SEED";

fn bytes(seed: u64, length: usize) -> Arc<[u8]> {
    let mut bytes = vec![0; length];
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes.into()
}

fn file_of(directory: &Path, digest: &Digest) -> std::path::PathBuf {
    let name = digest.to_string();
    directory.join("objects").join(&name[..2]).join(&name[2..])
}

#[test]
fn an_object_comes_back_from_memory_from_disk_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Some(directory.path()), SMALL).unwrap();
    let digests: Vec<_> = (0..8).map(|seed| store.put(bytes(seed, 1000)).unwrap()).collect();
    assert_eq!(store.object(&digests[7]).unwrap(), bytes(7, 1000));
    assert_eq!(store.object(&digests[0]).unwrap(), bytes(0, 1000));
    assert!(store.object(&Digest::of(b"other")).is_none());
    let stats = store.stats();
    assert_eq!((stats.memory_hits, stats.disk_hits, stats.misses, stats.puts), (1, 1, 1, 8));
    assert_eq!((stats.memory_entries, stats.disk_entries, stats.disk_bytes), (4, 8, 8000));
    drop(store);
    let store = Store::open(Some(directory.path()), SMALL).unwrap();
    assert_eq!(store.list().len(), 8);
    assert_eq!(store.object(&digests[3]).unwrap(), bytes(3, 1000));
}

#[test]
fn the_longest_unused_goes_and_the_pinned_stays() {
    for disk in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let limits = StoreLimits { memory_bytes: 3000, memory_entries: 9, disk_bytes: 3000, disk_entries: 9 };
        let store = Store::open(disk.then_some(directory.path()), limits).unwrap();
        let digests: Vec<_> = (0..3).map(|seed| store.put(bytes(seed, 1000)).unwrap()).collect();
        store.pin(&digests[0]).unwrap();
        store.object(&digests[1]).unwrap();
        let fourth = store.put(bytes(3, 1000)).unwrap();
        let kept: Vec<_> = digests.iter().map(|digest| store.object(digest).is_some()).collect();
        assert_eq!(kept, [true, true, false]);
        assert_eq!(store.list().iter().filter(|entry| entry.pinned).count(), 1);
        assert_eq!(store.stats().evictions, u64::from(disk));
        for digest in [&digests[1], &fourth] {
            store.pin(digest).unwrap();
        }
        let refused = store.put(bytes(4, 10)).unwrap_err();
        assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
        assert_eq!(refused.digest().is_some(), disk);
        assert!(store.unpin(&digests[0]).unwrap() && !store.unpin(&digests[0]).unwrap());
        store.put(bytes(4, 10)).unwrap();
        assert!(store.object(&digests[0]).is_none() || disk, "memory may still have it");
    }
}

#[test]
fn pins_and_the_order_of_use_survive_a_restart_with_smaller_limits() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Some(directory.path()), StoreLimits::default()).unwrap();
    let digests: Vec<_> = (0..5).map(|seed| store.put(bytes(seed, 1000)).unwrap()).collect();
    store.pin(&digests[0]).unwrap();
    for (age, digest) in digests.iter().enumerate() {
        let used = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 - age as u64);
        std::fs::File::open(file_of(directory.path(), digest)).unwrap().set_modified(used).unwrap();
    }
    drop(store);
    let store = Store::open(Some(directory.path()), StoreLimits { disk_entries: 2, ..StoreLimits::default() }).unwrap();
    let kept: Vec<_> = digests.iter().map(|digest| store.object(digest).is_some()).collect();
    assert_eq!(kept, [true, true, false, false, false], "pinned, and the last used");
    assert!(!file_of(directory.path(), &digests[4]).exists());
}

/// Uses by a clock that was a year ahead, and was set back before the next start.
#[test]
fn uses_that_are_dated_later_than_now_are_dated_now_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Some(directory.path()), StoreLimits::default()).unwrap();
    let digests: Vec<_> = (0..3).map(|seed| store.put(bytes(seed, 1000)).unwrap()).collect();
    drop(store);
    let (now, day) = (std::time::SystemTime::now(), std::time::Duration::from_secs(86_400));
    let file = |digest| std::fs::File::open(file_of(directory.path(), digest)).unwrap();
    for (digest, days) in digests.iter().zip([367, 365, 366]) {
        file(digest).set_modified(now + day * days).unwrap();
    }
    let limits = StoreLimits { disk_entries: 3, ..StoreLimits::default() };
    let store = Store::open(Some(directory.path()), limits).unwrap();
    let dates: Vec<_> = digests.iter().map(|digest| file(digest).metadata().unwrap().modified().unwrap()).collect();
    assert!(dates.iter().all(|date| *date < now + day), "{dates:?}");
    assert!(dates[1] < dates[2] && dates[2] < dates[0], "{dates:?}");
    // What comes now comes after all of them, also at the next start.
    let next = store.put(bytes(3, 1000)).unwrap();
    drop(store);
    let fewer = StoreLimits { disk_entries: 2, ..limits };
    let store = Store::open(Some(directory.path()), fewer).unwrap();
    let kept: Vec<_> = digests.iter().chain([&next]).map(|digest| store.object(digest).is_some()).collect();
    assert_eq!(kept, [true, false, false, true]);
}

/// As the thread of a node that has the store.
#[test]
fn a_confined_thread_writes_the_order_of_use() {
    if !crate::sys::jail::has_seccomp() {
        println!("SKIPPED: this kernel filters no system calls");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let none = StoreLimits { memory_entries: 0, ..StoreLimits::default() };
    let digest = Store::open(Some(directory.path()), none).unwrap().put(bytes(1, 100)).unwrap();
    let path = file_of(directory.path(), &digest);
    std::fs::File::open(&path).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let store = Store::open(Some(directory.path()), none).unwrap();
    let read = std::thread::spawn(move || {
        crate::sys::jail::Filters::of("store").unwrap().apply().unwrap();
        store.object(&digest).is_some()
    });
    assert!(read.join().unwrap());
    let used = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert!(used > std::time::SystemTime::UNIX_EPOCH, "it is known on disk that it was used");
}

#[test]
fn a_store_that_somebody_keeps_to_himself_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open(Some(directory.path()), StoreLimits::default()).unwrap());
    let lock = std::fs::File::open(directory.path().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let refused = Store::open(Some(directory.path()), StoreLimits::default()).unwrap_err().to_string();
    assert!(refused.contains("another process has it to itself"), "{refused}");
    drop(lock);
    assert!(Store::open(Some(directory.path()), StoreLimits::default()).is_ok());
}

#[test]
fn a_rotten_object_is_removed_counted_and_absent_until_put_again() {
    let directory = tempfile::tempdir().unwrap();
    let none = StoreLimits { memory_entries: 0, ..StoreLimits::default() };
    let store = Store::open(Some(directory.path()), none).unwrap();
    let digest = store.put(bytes(1, 3000)).unwrap();
    let path = file_of(directory.path(), &digest);
    let rot: [&dyn Fn(); 4] = [
        &|| std::fs::write(&path, bytes(2, 3000)).unwrap(),
        &|| std::fs::write(&path, &bytes(1, 3000)[..2999]).unwrap(),
        &|| std::fs::write(&path, b"").unwrap(),
        &|| std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap(),
    ];
    for (count, rot) in (1..).zip(rot) {
        rot();
        assert!(store.object(&digest).is_none());
        assert!(!path.exists());
        assert_eq!((store.stats().corrupt, store.stats().disk_entries), (count, 0));
        assert_eq!(store.put(bytes(1, 3000)).unwrap(), digest);
        assert_eq!(store.object(&digest).unwrap(), bytes(1, 3000));
    }
    std::fs::remove_file(&path).unwrap();
    assert!(store.object(&digest).is_none());
    assert_eq!((store.stats().corrupt, store.stats().misses), (4, 5), "somebody else removed it");
}

#[test]
fn a_bundle_goes_without_what_others_share() {
    let store = Store::open(None, StoreLimits::default()).unwrap();
    let build = |title, second: &[u8]| {
        let parts = [
            (super::super::bundle::Kind::Wasm, Arc::from(&b"same"[..])),
            (super::super::bundle::Kind::Bpf, Arc::from(second)),
        ];
        Bundle::build(title, 0, &parts, None).unwrap()
    };
    let (one, two) = (build("one", b"1"), build("two", b"2"));
    store.put_bundle(&one, true).unwrap();
    store.put_bundle(&two, false).unwrap();
    assert_eq!(store.list().len(), 5);
    let mut titles: Vec<_> = store.list().into_iter().filter_map(|entry| entry.title).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["one", "two"]);
    assert!(store.bundle(&one.name()).unwrap().objects().count() == 3);
    assert!(store.remove_bundle(&one.name()).unwrap());
    assert!(!store.remove_bundle(&one.name()).unwrap());
    assert_eq!(store.list().len(), 3);
    assert_eq!(store.bundle(&two.name()).unwrap().objects().count(), 3);
    assert!(store.bundle(&Digest::of(b"same")).is_none(), "no manifest");
}

#[test]
fn what_is_too_long_or_misplaced_is_refused_with_cause_and_remedy() {
    let store = Store::open(None, StoreLimits::default()).unwrap();
    assert!(matches!(store.put(vec![0; OBJECT_MAX + 1]), Err(Error::TooLong { .. })));
    assert!(store.put(vec![0; OBJECT_MAX]).is_ok());
    let refused = Store::open(Some(Path::new("/dev/null/store")), StoreLimits::default()).unwrap_err();
    assert!(refused.to_string().contains("--store"), "{refused}");
}

#[test]
fn two_processes_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(Some(directory.path()), SMALL).unwrap();
    let first = open();
    std::fs::write(directory.path().join("new/1-1"), "being written").unwrap();
    let second = open();
    assert!(directory.path().join("new/1-1").exists(), "the first may be writing it");
    let digest = second.put(bytes(1, 100)).unwrap();
    assert_eq!(first.object(&digest).unwrap(), bytes(1, 100));
    assert!(second.remove(&digest).unwrap());
    drop((first, second));
    // A child that another test starts just now has the lock too, until it becomes another program.
    let mut opened = (0..10_000).map(|_| {
        std::thread::yield_now();
        open()
    });
    let third = opened.find(|_| !directory.path().join("new/1-1").exists()).expect("alone: nobody writes it");
    assert!(third.object(&digest).is_none());
}

/// This test program again, with one of the tests below.
fn child(test: &str, directory: &Path, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("code::store::tests::{test}");
    command.args(["--exact", &name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).env(SEED, seed.to_string()).stdin(Stdio::null());
    command
}

#[test]
#[ignore = "runs as a child of the test that kills it"]
fn writes_until_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(std::env::var(SEED).unwrap().parse().unwrap());
    let store = Store::open(Some(Path::new(&directory)), SMALL).unwrap();
    let mut out = std::io::stdout();
    loop {
        let object = bytes(random.next_u64(), 1 + random.next_u32() as usize % 9000);
        let pin = random.next_u32() % 16 == 0;
        if pin {
            store.pin(&Digest::of(&object)).unwrap();
        }
        match store.put(object) {
            Ok(digest) if pin => writeln!(out, "\npinned {digest}").unwrap(),
            Ok(digest) => writeln!(out, "\nput {digest}").unwrap(),
            // When the pinned fill it, begin anew.
            Err(Error::NoRoom { .. }) => {
                writeln!(out, "\nemptying").unwrap();
                for entry in store.list() {
                    store.remove(&entry.digest).unwrap();
                }
            }
            Err(error) => panic!("{error}"),
        }
        out.flush().unwrap();
    }
}

#[test]
fn kill_9_at_any_instant_leaves_every_object_whole_or_absent() {
    let rounds = std::env::var("ANODE_KILLS").map_or(120, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut interrupted = 0;
    for round in 0..rounds {
        let mut writer = child("writes_until_killed", directory.path(), round).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // After so many objects and a while of less than one more.
        let target = random.next_u32() % 12;
        let mut acknowledged = Vec::new();
        let mut seen = 0;
        while seen < target {
            let line = lines.next().unwrap().unwrap();
            seen += u32::from(line.contains("put ") || line.contains("pinned "));
            note(&line, &mut acknowledged);
        }
        for step in 0..random.next_u32() % 3_000_000 {
            std::hint::black_box(step);
        }
        kill(&mut writer);
        lines.map_while(Result::ok).for_each(|line| note(&line, &mut acknowledged));
        interrupted +=
            usize::from(std::fs::read_dir(directory.path().join("new")).is_ok_and(|mut new| new.next().is_some()));
        verify(directory.path(), &acknowledged, round);
    }
    println!("{interrupted} of {rounds} rounds killed a write before its rename");
}

/// Remembers what was pinned and put when the writer said so.
fn note(line: &str, acknowledged: &mut Vec<Digest>) {
    if line.contains("emptying") {
        acknowledged.clear();
    } else if let Some((_, digest)) = line.split_once("pinned ") {
        acknowledged.extend(digest.parse::<Digest>());
    }
}

fn kill(writer: &mut Child) {
    writer.kill().unwrap();
    assert!(!writer.wait().unwrap().success());
}

/// Every file is the object of its name, the books agree with the files, the limits hold.
fn verify(directory: &Path, acknowledged: &[Digest], round: u64) {
    let store = Store::open(Some(directory), SMALL).unwrap();
    let (mut files, mut size) = (0, 0);
    for entry in std::fs::read_dir(directory.join("objects")).unwrap().flatten() {
        for file in std::fs::read_dir(entry.path()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap() + &file.file_name().into_string().unwrap();
            let object = std::fs::read(file.path()).unwrap();
            assert_eq!(Digest::of(&object).to_string(), name, "round {round}");
            assert_eq!(store.object(&Digest::of(&object)).unwrap()[..], object[..]);
            files += 1;
            size += object.len() as u64;
        }
    }
    let stats = store.stats();
    assert_eq!((stats.disk_entries, stats.disk_bytes, stats.corrupt), (files, size, 0), "round {round}");
    assert!(files <= SMALL.disk_entries && size <= SMALL.disk_bytes, "round {round}: {stats:?}");
    assert_eq!(std::fs::read_dir(directory.join("new")).unwrap().count(), 0);
    let lost = acknowledged.iter().filter(|digest| store.object(digest).is_none()).count();
    assert_eq!(lost, 0, "round {round}: pinned objects");
}

#[test]
#[ignore = "runs as a child with a disk that is full"]
fn fills_the_disk() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = Store::open(Some(Path::new(&directory)), StoreLimits::default()).unwrap();
    let refused = (0..50).find_map(|seed| store.put(bytes(seed, 60_000)).err()).expect("the disk never was full");
    let text = refused.to_string();
    assert!(text.contains("kept in memory only") && text.contains("make room"), "{text}");
    let digest = refused.digest().unwrap();
    assert_eq!(store.object(&digest).unwrap().len(), 60_000, "the memory side works on");
    let stats = store.stats();
    assert_eq!(stats.disk_errors, 1);
    assert_eq!(std::fs::read_dir(Path::new(&directory).join("new")).unwrap().count(), 0, "no remains");
    for entry in store.list() {
        store.remove(&entry.digest).unwrap();
    }
    let small = store.put(bytes(99, 100)).unwrap();
    drop(store);
    let store = Store::open(Some(Path::new(&directory)), StoreLimits::default()).unwrap();
    assert_eq!((store.object(&small).is_some(), store.object(&digest).is_none()), (true, true));
    println!("\nfilled");
}

/// Runs the child above behind a shell prefix; `None` if the prefix itself did not work.
fn full_disk(prefix: &str, shell: &[&str]) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let inner = child("fills_the_disk", directory.path(), 0);
    let (first, rest) = shell.split_first().unwrap();
    let output = Command::new(first)
        .args(rest)
        .args(["sh", "-c", &format!("{prefix} && exec \"$0\" \"$@\"")])
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !said.contains("running 1 test") {
        return None;
    }
    assert!(output.status.success() && said.contains("filled"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

#[test]
fn a_file_size_limit_leaves_the_memory_side_working() {
    full_disk("trap '' XFSZ && ulimit -f 64", &["env"]).expect("the shell knows trap and ulimit");
}

#[test]
fn a_full_file_system_leaves_the_memory_side_working() {
    let prefix = format!("mount -t tmpfs -o size=300k tmpfs \"${DIRECTORY}\"");
    if full_disk(&prefix, &["unshare", "--mount"]).is_none() {
        println!("SKIPPED: mounting a small tmpfs needs root");
    }
}

/// The directory is a node's; whoever opens it may be root, who is asked to by an operator.
#[test]
fn whoever_has_a_store_leads_nobody_out_of_it() {
    use std::os::unix::fs::symlink;
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (victim, letter) = (outside.path().to_owned(), outside.path().join("letter"));
    std::fs::write(&letter, "dear").unwrap();
    let at = |name: &str| dir.path().join(name);
    let open = || Store::open(Some(dir.path()), StoreLimits::default());
    let untouched = || {
        let names = std::fs::read_dir(&victim).unwrap().count();
        (names, std::fs::read_to_string(&letter).unwrap_or_default()) == (1, "dear".to_owned())
    };
    let bytes: Arc<[u8]> = b"an object"[..].into();
    let digest = Digest::of(&bytes);
    let (first, rest) = (digest.to_string()[..2].to_owned(), digest.to_string()[2..].to_owned());

    let store = open().unwrap();
    symlink(&letter, at("pins").join(digest.to_string())).unwrap();
    store.put(bytes.clone()).unwrap();
    let _ = store.pin(&digest);
    assert!(untouched(), "a pin is no way out");

    std::fs::remove_dir_all(at("objects").join(&first)).unwrap();
    symlink(&victim, at("objects").join(&first)).unwrap();
    let fresh = open().unwrap();
    assert!(fresh.put(bytes.clone()).is_err() && untouched(), "nor is a directory of objects");
    assert!(open().unwrap().object(&digest).is_none());
    std::fs::remove_file(at("objects").join(&first)).unwrap();

    std::fs::create_dir(at("objects").join(&first)).unwrap();
    let object = at("objects").join(&first).join(&rest);
    rustix::fs::mknodat(rustix::fs::CWD, &object, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert!(open().unwrap().object(&digest).is_none(), "a pipe is not waited for");
    std::fs::remove_file(&object).unwrap();
    symlink("/dev/zero", &object).unwrap();
    assert!(open().unwrap().object(&digest).is_none(), "a device is not read");

    drop((store, fresh));
    std::fs::remove_dir(at("new")).unwrap();
    symlink(&victim, at("new")).unwrap();
    assert!(open().is_err() && untouched(), "what is left over elsewhere is not removed");
    std::fs::remove_file(at("new")).unwrap();
    std::fs::remove_file(at("lock")).unwrap();
    symlink(&letter, at("lock")).unwrap();
    assert!(open().is_err(), "no lock is elsewhere");
}
