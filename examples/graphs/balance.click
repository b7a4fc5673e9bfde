// Flows are spread over two links by their addresses; those of one flow take one link.
// run: --from eth0=in/mixed.pcap --read a.count --read b.count
// > a.count: 6
// > b.count: 1
// > eth1: 6 packets
// > eth2: 1 packets
// > in 7, begun 0, out 7, used 0, dropped 0, held 0

FromDevice(eth0) -> h :: HashSwitch(26, 8);
h [0] -> a :: Counter -> Queue -> ToDevice(eth1);
h [1] -> b :: Counter -> Queue -> ToDevice(eth2);
