// Packets that are too long for a link leave in pieces; those that must not be cut are counted.
// run: --from eth0=in/long.pcap --read f.fragments --read f.drops
// > f.fragments: 3
// > f.drops: 1
// > eth1: 3 packets
// > in 2, begun 3, out 3, used 1, dropped 1, held 0

FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(576)
    -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:fe) -> Queue -> ToDevice(eth1);
