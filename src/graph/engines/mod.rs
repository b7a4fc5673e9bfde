//! The engines, one file each, and their table.
//!
//! A new engine is one file here and one row of the table: nothing else in the node knows an engine's name. `tests.rs`
//! has one more.
//!
//! ```text
//! checksum       payload · CRC-32 (IEEE 802.3) of it (32)                     wrong ones are dropped
//! compress       0 (8) · payload, or 1 (8) · length (16) · LZ4 block         whichever is shorter
//! fragment(N)    number (16) · index (8) · count (8) · at most N bytes       put together within a second
//! xor(K)         group (16) · index (8) · K (8) · length (16) · payload      after K packets one that is the sum of them (XOR),
//!                                                                           from which one of the K that is lost is found again
//! ```
//!
//! Numbers are big endian.

use super::class::{EngineClass, Make};
use super::engine::Engine;
use crate::nodeos::interface::Error;

/// Makes the files' modules and the table of them.
macro_rules! engines {
    ($($(#[$when:meta])? $file:ident,)+) => {
        $($(#[$when])? mod $file;)+

        /// All there are.
        pub const CLASSES: &[&EngineClass] = &[$($(#[$when])? &$file::CLASS,)+];
    };
}

engines! {
    address_info,
    arp_querier,
    arp_responder,
    average_counter,
    bandwidth_meter,
    bandwidth_shaper,
    bandwidth_unqueue,
    check_icmp_header,
    check_ip_header,
    check_length,
    check_paint,
    check_tcp_header,
    check_udp_header,
    checksum,
    classifier,
    compress,
    counter,
    dec_ip_ttl,
    delay_shaper,
    delay_unqueue,
    discard,
    drop_broadcasts,
    drr_sched,
    ether_encap,
    ether_mirror,
    ether_switch,
    fast_udp_source,
    fix_ip_src,
    fragment,
    from_device,
    from_dump,
    from_host,
    from_remote,
    front_drop_queue,
    ftp_port_mapper,
    get_ip_address,
    hash_switch,
    host_ether_filter,
    icmp_error,
    icmp_ping_responder,
    icmp_ping_rewriter,
    icmp_rewriter,
    idle,
    infinite_source,
    ip_classifier,
    ip_encap,
    ip_filter,
    ip_fragmenter,
    ip_gw_options,
    ip_lookup,
    ip_mirror,
    ip_print,
    ip_rewriter,
    ip_rewriter_patterns,
    link_unqueue,
    mark_ip_header,
    meter,
    null,
    paint,
    paint_switch,
    paint_tee,
    print,
    prio_sched,
    pull_switch,
    pull_tee,
    queue,
    random_sample,
    rated_source,
    rated_splitter,
    rated_unqueue,
    red,
    remarks,
    round_robin_sched,
    round_robin_switch,
    set_ip_address,
    set_ip_checksum,
    set_ip_dscp,
    set_tcp_checksum,
    set_timestamp,
    set_udp_checksum,
    shaper,
    stride_sched,
    strip,
    strip_ip,
    strip_to_network,
    switch,
    tee,
    timed_sink,
    timed_source,
    to_device,
    to_dump,
    to_host,
    to_remote,
    udp_ip_encap,
    unqueue,
    unstrip,
    vlan_decap,
    vlan_encap,
    xor,
    #[cfg(test)] tests,
}

/// Other names of classes. Queues of several threads and of one are the same here; so are tables of routes.
const ALIASES: &[(&str, &str)] = &[
    ("Align", "Null"),
    ("CheckIPHeader2", "CheckIPHeader"),
    ("DirectIPLookup", "LinearIPLookup"),
    ("FromLinux", "FromHost"),
    ("MixedQueue", "FrontDropQueue"),
    ("PollDevice", "FromDevice"),
    ("PullNull", "Null"),
    ("PushNull", "Null"),
    ("RadixIPLookup", "LinearIPLookup"),
    ("RangeIPLookup", "LinearIPLookup"),
    ("ScheduleInfo", "AlignmentInfo"),
    ("SimpleQueue", "Queue"),
    ("SortedIPLookup", "LinearIPLookup"),
    ("StaticIPLookup", "LinearIPLookup"),
    ("TCPRewriter", "IPRewriter"),
    ("ThreadSafeQueue", "Queue"),
    ("ToHostSniffers", "ToHost"),
    ("ToLinux", "ToHost"),
    ("UDPRewriter", "IPRewriter"),
];

/// The class of a name.
pub fn class(name: &str) -> Option<&'static EngineClass> {
    let own = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, own)| own);
    CLASSES.iter().find(|class| class.name == own).copied()
}

/// All names of classes that stand in graphs.
pub fn names() -> impl Iterator<Item = &'static str> {
    let own = CLASSES.iter().filter(|class| !matches!(class.make, Make::Module { .. })).map(|class| class.name);
    own.chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// Makes the engine of a channel that a word names, as `xor(3)`.
pub fn make(word: &str) -> Result<(&'static EngineClass, Box<dyn Engine>), Error> {
    let (name, given) = match word.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').and_then(|digits| digits.parse().ok()))),
        None => (word, None),
    };
    let class = CLASSES.iter().find(|class| class.name == name).ok_or(Error::Unsupported)?;
    let Make::Module { argument, make, .. } = &class.make else { return Err(Error::Unsupported) };
    let argument = match (argument, given) {
        (None, None) => 0,
        (Some(possible), Some(Some(number))) if possible.contains(&number) => number,
        _ => return Err(Error::Invalid),
    };
    Ok((class, make(argument)))
}
