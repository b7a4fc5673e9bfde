//! Control groups on this host: made, limited, removed.

use super::*;

fn group() -> Group {
    Group { memory_bytes: 64 << 20, tasks: 9, cpu_weight: 50, cpu_percent: 30 }
}

#[test]
fn groups_are_made_with_their_limits_and_leave_nothing() {
    let name = format!("unit-{}", std::process::id());
    let parent = Parent::open(&name);
    if parent.places.is_empty() {
        assert!(std::env::var_os("CI").is_none() || !crate::sys::process::is_root(), "no control groups");
        return eprintln!("SKIPPED: no control groups can be made here");
    }
    let groups = parent.add("one", &group()).unwrap();
    let value = |file: &str| groups.places.iter().find_map(|place| fs::read_to_string(place.join(file)).ok());
    if !parent.lacks().contains(&Part::Processes) {
        assert_eq!(value("pids.max").unwrap().trim(), "9");
    }
    if !parent.lacks().contains(&Part::Memory) {
        let most = value("memory.max").or(value("memory.limit_in_bytes")).unwrap();
        assert_eq!(most.trim(), (64 << 20).to_string());
    }
    if !parent.lacks().contains(&Part::Cpu) {
        assert_eq!(Meter::of(&groups, 0).read(), Ok(0));
        // Of version 2: the quota and its period; of version 1 the quota, whose period is the kernel's own.
        let (weight, most) = match value("cpu.weight") {
            Some(weight) => (weight, value("cpu.max").map(|most| (most, "30000 100000"))),
            None => (value("cpu.shares").unwrap(), value("cpu.cfs_quota_us").map(|most| (most, "30000"))),
        };
        assert!(["50", "512"].contains(&weight.trim()), "half of what others have: {weight}");
        // Some kernels have no maximum.
        most.into_iter().for_each(|(is, wanted)| assert_eq!(is.trim(), wanted));
        Weights::of(&groups).unwrap().set(200).unwrap();
        let weight = value("cpu.weight").or(value("cpu.shares")).unwrap();
        assert!(["200", "2048"].contains(&weight.trim()), "{weight}");
    }
    let other = parent.add("one", &group()).unwrap();
    assert_ne!(other, groups, "two of one name do not meet");
    groups.remove();
    assert!(groups.places.iter().all(|place| !place.exists()));
    let places: Vec<_> = parent.places.iter().map(|place| place.at.clone()).collect();
    assert!(Parent::open(&name).places.is_empty(), "it is held");
    assert!(other.places.iter().all(|place| place.exists()), "so nobody removes what is in it");
    drop(parent);
    assert!(places.iter().chain(&other.places).all(|place| !place.exists()));
}

#[test]
fn what_a_dead_node_has_left_is_removed_by_the_next() {
    let name = format!("unit-left-{}", std::process::id());
    let parent = Parent::open(&name);
    let groups = parent.add("one", &group()).unwrap();
    let places: Vec<_> = parent.places.iter().map(|place| place.at.clone()).collect();
    // As if it had been killed: the locks go, the directories stay.
    let Parent { places: _, _locks: locks } = &parent;
    locks.iter().for_each(|lock| flock(lock, FlockOperation::Unlock).unwrap());
    drop(Parent::open(&format!("{name}-next")));
    assert!(places.iter().chain(&groups.places).all(|place| !place.exists()));
}

/// Nodes start and end at the same time, and each looks for what others have left.
#[test]
fn a_parent_that_was_just_made_is_not_taken_for_one_that_is_left() {
    let name = format!("unit-new-{}", std::process::id());
    if Parent::open(&name).places.is_empty() {
        println!("SKIPPED: no control groups can be made here");
        return;
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                remove_all_left();
            }
        });
        let gone = (0..300).find_map(|round| {
            let parent = Parent::open(&name);
            let is_there = (0..20).all(|_| parent.places.iter().all(|place| place.at.exists()));
            (!is_there).then(|| format!("{round}: {parent:?}"))
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(gone, None);
    });
}

#[test]
fn weights_and_names_are_checked() {
    assert_eq!(group().check(), Ok(()));
    assert!(Group { cpu_weight: 0, ..group() }.check().is_err());
}

#[test]
fn who_was_ended_for_want_of_memory_is_read_from_either_version() {
    assert_eq!(killed("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n"), Some(2));
    assert_eq!(killed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
    assert_eq!((killed("oom 1\noom_kill 0\n"), killed("")), (None, None));
}
