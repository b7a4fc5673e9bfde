// A firewall with state: only flows that begin inside have answers from outside.
// run: --from eth0=in/inside.pcap --from eth1=in/answers.pcap --read r.nmappings
// > r.nmappings: 2
// > eth0: 2 packets
// > eth1: 3 packets
// > in 6, begun 0, out 5, used 0, dropped 1, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> [0] r :: IPRewriter(keep 0 1, drop);
FromDevice(eth1) -> MarkIPHeader(14) -> [1] r;
r [0] -> Queue -> ToDevice(eth1);
r [1] -> Queue -> ToDevice(eth0);
