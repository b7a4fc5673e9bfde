//! Changed defaults: a notice for each key whose default differs from that of an older version. A start and `anode node
//! check` print a line for each.
//!
//! A key in the file is a choice, whatever its value, and causes no notice. A notice has the key, its meaning now and
//! before, and the line that ends the notice. Notices go when nobody can have a configuration of before any more.

use super::guard::Demand;
use super::{NodeFile, PortFile};
use crate::sys::process::is_root;

/// What a line ends with.
fn quiet(key: &str) -> String {
    format!("; write {key} to keep this quiet")
}

impl NodeFile {
    /// A line for each default that has changed and that this configuration leaves as it is.
    pub fn changed_defaults(&self) -> Vec<String> {
        let all = [
            self.changed_scheduler(),
            self.changed_entry(),
            self.changed_burst(),
            self.changed_bounds(),
            self.changed_services(),
            self.changed_compiler(),
            self.changed_jails(),
            self.changed_user(),
        ];
        all.into_iter().flatten().collect()
    }

    /// Of environments in processes, for whoever has some and has said nothing of their jails.
    fn changed_jails(&self) -> Option<String> {
        let processes = self.environments.iter().any(|environment| !environment.command.is_empty());
        (processes && !self.written.has_any("jail")).then(|| {
            "[jail]: environments in processes have users, files and namespaces of their own, and of their role [role.grants] \
             processes (16) and cpu_percent (100) (before: the node's user, all of /etc and /proc, no such limit)"
                .to_owned()
                + &quiet("[jail] users = [60834, 61183]")
        })
    }

    /// Of a node that root starts.
    fn changed_user(&self) -> Option<String> {
        (is_root() && !self.written.has_any("security")).then(|| {
            "[security] user is \"anode\" by default, or one of the node's own: it becomes that user, without \
             capabilities, and its store and \
             files of domains are given to it (before: it stayed root)"
                .to_owned()
                + &quiet("[security] require = []")
        })
    }

    fn changed_scheduler(&self) -> Option<String> {
        (!self.written.has("cpu", "scheduler")).then(|| {
            "[cpu] scheduler is \"wfq\" by default: domains share the worker by weight (before: \"fifo\", whoever came first)"
                .to_owned()
                + &quiet("[cpu] scheduler = \"wfq\"")
        })
    }

    fn changed_entry(&self) -> Option<String> {
        (!self.written.has("entry", "share")).then(|| {
            "[entry] share is 0.5 by default: beside others a neighbour has half of the worker, and of the port's bytes a second \
             (before: all)"
                .to_owned()
                + &quiet("[entry] share = 0.5 and burst_ms = 5")
        })
    }

    /// Of a file that says something of neighbours' shares; any other has the line above.
    fn changed_burst(&self) -> Option<String> {
        (self.written.has("entry", "share") && !self.written.has("entry", "burst_ms")).then(|| {
            "[entry] burst_ms is 5 by default: so much of the worker may be had at once, which others' queues outlast (before: 20)"
                .to_owned()
                + &quiet("[entry] burst_ms = 5")
        })
    }

    fn changed_bounds(&self) -> Option<String> {
        let is_silent = |port: &PortFile| port.bound_max.is_none() && !port.demand.contains(&Demand::Mac);
        let titles = self.titles().into_iter().zip(&self.ports);
        let silent: Vec<String> = titles.filter(|(_, port)| is_silent(port)).map(|(title, _)| title).collect();
        (!silent.is_empty()).then(|| {
            format!(
                "[[port]] bound_max is 64 by default, for capsules and PLAN alike: larger resource bounds of unsigned packets of \
                 neighbours are cut, and [plan] bound_max does not raise it (before: none for capsules, [plan] \
                 bound_max or 4096 for PLAN); \
                 ports {}{}",
                silent.join(", "),
                quiet("[[port]] bound_max = 64")
            )
        })
    }

    /// Only `open` is new: who has `restricted` alone may have written it when nothing else was restricted.
    fn changed_services(&self) -> Option<String> {
        (self.plan.enabled && !self.written.has("plan", "open")).then(|| {
            format!(
                "[plan] restricted has {} besides what the file names: only roles and principals that list a service have it \
                 (before: it had none); [plan] open gives services to everybody{}",
                crate::ee::plan::config::RESTRICTED.join(", "),
                quiet("[plan] open = []")
            )
        })
    }

    fn changed_compiler(&self) -> Option<String> {
        (!self.written.has_any("compiler")).then(|| {
            let limits = &self.compiler;
            format!(
                "[compiler] cpu_ms is {} by default, memory_mib {}: code that takes more to compile is refused (before: no limit){}",
                limits.cpu_ms,
                limits.memory_mib,
                quiet(&format!("[compiler] cpu_ms = {}", limits.cpu_ms))
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str = "[[port]]\nname = \"wan\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";

    fn lines(text: &str) -> Vec<String> {
        NodeFile::parse(&format!("name = \"n\"\n{text}")).unwrap().changed_defaults()
    }

    /// What begins a line, for each table of settings that silences it.
    #[test]
    fn a_line_is_said_for_each_default_that_the_file_leaves_and_ends_with_how_to_end_it() {
        let environment = "[[ee]]\nname = \"e\"\ncommand = [\"x\"]\n";
        let with = |before: &str, after: &str| format!("{before}{PORT}{after}{environment}");
        for (begins, says, silenced) in [
            ("[cpu] scheduler", "fifo", with("[cpu]\nscheduler = \"wfq\"\n", "")),
            ("[entry] share", "half", with("[entry]\nshare = 0.5\n", "")),
            ("[[port]] bound_max", "ports wan", with("", "bound_max = 64\n")),
            ("[[port]] bound_max", "[plan] bound_max", with("", "demand = [\"mac\"]\n")),
            ("[plan] restricted", "bandwidthSend", with("[plan]\nopen = []\n", "")),
            ("[plan] restricted", "bandwidthSend", with("[plan]\nenabled = false\n", "")),
            ("[compiler] cpu_ms", "250", with("[compiler]\njobs = 2\n", "")),
            ("[jail]", "cpu_percent", with("[jail]\nrequire = []\n", "")),
            ("[jail]", "cpu_percent", PORT.to_owned()),
        ] {
            let found =
                |text: &str| lines(text).into_iter().filter(|line| line.starts_with(begins)).collect::<Vec<_>>();
            let said = found(&with("", ""));
            assert!(said.len() == 1 && said[0].contains(says) && said[0].ends_with(" to keep this quiet"), "{said:?}");
            assert_eq!(found(&silenced), [""; 0], "{silenced}");
        }
        let share = "[entry]\nshare = 0.5\n";
        let of_burst = |text: &str| lines(text).iter().filter(|line| line.starts_with("[entry] burst_ms is 5")).count();
        let both = share.to_owned() + "burst_ms = 5\n";
        assert_eq!([with(share, ""), with(&both, ""), with("", "")].map(|text| of_burst(&text)), [1, 0, 0]);
        let before = with("[plan]\nrestricted = [\"memoryUse\"]\n", "");
        assert!(lines(&before).iter().any(|line| line.starts_with("[plan] restricted")), "a key of before");
        let said = lines(&with("", ""));
        let written = said.iter().filter_map(|line| line.split_once("; write ")?.1.split_once(" to keep"));
        // Who the node is has changed only for root's.
        assert_eq!(written.count(), 6 + usize::from(is_root()));
    }
}
