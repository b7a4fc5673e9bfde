//! The in-kernel rungs where they can run: every variant forwards all, and the intended one does it.

use super::super::Settings;
use super::super::guests::Guests;
use super::*;

const LINUX: &str = "Linux forwarding";
const CACHE: &str = "XDP with next-hop cache";

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
fn pass_through(variant: &Variant<'_>, stream: &Stream, programs: &Programs, kernel: &KernelPrograms) -> (Flow, u64) {
    let bundles = Guests::build().unwrap().forwards(stream.codes).unwrap();
    let settings = Settings { two_cpus: stream.rhythm == Rhythm::Fair, ..Settings::quiet(1) };
    let mut channel = Channel::to(stream.sink, programs, kernel, settings.cpus(), stream.rhythm).unwrap();
    let mut running = channel.with_router(|channel| variant.start(&channel.site)).unwrap();
    let sent = channel.load(stream, variant.bundles().unwrap_or(&bundles)).unwrap();
    variant.warm(&mut channel, running.as_mut(), 1, &sent).unwrap();
    let before = channel.forwarded_by_linux();
    let (flow, _) = channel.run(640, stream.batch).unwrap();
    (flow, channel.forwarded_by_linux() - before)
}

#[test]
fn linux_forwards_every_frame() {
    let Some((programs, kernel)) = flood() else { return };
    for variant in [Variant::linux(LINUX), Variant::xdp("pass", &kernel, "pass")] {
        let (flow, by_linux) = pass_through(&variant, &Stream::plain(128, 64), &programs, &kernel);
        assert_eq!((flow.arrived, by_linux), (flow.sent, flow.sent), "{}", variant.name);
    }
}

#[test]
fn forwarders_in_xdp_forward_every_frame_past_linux() {
    let Some((programs, kernel)) = flood() else { return };
    let many = Stream { destinations: 3, codes: 2, ..Stream::plain(1500, 8) };
    for (name, section) in [("fib", "fib"), (CACHE, "cache")] {
        for stream in [Stream::plain(128, 64), Stream::plain(128, 1), many] {
            let (flow, by_linux) = pass_through(&Variant::xdp(name, &kernel, section), &stream, &programs, &kernel);
            assert_eq!((flow.arrived, by_linux), (flow.sent, 0), "{name}, {stream:?}");
        }
    }
}

#[test]
fn short_frames_pass_whole() {
    let Some((programs, kernel)) = flood() else { return };
    for (variant, linux) in [(Variant::linux(LINUX), true), (Variant::xdp(CACHE, &kernel, "cache"), false)] {
        let (flow, by_linux) = pass_through(&variant, &Stream::ordinary(29, 64).summed(), &programs, &kernel);
        assert_eq!((flow.arrived, by_linux > 0), (flow.sent, linux), "{}", variant.name);
    }
}

#[test]
fn a_next_hop_without_xdp_gets_every_frame() {
    let Some((programs, kernel)) = flood() else { return };
    for (variant, linux) in [(Variant::linux(LINUX), true), (Variant::xdp(CACHE, &kernel, "cache"), false)] {
        let (flow, by_linux) = pass_through(&variant, &Stream::plain(128, 64).to_stack(), &programs, &kernel);
        assert_eq!((flow.arrived, by_linux > 0), (flow.sent, linux), "{}", variant.name);
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
    let base = Variant::xdp("drop", &kernel, "drop");
    let (flow, by_linux) = pass_through(&base, &Stream::plain(512, 16), &programs, &kernel);
    assert_eq!((flow.sent, flow.arrived, by_linux), (640, 0, 0));
    assert!(flow.cpu_ns > 0);
}

#[test]
fn every_child_arrives() {
    let Some((programs, kernel)) = flood() else { return };
    for way in ["broadcast", "marks", "edits"] {
        for count in [2, 4] {
            let variant = Variant::children("children", &kernel, way, count);
            let (flow, by_linux) = pass_through(&variant, &Stream::plain(128, 16), &programs, &kernel);
            assert_eq!((flow.arrived, by_linux), (flow.sent * u64::from(count), 0), "{way}, {count}");
        }
    }
}
