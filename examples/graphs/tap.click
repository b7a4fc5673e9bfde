// A tap on ordinary traffic: packets pass, and copies of pings are kept in a file.
// run: --from eth0=in/mixed.pcap
// > eth1: 7 packets
// > pings: 2 packets
// > in 7, begun 7, out 9, used 0, dropped 5, held 0

FromDevice(eth0) -> t :: Tee -> Queue -> ToDevice(eth1);
t [1] -> MarkIPHeader(14) -> IPClassifier(icmp) -> ToDump(pings);
