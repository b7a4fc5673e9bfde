//! Ceilings of resource bounds, by port: `bound_max` and `signed_bound_max` of a `[[port]]`.
//!
//! What a packet of a neighbour may cause in the whole network is its bound, so a port says how much of that counts. Configurations
//! of before said it for PLAN alone, as `bound_max` of `[plan]` and of `[[plan.ingress]]`: they mean ports that say nothing
//! themselves, and hold for capsules too.

use super::guard::Demand;
use super::plan::PlanFile;
use super::{ConfigError, NodeFile, PortFile, wrong};
use crate::topology::Ceiling;

impl PortFile {
    /// The ceilings of its port; those of [`NodeFile::old_ceilings`] are for ports that say nothing.
    pub(super) fn ceiling(&self) -> Result<Ceiling, ConfigError> {
        let usual = Ceiling::default();
        // Where all neighbours prove what they send, none of them is anybody.
        let anybody = if self.demand.contains(&Demand::Mac) { usual.signed } else { usual.unsigned };
        let unsigned = self.bound_max.unwrap_or(anybody);
        let signed = self.signed_bound_max.unwrap_or(usual.signed.max(unsigned));
        if signed < unsigned {
            return wrong(format!(
                "signed_bound_max = {signed}: less than bound_max = {unsigned}, which holds for packets of anybody"
            ));
        }
        Ok(Ceiling { unsigned, signed })
    }
}

impl NodeFile {
    /// Gives ports that say nothing the ceilings that `[plan]` has for them.
    pub(super) fn old_ceilings(&mut self) -> Result<(), ConfigError> {
        let PlanFile { bound_max, ingress, .. } = &self.plan;
        for ingress in ingress {
            let named = |port: &&mut PortFile| port.name.as_ref().or(port.packet.as_ref()) == Some(&ingress.port);
            let Some(port) = self.ports.iter_mut().find(named) else {
                return wrong(format!("[[plan.ingress]] port = {:?}: no [[port]] has this name", ingress.port));
            };
            if port.bound_max.replace(ingress.bound_max).is_some_and(|other| other != ingress.bound_max) {
                return wrong(format!(
                    "[[plan.ingress]] port = {:?}: its [[port]] has another bound_max; leave this one out",
                    ingress.port
                ));
            }
        }
        for port in &mut self.ports {
            port.bound_max = port.bound_max.or(*bound_max);
        }
        Ok(())
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
        format!("[[port]]\nname = \"{name}\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n{more}\n")
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
        assert!(why.contains("signed_bound_max = 8: less than bound_max = 9"), "{why}");
    }

    #[test]
    fn what_plan_said_of_ports_holds_for_those_that_say_nothing() {
        let ports = [port("a", ""), port("b", "bound_max = 5"), port("c", "")].concat();
        let found =
            ceilings(&format!("bound_max = 7\n[[plan.ingress]]\nport = \"c\"\nbound_max = 3\n{ports}")).unwrap();
        assert_eq!(found.iter().map(|ceiling| ceiling.unsigned).collect::<Vec<_>>(), [7, 5, 3]);
        let ingress = |name: &str| ceilings(&format!("[[plan.ingress]]\nport = \"{name}\"\nbound_max = 3\n{ports}"));
        assert!(ingress("b").unwrap_err().contains("another bound_max"));
        assert!(ingress("x").unwrap_err().contains("no [[port]] has this name"));
    }
}
