#!/usr/bin/env python3
"""Makes the captures of these examples: in/ has what comes in, expected/ what must leave.

    pip install scapy && python3 make.py

Nothing of anode is asked: scapy writes the headers and sums, and what a router, a translator or a bridge makes of a packet is
written out below, packet by packet. So the frames here are a second opinion. A test runs each graph over in/ and compares.
"""
import os
from scapy.all import ARP, ICMP, IP, TCP, UDP, Dot1Q, Ether, IPOption_RR, Raw, fragment, raw, wrpcap

HERE = os.path.dirname(os.path.abspath(__file__))
LAN, WAN = "02:00:00:00:00:01", "02:00:00:00:00:02"  # the router's two addresses
A, B, C, GW = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c", "02:00:00:00:00:fe"
ALL = "ff:ff:ff:ff:ff:ff"


def put(name, packets, begin=1.0, step=0.001):
    """Writes a capture, a packet each millisecond; a pair says when."""
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    built = []
    for at, packet in enumerate(packets):
        when, packet = packet if isinstance(packet, tuple) else (begin + at * step, packet)
        packet = Ether(raw(packet))
        packet.time = when
        built.append(packet)
    wrpcap(path, built)


def ip(source, destination, payload, ttl=64, **more):
    return IP(src=source, dst=destination, ttl=ttl, id=7, **more) / payload


def error(router, packet, kind, code, **more):
    """An ICMP error of this router about an IP packet as it came: it quotes at most 548 bytes of it."""
    about = raw(packet)
    return IP(src=router, dst=packet.src, ttl=255, id=more.pop("id"), tos=0xC0) / ICMP(type=kind, code=code, **more) / Raw(about[:548])


def hop(packet):
    """The packet a hop further."""
    further = IP(raw(packet))
    further.ttl -= 1
    del further.chksum
    return IP(raw(further))


# The router.
host, far = "10.0.0.10", "198.51.100.7"
ask = Ether(src=A, dst=ALL) / ARP(op=1, hwsrc=A, psrc=host, pdst="10.0.0.1")
ping_router = ip(host, "10.0.0.1", ICMP(id=1, seq=1) / b"ping")
out = ip(host, far, UDP(sport=4000, dport=53) / b"question")
back = ip(far, host, UDP(sport=53, dport=4000) / b"answer")
last_hop = ip(host, far, UDP(sport=4000, dport=53) / b"too far", ttl=1)
long = ip(host, far, UDP(sport=4000, dport=9) / bytes(800))
long_whole = ip(host, far, UDP(sport=4000, dport=9) / bytes(800), flags="DF")
broadcast_source = ip("10.0.0.255", far, UDP(sport=1, dport=2) / b"x")
near = ip(host, "10.0.0.11", UDP(sport=5, dport=6) / b"a neighbour")
to_lan = lambda packet: Ether(src=LAN, dst=A) / packet
to_wan = lambda packet: Ether(src=WAN, dst=GW) / packet
from_lan = lambda packet: Ether(src=A, dst=LAN) / packet
from_wan = lambda packet: Ether(src=GW, dst=WAN) / packet

arp = lambda op, mac, address, asked, to="00:00:00:00:00:00": ARP(op=op, hwsrc=mac, psrc=address, hwdst=to, pdst=asked)
put("in/lan.pcap", [
    (1.000, ask),
    (1.001, from_lan(ping_router)),
    (1.050, from_lan(arp(2, A, host, "10.0.0.1", LAN))),
    (1.100, from_lan(out)),
    (1.200, from_lan(last_hop)),
    (1.300, from_lan(long)),
    (1.400, from_lan(long_whole)),
    (1.500, from_lan(broadcast_source)),
    (1.600, Ether(src=A, dst=ALL) / out),
])
put("in/wan.pcap", [
    (1.120, from_wan(arp(2, GW, "192.0.2.254", "192.0.2.1", WAN))),
    (1.150, from_wan(back)),
    (1.160, Ether(src=A, dst=LAN) / out),
    (1.700, Ether(src=GW, dst=ALL) / arp(1, GW, "192.0.2.254", "192.0.2.1")),
])
pong = ip("10.0.0.1", host, ICMP(type=0, id=1, seq=1) / b"ping")
put("expected/router/eth0.pcap", [
    to_lan(arp(2, LAN, "10.0.0.1", host, A)),
    Ether(src=LAN, dst=ALL) / arp(1, LAN, "10.0.0.1", host),
    to_lan(hop(pong)),
    to_lan(hop(back)),
    to_lan(hop(error("10.0.0.1", last_hop, 11, 0, id=1))),
    to_lan(hop(error("10.0.0.1", hop(long_whole), 3, 4, id=1))),
])
put("expected/router/eth1.pcap", [
    Ether(src=WAN, dst=ALL) / arp(1, WAN, "192.0.2.1", "192.0.2.254"),
    to_wan(hop(out)),
    *[to_wan(piece) for piece in fragment(hop(long), fragsize=552)],
    to_wan(arp(2, WAN, "192.0.2.1", "192.0.2.254", GW)),
])

