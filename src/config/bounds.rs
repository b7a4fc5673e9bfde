//! Ceilings of resource bounds, by port: `bound_max` and `signed_bound_max` of a `[[port]]`.
//!
//! A neighbour's packet causes traffic in the whole network up to its bound. So a port limits the bound, for capsules
//! and PLAN alike. `bound_max` of `[plan]` and of `[[plan.ingress]]` can only lower that for PLAN: a setting of PLAN
//! does not open a port to capsules.

use super::guard::Demand;
use super::plan::PlanFile;
use super::{ConfigError, NodeFile, PortFile, wrong};
use crate::topology::Ceiling;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

/// A resource bound of the file: none that nothing could cross a link with.
pub(super) fn one_bound<'de, D: Deserializer<'de>>(file: D) -> Result<u32, D::Error> {
    let given = i64::deserialize(file)?;
    let bound = u32::try_from(given).ok().filter(|bound| *bound > 0);
    bound.ok_or_else(|| D::Error::custom(format!("{given}: a resource bound is from 1 to {}", u32::MAX)))
}

/// The same where it may be left out.
pub(super) fn bound<'de, D: Deserializer<'de>>(file: D) -> Result<Option<u32>, D::Error> {
    one_bound(file).map(Some)
}

impl PortFile {
    /// The ceilings of its port.
    pub fn ceiling(&self) -> Result<Ceiling, ConfigError> {
        let usual = Ceiling::default();
        // Where all neighbours prove what they send, none of them is anybody.
        let anybody = if self.demand.contains(&Demand::Mac) { usual.signed } else { usual.unsigned };
        let unsigned = self.bound_max.unwrap_or(anybody);
        let signed = self.signed_bound_max.unwrap_or(usual.signed.max(unsigned));
        if signed < unsigned {
            return wrong(format!(
                "port {}: signed_bound_max = {signed}: less than bound_max = {unsigned}, which holds for packets of anybody",
                self.title()
            ));
        }
        Ok(Ceiling { unsigned, signed })
    }
}

impl NodeFile {
    /// Names of the ports, as people are told them. Two overlay ports without a name that have one number on different
    /// addresses are called by their whole addresses.
    pub fn titles(&self) -> Vec<String> {
        let short: Vec<String> = self.ports.iter().map(PortFile::title).collect();
        let is_alone = |title: &String| short.iter().filter(|other| *other == title).count() < 2;
        let whole = |port: &PortFile| port.udp.filter(|_| port.name.is_none()).map(|listen| format!("udp-{listen}"));
        let title = |(port, title): (&PortFile, &String)| if is_alone(title) { None } else { whole(port) };
        self.ports.iter().zip(&short).map(|pair| title(pair).unwrap_or_else(|| pair.1.clone())).collect()
    }

