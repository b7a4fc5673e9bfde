// Two queues before one slow link: voice always goes before all else.
// run: --from eth0=in/voice.pcap --for 0 --read voice.count --read rest.count
// > voice.count: 2
// > rest.count: 2
// > eth1: 4 packets
// > in 4, begun 0, out 4, used 0, dropped 0, held 0

FromDevice(eth0) -> MarkIPHeader(14) -> c :: IPClassifier(ip dscp 46, -);
c [0] -> Queue -> voice :: Counter -> [0] s :: PrioSched;
c [1] -> Queue -> rest :: Counter -> [1] s;
s -> ToDevice(eth1);
