//! Where packets go from a node: what either half of it says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    /// The address.
    pub to: String,
    /// Whether that is the node itself.
    pub here: bool,
    /// Where the user half sends.
    #[serde(flatten)]
    pub leads: Lead,
    /// Where code in the kernel half is told that it is, if there is that half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Lead>,
}

/// Where packets go next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lead {
    /// The name of the port; nothing: there is no route.
    pub port: Option<String>,
    /// The next router; nothing: it is on the link.
    pub via: Option<String>,
}
