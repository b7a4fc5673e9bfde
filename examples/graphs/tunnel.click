// One end of a tunnel: IP packets in IP packets (RFC 2003).
// run: --from eth0=in/inside.pcap
// > eth1: 3 packets
// > in 3, begun 0, out 3, used 0, dropped 0, held 0

FromDevice(eth0) -> Strip(14) -> CheckIPHeader
    -> IPEncap(ipip, 192.0.2.1, 198.51.100.1, TTL 64)
    -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:fe)
    -> Queue -> ToDevice(eth1);
