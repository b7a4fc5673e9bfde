//! Defaults that are others than they were when a configuration was written: a node says one line for each that is its own.
//!
//! Who has a key in the file has chosen, and hears nothing. A line names the key, what it means now and what it meant before, so
//! that it can be set. Lines go when nobody can have a configuration of before any more.

use super::NodeFile;
use super::jail::JailFile;

impl NodeFile {
    /// A line for each default that has changed and that this configuration leaves as it is.
    pub fn changed_defaults(&self) -> Vec<String> {
        let all = [self.changed_scheduler(), self.changed_bounds(), self.changed_services(), self.changed_jails()];
        all.into_iter().flatten().collect()
    }

    /// Of environments in processes, for whoever has some and has said nothing of their jails.
    fn changed_jails(&self) -> Option<String> {
        let processes = self.environments.iter().any(|environment| !environment.command.is_empty());
        (processes && self.jail == JailFile::default()).then(|| {
            "[jail]: environments in processes have users, files and namespaces of their own, and of their role [role.grants] \
             processes (16) and cpu_percent (100) (before: the node's user, all of /etc and /proc, no such limit)"
                .into()
        })
    }

    fn changed_scheduler(&self) -> Option<String> {
        self.cpu.scheduler.is_none().then(|| {
            "[cpu] scheduler is \"wfq\" by default: domains share the worker by weight (before: \"fifo\", whoever came first); \
             and beside others a neighbour has half of the worker, [entry] share (before: all)"
                .into()
        })
    }

    fn changed_bounds(&self) -> Option<String> {
        let silent: Vec<String> =
            self.ports.iter().filter(|port| port.bound_max.is_none()).map(|port| port.title()).collect();
        (!silent.is_empty()).then(|| {
            format!(
                "[[port]] bound_max is 64 by default: larger resource bounds of unsigned packets of neighbours are cut (before: none for \
                 capsules, 4096 for PLAN); ports {}",
                silent.join(", ")
            )
        })
    }

    fn changed_services(&self) -> Option<String> {
        (self.plan.enabled && self.plan.open.is_empty()).then(|| {
            format!(
                "[plan] restricted is {} by default: only roles and principals that list a service have it (before: none); \
                 [plan] open gives services to everybody",
                crate::ee::plan::config::RESTRICTED.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_for_each_default_that_the_file_leaves() {
        let port = "[[port]]\nname = \"wan\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        let lines = |text: &str| NodeFile::parse(&format!("name = \"n\"\n{text}")).unwrap().changed_defaults();
        let says = |text: &str, all: &[&str]| lines(text).iter().any(|line| all.iter().all(|word| line.contains(word)));
        assert!(says(port, &["wfq", "fifo"]));
        assert!(!says(&format!("[cpu]\nscheduler = \"fifo\"\n{port}"), &["scheduler"]));
        assert!(says(port, &["bound_max", "wan"]) && !says(&format!("{port}bound_max = 64\n"), &["bound_max"]));
        assert!(says(port, &["bandwidthSend"]));
        for text in ["[plan]\nopen = [\"bandwidthSend\"]\n", "[plan]\nenabled = false\n"] {
            assert!(!says(&format!("{text}{port}"), &["bandwidthSend"]), "{text}");
        }
        let environment = "[[ee]]\nname = \"e\"\ncommand = [\"x\"]\n";
        let about_jails = |lines: Vec<String>| lines.iter().any(|line| line.starts_with("[jail]"));
        assert!(about_jails(lines(&format!("{port}{environment}"))) && !about_jails(lines(port)));
        assert!(!about_jails(lines(&format!("{port}{environment}[jail]\nusers = [70, 80]\n"))));
    }
}
