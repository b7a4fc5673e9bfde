// A link of 8 kbit/s: of two hundred frames of 114 bytes that come at once, about nine leave in a second; the queue has room for 100.
// run: --read q.length --read q.drops --read out.count
// > q.length: 92
// > q.drops: 99
// > out.count: 9
// > eth1: 9 packets
// > in 0, begun 200, out 9, used 0, dropped 99, held 92

InfiniteSource(LENGTH 100, LIMIT 200) -> EtherEncap(0x9000, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> q :: Queue(100) -> BandwidthShaper(8kbps) -> out :: Counter -> ToDevice(eth1);
