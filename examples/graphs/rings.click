// Colors say by which way a packet has come, so that none goes back there.
// run: --from eth0=in/bridge0.pcap --from eth1=in/bridge1.pcap
// > eth0: 1 packets
// > eth1: 2 packets
// > in 3, begun 3, out 3, used 0, dropped 3, held 0

FromDevice(eth0) -> Paint(0) -> t :: Tee;
FromDevice(eth1) -> Paint(1) -> t;
t [0] -> zero :: CheckPaint(1) -> Queue -> ToDevice(eth0);
t [1] -> one :: CheckPaint(0) -> Queue -> ToDevice(eth1);
