# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the client: bytes shared with the node's own tests, and a node played by a thread."""

import contextlib
import ipaddress
import json
import os
import socket
import tempfile
import threading
import unittest

import anode

VECTORS = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "vectors", "capsule.json")


def vectors():
    with open(VECTORS, encoding="utf-8") as file:
        return json.load(file)


class Encoding(unittest.TestCase):
    def test_capsules_have_the_bytes_that_the_node_expects(self):
        for case in vectors()["capsules"]:
            with self.subTest(case["name"]):
                capsule = anode.Capsule(
                    destination=case["destination"],
                    code=anode.code_name(case["code"]),
                    payload=bytes.fromhex(case["payload"]),
                    bound=case["bound"],
                    app_port=case["app_port"],
                    source=case["source"],
                    previous=case["previous"],
                )
                self.assertEqual(capsule.encode().hex(), case["bytes"])
                decoded = anode.Capsule.decode(bytes.fromhex(case["bytes"]))
                self.assertEqual(decoded.encode().hex(), case["bytes"])
                self.assertEqual(decoded.destination, ipaddress.ip_address(case["destination"]))

    def test_what_is_no_capsule_is_refused(self):
        whole = bytes.fromhex(vectors()["capsules"][0]["bytes"])
        for broken in (b"", whole[: anode.HEADER - 1], b"\x02" + whole[1:], whole[:1] + b"\x01" + whole[2:]):
            with self.assertRaises(anode.Malformed):
                anode.Capsule.decode(broken)

    def test_bundles_have_the_name_that_the_node_gives_them(self):
        case = vectors()["bundle"]
        file = bytes.fromhex(case["file"])
        self.assertEqual(anode.bundle_name(file).hex(), case["name"])
        # With credentials or a line table behind, the manifest stands where it did.
        for magic in (b"ANB2", b"ANB3"):
            self.assertEqual(anode.bundle_name(magic + file[4:]).hex(), case["name"])
        for broken in (b"", b"ANB4" + file[4:], file[:100]):
            with self.assertRaises(anode.Malformed):
                anode.bundle_name(broken)

    def test_code_names_are_bytes_or_digits(self):
        name = bytes(range(32))
        self.assertEqual(anode.code_name(name.hex()), name)
        self.assertEqual(anode.code_name("sha256:" + name.hex()), name)
        with self.assertRaises(anode.Malformed):
            anode.code_name(name[:31])

    def test_run_directories_follow_the_environment(self):
        self.assertEqual(anode.run_dir("/somewhere/n1"), "/somewhere/n1")
        before = os.environ.pop("XDG_RUNTIME_DIR", None)
        try:
            self.assertEqual(anode.run_dir("n1"), "/run/anode/n1")
            os.environ["XDG_RUNTIME_DIR"] = "/x"
            self.assertEqual(anode.run_dir("n1"), "/x/anode/n1")
        finally:
            os.environ.pop("XDG_RUNTIME_DIR", None)
            if before is not None:
                os.environ["XDG_RUNTIME_DIR"] = before


