// Three parts of four for one queue, one for another.
// run: --for 0.99 --read a.count --read b.count
// > a.count: 75
// > b.count: 25
// > eth0: 100 packets
// > in 0, begun 300, out 100, used 0, dropped 0, held 200

InfiniteSource(LIMIT 200) -> Queue(200) -> a :: Counter -> [0] s :: StrideSched(3, 1);
InfiniteSource(LIMIT 100) -> Queue(200) -> b :: Counter -> [1] s;
s -> Shaper(100) -> ToDevice(eth0);
