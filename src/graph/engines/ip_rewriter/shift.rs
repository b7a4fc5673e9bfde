//! Numbers of TCP where something longer or shorter is said in the place of what came. Example: `PORT` with another address is a byte
//! longer, and each byte behind it has a number that is one more.

/// Places of a direction of which it is known how much more was said up to there: of several that are on their way each counts.
const STEPS: usize = 4;

/// By how much the numbers of TCP are greater behind here, from each of some of them on, and before the first (modulo 2^32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    before: u32,
    steps: [(u32, u32); STEPS],
    count: usize,
}

/// Whether a number of TCP is not before another one.
fn is_from(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 >= 0
}

impl Shift {
    fn known(&self) -> &[(u32, u32)] {
        self.steps.get(..self.count).unwrap_or_default()
    }

    /// From this number on it is so much more; nothing changes if that has been said.
    pub fn add(&mut self, from: u32, longer: u32) {
        let last = self.known().last().copied();
        if last.is_some_and(|(last, _)| is_from(last, from)) {
            return;
        }
        let all = last.map_or(self.before, |(_, by)| by).wrapping_add(longer);
        if self.count == STEPS {
            self.before = self.steps[0].1;
            self.steps.rotate_left(1);
            self.count -= 1;
        }
        self.steps[self.count] = (from, all);
        self.count += 1;
    }

    /// The number of a byte behind here.
    pub fn of(&self, number: u32) -> u32 {
        let step = self.known().iter().rfind(|(from, _)| is_from(number, *from));
        number.wrapping_add(step.map_or(self.before, |(_, by)| *by))
    }

    /// What is asked for next there, as it is asked for here.
    pub fn back(&self, number: u32) -> u32 {
        let mut least = None;
        for (from, by) in self.known().iter().rev() {
            if is_from(number, from.wrapping_add(*by)) {
                return no_more(number.wrapping_sub(*by), least);
            }
            least = Some(*from);
        }
        no_more(number.wrapping_sub(self.before), least)
    }
}

/// No number behind one at which the next step is.
fn no_more(number: u32, next: Option<u32>) -> u32 {
    next.filter(|next| is_from(number, *next)).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shifted_there_and_back_wherever_they_are() {
        let mut shift = Shift::default();
        let from = u32::MAX - 5;
        for (at, longer) in [(from, 3), (from.wrapping_add(20), u32::MAX), (from, 3), (from.wrapping_add(40), 7)] {
            shift.add(at, longer);
        }
        // Relative to the first place, from just before it: behind it 3 more, behind the next one 2, behind the last one 9.
        for (number, by) in [(u32::MAX, 0), (0, 3), (18, 3), (20, 2), (39, 2), (40, 9), (1000, 9)] {
            let number = from.wrapping_add(number);
            assert_eq!(shift.of(number), number.wrapping_add(by), "{number}");
            assert_eq!(shift.back(shift.of(number)), number, "{number}");
        }
        // What is asked for within what is said besides is asked for where that begins.
        assert_eq!([0, 1, 2].map(|more| shift.back(from.wrapping_add(more))), [from; 3]);
        // The oldest step gives way, and what it was counts before the next one.
        for at in 3..9 {
            shift.add(from.wrapping_add(20 * at), 1);
        }
        assert_eq!(shift.count, STEPS);
        assert_eq!(shift.of(from.wrapping_add(500)), from.wrapping_add(500 + 9 + 6));
        assert_eq!(
            shift.of(from.wrapping_add(99)),
            from.wrapping_add(99 + 9 + 2),
            "what was before the oldest that is known"
        );
    }
}
