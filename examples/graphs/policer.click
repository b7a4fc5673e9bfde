// What is beyond a rate is marked as worth less.
// run: --for 1 --read in.count --read marked.count
// > in.count: 1000
// > marked.count: 895
// > eth0: 1000 packets
// > in 0, begun 1000, out 1000, used 0, dropped 0, held 0

RatedSource(RATE 1000, LIMIT 1000) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> in :: Counter
    -> m :: Meter(100);
m [0] -> q :: Queue(2000) -> ToDevice(eth0);
m [1] -> SetIPDSCP(8) -> marked :: Counter -> q;
