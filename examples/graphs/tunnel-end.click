// The other end of a tunnel: what is in the packets goes on.
// run: --from eth1=in/tunnelled.pcap
// > eth0: 3 packets
// > in 4, begun 0, out 3, used 0, dropped 1, held 0

FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> IPClassifier(ip proto 4) -> StripIPHeader
    -> CheckIPHeader
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:0a)
    -> Queue -> ToDevice(eth0);
