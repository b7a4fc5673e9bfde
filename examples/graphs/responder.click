// A host that is not there: it answers questions for its address, and pings.
// run: --from eth0=in/host.pcap
// > eth0: 2 packets
// > in 3, begun 0, out 2, used 0, dropped 1, held 0

FromDevice(eth0) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
out :: Queue -> ToDevice(eth0);
c [0] -> ARPResponder(10.0.0.9 02:00:00:00:00:09) -> out;
c [1] -> EtherMirror -> MarkIPHeader(14) -> IPClassifier(dst 10.0.0.9 && icmp type echo)
    -> ICMPPingResponder -> out;
c [2] -> Discard;