# Flows from inside, their answers to a router that translates, and to the hosts themselves.
web, names = "198.51.100.7", "198.51.100.53"
flows = [
    ip(host, web, TCP(sport=4000, dport=80, flags="S", seq=100)),
    ip("10.0.0.11", names, UDP(sport=5300, dport=53) / b"name?"),
    ip(host, web, TCP(sport=4000, dport=80, flags="A", seq=101, ack=501)),
]
put("in/inside.pcap", [from_lan(packet) for packet in flows])


def answers(first, second):
    """To these two ends, and one that nobody has asked for."""
    return [
        ip(web, first[0], TCP(sport=80, dport=first[1], flags="SA", seq=500, ack=101)),
        ip(names, second[0], UDP(sport=53, dport=second[1]) / b"a name"),
        ip("203.0.113.9", first[0], TCP(sport=80, dport=first[1], flags="SA")),
    ]


translated = answers(("192.0.2.1", 1024), ("192.0.2.1", 1025))
plain = answers((host, 4000), ("10.0.0.11", 5300))
put("in/outside.pcap", [from_wan(packet) for packet in translated], begin=2)
put("in/answers.pcap", [from_wan(packet) for packet in plain], begin=2)
put("expected/nat/eth1.pcap", [
    to_wan(ip("192.0.2.1", web, TCP(sport=1024, dport=80, flags="S", seq=100))),
    to_wan(ip("192.0.2.1", names, UDP(sport=1025, dport=53) / b"name?")),
    to_wan(ip("192.0.2.1", web, TCP(sport=1024, dport=80, flags="A", seq=101, ack=501))),
])
put("expected/nat/eth0.pcap", [to_lan(packet) for packet in plain[:2]])
put("expected/stateful/eth1.pcap", [from_lan(packet) for packet in flows])
put("expected/stateful/eth0.pcap", [from_wan(packet) for packet in plain[:2]])

# A server behind a router.
client = "203.0.113.9"
visit = lambda to, port, flags: ip(client, to, TCP(sport=999, dport=port, flags=flags))
put("in/web.pcap", [from_wan(visit("192.0.2.1", 80, "S")), from_wan(visit("192.0.2.1", 80, "A")), from_wan(visit("192.0.2.1", 22, "S"))])
server = lambda packet: Ether(src=LAN, dst="02:00:00:00:00:50") / packet
put("expected/forwarding/eth0.pcap", [server(visit("10.0.0.80", 8080, "S")), server(visit("10.0.0.80", 8080, "A"))])

# Traffic of several kinds.
mixed = [
    ip(host, "192.0.2.80", ICMP(id=2, seq=1)),
    ip(host, "192.0.2.80", ICMP(type=0, id=2, seq=1)),
    ip(host, "192.0.2.53", UDP(sport=5300, dport=53) / b"name?"),
    ip(host, "192.0.2.80", TCP(sport=4000, dport=80, flags="S")),
    ip(host, "192.0.2.80", TCP(sport=4001, dport=22, flags="S")),
    ip("203.0.113.5", "192.0.2.80", TCP(sport=4002, dport=80, flags="S")),
    ip(host, "192.0.2.80", UDP(sport=5301, dport=9999) / b"?"),
]
put("in/mixed.pcap", [from_lan(packet) for packet in mixed])
put("expected/firewall/eth1.pcap", [from_lan(packet) for packet in mixed[:4]])
put("expected/tap/eth1.pcap", [from_lan(packet) for packet in mixed])
put("expected/tap/pings.pcap", [from_lan(packet) for packet in mixed[:2]])


def marked(packet, dscp):
    other = IP(raw(packet))
    other.tos = dscp << 2
    del other.chksum
    return IP(raw(other))


put("expected/marks/eth1.pcap", [from_lan(marked(it, 46) if UDP in it else it) for it in mixed])
put("in/voice.pcap", [from_lan(marked(it, 46) if at % 2 else it) for at, it in enumerate(mixed[:4])])

# A bridge.
frame = lambda source, target, text: Ether(src=source, dst=target, type=0x9000) / Raw(text)
one, two, three, four = frame(A, B, b"one"), frame(A, C, b"two"), frame(B, A, b"three"), frame(C, A, b"four")
put("in/bridge0.pcap", [(1.0, one), (1.5, two)])
put("in/bridge1.pcap", [(1.1, three)])
put("in/bridge2.pcap", [(1.2, four)])
put("expected/bridge/eth0.pcap", [three, four])
put("expected/bridge/eth1.pcap", [one])
put("expected/bridge/eth2.pcap", [one, two])

