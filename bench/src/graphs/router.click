// An IP router between r0 and r1, written for this benchmark after what Click's published router does.

AddressInfo(left 198.18.1.254/24 02:00:00:00:01:fe, right 198.18.2.254/24 02:00:00:00:02:fe);

elementclass Entrance { $device, $own, $color |
    from :: FromDevice($device, METHOD LINUX, SNIFFER true, PROMISC false, BURST 32)
        -> HostEtherFilter($own)
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
    c [0] -> ARPResponder($own) -> [1] output;
    c [1] -> [2] output;
    c [2] -> Paint($color) -> Strip(14) -> CheckIPHeader(INTERFACES 198.18.1.254/24 198.18.2.254/24) -> [0] output;
}

elementclass Exit { $address, $color |
    input
        -> DropBroadcasts
        -> p :: PaintTee($color)
        -> o :: IPGWOptions($address)
        -> FixIPSrc($address)
        -> t :: DecIPTTL
        -> f :: IPFragmenter(1500)
        -> output;
    p [1] -> ICMPError($address, redirect, host) -> [1] output;
    o [1] -> ICMPError($address, parameterproblem) -> [1] output;
    t [1] -> ICMPError($address, timeexceeded) -> [1] output;
    f [1] -> ICMPError($address, unreachable, needfrag) -> [1] output;
}

rt :: RadixIPLookup(
    198.18.1.254/32 0,
    198.18.2.254/32 0,
    198.18.1.0/24 1,
    198.18.2.0/24 2,
    198.19.0.0/16 198.18.2.1 2);

in0 :: Entrance(r0, left, 1) -> rt;
in1 :: Entrance(r1, right, 2) -> rt;
arp0 :: ARPQuerier(left, left, TIMEOUT 0, POLL_TIMEOUT 0);
arp1 :: ARPQuerier(right, right, TIMEOUT 0, POLL_TIMEOUT 0);
q0 :: Queue(1000) -> to0 :: ToDevice(r0, BURST 32);
q1 :: Queue(1000) -> to1 :: ToDevice(r1, BURST 32);

in0 [1] -> q0;
in1 [1] -> q1;
in0 [2] -> [1] arp0;
in1 [2] -> [1] arp1;

rt [0] -> Discard;
rt [1] -> e0 :: Exit(left, 1) -> [0] arp0 -> q0;
rt [2] -> e1 :: Exit(right, 2) -> [0] arp1 -> q1;
e0 [1] -> rt;
e1 [1] -> rt;