@contextlib.contextmanager
def node(kind, name, serve):
    """A run directory in which `serve(connection)` plays the node."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind(os.path.join(directory, name))
        listener.listen()

        def play():
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield directory
        finally:
            thread.join()


class Sockets(unittest.TestCase):
    def test_an_attachment_sends_and_receives(self):
        case = vectors()["attached"]

        def serve(connection):
            self.assertEqual(connection.recv(100), b"\x01\x00\x00")
            connection.send(bytes.fromhex(case["bytes"]))
            message = connection.recv(1000)
            self.assertEqual(message[0], 2)
            connection.send(b"\x82" + message[1:])
            self.assertEqual(connection.recv(1000), b"")

        with node(socket.SOCK_SEQPACKET, "apps.sock", serve) as directory:
            with anode.Attachment(directory) as here:
                self.assertEqual((here.port, str(here.address)), (case["port"], case["address"]))
                here.send("10.0.0.3", bytes(32), payload=b"hello", bound=7)
                capsule = here.receive(timeout=5)
                self.assertEqual((capsule.payload, capsule.bound, capsule.app_port), (b"hello", 7, here.port))
                self.assertIsNone(here.receive(timeout=0.01))

    def test_refusals_are_raised_in_the_words_of_the_node(self):
        def serve(connection):
            connection.recv(100)
            connection.send(b"\x8f" + "port 7 is in use".encode())

        with node(socket.SOCK_SEQPACKET, "apps.sock", serve) as directory:
            with self.assertRaisesRegex(anode.Refused, "port 7 is in use"):
                anode.Attachment(directory, 7)

    def test_ends_are_told_if_the_node_can_and_not_if_it_cannot(self):
        for answer, told in ((b"\x84", b"\x85\x00\x00\x00\x01no-route: add one"), (b"\x8funknown message", None)):

            def serve(connection, answer=answer, told=told):
                connection.recv(100)
                connection.send(bytes.fromhex(vectors()["attached"]["bytes"]))
                self.assertEqual(connection.recv(100), b"\x04")
                connection.send(answer)
                capsule = connection.recv(1000)
                connection.send(told or b"\x82" + capsule[1:])
                connection.recv(100)

            with node(socket.SOCK_SEQPACKET, "apps.sock", serve) as directory:
                with anode.Attachment(directory) as here:
                    here.tell_ends()
                    here.send("10.0.0.3", bytes(32), payload=b"hello")
                    if told is None:
                        self.assertEqual(here.receive(timeout=5).payload, b"hello")
                        continue
                    with self.assertRaisesRegex(anode.Refused, "no-route: add one") as raised:
                        here.receive(timeout=5)
                    self.assertEqual(raised.exception.number, 1)

    def test_control_asks_line_by_line(self):
        asked = []

        def serve(connection):
            lines = connection.makefile("r")
            for answer in ({"ok": {"node": "n1"}}, {"ok": {}}, {"error": "no such code"}):
                asked.append(json.loads(lines.readline()))
                connection.sendall(json.dumps(answer).encode() + b"\n")

        bundle = bytes.fromhex(vectors()["bundle"]["file"])
        with node(socket.SOCK_STREAM, "control.sock", serve) as directory:
            with anode.Control(directory) as control:
                self.assertEqual(control.status(), {"node": "n1"})
                name = control.add_code(bundle)
                with self.assertRaisesRegex(anode.Refused, "no such code"):
                    control.remove_code(name)
        self.assertEqual([request["do"] for request in asked], ["status", "add-code", "remove-code"])
        self.assertEqual(asked[1]["bundle"], bundle.hex())
        self.assertEqual(asked[2]["name"], name.hex())

    def test_what_is_revoked_is_named_as_the_node_wants_it(self):
        asked = []

        def serve(connection):
            lines = connection.makefile("r")
            for _ in range(3):
                asked.append(json.loads(lines.readline()))
                connection.sendall(json.dumps({"ok": {"codes": 1, "remembered": True}}).encode() + b"\n")

        principal = "ed25519:" + "ab" * 32
        with node(socket.SOCK_STREAM, "control.sock", serve) as directory:
            with anode.Control(directory) as control:
                self.assertEqual(control.revoke(code="sha256:" + "07" * 32)["codes"], 1)
                control.revoke(principal=principal)
                control.revoke(token="08" * 32)
                for wrong in ({}, {"code": bytes(32), "token": "08" * 32}):
                    with self.assertRaisesRegex(anode.Error, "name one to revoke"):
                        control.revoke(**wrong)
                with self.assertRaises(anode.Malformed):
                    control.revoke(code=b"short")
        expected = [("code", "07" * 32), ("principal", principal), ("token", "08" * 32)]
        self.assertEqual(asked, [{"do": "revoke", "what": what, "name": name} for what, name in expected])

    def test_a_node_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(anode.NotRunning, directory):
                anode.Control(directory)


if __name__ == "__main__":
    unittest.main()
