# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the PLAN client: packets shared with the node's own tests, and a node played by a thread."""

import ipaddress
import json
import os
import socket
import struct
import threading
import unittest

import anode
import anode_plan as plan

VECTORS = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "vectors", "plan.json")


def vectors():
    with open(VECTORS, encoding="utf-8") as file:
        return json.load(file)


class Encoding(unittest.TestCase):
    def test_the_names_are_those_of_the_node(self):
        self.assertEqual(plan.NAMES, vectors()["names"])

    def test_packets_of_the_node_are_read_and_written_again(self):
        for case in vectors()["packets"]:
            with self.subTest(case["name"]):
                raw = bytes.fromhex(case["bytes"])
                packet = plan.Packet.decode(raw)
                self.assertEqual(packet.encode(), raw)
                self.assertEqual(str(packet.destination), case["destination"])
                self.assertEqual((packet.bound, packet.flow, packet.routing), (case["bound"], case["flow"], case["routing"]))

    def test_values_are_pythons(self):
        raw = bytes.fromhex(vectors()["packets"][0]["bytes"])
        (values,) = plan.Packet.decode(raw).chunk.arguments
        self.assertEqual(values[:8], [None, True, False, plan.Char(255), "text", b"blob", (1, None), [-1, 0, 1]])
        self.assertEqual(values[8], ipaddress.ip_address("10.0.0.9"))

    def test_text_is_utf_8_both_ways_and_other_bytes_come_back_as_they_were(self):
        for text, raw in (("grüße ✓", "grüße ✓".encode()), (b"\xff\xc3".decode("utf-8", "surrogateescape"), b"\xff\xc3")):
            encoded = plan.Packet(plan.Chunk("print", arguments=[text])).encode()
            self.assertTrue(encoded.endswith(bytes([5, len(raw)]) + raw))
            self.assertEqual(plan.Packet.decode(encoded).chunk.arguments, [text])

    def test_every_bad_value_is_malformed(self):
        endless = []
        endless.append(endless)
        values = (
            *(1.5, {}, (1,), 1 << 63, -1 - (1 << 63), "\ud800", object(), set(), 1j, endless),
            *(plan.Char(256), plan.Char(-1), plan.Char("a"), plan.PortId(-1), plan.PortId(1 << 64), plan.PortId("x")),
            *(plan.Key(b"short"), plan.Key("x" * 16), plan.Dev(-1), plan.Dev(1 << 32), plan.Dev(None)),
            *(plan.Exn("1x"), plan.Exn("ü"), plan.Exn("a" * 49), plan.Exn(7), plan.Service("a b"), plan.Service(None)),
            *(plan.Chunk("a b"), plan.Chunk("f", arguments=7), plan.Chunk(code="x"), plan.Chunk(code=b"x", function=-1)),
        )
        for bad in values:
            with self.subTest(repr(bad)), self.assertRaises(plan.Malformed):
                plan.Packet(plan.Chunk("print", arguments=[bad])).encode()
        fields = (
            *({"bound": -1}, {"bound": 1 << 32}, {"bound": "x"}, {"flow": 1 << 32}, {"port": -1}, {"session": b"short"}),
            *({"destination": "nowhere"}, {"source": None}, {"routing": "a b"}, {"handler": 7}, {"chunk": None}),
        )
        for bad in fields:
            with self.subTest(repr(bad)), self.assertRaises(plan.Malformed):
                plan.Packet(**{"chunk": plan.Chunk("print", arguments=[1]), **bad}).encode()

    def test_values_that_nodes_do_not_write_are_malformed(self):
        head = plan.Packet(plan.Chunk("print", arguments=[])).encode()[:-1]
        mapped = b"\x0a" + anode.pack_address("10.0.0.1")
        for bad in (b"\x06\x01\x00", mapped, b"\x0f\x80\x80\x80\x80\x10", b"\x10\x01\x02\xc3\xbc", b"\x10\x01\x021x", b"\x11"):
            with self.subTest(bad), self.assertRaises(plan.Malformed):
                plan.Packet.decode(head + b"\x01" + bad)
        for bad in (None, "text", 7, []):
            with self.subTest(bad), self.assertRaises(plan.Malformed):
                plan.Packet.decode(bad)

    def test_what_is_no_packet_is_refused(self):
        raw = bytes.fromhex(vectors()["packets"][0]["bytes"])
        for broken in [raw[:length] for length in range(len(raw))] + [raw + b"\0", b"\2" + raw[1:], raw[:1] + b"\1" + raw[2:]]:
            with self.assertRaises(plan.Malformed):
                plan.Packet.decode(broken)


class Attaching(unittest.TestCase):
    def test_a_port_by_tcp_says_and_hears_what_it_should(self):
        listener = socket.create_server(("127.0.0.1", 0))
        heard = []

        def node():
            connection, _ = listener.accept()
            with connection:
                def frame():
                    (length,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
                    return connection.recv(length, socket.MSG_WAITALL)

                def say(message):
                    connection.sendall(struct.pack("!I", len(message)) + message)

                heard.append(frame())
                say(b"\x90" + (5).to_bytes(8, "big") + b"s" * 16 + anode.pack_address("10.0.0.1"))
                heard.append(frame())
                delivered = plan.Packet(plan.Chunk("deliver", arguments=[plan.PortId(5), [1, 2]]), bound=3)
                say(b"\x91" + bytes(8) + b"text")
                say(b"\x92" + (5).to_bytes(8, "big") + delivered.encode())
                say(b"\x93" + (6).to_bytes(8, "big") + anode.pack_address("10.0.0.2") + (7).to_bytes(4, "big"))
                say(b"\x94" + (6).to_bytes(8, "big"))
                say(b"\x8fno")

        thread = threading.Thread(target=node)
        thread.start()
        packet = plan.Packet(plan.Chunk("print", arguments=[1]), bound=2)
        with plan.Port(listener.getsockname(), listen=9) as port:
            self.assertEqual((port.port, port.session), (5, plan.Key(b"s" * 16)))
            self.assertEqual(port.addresses, [ipaddress.ip_address("10.0.0.1")])
            port.inject(packet)
            self.assertEqual(port.receive(5), plan.Printed("text"))
            self.assertEqual(port.receive(5).value, [1, 2])
            self.assertEqual(port.receive(5), plan.Opened(6, ipaddress.ip_address("10.0.0.2"), 7))
            self.assertEqual(port.receive(5), plan.Closed(6))
            with self.assertRaises(anode.Refused):
                port.receive(5)
        thread.join()
        listener.close()
        self.assertEqual(heard, [b"\x11" + (9).to_bytes(4, "big"), b"\x12" + packet.encode()])


if __name__ == "__main__":
    unittest.main()
