// Packets of voice are marked for those routers that look (RFC 3246).
// run: --from eth0=in/mixed.pcap --read marked.count
// > marked.count: 2
// > eth1: 7 packets
// > in 7, begun 0, out 7, used 0, dropped 0, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> c :: IPClassifier(udp, -);
out :: Queue -> ToDevice(eth1);
c [0] -> SetIPDSCP(46) -> marked :: Counter -> out;
c [1] -> out;
