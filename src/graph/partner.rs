//! Another engine of the same graph with which one works. Example: `ICMPRewriter(rw)` asks `rw` what flows were before.

/// It, by its name, and by its number once that was looked up.
pub struct Partner {
    /// Its whole name.
    pub name: String,
    /// Its number.
    pub number: Option<u16>,
}

impl Partner {
    /// That of this name.
    pub fn new(name: String) -> Partner {
        Partner { name, number: None }
    }
}
