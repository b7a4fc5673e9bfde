//! Work that is no packet's of a turn.

use super::*;

#[test]
fn work_beside_packets_is_paid_for_by_share() {
    for (own, others) in [(100, 100), (100, 300)] {
        let mut scheduler = PathScheduler::new(Policy::Wfq);
        assert!(scheduler.enter(0, weight(own), 0) && scheduler.enter(1, weight(others), 0));
        scheduler.wake(1, 0);
        let (mut beside, mut packets) = (0, 0);
        for _ in 0..10_000 {
            // The first sends no packets, but causes work whenever it may.
            if !scheduler.is_ahead(0) {
                scheduler.bill(0, 300 * US, 0);
                beside += 300 * US;
            }
            assert_eq!(scheduler.next(0), Some(1));
            scheduler.charge(1, 100 * US, true, 0);
            packets += 100 * US;
        }
        let ratio = (packets * u64::from(own)) as f64 / (beside * u64::from(others)) as f64;
        assert!((0.95..1.05).contains(&ratio), "{beside} {packets}");
        // Its own packets come after those of who has had less, and alone it waits for nobody.
        scheduler.wake(0, 0);
        (0..3).for_each(|_| scheduler.bill(0, 3 * MS, 0));
        assert_eq!(scheduler.next(0), Some(1));
        scheduler.charge(1, 100 * US, false, 0);
        assert!(!scheduler.is_ahead(0) && scheduler.next(0) == Some(0));
    }
}
