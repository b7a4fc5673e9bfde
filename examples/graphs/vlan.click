// Frames of one VLAN without their tag, and tagged ones of another.
// run: --from trunk=in/trunk.pcap --read other.count
// > other.count: 1
// > access: 2 packets
// > backbone: 2 packets
// > in 3, begun 2, out 4, used 0, dropped 1, held 0

FromDevice(trunk) -> c :: Classifier(12/8100 14/000a%0fff, -);
c [0] -> t :: Tee -> VLANDecap -> Queue -> ToDevice(access);
t [1] -> VLANDecap -> Strip(14) -> EtherVLANEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02, 20)
    -> Queue -> ToDevice(backbone);
c [1] -> other :: Counter -> Discard;
