//! Remarks on a configuration: keys without effect here, or perhaps with an unwanted one. `anode node check` and a
//! start print them.

use super::NodeFile;
use super::environments::EnvironmentFile;
use crate::ee::plan::config::is_known;
use crate::sys::process::is_root;

impl NodeFile {
    /// A line for each.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = self.unknown_services();
        all.extend(self.idle_ingress());
        all.extend(self.environments.iter().flat_map(|environment| environment.missing()));
        all.extend(self.objects_without_streams());
        if !self.jail.require.is_empty() {
            let words = "[jail] require is part of [security] require now, which is for the node and its jails: it \
                         still counts, and without what it \
                         names the node does not start";
            all.push(words.into());
        }
        if self.security.user.is_some() && !is_root() {
            all.push("[security] user is without effect: only root can start a node that becomes somebody else".into());
        }
        all
    }

    /// Environments in the node's process whose role promises what they cannot have.
    fn objects_without_streams(&self) -> Vec<String> {
        let objects = self.environments.iter().filter(|environment| !environment.library.is_empty());
        let promised = objects.filter(|environment| {
            let role = self.roles.iter().find(|role| role.name == environment.role);
            role.is_some_and(|role| role.streams.gives_any())
        });
        let words = |environment: &EnvironmentFile| {
            let name = &environment.name;
            format!(
                "[[ee]] {name}: a library has no TCP streams, so the streams of its role are without effect: command or module"
            )
        };
        promised.map(words).collect()
    }

    /// A misspelt name leaves a service open, or somebody without it.
    fn unknown_services(&self) -> Vec<String> {
        let plan =
            [("[plan] restricted".to_owned(), &self.plan.restricted), ("[plan] open".to_owned(), &self.plan.open)];
        let roles = self.roles.iter().map(|role| (format!("[[role]] {}: services", role.name), &role.services));
        let principals = self.plan.principal.iter();
        let principals = principals.map(|one| (format!("[[plan.principal]] {}: services", one.name), &one.services));
        let lists = plan.into_iter().chain(roles).chain(principals);
        let unknown = |(place, names): (String, &Vec<String>)| {
            let unknown = names.iter().filter(|name| !is_known(name));
            unknown
                .map(move |name| format!("{place}: no service \"{name}\" here now (a loaded one?)"))
                .collect::<Vec<_>>()
        };
        lists.flat_map(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_is_said() {
        let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        let remarks = |more: &str| NodeFile::parse(&format!("name = \"n\"\n{port}{more}")).unwrap().remarks();
        let environment = |more: &str| format!("[[ee]]\nname = \"e\"\n{more}");
        for good in [
            "[plan]\nrestricted = [\"memoryUse\", \"getPrincipal\"]\nopen = [\"bandwidthSend\"]\n".into(),
            "[[role]]\nname = \"r\"\nservices = [\"installServices\"]\n".into(),
            environment("command = [\"/bin/sh\"]\nreads = [\"/etc\"]\n"),
            environment("command = [\"sh\", \"-c\"]\n"),
        ] {
            assert_eq!(remarks(&good), [""; 0], "{good}");
        }
        for (text, said) in [
            ("[plan]\nrestricted = [\"memoryUze\"]\n".into(), "[plan] restricted: no service \"memoryUze\" here now"),
            ("[plan]\nopen = [\"bandwithSend\"]\n".into(), "[plan] open: no service \"bandwithSend\""),
            ("[[role]]\nname = \"r\"\nservices = [\"x\"]\n".into(), "[[role]] r: services: no service \"x\""),
            (
                "[[plan.principal]]\nname = \"p\"\nkey_file = \"k\"\nservices = [\"x\"]\n".into(),
                "[[plan.principal]] p: services: no service \"x\"",
            ),
            (environment("command = [\"/usr/bin/forwarder\"]\n"), "there is no program /usr/bin/forwarder"),
            (environment("command = [\"no-such-program\"]\n"), "there is no program no-such-program"),
            (environment("command = [\"/etc/passwd\"]\n"), "there is no program /etc/passwd"),
            (environment("library = [\"/nonex.so\"]\n"), "there is no file /nonex.so"),
            (environment("command = [\"sh\"]\nreads = [\"/nonex\"]\n"), "/nonex is not there"),
            (
                environment(
                    "library = [\"/etc/passwd\"]\nrole = \"r\"\n[[role]]\nname = \"r\"\n[role.streams]\nlisten = [\"*:80\"]\n",
                ),
                "[[ee]] e: a library has no TCP streams",
            ),
        ] {
            let found = remarks(&text);
            assert!(found.len() == 1 && found[0].contains(said), "{text}: {found:?}");
        }
    }

    #[test]
    fn cpus_that_are_not_there_are_refused_by_their_key() {
        let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        let check = |cpu: &str| {
            NodeFile::parse(&format!("name = \"n\"\n{port}[cpu]\naffinity = [{cpu}]\n")).unwrap().check_host(false)
        };
        assert!(check("").is_ok() && check("0").is_ok());
        let why = check("0, 9999").unwrap_err().to_string();
        assert!(why.contains("[cpu] affinity: this host has no CPU 9999"), "{why}");
    }
}
