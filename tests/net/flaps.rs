//! Links that flap ten times a second: other ports lose nothing, the log is bounded and the CPU too, and all work again afterwards.

use crate::apply::under_load;
use crate::pace::Pace;
use crate::running::{self, HOSTS, Running};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Ports beside those that packets pass, and how often their links change: down and up again, ten times a second.
const LINKS: usize = 48;
const GAP: Duration = Duration::from_millis(50);
const CHANGES: u32 = 50;

/// Lines of the log, and milliseconds of CPU time for each time that all links change, at most. Each change by itself would be a line of
/// 2,400; a look at 50 ports takes some milliseconds.
const LINES_MAX: usize = 400;
const CPU_MS_MAX: u64 = 25;

/// CPU time of a process so far, in milliseconds.
fn cpu_ms(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name, which may have blanks.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
}

/// Sets the far ends of all links.
fn set(net: &Running, to: &str) {
    net.shell("r", &format!("for at in $(seq {LINKS}); do echo link set x$at {to}; done | ip -batch -"));
}

fn flap(name: &str, adjust: running::Adjust<'_>, in_kernel: bool) {
    let Some(mut net) = Running::build(name, HOSTS) else { return };
    net.shell(
        "r",
        &format!("for at in $(seq {LINKS}); do echo link add w$at type veth peer name x$at; done | ip -batch -"),
    );
    net.shell("r", &format!("for at in $(seq {LINKS}); do echo link set w$at up; done | ip -batch -"));
    set(&net, "up");
    net.start(&|node, config| {
        let more =
            (1..=LINKS).map(|at| toml::Table::from_iter([("packet".to_owned(), format!("w{at}").into())]).into());
        config["port"].as_array_mut().unwrap().extend(more);
        adjust(node, config);
    });
    let carried = |status: &Value| {
        let links = status["links"].as_array().unwrap();
        links.iter().filter(|link| link["state"] == "there" && link["carrier"] == true).count()
    };
    net.await_status("r", |status| carried(status) == LINKS + 2);
    let (process, lines) = (net.daemon("r").pid(), || net.log("r").lines().count());
    let mut used = (0, 0);
    under_load(name, &net, in_kernel, |_| {
        let (cpu, flaps, before) = (cpu_ms(process), Pace::by_the_clock(GAP), lines());
        std::thread::scope(|scope| {
            scope.spawn(|| flaps.run(|at| set(&net, if at.is_multiple_of(2) && at < CHANGES { "down" } else { "up" })));
            let _stops = flaps.stops_with_this();
            flaps.await_more(CHANGES);
        });
        used = (cpu_ms(process) - cpu, lines() - before);
    });
    let status = net.await_status("r", |status| carried(status) == LINKS + 2);
    let changes = status["links"].as_array().unwrap().iter().filter_map(|link| link["carrier_changes"].as_u64()).max();
    assert!(changes >= Some(u64::from(CHANGES) / 2), "{status}");
    let (cpu, lines) = used;
    println!("{name}: {cpu} ms of CPU time, {lines} lines");
    assert!(lines <= LINES_MAX, "{lines} lines of the log");
    assert!(cpu <= CPU_MS_MAX * u64::from(CHANGES), "{cpu} ms of CPU time");
}

#[test]
fn links_that_flap_cost_other_ports_nothing() {
    flap("flaps", &|_, _| {}, false);
}

#[test]
fn links_that_flap_cost_other_ports_nothing_before_the_kernel_half() {
    flap("flapsk", &running::in_kernel, true);
}
