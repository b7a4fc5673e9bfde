//! Extensions: modules that give a running node what it did not have. Example: one teaches the protocol VXLAN, and has a call that says
//! what a network's number is called.
//!
//! ```text
//! module ─▶ manifest (what it is, needs and exports) ─▶ registry: what it needs is there ─▶ compiled ─▶ instance ─▶ calls
//! ```
//!
//! An extension is a WebAssembly module or a shared object with a manifest in it, and so one file. A few are part of every node
//! ([`every_node`]). Its calls are functions of one type
//! each, for operators, for extensions that need them, and for PLAN programs where it says so; its engines are functions too, for graphs.
//! An instance keeps its memory from call to call. Nothing in here has a thread or a node: `manage::extensions` does. docs/extensions.md
//! has all this in words.

pub mod built_in;
pub mod call_type;
pub mod compiled;
pub mod every_node;
pub mod given;
pub mod imports;
pub mod instance;
pub mod manifest;
pub mod native;
pub mod object;
pub mod registry;
