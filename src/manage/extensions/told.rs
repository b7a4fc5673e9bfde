//! What is said of extensions: what each is, and why calls have no result.

use super::Loaded;
use crate::code::extension::given::{FAILED, NO_SUCH_HOST, NOT_FOUND, REFUSED, TOO_BIG};
use crate::code::extension::instance::CallFailure;
use crate::code::extension::manifest::ExtensionManifest;
use crate::wire::Digest;
use model::extensions::{Call, Extension, OfferedAdmission, OfferedEngine, OfferedMarshal};

/// Why a call that may use so much fuel has no result, for people.
pub(super) fn failure(failure: CallFailure, fuel: u64) -> String {
    match failure {
        CallFailure::Raised(NOT_FOUND) => "not found".into(),
        CallFailure::Raised(REFUSED) => "refused".into(),
        CallFailure::Raised(NO_SUCH_HOST) => "no such host there, or not an address that it takes".into(),
        CallFailure::Raised(TOO_BIG) | CallFailure::TooBig => "too big, or no room for more".into(),
        CallFailure::Raised(FAILED) => "a call of another extension, or of the node, has failed".into(),
        CallFailure::Raised(code) => format!("it says {code}"),
        CallFailure::Fuel => format!("it has used up its fuel of {fuel}"),
        CallFailure::Broken => "it has failed: a trap".into(),
    }
}

/// One that is loaded.
pub(super) fn listed((manifest, loaded): &(ExtensionManifest, Loaded)) -> Extension {
    let Loaded { compiled, calls, failed, fuel, .. } = loaded;
    let whole = described(manifest, &compiled.digest, compiled.is_native());
    Extension { built_in: compiled.is_built_in(), called: *calls, failed: *failed, fuel: *fuel, ..whole }
}

/// What an extension is that nobody has called.
pub fn described(manifest: &ExtensionManifest, digest: &Digest, native: bool) -> Extension {
    let calls = manifest.calls.iter().map(|call| Call {
        name: call.name.clone(),
        kind: call.kind.to_string(),
        about: call.about.clone(),
        service: call.service,
        everywhere: call.everywhere,
    });
    let engines = manifest.engines.iter().map(|engine| OfferedEngine {
        name: format!("{}/{}", manifest.name, engine.name),
        ports: engine.ports.clone(),
        order: engine.order,
        about: engine.about.clone(),
    });
    let admissions = manifest.admissions.iter().map(|admission| OfferedAdmission {
        name: format!("{}/{}", manifest.name, admission.name),
        about: admission.about.clone(),
    });
    let marshals = manifest.marshals.iter().map(|marshal| OfferedMarshal {
        name: format!("{}/{}", manifest.name, marshal.name),
        about: marshal.about.clone(),
    });
    Extension {
        name: manifest.name.clone(),
        about: manifest.about.clone(),
        digest: digest.to_string(),
        native,
        built_in: false,
        needs: manifest.needs.iter().map(ToString::to_string).collect(),
        protocols: manifest.protocols.clone(),
        calls: calls.collect(),
        engines: engines.collect(),
        admissions: admissions.collect(),
        marshals: marshals.collect(),
        called: 0,
        failed: 0,
        fuel: 0,
    }
}
