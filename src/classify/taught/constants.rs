//! Names of numbers in rules, as the headers of C have them. Example: `ETHERTYPE_IP` is 0x0800.

/// Name and number.
pub const CONSTANTS: &[(&str, u64)] = &[
    ("ETHERTYPE_IP", 0x0800),
    ("ETHERTYPE_ARP", 0x0806),
    ("ETHERTYPE_VLAN", 0x8100),
    ("ETHERTYPE_IPV6", 0x86dd),
    ("ETHERTYPE_LOOPBACK", 0x9000),
    ("IPPROTO_ICMP", 1),
    ("IPPROTO_IGMP", 2),
    ("IPPROTO_IPIP", 4),
    ("IPPROTO_TCP", 6),
    ("IPPROTO_UDP", 17),
    ("IPPROTO_IPV6", 41),
    ("IPPROTO_GRE", 47),
    ("IPPROTO_ESP", 50),
    ("IPPROTO_AH", 51),
    ("IPPROTO_ICMPV6", 58),
    ("IPPROTO_ANEP", 107),
    ("IPPROTO_SCTP", 132),
    ("ARPOP_REQUEST", 1),
    ("ARPOP_REPLY", 2),
    ("ICMP_ECHOREPLY", 0),
    ("ICMP_UNREACH", 3),
    ("ICMP_ECHO", 8),
    ("ICMP_TIMXCEED", 11),
    ("PORT_ANEP", 3322),
    ("TH_FIN", 1),
    ("TH_SYN", 2),
    ("TH_RST", 4),
    ("TH_PUSH", 8),
    ("TH_ACK", 16),
    ("TH_URG", 32),
];

/// The number of a name.
pub fn constant(name: &str) -> Option<u64> {
    CONSTANTS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}
