//! Accounts of streams: bounds, rates, and what cuts streams off.

use super::*;
use crate::core::domain::OwnsStreams as _;
use crate::trust::Role;
use crate::trust::streams::StreamPlace;
use std::io::Read as _;
use std::os::unix::net::UnixStream;

const SECOND: u64 = 1_000_000_000;

fn grants(connect: &[&str]) -> StreamGrants {
    let connect = connect.iter().map(|place| StreamPlace::try_from((*place).to_owned()).unwrap()).collect();
    StreamGrants { connect, streams: 3, per_second: 10, ..StreamGrants::default() }
}

fn right(at: &str) -> (String, Right) {
    (at.to_owned(), Right::Connect(at.parse().unwrap()))
}

fn entered(streams: &Streams, number: u32, bandwidth: u64) -> (Ends, Arc<Account>) {
    let grants = grants(&["*:80"]);
    let ends = streams.enter(DomainId(number), "d", &grants, bandwidth);
    let account = streams.of(DomainId(number)).unwrap();
    (ends, account)
}

#[test]
fn streams_are_bounded_and_each_refusal_is_counted() {
    let streams = Streams::default();
    let (ends, account) = entered(&streams, 1, 1);
    let mut seats: Vec<_> = (0..3).map(|_| streams.take(&account, SECOND).unwrap()).collect();
    assert_eq!(streams.take(&account, SECOND).err(), Some(Error::Limit));
    seats.pop();
    assert_eq!(streams.take(&account, SECOND).err(), Some(Error::Again), "four at once, the refused one among them");
    assert!(account.begins_at(SECOND).is_some_and(|at| at > SECOND && at < 2 * SECOND));
    seats.push(streams.take(&account, 2 * SECOND).unwrap());
    let (_other_ends, other) = entered(&streams, 2, 1);
    streams.totals().open.store(NODE_STREAMS_MAX, Ordering::Relaxed);
    assert_eq!(streams.take(&other, SECOND).err(), Some(Error::Full), "the node's");
    streams.totals().open.store(3, Ordering::Relaxed);
    assert_eq!(streams.totals().status().refused, 3);
    // With the domain it ends, though somebody holds it.
    drop(ends);
    seats.pop();
    assert_eq!(
        (streams.take(&account, 9 * SECOND).err(), streams.of(DomainId(1)).is_none()),
        (Some(Error::Stale), true)
    );
    assert_eq!(seats[0].show("stream", right("10.0.0.1:80"), sockets()).err(), Some(Error::Stale));
    drop(seats);
    assert_eq!((streams.totals().status().open, streams.rows().len()), (0, 0));
}

fn sockets() -> Sockets {
    let (one, other) = UnixStream::pair().unwrap();
    [Arc::new(one), Arc::new(other)]
}

#[test]
fn what_a_role_gives_no_more_is_cut_off_and_says_why() {
    let (streams, clock) = (Streams::default(), Clock::start());
    streams.serve(clock).unwrap();
    let (ends, account) = entered(&streams, 1, 1000);
    let begun: Vec<_> = ["10.0.0.1:80", "10.0.9.9:80"]
        .map(|at| {
            let (own, mut other) = UnixStream::pair().unwrap();
            other.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            let seat = streams.take(&account, SECOND).unwrap();
            let own = Arc::new(own);
            seat.show("stream", right(at), [own.clone(), own]).unwrap();
            (seat, move || other.read(&mut [0]).unwrap())
        })
        .into();
    let mut begun = begun.into_iter();
    let (stays, _still) = begun.next().unwrap();
    let (goes, mut until_end) = begun.next().unwrap();
    let role = |connect: &[&str]| Arc::new(Role { streams: grants(connect), ..(*Role::of_node()).clone() });
    ends.renew(&role(&["10.0.0.0/24:80"]), 500);
    assert_eq!(until_end(), 0);
    assert_eq!((goes.cut(), streams.cut(goes.number())), (Some(Error::Denied), Some(Error::Denied)));
    assert_eq!((stays.cut(), streams.cut(stays.number())), (None, None));
    assert_eq!(goes.show("stream", right("10.0.9.9:80"), sockets()).err(), Some(Error::Denied), "begun meanwhile");
    // At the new rate.
    account.sent(1000, clock);
    assert!(account.sends_at(clock).is_some_and(|at| at > SECOND));
    // Whoever may send nothing has none.
    let (other_ends, other) = entered(&streams, 2, 1);
    let (own, mut end) = UnixStream::pair().unwrap();
    let seat = streams.take(&other, SECOND).unwrap();
    let own = Arc::new(own);
    seat.show("stream", right("10.0.0.1:80"), [own.clone(), own]).unwrap();
    other_ends.renew(&role(&["*:80"]), 0);
    assert_eq!((end.read(&mut [0]).unwrap(), seat.cut()), (0, Some(Error::Denied)));
    // With its domain it ends.
    drop(ends);
    assert_eq!(streams.take(&account, 9 * SECOND).err(), Some(Error::Stale), "at once");
}

#[test]
fn who_has_sent_more_than_he_may_waits_as_long() {
    let (streams, clock) = (Streams::default(), Clock::start());
    let (_ends, account) = entered(&streams, 1, 1000);
    assert_eq!(account.sends_at(clock), None);
    account.sent(2000, clock);
    assert!(account.sends_at(clock).is_some_and(|at| at > SECOND && at < 3 * SECOND + clock.now()));
    let (_ends, free) = entered(&streams, 2, u64::MAX);
    free.sent(1 << 30, clock);
    assert_eq!(free.sends_at(clock), None);
}
