// A router of two networks: it answers ARP and pings to itself, takes a hop off, sends ICMP errors, and cuts what is too long.
// run: --from eth0=in/lan.pcap --from eth1=in/wan.pcap --read arp0.queries --read arp1.queries --read rt.table
// > arp0.queries: 1
// > arp1.queries: 1
// > rt.table: 0.0.0.0/0 192.0.2.254 2
// > 10.0.0.0/24 - 1
// > 10.0.0.1/32 - 0
// > 192.0.2.0/24 - 2
// > 192.0.2.1/32 - 0
// > eth0: 6 packets
// > eth1: 5 packets
// > in 13, begun 6, out 11, used 5, dropped 3, held 0

AddressInfo(lan 10.0.0.1/24 02:00:00:00:00:01, wan 192.0.2.1/24 02:00:00:00:00:02);

elementclass Entrance { $device, $name, $color |
    FromDevice($device)
        -> HostEtherFilter($name)
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
    c [0] -> ARPResponder($name) -> [1] output;
    c [1] -> [2] output;
    c [2] -> Paint($color) -> Strip(14) -> CheckIPHeader(INTERFACES 10.0.0.1/24 192.0.2.1/24)
        -> [0] output;
}

elementclass Exit { $address, $color |
    input
        -> DropBroadcasts
        -> p :: PaintTee($color)
        -> o :: IPGWOptions($address)
        -> FixIPSrc($address)
        -> t :: DecIPTTL
        -> f :: IPFragmenter(576)
        -> output;
    p [1] -> ICMPError($address, redirect, host) -> [1] output;
    o [1] -> ICMPError($address, parameterproblem) -> [1] output;
    t [1] -> ICMPError($address, timeexceeded) -> [1] output;
    f [1] -> ICMPError($address, unreachable, needfrag) -> [1] output;
}

rt :: RadixIPLookup(
    10.0.0.1/32 0,
    192.0.2.1/32 0,
    10.0.0.0/24 1,
    192.0.2.0/24 2,
    0.0.0.0/0 192.0.2.254 2);

in0 :: Entrance(eth0, lan, 1) -> rt;
in1 :: Entrance(eth1, wan, 2) -> rt;
arp0 :: ARPQuerier(lan);
arp1 :: ARPQuerier(wan);
out0 :: Queue(200) -> ToDevice(eth0);
out1 :: Queue(200) -> ToDevice(eth1);

in0 [1] -> out0;
in1 [1] -> out1;
in0 [2] -> [1] arp0;
in1 [2] -> [1] arp1;

rt [0] -> me :: IPClassifier(icmp type echo, -);
me [0] -> ICMPPingResponder -> Paint(0) -> rt;
me [1] -> Discard;
rt [1] -> e0 :: Exit(lan, 1) -> [0] arp0 -> out0;
rt [2] -> e1 :: Exit(wan, 2) -> [0] arp1 -> out1;
e0 [1] -> rt;
e1 [1] -> rt;
