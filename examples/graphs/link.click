// A link that is long and loses one packet of ten.
// run: --for 2 --read loss.drops --read out.count
// > loss.drops: 7
// > out.count: 93
// > eth0: 93 packets
// > in 0, begun 100, out 93, used 0, dropped 7, held 0

RatedSource(RATE 100, LIMIT 100) -> loss :: RandomSample(DROP 0.1) -> Queue -> DelayShaper(250ms)
    -> out :: Counter -> ToDevice(eth0);
