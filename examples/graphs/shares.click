// Two senders of packets of different lengths have the same share of a link, in bytes.
// run: --for 1 --read a.byte_count --read b.byte_count
// > a.byte_count: 11000
// > b.byte_count: 10100
// > eth0: 111 packets
// > in 0, begun 312, out 111, used 0, dropped 0, held 201

InfiniteSource(LENGTH 1000, LIMIT 112) -> Queue(200) -> a :: Counter -> [0] s :: DRRSched(1000);
InfiniteSource(LENGTH 100, LIMIT 200) -> Queue(200) -> b :: Counter -> [1] s;
s -> BandwidthShaper(20000Bps) -> ToDevice(eth0);
