//! The messages between the node and its loader of kernel programs.

/// The loader itself stays with the node.
#[path = "../../src/kernel/loader"]
pub mod loader {
    mod message;

    pub use message::{WORDS, Wanted, read_words, words};
}
