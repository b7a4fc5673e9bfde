// Random early detection: packets are dropped before the queue is full.
// run: --for 1 --read q.drops --read q.length
// > q.drops: 0
// > q.length: 48
// > eth0: 501 packets
// > in 0, begun 1000, out 501, used 0, dropped 451, held 48

RatedSource(RATE 1000, LIMIT 1000) -> r :: RED(5, 50, 0.1) -> q :: Queue(100) -> Shaper(500)
    -> ToDevice(eth0);
