AddressInfo(lan 10.0.1.2/24 $LAN_MAC, wan 10.0.2.1/24 $WAN_MAC);

elementclass Entrance { $device, $own, $color |
    FromDevice($device)
        -> HostEtherFilter($own)
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
    c [0] -> ARPResponder($own) -> [1] output;
    c [1] -> [2] output;
    c [2] -> Paint($color) -> Strip(14) -> k :: CheckIPHeader(INTERFACES 10.0.1.2/24 10.0.2.1/24) -> [0] output;
    k [1] -> [3] output;
}

elementclass Exit { $address, $color, $mtu |
    input
        -> DropBroadcasts
        -> p :: PaintTee($color)
        -> o :: IPGWOptions($address)
        -> FixIPSrc($address)
        -> t :: DecIPTTL
        -> f :: IPFragmenter($mtu)
        -> output;
    p [1] -> ICMPError(lan, redirect, host) -> [1] output;
    o [1] -> ICMPError(lan, parameterproblem) -> [1] output;
    t [1] -> ICMPError(lan, timeexceeded) -> [1] output;
    f [1] -> ICMPError(lan, unreachable, needfrag, MTU $mtu) -> [1] output;
}

rt :: RadixIPLookup(
    10.0.1.2/32 0,
    10.0.2.1/32 0,
    10.0.1.0/24 1,
    10.0.2.0/24 2,
    0.0.0.0/0 3);

in0 :: Entrance(to-a, lan, 1) -> rt;
in1 :: Entrance(to-b, wan, 2) -> rt;
arp0 :: ARPQuerier(lan);
arp1 :: ARPQuerier(wan);
q0 :: Queue(1000) -> ToDevice(to-a);
q1 :: Queue(1000) -> ToDevice(to-b);

in0 [1] -> q0;
in1 [1] -> q1;
in0 [2] -> [1] arp0;
in1 [2] -> [1] arp1;
in0 [3] -> bad :: Counter -> Discard;
in1 [3] -> bad;

rt [0] -> me :: IPClassifier(icmp type echo, -);
me [0] -> ICMPPingResponder -> Paint(0) -> rt;
me [1] -> Discard;
rt [1] -> e0 :: Exit(lan, 1, 1500) -> [0] arp0 -> q0;
rt [2] -> e1 :: Exit(wan, 2, 1000) -> [0] arp1 -> q1;
rt [3] -> ICMPError(lan, unreachable, net) -> rt;
e0 [1] -> rt;
e1 [1] -> rt;