# VLANs.
tagged = lambda vlan, packet, priority=0: Ether(src=A, dst=LAN) / Dot1Q(vlan=vlan, prio=priority) / packet
put("in/trunk.pcap", [tagged(10, flows[0]), tagged(30, flows[1]), tagged(10, flows[2], 5)])
put("expected/vlan/access.pcap", [from_lan(flows[0]), from_lan(flows[2])])
put("expected/vlan/backbone.pcap", [Ether(src=LAN, dst=WAN) / Dot1Q(vlan=20) / packet for packet in (flows[0], flows[2])])

# A generator.
datagram = lambda number: IP(src="10.0.0.1", dst="10.0.0.2", ttl=100, id=number) / UDP(sport=5000, dport=5001) / b"hello, network"
put("expected/generator/eth0.pcap", [Ether(src=LAN, dst=WAN) / datagram(number) for number in range(1, 6)])

# Hosts that are not there.
absent = "10.0.0.9"
put("in/host.pcap", [
    Ether(src=A, dst=ALL) / arp(1, A, host, absent),
    Ether(src=A, dst="02:00:00:00:00:09") / ip(host, absent, ICMP(id=3, seq=9) / b"there?"),
    Ether(src=A, dst="02:00:00:00:00:09") / ip(host, "10.0.0.8", ICMP(id=3, seq=9) / b"there?"),
])
put("expected/responder/eth0.pcap", [
    Ether(src="02:00:00:00:00:09", dst=A) / arp(2, "02:00:00:00:00:09", absent, host, A),
    Ether(src="02:00:00:00:00:09", dst=A) / ip(absent, host, ICMP(type=0, id=3, seq=9) / b"there?"),
])
put("in/echo.pcap", [from_lan(ip(host, absent, UDP(sport=40, dport=port) / b"echo")) for port in (7, 8)])
put("expected/echo/eth0.pcap", [Ether(src=LAN, dst=A) / ip(absent, host, UDP(sport=7, dport=40) / b"echo")])

# A tunnel.
tunnelled = [IP(src="192.0.2.1", dst="198.51.100.1", ttl=64, id=at, proto=4) / packet for at, packet in enumerate(flows, 1)]
put("expected/tunnel/eth1.pcap", [to_wan(packet) for packet in tunnelled])
put("in/tunnelled.pcap", [*[to_wan(packet) for packet in tunnelled], to_wan(back)])
put("expected/tunnel-end/eth0.pcap", [to_lan(packet) for packet in flows])

# Packets that are too long, and packets that are damaged.
longer = ip(host, far, UDP(sport=4000, dport=9) / (bytes(range(200)) * 7))
put("in/long.pcap", [from_lan(longer), from_lan(long_whole)])
put("expected/fragments/eth1.pcap", [to_wan(piece) for piece in fragment(longer, fragsize=552)])
udp = ip(host, far, UDP(sport=1, dport=2) / b"good")
tcp = ip(host, far, TCP(sport=1, dport=2) / b"good")


def damaged(packet, at):
    bytes_ = bytearray(raw(packet))
    bytes_[at] ^= 1
    return IP(bytes(bytes_))


put("in/damaged.pcap", [from_lan(it) for it in (udp, damaged(udp, 30), tcp, damaged(tcp, 41), damaged(udp, 15))])
put("expected/checks/eth1.pcap", [from_lan(udp), from_lan(tcp)])
put("expected/rings/eth0.pcap", [three])
put("expected/rings/eth1.pcap", [one, two])

# A gateway for pings and for errors about flows; three of these are about nothing that it knows, or from nobody in particular.
home_host, outer = "10.0.0.10", "192.0.2.1"
ping = lambda source, destination, identifier, kind=8: ip(source, destination, ICMP(type=kind, id=identifier, seq=1) / b"are you there?")
asked = ip(home_host, web, UDP(sport=4000, dport=53) / b"question")
answered = ip(web, home_host, UDP(sport=53, dport=4000) / b"answer")


def renamed(packet, **ends):
    """The packet with other ends, and sums made anew."""
    other = IP(raw(packet))
    for name, value in ends.items():
        layer = other if name in ("src", "dst") else other.payload
        setattr(layer, name, value)
    del other.chksum, other.payload.chksum
    return IP(raw(other))


