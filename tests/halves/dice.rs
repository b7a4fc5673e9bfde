//! Random numbers from a seed, and random addresses.
#![allow(dead_code)]

use super::place::{FAR, LEFT, OWN_LEFT, OWN_RIGHT, RIGHT, v6};
use anode::wire::Addr;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.0.next_u64()) * limit as u128) >> 64) as usize
    }

    pub fn chance(&mut self, permille: usize) -> bool {
        self.below(1000) < permille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A host behind `port`, far or near, that the node knows a way to.
    pub fn host(&mut self, port: u16, v4: bool) -> Addr {
        let far = 1 + self.below(20) as u8;
        match (port, v4, self.chance(300)) {
            (0, true, true) => LEFT,
            (0, true, false) => Addr::v4([10, 0, 8, far]),
            (0, false, near) => v6(if near { 1 } else { 8 }, if near { 1 } else { far }),
            (_, true, true) => RIGHT,
            (_, true, false) => Addr::v4([10, 0, 9, far]),
            (_, false, near) => v6(if near { 2 } else { 9 }, if near { 1 } else { far }),
        }
    }

    /// A host the node knows a way to.
    pub fn known_addr(&mut self, v4: bool) -> Addr {
        let port = self.below(2) as u16;
        self.host(port, v4)
    }

    /// An address of any kind, of either family.
    pub fn any_addr(&mut self) -> Addr {
        let v4 = [
            FAR,
            OWN_LEFT,
            OWN_RIGHT,
            Addr::v4([10, 0, 2, 77]),
            Addr::v4([192, 0, 2, 1]),
            Addr::v4([10, 0, 1, 255]),
            Addr::v4([10, 0, 2, 0]),
            Addr::v4([255; 4]),
            Addr::v4([0; 4]),
            Addr::v4([127, 0, 0, 1]),
            Addr::v4([224, 0, 0, 5]),
            Addr::v4([169, 254, 1, 1]),
        ];
        let multicast = Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let link_local = Addr([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        let loopback = Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let v6 = [v6(9, 9), v6(1, 0xfe), v6(2, 77), v6(7, 7), multicast, link_local, loopback, Addr::UNSPECIFIED];
        match self.below(5) {
            0 => Addr(*self.bytes(16).first_chunk().unwrap()),
            1 => *self.pick(&v6),
            _ => *self.pick(&v4),
        }
    }
}
