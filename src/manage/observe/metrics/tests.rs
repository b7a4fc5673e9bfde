//! The text of metrics: its forms, its bounds, and names of others in it.

use super::*;
use model::status::{Code, Port, Total};
use std::collections::HashSet;

fn counted(codes: usize) -> Status {
    let port = |name: &str| Port { name: name.into(), received: 7, ..Port::default() };
    let code = |number: usize| Code {
        name: format!("{number:064x}"),
        title: "f\" 1} 2\n# EOF\\\u{202e}\u{1b}".into(),
        state: "ready".into(),
        total: Some(Total { packets: number as u64, ..Total::default() }),
        ..Code::default()
    };
    Status {
        node: "r1".into(),
        ports: vec![port("a"), port("b\nanode_fake 1")],
        codes: (0..codes).map(code).collect(),
        ..Status::default()
    }
}

fn lines(status: &Status, classic: bool) -> Vec<String> {
    let metrics = text(&Counted { status, domains: &[], environments: &[] }, classic);
    metrics.text.lines().map(str::to_owned).collect()
}

#[test]
fn names_of_others_stay_in_their_labels() {
    for classic in [true, false] {
        let lines = lines(&counted(2), classic);
        let samples: Vec<_> = lines.iter().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.iter().all(|line| line.starts_with("anode_") && line.contains("{node=\"r1\"")), "{lines:#?}");
        let title = r#"title="f\" 1} 2\\n# EOF\\\\u202e\\u001b"} 1"#;
        let found = samples.iter().filter(|line| line.starts_with("anode_code_packets")).nth(1);
        assert!(found.is_some_and(|line| line.ends_with(title)), "{found:?}");
        assert_eq!(lines.iter().filter(|line| *line == "# EOF").count(), usize::from(!classic));
    }
}

#[test]
fn a_counter_is_called_as_its_form_wants_it() {
    let of = |classic| lines(&counted(0), classic).into_iter().filter(|line| line.contains("anode_drops")).take(2);
    let [classic, open] = [true, false].map(|classic| of(classic).collect::<Vec<_>>());
    assert_eq!(classic[1], "# TYPE anode_drops_total counter");
    assert_eq!(open[1], "# TYPE anode_drops counter");
    assert_eq!(
        (classic[0].split(' ').nth(2), open[0].split(' ').nth(2)),
        (Some("anode_drops_total"), Some("anode_drops"))
    );
}

#[test]
fn series_are_bounded_and_those_left_out_are_counted() {
    let metrics = text(&Counted { status: &counted(10_000), domains: &[], environments: &[] }, true);
    let samples = metrics.text.lines().filter(|line| !line.starts_with('#')).count() as u64;
    assert_eq!((samples, metrics.series), (SERIES_MAX + 1, SERIES_MAX + 1));
    assert!(
        metrics.left_out > 10_000 && metrics.text.contains(&format!("left_out{{node=\"r1\"}} {}", metrics.left_out))
    );
}

#[test]
fn families_have_names_of_their_own_and_the_page_has_them_all() {
    let mut names = HashSet::new();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap();
    let shown: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `anode_")?.split('`').next()).collect();
    for family in FAMILIES {
        assert!(names.insert(family.name), "{} twice", family.name);
        let measure = if family.measure == Measure::Counter { "counter" } else { "gauge" };
        assert_eq!(family.name.ends_with(TOTAL), family.measure == Measure::Counter, "{}", family.name);
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{}` | {measure} | {} | {} |", family.name, labels.join(", "), family.help);
        assert!(page.contains(&row), "docs/metrics.md lacks\n{row}");
    }
    assert_eq!(shown.len(), FAMILIES.len() + 1, "docs/metrics.md has rows that are not there: {shown:?}");
}
