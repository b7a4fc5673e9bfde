//! The extensions that every node has: their names and manifests. Example: `ways` has calls that set routes. What they do is in `built_in`.

use super::manifest::ExtensionManifest;

/// All of them, by their names.
const ALL: [(&str, &str); 3] = [
    ("links", include_str!("every_node/links.toml")),
    ("ways", include_str!("every_node/ways.toml")),
    ("code", include_str!("every_node/code.toml")),
];

/// Whether every node has an extension of this name.
pub fn is_built_in(name: &str) -> bool {
    ALL.iter().any(|(known, _)| *known == name)
}

/// What they are.
pub fn manifests() -> Result<Vec<ExtensionManifest>, String> {
    ALL.iter().map(|(_, text)| text.parse()).collect()
}