    /// Refuses ceilings for ports that are not there.
    pub(super) fn check_ingress(&self) -> Result<(), ConfigError> {
        let titles = self.titles();
        match self.plan.ingress.iter().find(|ingress| !titles.contains(&ingress.port)) {
            Some(unknown) => wrong(format!(
                "[[plan.ingress]] port = {:?}: no [[port]] has this name; there are {}",
                unknown.port,
                titles.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// What `[plan]` leaves PLAN packets of the ceiling of each port.
    pub(super) fn plan_ceilings(&self) -> Vec<u32> {
        let PlanFile { bound_max, ingress, .. } = &self.plan;
        let of_port = |title: &String| ingress.iter().find(|one| one.port == *title).map(|one| one.bound_max);
        self.titles().iter().map(|title| of_port(title).or(*bound_max).unwrap_or(u32::MAX)).collect()
    }

    /// Says which `[[plan.ingress]]` have no effect, since the ceiling of the port is lower.
    pub(super) fn idle_ingress(&self) -> impl Iterator<Item = String> {
        let titles = self.titles();
        self.plan.ingress.iter().filter_map(move |ingress| {
            let at = titles.iter().position(|title| *title == ingress.port)?;
            let port = self.ports.get(at)?.ceiling().ok()?.unsigned;
            (ingress.bound_max > port).then(|| {
                format!(
                    "[[plan.ingress]] port = {:?}: bound_max = {} is without effect, since {port} is the port's for \
                     capsules and PLAN alike; \
                     raise bound_max of the [[port]]",
                    ingress.port, ingress.bound_max
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(more: &str) -> Result<Vec<Ceiling>, String> {
        let text = format!("name = \"n\"\n[plan]\n{more}");
        let file = NodeFile::parse(&text).map_err(|why| why.to_string())?;
        let (config, _) = file.plan().map_err(|why| why.to_string())?;
        Ok(config.ports.iter().map(|port| port.ceiling).collect())
    }

    fn port(name: &str, more: &str) -> String {
        // Each in a network of its own.
        let net = name.bytes().fold(0u8, u8::wrapping_add);
        format!("[[port]]\nname = \"{name}\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.{net}.1/24\"]\n{more}\n")
    }

    #[test]
    fn a_port_has_a_ceiling_for_anybody_and_one_for_signed_code() {
        assert_eq!(ceilings(&port("a", "")), Ok(vec![Ceiling { unsigned: 64, signed: 4096 }]));
        assert_eq!(ceilings(&port("a", "demand = [\"mac\"]")), Ok(vec![Ceiling::all(4096)]));
        assert_eq!(ceilings(&port("a", "demand = [\"mac\"]\nbound_max = 64")), Ok(vec![Ceiling::default()]));
        assert_eq!(ceilings(&port("a", "bound_max = 9")), Ok(vec![Ceiling { unsigned: 9, signed: 4096 }]));
        assert_eq!(ceilings(&port("a", "bound_max = 9000")), Ok(vec![Ceiling::all(9000)]));
        assert_eq!(ceilings(&port("a", "bound_max = 8\nsigned_bound_max = 8")), Ok(vec![Ceiling::all(8)]));
        let why = ceilings(&port("a", "bound_max = 9\nsigned_bound_max = 8")).unwrap_err();
        assert!(why.contains("port a: signed_bound_max = 8: less than bound_max = 9"), "{why}");
    }

    #[test]
    fn what_plan_says_lowers_ceilings_for_plan_and_raises_none() {
        let ports = [port("a", ""), port("b", "bound_max = 5"), port("c", "")].concat();
        let text = |more: &str| format!("name = \"n\"\n[plan]\n{more}\n{ports}");
        let all = |more: &str| {
            let file = NodeFile::parse(&text(more)).unwrap();
            let (config, _) = file.plan().unwrap();
            let capsules: Vec<_> = config.ports.iter().map(|port| port.ceiling.unsigned).collect();
            (capsules, file.plan_environment(&config).unwrap().ceilings, file.remarks().len())
        };
        let ingress = |name: &str, most: u32| format!("[[plan.ingress]]\nport = \"{name}\"\nbound_max = {most}");
        for (more, plan, remarks) in [
            (String::new(), [u32::MAX; 3], 0),
            ("bound_max = 7".into(), [7; 3], 0),
            ("bound_max = 9000".into(), [9000; 3], 0),
            (format!("bound_max = 7\n{}", ingress("c", 3)), [7, 7, 3], 0),
            (ingress("b", 9), [u32::MAX, 9, u32::MAX], 1),
        ] {
            assert_eq!(all(&more), (vec![64, 5, 64], plan.to_vec(), remarks), "{more}");
        }
        let why = NodeFile::parse(&text(&ingress("x", 3))).unwrap_err().to_string();
        assert!(why.contains("no [[port]] has this name; there are a, b, c"), "{why}");
    }

    #[test]
    fn ports_without_names_are_told_apart() {
        let net = |at: &str| at.bytes().fold(0u8, u8::wrapping_add);
        let udp = |at: &str| format!("[[port]]\nudp = \"{at}\"\naddress = [\"10.0.{}.1/24\"]\n", net(at));
        let titles = |ports: &[String], plan: &str| {
            let file = NodeFile::parse(&format!("name = \"n\"\n{}{plan}", ports.concat())).unwrap();
            file.plan().unwrap().0.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(titles(&[udp("127.0.0.1:4001"), udp("127.0.0.1:4002")], ""), ["udp-4001", "udp-4002"]);
        let ingress = "[[plan.ingress]]\nport = \"udp-127.0.0.2:4001\"\nbound_max = 3\n";
        let same = [udp("127.0.0.1:4001"), udp("127.0.0.2:4001"), port("x", "")];
        assert_eq!(titles(&same, ingress), ["udp-127.0.0.1:4001", "udp-127.0.0.2:4001", "x"]);
    }
}
