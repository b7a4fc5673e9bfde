//! `anode bench method`: a test of the measurement itself.
//!
//! Each plain C gateway is compared with a second copy of itself, which must come out at 1.00, and with a copy that burns a known
//! number of nanoseconds per packet, which must come out that much dearer. The same for the micro-benchmark. From the spread of the equal
//! pair follows how many rounds a result of ±3 % takes on this machine. The ports measured are UDP over loopback and, with root,
//! AF_PACKET between own namespaces.

use std::hint::black_box;

use sha2::{Digest, Sha256};

use super::gateway::{GATEWAY_CPU, Gateway, Load, SHARE, SHARE_UNIT, compare};
use super::micro::{COST, Micro};
use super::place::Place;
use super::plain::PlainC;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::stats::{interval_95, rounds_needed};
use super::{Error, Settings, compile::Programs};

const BASE: &str = "plain C";
const AGAIN: &str = "plain C again";
const SLOWER: &str = "plain C + 600 ns";
const BURN_NS: u32 = 600;
/// Share by which a copy may differ from itself.
const TOLERANCE: f64 = 0.03;
/// Share of the burnt time that may be missed or invented: a burn overshoots by one reading of the clock.
const BURN_TOLERANCE: f64 = 0.15;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let cpus = settings.cpus();
    let gateways =
        [PlainC::new(&programs, BASE, 0), PlainC::new(&programs, AGAIN, 0), PlainC::new(&programs, SLOWER, BURN_NS)];
    let gateways: Vec<&dyn Gateway> = gateways.iter().map(|g| g as &dyn Gateway).collect();
    let loads = loads(settings.quick);
    let mut all = compare(settings, "udp", &gateways, &loads, &|| Place::udp(&programs, cpus))?;
    match compare(settings, "packet", &gateways, &loads, &|| Place::packet(&programs, cpus)) {
        Ok(series) => all.extend(series),
        Err(Error::NoNamespace) => report.note(format!("SKIPPED packet: {}.", Error::NoNamespace)),
        Err(error) => return Err(error),
    }
    for key in pairs(&all) {
        judge(&all, &key, report);
    }
    let micro = micro(settings)?;
    let ratios = micro.ratios(&micro_key(), "SHA-256 again", "SHA-256");
    report.targets.extend(Target::at_most("micro: copy differs from itself", &deviations(&ratios), TOLERANCE));
    all.extend(micro);
    report.rows = all.rows(&[BASE, "SHA-256"]);
    let class = programs.scheduling_class();
    let cpus = if settings.two_cpus { "two CPUs" } else { "one CPU" };
    report.note(format!("Generator and gateway ran under {class} on {cpus}; gateway CPU excludes generator and sink."));
    Ok(())
}

/// A small and a large packet in bursts, and the small one alone.
fn loads(quick: bool) -> Vec<Load> {
    let load = |burst, ip_length: usize| Load::new(burst, vec![0x5a; ip_length - 28]);
    if quick {
        vec![load(128, 256), load(1, 256)]
    } else {
        vec![load(128, 256), load(128, 1280), load(16, 256), load(1, 256)]
    }
}

fn micro(settings: &Settings) -> Result<Series, Error> {
    let block = [7u8; 64];
    let hash = |block: &[u8; 64]| Sha256::digest(black_box(block));
    Micro::new("micro", None)
        .variant("SHA-256", || hash(&block))
        .variant("SHA-256 again", || hash(&block))
        .variant("SHA-256 twice", || (hash(&block), hash(&block)))
        .variant("empty loop", || ())
        .run(settings)
}

fn micro_key() -> Key {
    Key { variant: String::new(), size: None, regime: "micro".into(), metric: COST, unit: "ns" }
}

/// One key for each circumstance in which gateways were compared.
fn pairs(series: &Series) -> Vec<Key> {
    let of_base = |key: &&Key| key.variant == BASE && key.metric == GATEWAY_CPU;
    series.keys().filter(of_base).cloned().collect()
}

