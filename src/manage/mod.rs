//! Running a node on this host: configuration, the worker loop, the local sockets.

pub mod config;
pub mod netlink;
