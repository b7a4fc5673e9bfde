//! The numbers of neighbours behind overlay ports, which stay theirs while the node runs.
//!
//! A neighbour is known by its number: to the socket, to the entrance, to packets that wait. So one that goes leaves its
//! number free, and the others keep theirs.

use crate::config::{NodeFile, PortFile};
use crate::frame::{PeerId, PortId};
use crate::topology::Neighbour;
use crate::wire::Addr;
use std::net::SocketAddr;

/// Of each port, whose each number is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(Vec<Vec<Option<Addr>>>);

impl Peers {
    /// As they are at the start: in the order of the file.
    pub fn of(file: &NodeFile) -> Peers {
        Peers(vec![Vec::new(); file.ports.len()]).renewed(file)
    }

    /// The same for another configuration, whose ports are at their places in the node.
    pub fn renewed(&self, file: &NodeFile) -> Peers {
        let port = |(port, before): (&PortFile, &Vec<Option<Addr>>)| {
            let wanted = |addr: &Addr| port.udp.is_some() && port.neighbours.iter().any(|near| near.address == *addr);
            let mut numbers: Vec<_> = before.iter().map(|known| known.filter(wanted)).collect();
            // What becomes free now is nobody else's before the next time: what is under way may still bear it.
            let mut free = (0..before.len()).filter(|at| before[*at].is_none()).collect::<Vec<_>>().into_iter();
            for near in port.neighbours.iter().filter(|_| port.udp.is_some()) {
                if numbers.contains(&Some(near.address)) {
                    continue;
                }
                match free.next() {
                    Some(at) => numbers[at] = Some(near.address),
                    None => numbers.push(Some(near.address)),
                }
            }
            numbers
        };
        let none = Vec::new();
        let before = self.0.iter().chain(std::iter::repeat(&none));
        Peers(file.ports.iter().zip(before).map(port).collect())
    }

    /// The neighbours of a configuration with their numbers.
    pub fn neighbours(&self, file: &NodeFile) -> Vec<Neighbour> {
        let of = |((at, port), numbers): ((usize, &PortFile), &Vec<Option<Addr>>)| {
            let number = |addr: Addr| numbers.iter().position(|known| *known == Some(addr));
            let peer = |addr| number(addr).map_or(PeerId::NONE, |number| PeerId(number as u16));
            let near = |addr| Neighbour { addr, port: PortId(at as u16), peer: peer(addr) };
            port.neighbours.iter().map(|known| near(known.address)).collect::<Vec<_>>()
        };
        file.ports.iter().enumerate().zip(&self.0).flat_map(of).collect()
    }

    /// Of each overlay port, where its neighbours listen, by their numbers.
    pub fn places(&self, file: &NodeFile) -> Vec<(PortId, Vec<Option<SocketAddr>>)> {
        let ports = file.ports.iter().enumerate().zip(&self.0).filter(|((_, port), _)| port.udp.is_some());
        let of = |((at, port), numbers): ((usize, &PortFile), &Vec<Option<Addr>>)| {
            let place = |addr: &Option<Addr>| port.neighbours.iter().find(|near| Some(near.address) == *addr)?.at;
            (PortId(at as u16), numbers.iter().map(place).collect())
        };
        ports.map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port with neighbours of these last numbers.
    fn file(near: &[u8]) -> NodeFile {
        let near: Vec<_> =
            near.iter().map(|n| format!("{{ address = \"10.0.0.{n}\", at = \"127.0.0.1:40{n:02}\" }}")).collect();
        let port = "[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n";
        NodeFile::parse(&format!("name = \"a\"\n{port}neighbours = [{}]\n", near.join(", "))).unwrap()
    }

    #[test]
    fn who_stays_keeps_his_number_and_who_comes_gets_a_free_one() {
        let mut peers = Peers::of(&file(&[2, 3, 4]));
        for (near, numbers) in [
            (&[4, 2][..], &[Some(2), None, Some(4)][..]),
            (&[5, 4, 2], &[Some(2), Some(5), Some(4)]),
            (&[6, 2, 7], &[Some(2), None, None, Some(6), Some(7)]),
            (&[8, 9, 2], &[Some(2), Some(8), Some(9), None, None]),
            (&[], &[None; 5]),
        ] {
            let file = file(near);
            peers = peers.renewed(&file);
            let all = peers.neighbours(&file);
            assert_eq!(all.len(), near.len());
            let last = |place: &Option<SocketAddr>| place.map(|place| (place.port() - 4000) as u8);
            assert_eq!(peers.places(&file)[0].1.iter().map(last).collect::<Vec<_>>(), numbers);
            for known in all {
                let number = usize::from(known.peer.0);
                assert_eq!(numbers[number].map(|n| Addr::v4([10, 0, 0, n])), Some(known.addr));
            }
        }
    }
}
