//! Virtual time: how far what a flow has had moves it, the slower the larger its weight.
//!
//! Example: a packet of 1,000 ns moves a flow of weight 4 by 250, in units of 2⁻¹⁶. Times wrap around the end of 64 bits
//! and are compared by their difference.

/// Bits of virtual time below a nanosecond for a weight of one.
pub(super) const FRACTION: u32 = 16;

/// Step of the calendar of virtual times: 64 ns for a weight of one.
pub(super) const FAIR_SHIFT: u32 = FRACTION + 6;

/// How far a cost moves a flow's virtual time.
#[inline]
pub(super) fn virtual_cost(cost: u64, inverse: u32) -> u64 {
    ((u128::from(cost) * u128::from(inverse)) >> (32 - FRACTION)) as u64
}

/// The later of two virtual times. Which one it is, no processor can foretell.
#[inline(always)]
pub(super) fn later_of(one: u64, other: u64) -> u64 {
    if is_later(one, other) { one } else { other }
}

/// Whether a virtual time is behind another, also around the end of 64 bits.
#[inline]
pub(super) fn is_later(one: u64, other: u64) -> bool {
    one.wrapping_sub(other) as i64 > 0
}
