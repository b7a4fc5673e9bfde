// A translator that FTP passes: a client announces where it waits, and the server is told where that is outside. A command that is damaged
// on its way stays damaged.
// run: --from eth0=in/client.pcap --from eth1=in/server.pcap --read ports.mapped --read ports.refused --read rw.nmappings
// > ports.mapped: 2
// > ports.refused: 1
// > rw.nmappings: 1
// > eth1: 7 packets
// > eth0: 4 packets
// > in 12, begun 0, out 11, used 0, dropped 1, held 0

IPRewriterPatterns(
    control 192.0.2.1 40000-49999 - -,
    data 192.0.2.1 50000-59999 - -);

tcp_rw :: TCPRewriter(pattern control 0 1, drop);
rw :: IPRewriter(pattern data 0 1, drop);
ports :: FTPPortMapper(tcp_rw, rw, data 0 1);

from_home, from_world :: IPClassifier(dst tcp ftp, src tcp ftp, -);
to_world :: EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:fe) -> Queue -> ToDevice(eth1);
to_home :: EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:0a) -> Queue -> ToDevice(eth0);

FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> from_home;
from_home [0] -> ports -> [0] tcp_rw;
from_home [1] -> [0] rw;
from_home [2] -> [0] rw;

FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> from_world;
from_world [0] -> Discard;
from_world [1] -> [1] tcp_rw;
from_world [2] -> [1] rw;

tcp_rw [0] -> to_world;
tcp_rw [1] -> to_home;
rw [0] -> to_world;
rw [1] -> to_home;
