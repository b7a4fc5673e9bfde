// Two links, of which an operator uses one.
// run: --from eth0=in/mixed.pcap --write s.switch=1 --read s.switch
// > s.switch: 1
// > spare: 7 packets
// > in 7, begun 0, out 7, used 0, dropped 0, held 0

FromDevice(eth0) -> s :: Switch(0);
s [0] -> Queue -> ToDevice(main);
s [1] -> Queue -> ToDevice(spare);
