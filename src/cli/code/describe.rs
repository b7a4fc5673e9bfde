//! A bundle and its rights at a node, as one value to print.

use crate::code::bundle::{Bundle, Error, Kind};
use crate::code::check::{self, Report};
use crate::code::judge::Claim;
use crate::config::NodeFile;
use crate::manage::revoked::Revocations;
use crate::trust::{CredentialSet, Roles};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub(super) struct At {
    /// Say in which role the code would act at the node of this configuration.
    #[arg(long, value_name = "CONFIG")]
    node: Option<PathBuf>,
}

impl At {
    /// The same as [`describe`], with the role at the node if one is given.
    pub(super) fn describe(&self, bundle: &Bundle, report: Option<&Report>) -> Result<Value> {
        let mut value = describe(bundle, report);
        if let Some(path) = &self.node {
            let file = NodeFile::read(path)?;
            let roles = Arc::new(Roles::new(file.roles).map_err(anyhow::Error::msg)?);
            let revocations = match &file.store {
                None => "none: the node has no store".into(),
                Some(store) => match Revocations::open(Some(store), roles.clone().into()) {
                    Ok(_) => format!("{} known", roles.revocations().len()),
                    Err(error) => format!("not looked at: {}: {error}", store.display()),
                },
            };
            let claim = Claim {
                code: bundle.name(),
                manifest: bundle.manifest().clone().into(),
                credentials: bundle.credentials().cloned(),
            };
            let unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            value["at"] = match roles.authorise(&file.name, unix_s, &claim) {
                Ok(grant) => json!({
                    "node": file.name,
                    "role": grant.role.name,
                    "representations": grant.kinds,
                    "credential_refused": grant.refused.map(|refused| refused.why),
                    "revocations": revocations,
                }),
                Err(Error::Revoked { by }) => json!({"node": file.name, "refused": by, "revocations": revocations}),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(value)
    }
}

/// Everything about a bundle, for people and programs alike.
pub(super) fn describe(bundle: &Bundle, report: Option<&Report>) -> Value {
    let manifest = bundle.manifest();
    let layer = |layer: &crate::code::bundle::ManifestLayer| {
        let mut value =
            json!({"kind": layer.kind.to_string(), "digest": layer.digest.to_string(), "bytes": layer.size});
        let at_hand = bundle.representation(layer.kind).is_some();
        value["at_hand"] = json!(at_hand);
        match (layer.kind, report) {
            (Kind::Wasm, Some(Report { wasm: Some(facts), .. })) => {
                value["functions"] = json!(facts.functions);
                value["memory_bytes"] = json!(facts.memory_bytes);
                value["symbols"] = facts.imports.iter().map(|symbol| symbol.name).collect();
            }
            (Kind::Bpf, Some(Report { bpf: Some(facts), .. })) => {
                value["functions"] = json!(facts.functions);
                value["instructions"] = json!(facts.instructions);
                value["symbols"] = facts.symbols.iter().map(|symbol| symbol.name).collect();
            }
            _ => {}
        }
        value
    };
    let set = bundle.credentials().and_then(|bytes| CredentialSet::parse(bytes).ok());
    let roots: Vec<_> = set.into_iter().flat_map(|set| set.credentials).map(|one| one.root().to_string()).collect();
    json!({
        "name": bundle.name().to_string(),
        "kind": "bundle",
        "title": manifest.title(),
        "window_bytes": manifest.window(),
        "architecture": manifest.architecture(),
        "principal": report.and_then(|report| report.principal).map(|id| id.to_string()),
        "credential_roots": roots,
        "manifest_bytes": bundle.manifest_bytes().len(),
        "representations": manifest.layers().iter().map(layer).collect::<Value>(),
        "limits": {
            "window_bytes": crate::code::bundle::WINDOW_MAX,
            "manifest_bytes": crate::code::bundle::MANIFEST_MAX,
            "representation_bytes": crate::code::bundle::REPRESENTATION_MAX,
            "memory_bytes": check::MEMORY_MAX,
        },
        "checked": report.is_some(),
    })
}
