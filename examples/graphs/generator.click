// A generator: five datagrams with all their headers, as fast as they are taken.
// run: --read s.count
// > s.count: 5
// > eth0: 5 packets
// > in 0, begun 5, out 5, used 0, dropped 0, held 0

s :: InfiniteSource(DATA "hello, network", LIMIT 5)
    -> UDPIPEncap(10.0.0.1, 5000, 10.0.0.2, 5001)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Queue
    -> ToDevice(eth0);
