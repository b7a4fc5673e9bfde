//! The node's operating system: channels, events, files and threads for execution environments, each owned and paid by
//! a domain.
//!
//! [`interface`] is what execution environments get from it: [`channel`]s, [`event`]s, [`mod@file`]s, [`store`]s, and
//! threads ([`thread_pool`]). Domains, memory pools and soft state are [`crate::core`]'s. What a role gives a domain,
//! [`crate::trust::limits`] and [`crate::trust::grants`] say.

pub mod channel;
pub mod event;
pub mod file;
pub mod interface;
pub mod store;
pub mod thread_pool;
