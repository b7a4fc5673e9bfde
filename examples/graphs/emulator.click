// A link that is not there: 8 Mbit/s and 40 ms, with packets of a generator on it, a part of which is sampled.
// run: --read sent.count --read came.count --read came.rate --read sampled.count --for 2
// > sent.count: 50
// > came.count: 50
// > came.rate: 204
// > sampled.count: 25
// > eth1: 50 packets
// > in 0, begun 75, out 50, used 0, dropped 25, held 0

elementclass Sampler { $rate |
    input -> s :: RatedSplitter($rate) -> t :: Tee -> output;
    s [1] -> output;
    t [1] -> [1] output;
}

// 200 packets of 1,000 bytes a second: a millisecond each on the link.
FastUDPSource(200, 50, 1000, 2:0:0:0:0:2, 192.0.2.1, 1234, 2:0:0:0:0:fe, 198.51.100.7, 1234)
    -> SetTimestamp
    -> sent :: Counter
    -> LinkUnqueue(40ms, 8Mbps)
    -> came :: AverageCounter
    -> sample :: Sampler(100)
    -> Queue
    -> ToDevice(eth1);

sample [1] -> Queue -> sampled :: Counter -> TimedSink(1ms);
