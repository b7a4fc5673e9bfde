// Datagrams to port 7 come back to their senders (RFC 862).
// run: --from eth0=in/echo.pcap
// > eth0: 1 packets
// > in 2, begun 0, out 1, used 0, dropped 1, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> c :: IPClassifier(udp dst port 7, -);
c [0] -> IPMirror -> EtherMirror -> Queue -> ToDevice(eth0);
c [1] -> Discard;
