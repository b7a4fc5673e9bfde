//! `[classify]`: protocols, hosts and constants that channels' rules may name, and which of the rules that hold get a packet.
//!
//! The definitions stand in the configuration itself: a running node opens no other files, and what an operator applies is all that it
//! has to be sent.

use crate::node::{Classifying, MatchMode, RuleWords};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes of the definitions of one node.
const DEFINITIONS_MAX: usize = 64 << 10;

/// The section `[classify]` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifyFile {
    /// Which of the channels whose rules hold get a packet.
    pub mode: MatchMode,
    /// Definitions of protocols, in the language of docs/classifier.md.
    pub protocols: String,
    /// Hosts that rules may name, with their addresses.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Hosts that rules may name, and whose addresses the system's resolver knows, or the name service.
    pub resolve: Vec<String>,
    /// The name service that knows them instead: a call of an extension, EXTENSION.CALL, of the type `string -> host`.
    pub name_service: Option<String>,
    /// Numbers that rules may name.
    pub constants: BTreeMap<String, u64>,
}

impl ClassifyFile {
    /// The same for the node, or what is wrong with it.
    pub fn classifying(&self) -> Result<Classifying, String> {
        if self.protocols.len() > DEFINITIONS_MAX {
            return Err(format!("[classify] protocols: at most {DEFINITIONS_MAX} bytes, not {}", self.protocols.len()));
        }
        let words = RuleWords::new(&self.hosts, &self.constants)
            .and_then(|words| words.and_followed(&self.resolve))
            .map_err(|why| format!("[classify]: {why}"))?;
        let taught = Classifying::taught(self.mode, "[classify] protocols", &self.protocols)?;
        Ok(Classifying { words: Arc::new(words), ..taught })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_taught_and_mistakes_have_their_place() {
        let read = |text: &str| toml::from_str::<ClassifyFile>(text).unwrap().classifying();
        let known = |classifying: Classifying| classifying.protocols.all().count();
        let standard = known(read("").unwrap());
        let app = "mode = \"all\"\nprotocols = '''\n(protocol app (follows udp 2001) (hdr_len 4))\n'''";
        let both = read(app).unwrap();
        assert_eq!((both.mode, known(both)), (MatchMode::All, standard + 1));
        let wrong = read("protocols = \"\"\"\n(protocol app\n  (follows upd 2001) (hdr_len 4))\"\"\"").unwrap_err();
        assert!(wrong.starts_with("[classify] protocols:1:") && wrong.contains("do you mean 'udp'"), "{wrong}");
        let long = format!("protocols = \"{}\"", " ".repeat(DEFINITIONS_MAX + 1));
        assert!(read(&long).unwrap_err().contains("65536 bytes, not 65537"));
        let words = read("hosts = { db = [\"10.0.0.7\", \"fd00::7\"] }\nconstants = { APP_PORT = 2001 }").unwrap();
        assert_ne!(words.words, read("hosts = { db = [\"10.0.0.8\"] }").unwrap().words);
        let twice = read("resolve = [\"db\"]\nhosts = { db = [\"10.0.0.8\"] }").unwrap_err();
        assert_eq!(twice, "[classify]: db is there twice");
        assert_eq!(read("constants = { TH_SYN = 1 }").unwrap_err().split(':').next(), Some("[classify]"));
        for text in
            ["mode = \"some\"", "protocol = \"\"", "hosts = { db = [\"10.0.0.256\"] }", "constants = { A = -1 }"]
        {
            assert!(toml::from_str::<ClassifyFile>(text).is_err(), "{text}");
        }
    }
}
