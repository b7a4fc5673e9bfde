//! The existing lists of system calls, and their names.

macro_rules! lists {
    ($processor:literal) => {
        lists!($processor: "ee" "ee-network" "init" "kernel-loader" "compiler" "compile-job" "http" "http-job" "broker" "worker"
            "operators" "control" "sessions" "plan-tcp" "store" "compile" "resolver" "routes" "kernel" "ticks")
    };
    ($processor:literal: $($name:literal)+) => {
        &[$(($name, include_str!(concat!($processor, "/", $name, ".json"))),)+]
    };
}

/// The lists for this processor, by their names.
#[cfg(target_arch = "x86_64")]
pub const LISTS: &[(&str, &str)] = lists!("x86_64");
/// The lists for this processor, by their names.
#[cfg(not(target_arch = "x86_64"))]
pub const LISTS: &[(&str, &str)] = AARCH64;

/// Those for the other processor that nodes run on.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub const AARCH64: &[(&str, &str)] = lists!("aarch64");

/// Says if there is no list of this name.
pub fn check(name: &str) -> Result<(), String> {
    match LISTS.iter().any(|(known, _)| *known == name) {
        true => Ok(()),
        false => Err(format!("{name:?}: no list of system calls has this name")),
    }
}
