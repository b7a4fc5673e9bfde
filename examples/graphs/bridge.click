// A bridge of three links that learns where stations are.
// run: --from eth0=in/bridge0.pcap --from eth1=in/bridge1.pcap --from eth2=in/bridge2.pcap --read b.table
// > b.table: 02:00:00:00:00:0a 0
// > 02:00:00:00:00:0b 1
// > 02:00:00:00:00:0c 2
// > eth0: 2 packets
// > eth1: 1 packets
// > eth2: 2 packets
// > in 4, begun 1, out 5, used 0, dropped 0, held 0

b :: EtherSwitch;
FromDevice(eth0) -> [0] b [0] -> Queue -> ToDevice(eth0);
FromDevice(eth1) -> [1] b [1] -> Queue -> ToDevice(eth1);
FromDevice(eth2) -> [2] b [2] -> Queue -> ToDevice(eth2);
