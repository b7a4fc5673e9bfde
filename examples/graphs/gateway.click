// A gateway for pings, too, and for what routers say about flows: errors go to whom they are about, behind the gateway.
// run: --from eth0=in/homes.pcap --from eth1=in/world.pcap --read pings.nmappings --read rw.nmappings
// > pings.nmappings: 2
// > rw.nmappings: 1
// > eth1: 4 packets
// > eth0: 4 packets
// > in 12, begun 0, out 8, used 0, dropped 4, held 0

AddressInfo(
    inner 10.0.0.1 10.0.0.0/24 2:0:0:0:0:1,
    outer 192.0.2.1 2:0:0:0:0:2,
    home 2:0:0:0:0:a,
    world 2:0:0:0:0:fe);

IPRewriterPatterns(
    to_world outer 1024-65535 - -,
    pings_to_world outer 1-65535 - -);

rw :: IPRewriter(pattern to_world 0 1, drop);
pings :: ICMPPingRewriter(pattern pings_to_world 0 1, drop);
errors_out, errors_in :: ICMPRewriter(rw pings);

// Who sends an error is as hidden as who sends anything else.
from_home :: IPClassifier(icmp type echo, icmp, tcp or udp, -);
from_world :: IPClassifier(
    icmp type echo-reply,
    icmp type unreachable or icmp type timeexceeded,
    dst host outer and (tcp or udp),
    -);
to_world :: EtherEncap(0x0800, outer, world) -> Queue -> ToDevice(eth1);
to_home :: EtherEncap(0x0800, inner, home) -> Queue -> ToDevice(eth0);

FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> from_home;
from_home [0] -> [0] pings;
from_home [1] -> errors_out -> to_world;
from_home [2] -> [0] rw;
from_home [3] -> Discard;

FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> from_world;
from_world [0] -> [1] pings;
from_world [1] -> errors_in -> to_home;
from_world [2] -> [1] rw;
from_world [3] -> Discard;

pings [0] -> to_world;
pings [1] -> to_home;
rw [0] -> to_world;
rw [1] -> to_home;
