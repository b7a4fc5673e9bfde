//! The in-kernel rungs where they can run: every variant forwards all, and the right one does it.

use super::*;

/// What the flood needs, or why it cannot be had.
fn flood() -> Option<(Programs, KernelPrograms)> {
    let programs = Programs::ready().unwrap();
    let kernel = programs.kernel().unwrap();
    match Channel::new(&programs, &kernel, Settings::quiet(1).cpus(), Rhythm::Flood) {
        Ok(_) => Some((programs, kernel)),
        Err(Error::NoNamespace) if std::env::var_os("CI").is_none() => {
            println!("SKIPPED: {}", Error::NoNamespace);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends a small stream through a variant; gives the flow and what Linux forwarded of it.
fn pass_through(variant: &Variant, stream: &Stream, programs: &Programs, kernel: &KernelPrograms) -> (Flow, u64) {
    let bundles = Guests::build().unwrap().forwards(stream.codes).unwrap();
    let settings = Settings { two_cpus: stream.rhythm == Rhythm::Fair, ..Settings::quiet(1) };
    let mut channel = Channel::new(programs, kernel, settings.cpus(), stream.rhythm).unwrap();
    let mut running = channel.with_router(|channel| variant.start(channel)).unwrap();
    let sent = channel.load(stream, &bundles).unwrap();
    variant.warm(&mut channel, running.as_mut(), 1, &sent).unwrap();
    let before = channel.forwarded_by_linux();
    let (flow, _) = channel.run(640, stream.batch).unwrap();
    (flow, channel.forwarded_by_linux() - before)
}

#[test]
fn linux_forwards_every_frame() {
    let Some((programs, kernel)) = flood() else { return };
    for variant in [Variant::linux(LINUX), Variant::xdp(PASS, &kernel, "pass")] {
        let (flow, by_linux) = pass_through(&variant, &Stream::plain(128, 64), &programs, &kernel);
        assert_eq!((flow.arrived, by_linux), (flow.sent, flow.sent), "{}", variant.name);
    }
}

#[test]
fn forwarders_in_xdp_forward_every_frame_past_linux() {
    let Some((programs, kernel)) = flood() else { return };
    let many = Stream { destinations: 3, codes: 2, ..Stream::plain(1500, 8) };
    for (name, section) in [(FIB, "fib"), (CACHE, "cache")] {
        for stream in [Stream::plain(128, 64), Stream::plain(128, 1), many] {
            let (flow, by_linux) = pass_through(&Variant::xdp(name, &kernel, section), &stream, &programs, &kernel);
            assert_eq!((flow.arrived, by_linux), (flow.sent, 0), "{name}, {stream:?}");
        }
    }
}

#[test]
fn fair_bursts_arrive_whole() {
    let Some((programs, kernel)) = flood() else { return };
    let cpus = Settings { two_cpus: true, ..Settings::quiet(1) }.cpus();
    if cpus.generator == cpus.gateway {
        println!("SKIPPED: there is only one CPU");
        return;
    }
    let cache = Variant::xdp(CACHE, &kernel, "cache");
    // The sink is read a moment after the last burst: on a busy machine the router's thread may come too late for that.
    let mut tries = (0..5).map(|_| pass_through(&cache, &Stream::fair(128, 128), &programs, &kernel));
    let (flow, by_linux) = tries.find(|(flow, _)| flow.arrived == flow.sent).expect("whole bursts, once in five times");
    assert_eq!(by_linux, 0);
    assert!(flow.cpu_ns > 0, "the router's thread is watched");
}

#[test]
fn the_base_lets_nothing_through() {
    let Some((programs, kernel)) = flood() else { return };
    let base = Variant::xdp(BASE, &kernel, "drop");
    let (flow, by_linux) = pass_through(&base, &Stream::plain(512, 16), &programs, &kernel);
    assert_eq!((flow.sent, flow.arrived, by_linux), (640, 0, 0));
    assert!(flow.cpu_ns > 0);
}

#[test]
fn what_a_node_does_not_know_is_not_measured() {
    let odd = Variant::node(NodeGateway::new("odd", &[]).configured("no-such-option = 1", ""));
    assert!(odd.missing().is_some());
    assert!(Variant::linux(LINUX).missing().is_none());
}

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
    let mut report = Report::new("overhead");
    judge(&series(290.0), &mut report);
    let met: Vec<bool> = report.targets.iter().map(|target| target.met).collect();
    assert_eq!(met, [true, true, true]);
    judge(&series(500.0), &mut report);
    assert!(report.targets[3..].iter().all(|target| !target.met));
}

#[test]
fn without_a_kernel_half_there_is_no_target() {
    let mut report = Report::new("overhead");
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
