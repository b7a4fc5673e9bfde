// How many packets of which protocol there are.
// run: --from eth0=in/mixed.pcap --read tcp.count --read udp.count --read icmp.count --read rest.count
// > tcp.count: 3
// > udp.count: 2
// > icmp.count: 2
// > rest.count: 0
// > in 7, begun 0, out 0, used 0, dropped 7, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> c :: IPClassifier(tcp, udp, icmp, -);
c [0] -> tcp :: Counter -> d :: Discard;
c [1] -> udp :: Counter -> d;
c [2] -> icmp :: Counter -> d;
c [3] -> rest :: Counter -> d;
