//! Of the kernel half, what the node and its loader say to each other.

/// The loader itself stays with the node.
#[path = "../../src/kernel/loader"]
pub mod loader {
    mod message;

    pub use message::{WORDS, Wanted, read_words, words};
}
