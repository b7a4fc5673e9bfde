//! Queue lengths over time, drawn as Bowman's figure 8: a curve for the input queue, dots for the output queue, a panel
//! for each mode with the same scale.

use super::pipeline::Seen;
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const PANEL: f64 = 180.0;
/// Points of a curve, at most.
const POINTS: usize = 150;

/// Draws them.
pub(super) fn svg(curves: &[(&str, &Seen)]) -> String {
    let most =
        curves.iter().flat_map(|(_, seen)| seen.input.iter().chain(&seen.output)).copied().max().unwrap_or(0).max(1);
    let height = 40.0 + curves.len() as f64 * (PANEL + 40.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\">packets waiting, logarithmic: curve before the a-flow's thread, dots before the output thread</text>\n"
    );
    for (at, (name, seen)) in curves.iter().enumerate() {
        let top = 40.0 + at as f64 * (PANEL + 40.0);
        let x = |index: usize| LEFT + (WIDTH - LEFT - 20.0) * index as f64 / seen.input.len().max(1) as f64;
        let y = |length: usize| top + PANEL * (1.0 - (1.0 + length as f64).ln() / (1.0 + most as f64).ln());
        let step = seen.input.len().div_ceil(POINTS).max(1);
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{name}</text>", top + PANEL + 20.0);
        for tick in [0, 1, 10, 100, 1000].into_iter().filter(|tick| *tick <= most) {
            let _ = writeln!(
                out,
                "<text x=\"8\" y=\"{:.1}\">{tick}</text><path d=\"M{LEFT} {:.1}H{}\" stroke=\"#ddd\"/>",
                y(tick) + 4.0,
                y(tick),
                WIDTH - 20.0
            );
        }
        let points: Vec<String> = seen
            .input
            .iter()
            .enumerate()
            .step_by(step)
            .map(|(at, length)| format!("{:.1},{:.1}", x(at), y(*length)))
            .collect();
        let _ = writeln!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"#4477aa\"/>", points.join(" "));
        for (at, length) in seen.output.iter().enumerate().step_by(step) {
            let _ = writeln!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1\" fill=\"#ee6677\"/>", x(at), y(*length));
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_curve_and_dots_and_nothing_is_no_panic() {
        let seen = Seen { input: vec![0, 5, 300], output: vec![1, 2, 3], packets: 9, dropped: 0 };
        let picture = svg(&[("a", &seen), ("b", &seen)]);
        assert_eq!((picture.matches("<polyline").count(), picture.matches("<circle").count()), (2, 6));
        assert!(!picture.contains("NaN") && svg(&[("a", &Seen::default())]).ends_with("</svg>\n"));
    }
}