fn judge(series: &Series, key: &Key, report: &mut Report) {
    let size = key.size.unwrap_or_default();
    let place = format!("{}, {size} B", key.regime);
    let ratios = series.ratios(key, AGAIN, BASE);
    report.targets.extend(Target::at_most(
        format!("{place}: copy differs from itself"),
        &deviations(&ratios),
        TOLERANCE,
    ));
    let of = |variant: &str| series.values(&Key { variant: variant.into(), ..key.clone() });
    let extra: Vec<f64> =
        of(SLOWER).iter().zip(of(BASE)).map(|(slow, base)| (slow - base) / f64::from(BURN_NS)).collect();
    let missed = format!("{place}: share of the burnt time missed or invented");
    report.targets.extend(Target::at_most(missed, &deviations(&extra), BURN_TOLERANCE));
    let share = Key { metric: SHARE, unit: SHARE_UNIT, ..key.clone() };
    report.targets.extend(Target::at_least(format!("{place}: share forwarded"), series.values(&share), 1.0));
    if let (Some([low, high]), Some(rounds)) = (interval_95(&ratios), rounds_needed(&ratios, TOLERANCE)) {
        report.note(format!("{place}: equal pair {low:.3} … {high:.3} (95 %); rounds for ±3 %: {rounds}."));
    }
}

/// How far the median of `ratios` is from 1, as a series of one value: the deviation itself has no rounds.
fn deviations(ratios: &[f64]) -> Vec<f64> {
    super::stats::Summary::of(ratios).map(|s| (s.median - 1.0).abs()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{Site, ip_length};

    #[test]
    fn sizes_are_bytes_of_the_ip_packet() {
        assert_eq!(loads(false).iter().map(|l| ip_length(&l.payload)).collect::<Vec<_>>(), [256, 1280, 256, 256]);
    }

    #[test]
    fn a_deviation_counts_to_both_sides() {
        assert!((deviations(&[0.9, 0.9, 0.9])[0] - 0.1).abs() < 1e-9);
        assert!((deviations(&[1.1])[0] - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_gateway_that_ends_is_an_error_with_its_words() {
        struct Dead;
        impl Gateway for Dead {
            fn name(&self) -> &str {
                "dead"
            }
            fn start(&self, site: &Site) -> Result<super::super::gateway::Running, Error> {
                site.spawn("sh".as_ref(), &["-c".into(), "echo no config >&2; exit 3".into()])
            }
        }
        let programs = Programs::ready().unwrap();
        let settings = Settings::quiet(1);
        let load = Load::new(2, vec![1; 100]);
        let failed = compare(&settings, "udp", &[&Dead], &[load], &|| Place::udp(&programs, settings.cpus()));
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("dead") && error.contains("exit status: 3") && error.contains("no config"), "{error}");
    }

    /// The same between namespaces, where it can.
    #[test]
    fn plain_c_over_packet_forwards_every_burst_whole() {
        let programs = Programs::ready().unwrap();
        let settings = Settings::quiet(1);
        let gateway = PlainC::new(&programs, BASE, 0);
        let load = Load::new(16, vec![1; 100]);
        match compare(&settings, "packet", &[&gateway], &[load], &|| Place::packet(&programs, settings.cpus())) {
            Err(Error::NoNamespace) => println!("SKIPPED: {}", Error::NoNamespace),
            other => assert!(other.unwrap().rows(&[]).iter().any(|row| row.metric == SHARE && row.summary.min == 1.0)),
        }
    }

    /// The whole way over UDP: compile, start, warm up, measure, stop. Needs a C compiler, no privilege.
    #[test]
    fn plain_c_over_udp_forwards_every_burst_whole() {
        let programs = Programs::ready().unwrap();
        let settings = Settings::quiet(1);
        let gateway = PlainC::new(&programs, BASE, 0);
        let load = Load::new(16, vec![1; 100]);
        let series =
            compare(&settings, "udp", &[&gateway], &[load], &|| Place::udp(&programs, settings.cpus())).unwrap();
        let rows = series.rows(&[]);
        let share = rows.iter().find(|row| row.metric == SHARE).unwrap();
        assert_eq!(share.summary.min, 1.0);
        assert!(rows.iter().all(|row| row.size == Some(128)));
    }
}
