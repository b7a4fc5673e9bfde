// A generator with a rate: one hundred packets a second, for two seconds.
// run: --for 1.995 --read s.count
// > s.count: 200
// > eth0: 200 packets
// > in 0, begun 200, out 200, used 0, dropped 0, held 0

s :: RatedSource(DATA "tick", RATE 100)
    -> EtherEncap(0x9000, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Queue
    -> ToDevice(eth0);
