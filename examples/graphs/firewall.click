// A firewall without state: pings, names and the web may pass; all else ends here, and is counted.
// run: --from eth0=in/mixed.pcap --read bad.count
// > bad.count: 2
// > eth1: 4 packets
// > in 7, begun 0, out 4, used 0, dropped 3, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> f :: IPFilter(
    deny src 203.0.113.0/24,
    allow icmp type echo || icmp type echo-reply,
    allow udp dst port 53,
    allow dst 192.0.2.80 && tcp dst port 80,
    1 all);
f [0] -> Queue -> ToDevice(eth1);
f [1] -> bad :: Counter -> Discard;
