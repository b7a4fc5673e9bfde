//! Places of ports: while a node runs, each port keeps the number by which packets, neighbours and routes know it.
//!
//! ```text
//! runs:   eth1  eth2  udp-4001         a file: udp-4001  eth1  eth3
//! then:   eth1   —    udp-4001  eth3
//! ```
//!
//! A port that goes leaves its place vacant, and the others stay where they are. One that comes has a place that was
//! vacant before, or a new one behind all others: what is under way may still bear the number of one that goes now.

use super::lists::PORTS_MAX;
use super::{ConfigError, NodeFile, Plan, PortFile, wrong};
use crate::frame::{Link, PortId};
use crate::port::Opening;
use crate::sys::netlink::Interface;
use crate::topology::{Ceiling, Port};

/// How the port of a place differs from the one that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The place.
    pub port: PortId,
    /// It is opened, or closed: its sockets are others.
    pub opens: bool,
    /// None was there before.
    pub begins: bool,
    /// None is there any more.
    pub ends: bool,
}

impl PortFile {
    /// Whether this is a place without a port, which no file can say.
    pub fn is_vacant(&self) -> bool {
        self.udp.is_none() && self.packet.is_none()
    }

    /// Whether another one listens at the same address, or is the same interface.
    fn is_at(&self, other: &PortFile) -> bool {
        (self.udp, &self.packet) == (other.udp, &other.packet)
    }

    /// Whether another one has the same sockets, with the same before them.
    fn opens_as(&self, other: &PortFile) -> bool {
        // Another discipline takes the place of one; without one, what stands before the port is another, too.
        let has_order = |port: &PortFile| port.discipline.is_some();
        self.is_at(other) && (self.kernel, self.xdp) == (other.kernel, other.xdp) && has_order(self) == has_order(other)
    }
}

impl NodeFile {
    /// The same with each port at its place in a node that runs with another one.
    pub fn placed_over(mut self, running: &NodeFile) -> Result<NodeFile, ConfigError> {
        let titles = self.titles();
        let mut wanted: Vec<(String, PortFile)> = titles.into_iter().zip(core::mem::take(&mut self.ports)).collect();
        let mut take =
            |fits: &dyn Fn(&(String, PortFile)) -> bool| wanted.iter().position(fits).map(|at| wanted.remove(at).1);
        let known = running.ports.iter().zip(running.titles());
        // By its name, and then by what it is: a port may be given another name.
        let by_name = |(was, title): (&PortFile, String)| {
            let is = |(other, _): &(String, PortFile)| !was.is_vacant() && *other == title;
            take(&is)
        };
        let mut places: Vec<Option<PortFile>> = known.map(by_name).collect();
        for (place, was) in
            places.iter_mut().zip(&running.ports).filter(|(place, was)| place.is_none() && !was.is_vacant())
        {
            *place = take(&|(_, port)| port.is_at(was));
        }
        let mut free = (0..places.len()).filter(|at| running.ports[*at].is_vacant()).collect::<Vec<_>>().into_iter();
        for (_, port) in wanted {
            match free.next() {
                Some(at) => places[at] = Some(port),
                None => places.push(Some(port)),
            }
        }
        if places.len() > PORTS_MAX {
            return wrong(format!(
                "[[port]]: with those that go these are more than the {PORTS_MAX} places of a node: take the others out \
                 first, and then put these in"
            ));
        }
        self.ports = places.into_iter().map(Option::unwrap_or_default).collect();
        Ok(self)
    }

    /// The same for one that ran before another one, in whose node there may be more places by now.
    pub fn placed_again(mut self, running: &NodeFile) -> NodeFile {
        self.ports.resize_with(self.ports.len().max(running.ports.len()), PortFile::default);
        self
    }

    /// The places at which it has another port than a node that runs, or one that is opened otherwise or has other
    /// addresses.
    pub fn moves(&self, running: &NodeFile) -> Vec<Move> {
        let vacant = PortFile::default();
        let was = |at: usize| running.ports.get(at).unwrap_or(&vacant);
        let move_of = |(at, is): (usize, &PortFile)| {
            let was = was(at);
            let same = (&was.name, &was.address, was.mtu) == (&is.name, &is.address, is.mtu);
            let opens = !is.opens_as(was);
            let (begins, ends) = (was.is_vacant() && opens, is.is_vacant() && opens);
            (opens || !same).then_some(Move { port: PortId(at as u16), opens, begins, ends })
        };
        self.ports.iter().enumerate().filter_map(move_of).collect()
    }

    /// The places at which ports stay open, with another discipline than before, or one of these extensions, which are others.
    pub fn resorts(&self, running: &NodeFile, renewed: &[String]) -> Vec<PortId> {
        let resorts = |is: &PortFile, was: &PortFile| {
            let Some(discipline) = is.discipline.as_ref().filter(|_| is.opens_as(was)) else { return false };
            is.discipline != was.discipline || discipline.extensions().any(|name| renewed.iter().any(|it| it == name))
        };
        let all = self.ports.iter().zip(&running.ports).zip(0..);
        all.filter(|((is, was), _)| resorts(is, was)).map(|(_, at)| PortId(at)).collect()
    }

    /// The port of a place and how it is opened, where no interface is there yet; nothing at all of a vacant one.
    pub fn waiting(&self, at: PortId) -> Result<(Port, Plan), ConfigError> {
        self.port_with(at, &[])
    }

