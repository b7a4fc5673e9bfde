//! The rows of the result with a target, and the variants that each is compared with.

use super::*;

fn series(half: f64) -> Series {
    let mut series = Series::default();
    for _ in 0..5 {
        for (variant, value) in [(LINUX, 1000.0), (FIB, 400.0), (CACHE, 250.0), (HALF, half)] {
            let regime = Stream::plain(128, 64).regime();
            series.push(Key { variant: variant.into(), size: Some(128), regime, metric: TOTAL_CPU, unit: "ns" }, value);
        }
    }
    series
}

#[test]
fn the_kernel_half_is_judged_beside_each_baseline() {
    let mut report = Report::new("overhead", 1);
    judge(&series(290.0), &mut report);
    let met: Vec<bool> = report.targets.iter().map(|target| target.met).collect();
    assert_eq!(met, [true, true, true]);
    judge(&series(500.0), &mut report);
    assert!(report.targets[3..].iter().all(|target| !target.met));
}

#[test]
fn without_a_kernel_half_there_is_no_target() {
    let mut report = Report::new("overhead", 1);
    let mut series = Series::default();
    series.push(
        Key {
            variant: LINUX.into(),
            size: Some(128),
            regime: Stream::plain(128, 64).regime(),
            metric: TOTAL_CPU,
            unit: "ns",
        },
        1.0,
    );
    judge(&series, &mut report);
    assert!(report.targets.is_empty());
}

#[test]
fn every_target_is_about_a_stream_that_is_measured() {
    for (_, regime, ..) in LIMITS {
        assert!(streams(true).iter().any(|stream| stream.regime() == regime), "{regime}");
    }
}
