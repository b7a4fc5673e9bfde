mod symbols;
pub use symbols::*;
