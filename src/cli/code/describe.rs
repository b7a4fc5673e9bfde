//! A bundle and its rights at a node, as they are printed.

use crate::code::bundle::{self, Error, Kind};
use crate::code::check::{self, Report};
use crate::code::judge::Claim;
use crate::config::NodeFile;
use crate::manage::revoked::Revocations;
use crate::trust::{CredentialSet, Roles};
use anyhow::Result;
use model::bundles::{Bundle, BundleLimits, Representation, Right};
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
    pub(super) fn describe(&self, bundle: &bundle::Bundle, report: Option<&Report>) -> Result<Bundle> {
        let mut described = describe(bundle, report);
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
            let none = Right {
                node: file.name.clone(),
                role: None,
                representations: None,
                credential_refused: None,
                refused: None,
                revocations,
            };
            described.at = Some(match roles.authorise(&file.name, unix_s, &claim) {
                Ok(grant) => Right {
                    role: Some(grant.role.name.clone()),
                    representations: Some(grant.kinds.iter().map(|kind| kind.to_string()).collect()),
                    credential_refused: grant.refused.map(|refused| refused.why.to_string()),
                    ..none
                },
                Err(Error::Revoked { by }) => Right { refused: Some(by.to_string()), ..none },
                Err(error) => return Err(error.into()),
            });
        }
        Ok(described)
    }
}

/// Everything about a bundle, for people and programs alike.
pub(super) fn describe(bundle: &bundle::Bundle, report: Option<&Report>) -> Bundle {
    let manifest = bundle.manifest();
    let set = bundle.credentials().and_then(|bytes| CredentialSet::parse(bytes).ok());
    Bundle {
        name: bundle.name().to_string(),
        kind: "bundle".into(),
        title: manifest.title().into(),
        window_bytes: manifest.window(),
        architecture: manifest.architecture().map(str::to_owned),
        principal: report.and_then(|report| report.principal).map(|id| id.to_string()),
        credential_roots: set.into_iter().flat_map(|set| set.credentials).map(|one| one.root().to_string()).collect(),
        manifest_bytes: bundle.manifest_bytes().len() as u64,
        representations: manifest.layers().iter().map(|layer| representation(bundle, layer, report)).collect(),
        limits: BundleLimits {
            window_bytes: bundle::WINDOW_MAX.into(),
            manifest_bytes: bundle::MANIFEST_MAX as u64,
            representation_bytes: bundle::REPRESENTATION_MAX as u64,
            memory_bytes: check::MEMORY_MAX,
        },
        checked: report.is_some(),
        at: None,
        file: None,
        user_half: None,
        kernel_half: None,
        lint: None,
    }
}

fn representation(bundle: &bundle::Bundle, layer: &bundle::ManifestLayer, report: Option<&Report>) -> Representation {
    let mut of = Representation {
        kind: layer.kind.to_string(),
        digest: layer.digest.to_string(),
        bytes: layer.size as u64,
        at_hand: bundle.representation(layer.kind).is_some(),
        functions: None,
        memory_bytes: None,
        instructions: None,
        symbols: None,
    };
    match (layer.kind, report) {
        (Kind::Wasm, Some(Report { wasm: Some(facts), .. })) => {
            of.functions = Some(facts.functions as u64);
            of.memory_bytes = Some(facts.memory_bytes as u64);
            of.symbols = Some(facts.imports.iter().map(|symbol| symbol.name.into()).collect());
        }
        (Kind::Bpf, Some(Report { bpf: Some(facts), .. })) => {
            of.functions = Some(facts.functions as u64);
            of.instructions = Some(facts.instructions as u64);
            of.symbols = Some(facts.symbols.iter().map(|symbol| symbol.name.into()).collect());
        }
        _ => {}
    }
    of
}