    /// The same where these interfaces are.
    pub fn port_with(&self, at: PortId, interfaces: &[Interface]) -> Result<(Port, Plan), ConfigError> {
        let at = usize::from(at.0);
        let Some(file) = self.ports.get(at).filter(|file| !file.is_vacant()) else { return Ok(vacant()) };
        let (mut port, plan) = file.plan(interfaces)?;
        port.name = self.titles().swap_remove(at);
        Ok((port, plan))
    }
}

/// What is at a vacant place.
fn vacant() -> (Port, Plan) {
    let port = Port {
        name: String::new(),
        link: Link::Overlay,
        addresses: Vec::new(),
        mtu: 0,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    (port, Plan { opening: Opening::Vacant(()), pcap: None, sorting: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ports: &[&str]) -> NodeFile {
        let table = |port: &&str| format!("[[port]]\n{port}\naddress = [\"10.0.0.1/24\"]\n");
        NodeFile::parse(&format!("name = \"a\"\n{}", ports.iter().map(table).collect::<String>())).unwrap()
    }

    fn udp(port: u16) -> String {
        format!("udp = \"127.0.0.1:{port}\"")
    }

    fn shown(file: &NodeFile) -> Vec<u16> {
        file.ports.iter().map(|port| port.udp.map_or(0, |at| at.port())).collect()
    }

    #[test]
    fn who_stays_keeps_its_place_and_who_comes_has_one_that_was_vacant_before() {
        let mut runs = file(&[&udp(1), &udp(2), &udp(3)]);
        for (wanted, places) in [
            (&[3, 1, 4][..], &[1, 0, 3, 4][..]),
            (&[5, 4, 3], &[0, 5, 3, 4]),
            (&[6, 7, 3], &[6, 0, 3, 0, 7]),
            (&[3], &[0, 0, 3, 0, 0]),
        ] {
            let ports: Vec<String> = wanted.iter().map(|port| udp(*port)).collect();
            let next = file(&ports.iter().map(String::as_str).collect::<Vec<_>>()).placed_over(&runs).unwrap();
            assert_eq!(shown(&next), places);
            let back = runs.clone().placed_again(&next);
            assert_eq!(back.ports.len(), next.ports.len());
            assert!(back.moves(&next).iter().all(|moved| moved.begins || moved.ends), "nothing changes its place");
            runs = next;
        }
    }

    #[test]
    fn a_port_with_another_name_address_or_socket_stays_where_it_is() {
        let runs = file(&[&udp(1), "name = \"wan\"\nudp = \"127.0.0.1:2\""]);
        for (ports, opens) in [
            ([udp(1), format!("name = \"lan\"\n{}", udp(2))], false),
            ([udp(1), format!("name = \"wan\"\nmtu = 1300\n{}", udp(2))], false),
            ([udp(1), format!("name = \"wan\"\n{}", udp(3))], true),
        ] {
            let next = file(&[&ports[1], &ports[0]]).placed_over(&runs).unwrap();
            let moved = Move { port: PortId(1), opens, begins: false, ends: false };
            assert_eq!(next.moves(&runs), [moved], "{ports:?}");
        }
        let gone = file(&[&udp(1)]).placed_over(&runs).unwrap();
        assert_eq!(gone.moves(&runs), [Move { port: PortId(1), opens: true, begins: false, ends: true }]);
        assert_eq!(gone.waiting(PortId(1)).unwrap().0.addresses, []);
    }

    #[test]
    fn places_are_bounded() {
        let all = |first: u16| (first..first + PORTS_MAX as u16).map(udp).collect::<Vec<_>>();
        let of = |ports: &[String]| file(&ports.iter().map(String::as_str).collect::<Vec<_>>());
        let why = of(&all(1000)).placed_over(&of(&all(1))).unwrap_err().to_string();
        assert!(why.contains("take the others out"), "{why}");
        assert!(of(&all(1)[..9]).placed_over(&of(&all(1))).is_ok());
    }

    #[test]
    fn a_port_with_another_discipline_or_another_extension_stays_open() {
        let with = |order: &str| {
            let text = format!(
                "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:1\"\naddress = [\"10.0.0.1/24\"]\n[port.discipline]\n\
                 order = \"{order}\"\n[[port.discipline.class]]\nname = \"all\"\n"
            );
            toml::from_str::<NodeFile>(&text).unwrap()
        };
        let (wfq, shares, none) = (with("wfq"), with("shares/Shares(1)"), file(&[&udp(1)]));
        let renewed = |name: &str| [name.to_owned()];
        assert!(wfq.moves(&shares).is_empty() && shares.moves(&wfq).is_empty());
        assert_eq!(wfq.resorts(&shares, &[]), [PortId(0)]);
        assert_eq!(shares.resorts(&shares, &renewed("shares")), [PortId(0)]);
        assert!(
            shares.resorts(&shares, &renewed("names")).is_empty() && wfq.resorts(&wfq, &renewed("shares")).is_empty()
        );
        // What stands before the port is another where a discipline begins or ends.
        assert!(wfq.moves(&none)[0].opens && wfq.resorts(&none, &[]).is_empty() && none.resorts(&wfq, &[]).is_empty());
    }
}
