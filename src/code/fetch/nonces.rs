//! Nonces of requests: nobody who has not seen a request can forge its answer.

use crate::wire::Digest;

/// A sequence of numbers that is known from its secret alone: a secret and a counter, hashed. Requests
/// are rare, so the cost of a hash for each does not matter.
pub(crate) struct Nonces {
    secret: [u8; 32],
    count: u64,
}

impl Nonces {
    pub(crate) fn new(secret: [u8; 32]) -> Nonces {
        Nonces { secret, count: 0 }
    }

    /// The next nonce.
    pub(super) fn draw(&mut self) -> u32 {
        (self.draw_long() >> 32) as u32
    }

    /// The next nonce of eight bytes.
    pub(crate) fn draw_long(&mut self) -> u64 {
        let mut input = [0; 40];
        let (secret, count) = input.split_at_mut(32);
        secret.copy_from_slice(&self.secret);
        count.copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        Digest::of(&input).0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_depend_on_the_secret_and_do_not_repeat_soon() {
        let draw = |secret: u8| {
            let mut nonces = Nonces::new([secret; 32]);
            (0..1000).map(|_| nonces.draw()).collect::<Vec<_>>()
        };
        let (mut one, other) = (draw(1), draw(2));
        assert_eq!(one, draw(1), "the same run from the same seed");
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
        // No difference between neighbours tells the next one.
        let mut steps: Vec<u32> = one.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        for list in [&mut one, &mut steps] {
            list.sort_unstable();
            list.dedup();
        }
        assert_eq!((one.len(), steps.len()), (1000, 999));
    }
}