out_there = lambda packet, port: renamed(packet, src=outer, sport=port)
first, second = ping(home_host, web, 7), ping("10.0.0.11", web, 7)
put("in/homes.pcap", [
    (1.00, from_lan(first)),
    (1.01, from_lan(second)),
    (1.02, from_lan(asked)),
    (1.20, from_lan(error(home_host, answered, 3, 3, id=9))),
    (1.21, from_lan(error(home_host, ip(web, home_host, UDP(sport=54, dport=4000) / b"unasked"), 3, 3, id=9))),
])
asked_outside = out_there(asked, 1024)
first_outside, second_outside = renamed(first, src=outer, id=1), renamed(second, src=outer, id=2)
put("in/world.pcap", [
    (1.10, from_wan(ping(web, outer, 2, 0))),
    (1.11, from_wan(ping(web, outer, 1, 0))),
    (1.12, from_wan(renamed(answered, dst=outer, dport=1024))),
    (1.13, from_wan(error("203.0.113.1", asked_outside, 11, 0, id=5))),
    (1.14, from_wan(ping(web, outer, 3, 0))),
    (1.15, from_wan(error("203.0.113.1", out_there(asked, 1025), 11, 0, id=5))),
    (1.30, from_lan(second)),
])
put("expected/gateway/eth1.pcap", [
    to_wan(first_outside),
    to_wan(second_outside),
    to_wan(asked_outside),
    to_wan(error(outer, renamed(answered, dst=outer, dport=1024), 3, 3, id=9)),
])
put("expected/gateway/eth0.pcap", [
    to_lan(ping(web, "10.0.0.11", 7, 0)),
    to_lan(ping(web, home_host, 7, 0)),
    to_lan(answered),
    to_lan(error("203.0.113.1", asked, 11, 0, id=5)),
])

# What a generator sends over a link that is not there.
generated = Ether(src=WAN, dst=GW) / IP(src=outer, dst=far, ttl=64, id=0) / UDP(sport=1234, dport=1234) / bytes(1000 - 42)
put("expected/emulator/eth1.pcap", [generated] * 50)

# A client of FTP, which announces two places: its own, twice, since the first answer does not come, and one that is not its own.
waits = 78 * 256 + 52
control = lambda flags, seq, ack, said=b"", sport=4000: ip(home_host, web, TCP(sport=sport, dport=21, flags=flags, seq=seq, ack=ack) / said)
server = lambda flags, seq, ack, said=b"", to=(outer, 40000): ip(
    web, to[0], TCP(sport=21, dport=to[1], flags=flags, seq=seq, ack=ack) / said)
data = lambda to: ip(web, to[0], TCP(sport=20, dport=to[1], flags="S", seq=900))
taken = lambda place: ip(place[0], web, TCP(sport=place[1], dport=20, flags="SA", seq=700, ack=901))
own, foreign = b"PORT 10,0,0,10,78,52\r\n", b"PORT 10,0,0,99,78,52\r\n"
put("in/client.pcap", [
    (1.00, from_lan(control("S", 100, 0))),
    (1.02, from_lan(control("PA", 101, 501, own))),
    (1.03, from_lan(control("PA", 101, 501, own))),
    (1.06, from_lan(taken((home_host, waits)))),
    (1.07, from_lan(control("PA", 123, 509, b"LIST\r\n"))),
    (1.09, from_lan(control("PA", 129, 509, foreign))),
    (1.095, from_lan(damaged(control("PA", 151, 509, own), 59))),
])
put("in/server.pcap", [
    (1.01, from_wan(server("SA", 500, 101))),
    (1.04, from_wan(server("PA", 501, 124, b"200 OK\r\n"))),
    (1.05, from_wan(data((outer, 50000)))),
    (1.08, from_wan(server("A", 509, 130))),
    (1.10, from_wan(data((outer, 50001)))),
])
told = b"PORT 192,0,2,1,195,80\r\n"  # a byte more: what follows has the next number outside
as_outside = lambda packet: renamed(packet, src=outer, sport=40000)
put("expected/ftp/eth1.pcap", [
    to_wan(as_outside(control("S", 100, 0))),
    to_wan(as_outside(control("PA", 101, 501, told))),
    to_wan(as_outside(control("PA", 101, 501, told))),
    to_wan(taken((outer, 50000))),
    to_wan(as_outside(control("PA", 124, 509, b"LIST\r\n"))),
    to_wan(as_outside(control("PA", 130, 509, foreign))),
    to_wan(damaged(as_outside(control("PA", 152, 509, own)), 59)),  # with the sum that it had before the damage
])
inside = (home_host, 4000)
put("expected/ftp/eth0.pcap", [
    to_lan(server("SA", 500, 101, to=inside)),
    to_lan(server("PA", 501, 123, b"200 OK\r\n", to=inside)),
    to_lan(data((home_host, waits))),
    to_lan(server("A", 509, 129, to=inside)),
])
