// A server behind a router: what comes to port 80 of the router goes to port 8080 of the server.
// run: --from eth1=in/web.pcap --read r.nmappings
// > r.nmappings: 1
// > eth0: 2 packets
// > in 3, begun 0, out 2, used 0, dropped 1, held 0

FromDevice(eth1) -> Strip(14) -> CheckIPHeader
    -> c :: IPClassifier(dst 192.0.2.1 && tcp dst port 80, -);
c [0] -> r :: IPRewriter(pattern - - 10.0.0.80 8080 0 1);
c [1] -> Discard;
r [0] -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:50) -> Queue -> ToDevice(eth0);
r [1] -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:fe) -> Queue -> ToDevice(eth1);
