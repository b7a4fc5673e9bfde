//! Rules of memory pools, as tables of steps, beside a simple model.

use super::*;

const MS: u64 = 1_000_000;

/// What is done, in the words of the test; pools and domains by number.
#[derive(Debug)]
enum Step {
    /// A pool of this limit and deadline, part of that one.
    Pool(Option<usize>, u64, u32),
    /// A domain uses a pool.
    Use(u32, usize),
    /// A domain takes bytes, and what comes of it.
    Charge(u32, u64, Result<(), Error>),
    Free(u32, u64),
    Direct(usize, i64, Result<(), Error>),
    /// Bytes in each pool.
    Held(&'static [u64]),
    /// At this time, who is told of which pool and until when.
    Told(u64, &'static [(u32, usize, u64)]),
    /// At this time, who is to be ended.
    Due(u64, &'static [u32]),
    /// A domain ends; bytes freed.
    End(u32, u64),
    /// A pool is destroyed.
    Destroy(usize, Result<(), Error>),
}
use Step::*;

fn run(steps: &[Step]) {
    let (mut pools, mut ids) = (Pools::default(), Vec::new());
    for step in steps {
        match step {
            Pool(parent, limit, deadline_ms) => {
                let parent = parent.map(|at| ids[at]);
                let spec = MemPoolSpec { parent, limit_bytes: *limit, deadline_ms: *deadline_ms };
                ids.push(pools.create(DomainId(99), &spec).unwrap());
            }
            Use(domain, at) => pools.attach(DomainId(*domain), ids[*at]).unwrap(),
            Charge(domain, bytes, result) => assert_eq!(pools.charge(DomainId(*domain), *bytes), *result, "{step:?}"),
            Free(domain, bytes) => pools.free(DomainId(*domain), *bytes),
            Direct(at, bytes, result) => assert_eq!(pools.charge_direct(ids[*at], *bytes), *result, "{step:?}"),
            Held(all) => {
                let held = |id: &PoolId| pools.status(*id).map_or(0, |pool| pool.held_bytes);
                assert_eq!(ids.iter().map(held).collect::<Vec<_>>(), *all);
            }
            Told(now, all) => {
                let mut told = Vec::new();
                pools.tell(*now, |domain, pool, deadline| {
                    told.push((domain.0, ids.iter().position(|id| *id == pool).unwrap(), deadline));
                });
                assert_eq!(told, *all, "{step:?}");
            }
            Due(now, all) => {
                let due: Vec<_> = pools.due(*now).into_iter().map(|domain| domain.0).collect();
                assert_eq!(due, *all, "{step:?}");
            }
            End(domain, freed) => assert_eq!(pools.end(DomainId(*domain)), *freed, "{step:?}"),
            Destroy(at, result) => assert_eq!(pools.destroy(ids[*at]), *result, "{step:?}"),
        }
    }
}

#[test]
fn many_domains_share_one_pool_and_what_each_holds_is_known() {
    run(&[
        Pool(None, 100_000, 10),
        Use(1, 0),
        Use(2, 0),
        Charge(1, 60_000, Ok(())),
        Charge(2, 30_000, Ok(())),
        Held(&[90_000]),
        Free(2, 50_000),
        Held(&[60_000]),
        Charge(3, 1, Err(Error::Stale)),
        End(1, 60_000),
        Held(&[0]),
        Charge(1, 1, Err(Error::Stale)),
    ]);
}

#[test]
fn charges_count_in_all_pools_above_and_limits_are_each_pools_own() {
    run(&[
        Pool(None, 100_000, 10),
        // More than the one above has: a limit is not propagated.
        Pool(Some(0), 200_000, 10),
        Pool(Some(1), 50_000, 10),
        Use(1, 1),
        Use(2, 2),
        Charge(2, 40_000, Ok(())),
        Charge(1, 60_000, Ok(())),
        Held(&[100_000, 100_000, 40_000]),
        Told(0, &[]),
        // Refused by the uppermost, so counted nowhere.
        Charge(1, 20_000, Err(Error::Limit)),
        Held(&[100_000, 100_000, 40_000]),
        Charge(1, 12_500, Ok(())),
        Told(5, &[(1, 0, 5 + 10 * MS), (2, 0, 5 + 10 * MS)]),
        Free(1, 72_500),
        Free(2, 40_000),
        Held(&[0, 0, 0]),
    ]);
}

#[test]
fn who_obeys_in_time_stays_and_who_does_not_is_ended() {
    run(&[
        Pool(None, 1_000_000, 10),
        Use(1, 0),
        Use(2, 0),
        Use(3, 0),
        Charge(1, 900_000, Ok(())),
        Charge(2, 125_000, Ok(())),
        Told(MS, &[(1, 0, 11 * MS), (2, 0, 11 * MS), (3, 0, 11 * MS)]),
        Told(2 * MS, &[]),
        Due(11 * MS - 1, &[]),
        Free(1, 100_000),
        Due(11 * MS, &[]),
        // The second time nobody obeys; who holds nothing is spared.
        Charge(1, 100_000, Ok(())),
        Told(20 * MS, &[(1, 0, 30 * MS), (2, 0, 30 * MS), (3, 0, 30 * MS)]),
        Due(30 * MS, &[1, 2]),
        End(1, 900_000),
        Due(31 * MS, &[]),
    ]);
}

#[test]
fn what_was_over_and_is_not_any_more_is_not_told() {
    run(&[
        Pool(None, 8000, 10),
        Use(1, 0),
        Charge(1, 9000, Ok(())),
        Free(1, 2000),
        Told(0, &[]),
        Due(u64::MAX, &[]),
        Charge(1, 5000, Ok(())),
        Charge(1, 97, Err(Error::Limit)),
        Charge(1, 96, Ok(())),
        Told(7, &[(1, 0, 7 + 10 * MS)]),
    ]);
}

#[test]
fn a_deadline_of_nothing_ends_at_once() {
    run(&[Pool(None, 1, 0), Use(1, 0), Charge(1, 2, Ok(())), Told(3, &[(1, 0, 3)]), Due(3, &[1])]);
}

#[test]
fn what_environments_hold_themselves_is_charged_to_the_pool() {
    run(&[
        Pool(None, 10_000, 10),
        Pool(Some(0), 10_000, 10),
        Use(1, 1),
        Direct(1, 5000, Ok(())),
        Charge(1, 1000, Ok(())),
        Held(&[6000, 6000]),
        Direct(1, -5001, Err(Error::Invalid)),
        Direct(1, i64::MIN, Err(Error::Invalid)),
        Direct(1, i64::MAX, Err(Error::Limit)),
        Direct(1, -1000, Ok(())),
        Held(&[5000, 5000]),
        Destroy(0, Err(Error::Invalid)),
        Destroy(1, Err(Error::Invalid)),
        End(1, 1000),
        Destroy(0, Err(Error::Invalid)),
        Destroy(1, Ok(())),
        Destroy(1, Err(Error::Stale)),
        Direct(1, 1, Err(Error::Stale)),
        Held(&[0, 0]),
        Destroy(0, Ok(())),
    ]);
}

#[test]
fn a_domain_that_ends_takes_its_pools_along() {
    let mut pools = Pools::default();
    let spec = |parent| MemPoolSpec { parent, limit_bytes: 10_000, deadline_ms: 1 };
    let top = pools.create(DomainId(1), &spec(None)).unwrap();
    let below = pools.create(DomainId(2), &spec(Some(top))).unwrap();
    let lower = pools.create(DomainId(2), &spec(Some(below))).unwrap();
    pools.attach(DomainId(2), lower).unwrap();
    assert_eq!(pools.attach(DomainId(2), top), Err(Error::Exists), "a domain has one pool");
    pools.charge(DomainId(2), 100).unwrap();
    pools.charge_direct(below, 50).unwrap();
    assert_eq!((pools.end(DomainId(2)), pools.len()), (150, 1));
    assert_eq!(pools.status(top).unwrap().held_bytes, 0);
    assert_eq!((pools.end(DomainId(2)), pools.len()), (0, 1), "a name that is stale ends nothing");
}

#[test]
fn bad_specifications_are_refused() {
    let mut pools = Pools::default();
    let good = MemPoolSpec { parent: None, limit_bytes: 1, deadline_ms: DEADLINE_MS_MAX };
    let mut at = pools.create(DomainId(0), &good).unwrap();
    for (spec, error) in [
        (MemPoolSpec { limit_bytes: 0, ..good }, Error::Invalid),
        (MemPoolSpec { deadline_ms: DEADLINE_MS_MAX + 1, ..good }, Error::Invalid),
        (MemPoolSpec { parent: Some(PoolId(77)), ..good }, Error::Stale),
    ] {
        assert_eq!(pools.create(DomainId(0), &spec), Err(error));
    }
    for _ in 1..DEPTH_MAX {
        at = pools.create(DomainId(0), &MemPoolSpec { parent: Some(at), ..good }).unwrap();
    }
    assert_eq!(pools.create(DomainId(0), &MemPoolSpec { parent: Some(at), ..good }), Err(Error::Limit));
    assert_eq!(pools.attach(DomainId(5), PoolId(0xffff_ffff)), Err(Error::Stale));
}

/// Whatever is done in whatever order, each pool holds what its domains, its parts and it itself hold, and those over their
/// limits are those in the list.
#[test]
fn the_books_balance_whatever_comes() {
    let mut pools = Pools::default();
    let mut ids = Vec::new();
    for at in 0..12usize {
        let parent = (at % 3 != 0).then(|| ids[at - 1]);
        ids.push(
            pools.create(DomainId(at as u32 % 5), &MemPoolSpec { parent, limit_bytes: 4000, deadline_ms: 1 }).unwrap(),
        );
    }
    for step in 0..30_000u64 {
        let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        let (domain, pool) = (DomainId((mixed & 31) as u32), ids[(mixed >> 5) as usize % ids.len()]);
        let bytes = mixed >> 10 & 2047;
        match mixed >> 22 & 15 {
            0 => drop(pools.attach(domain, pool)),
            1 if mixed >> 26 & 7 == 0 => drop(pools.end(DomainId(domain.0 | 8))),
            2..=5 => pools.free(domain, bytes),
            6 => drop(pools.charge_direct(pool, -(bytes as i64))),
            7 => drop(pools.charge_direct(pool, bytes as i64)),
            8 => pools.tell(step, |_, _, _| {}),
            _ => drop(pools.charge(domain, bytes)),
        }
        if step % 16 == 0 {
            check(&pools);
        }
    }
}

fn check(pools: &Pools) {
    for (id, pool) in pools.table.iter() {
        let users: u64 = pools.holdings.iter().filter(|holding| holding.pool == id).map(|holding| holding.bytes).sum();
        let parts: u64 =
            pools.table.iter().filter(|(_, part)| part.parent == Some(id)).map(|(_, part)| part.held).sum();
        assert_eq!(pool.held, users + parts + pool.rest.direct);
        assert!(pool.held <= ceiling(pool.limit));
        let listed = pools.over.iter().filter(|over| **over == id).count();
        assert_eq!(listed, usize::from(pool.held > pool.limit));
        assert_eq!(pool.standing != Standing::Within, pool.held > pool.limit);
    }
    assert!(pools.over.len() <= pools.len());
}
