// A network behind one address: its flows leave with other ports, and answers find their way back.
// run: --from eth0=in/inside.pcap --from eth1=in/outside.pcap --read nat.nmappings --read nat.mapping_failures
// > nat.nmappings: 2
// > nat.mapping_failures: 0
// > eth0: 2 packets
// > eth1: 3 packets
// > in 6, begun 0, out 5, used 0, dropped 1, held 0

inside :: FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] nat :: IPRewriter(
    pattern 192.0.2.1 1024-65535 - - 0 1,
    drop);
outside :: FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] nat;

nat [0] -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:fe) -> Queue -> ToDevice(eth1);
nat [1] -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:0a) -> Queue -> ToDevice(eth0);
