// Packets that are damaged are found, each kind by itself.
// run: --from eth0=in/damaged.pcap --read ip.drops --read udp.drops --read tcp.drops
// > ip.drops: 1
// > udp.drops: 1
// > tcp.drops: 1
// > eth1: 2 packets
// > in 5, begun 0, out 2, used 0, dropped 3, held 0

FromDevice(eth0) -> Strip(14) -> ip :: CheckIPHeader -> c :: IPClassifier(udp, tcp, -);
out :: Unstrip(14) -> Queue -> ToDevice(eth1);
c [0] -> udp :: CheckUDPHeader -> out;
c [1] -> tcp :: CheckTCPHeader -> out;
c [2] -> out;
