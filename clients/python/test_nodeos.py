# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The binding against a node that runs as a process, without privileges: packets leave by one of its ports and come
back by the other.
"""

import os
import queue
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import nodeos

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NODE = os.path.join(ROOT, "target", "release", "anode")
LIBRARIES = [os.path.join(ROOT, "target", "release", *rest, "libanode1.so") for rest in ([], ["deps"])]
PATIENCE = 60

CONFIG = """
name = "n"
run_dir = "{dir}"
files = "{dir}/files"
[[port]]
udp = "127.0.0.1:{first}"
address = ["10.0.0.1/24"]
neighbours = [{{ address = "10.0.0.2", at = "127.0.0.1:{second}" }}]
[[port]]
udp = "127.0.0.1:{second}"
address = ["10.0.1.1/24"]
neighbours = [{{ address = "10.0.1.2", at = "127.0.0.1:{first}" }}]
[[role]]
name = "ee"
[role.grants]
channels = 8
domains = 8
threads = 4
events = 8
bandwidth = 1_000_000_000
memory_bytes = 67_108_864
files = 10
file_bytes = 1_000_000
[role.streams]
listen = ["127.0.0.1:{third}"]
connect = ["127.0.0.1:{third}"]
"""


def free_ports():
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def free_tcp_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(path, process):
    """Waits until the node listens; it says so by the socket."""
    while process.poll() is None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                return probe.connect(path)
            except OSError:
                os.sched_yield()
    raise AssertionError("the node has ended")


class Header(unittest.TestCase):
    def test_errors_have_the_numbers_of_the_header(self):
        with open(os.path.join(ROOT, "sdk", "anode", "nodeos.h"), encoding="utf-8") as file:
            numbers = dict(re.findall(r"^    AN_(\w+) = (\d+),$", file.read(), re.M))
        self.assertEqual(len(numbers), 15)
        for name, number in numbers.items():
            self.assertEqual(getattr(nodeos, name), int(number), name)


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = [path for path in LIBRARIES if os.path.exists(path)]
        if not found or not os.path.exists(NODE):
            if "CI" in os.environ:
                raise AssertionError("the node and its library must be built")
            raise unittest.SkipTest("SKIPPED: build the node first (make build)")
        cls.lib = nodeos.library(found[0])
        cls.dir = tempfile.TemporaryDirectory()
        first, second = free_ports()
        cls.listened = free_tcp_port()
        config = os.path.join(cls.dir.name, "n.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(dir=cls.dir.name, first=first, second=second, third=cls.listened))
        cls.node = subprocess.Popen([NODE, "node", "run", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.path = os.path.join(cls.dir.name, "nodeos.sock")
        cls.addClassCleanup(cls.dir.cleanup)
        cls.addClassCleanup(cls.node.wait)
        cls.addClassCleanup(cls.node.kill)
        wait_for(cls.path, cls.node)

    def connect(self, **more):
        return nodeos.connect(self.path, lib=self.lib, **more)

    def refuses(self, code, function, *arguments, **more):
        with self.assertRaises(nodeos.Error) as caught:
            function(*arguments, **more)
        self.assertEqual(caught.exception.code, code, caught.exception)

    def test_packets_go_out_by_one_channel_and_come_in_by_another(self):
        came = queue.Queue()
        with self.connect(role="ee", threads=2) as node:
            def deliver(packet, ends):
                came.put((bytes(packet.data), ends))

            node.domain.in_channel("if1/anep", "type 400", deliver, key=[(0, 1, ord("h"), 0xFF)])
            out = node.domain.out_channel("if0/anep", "type 400")
            for number in range(100):
                out.send(b"hello %d" % number, to=("10.0.0.2", 0))
            got = sorted(came.get(timeout=PATIENCE)[0] for _ in range(100))
            self.assertEqual(got, sorted(b"hello %d" % number for number in range(100)))
            usage = node.domain.usage()
            self.assertEqual((usage["packets"], usage["forwarded"], usage["drops"]), (100, 100, 0))

    def test_a_packet_can_be_changed_and_sent_on(self):
        came = queue.Queue()
        with self.connect(role="ee") as node:
            onward = node.domain.out_channel("if0/anep", "type 402")

            def shout(packet, _ends):
                packet.data = bytes(packet.data).upper() + b"!"
                onward.send(packet, to=("10.0.0.2", 0))

            node.domain.in_channel("if1/anep", "type 401", shout)
            node.domain.in_channel("if1/anep", "type 402", lambda packet, _: came.put(bytes(packet.data)))
            node.domain.out_channel("if0/anep", "type 401").send(b"hello", to=("10.0.0.2", 0))
            self.assertEqual(came.get(timeout=PATIENCE), b"HELLO!")

    def test_packets_go_on_into_other_channels(self):
        came = queue.Queue()
        with self.connect(role="ee") as node:
            flow = node.domain.flow(title="behind")
            behind = flow.in_channel("passed", "", lambda packet, ends: came.put((bytes(packet.data), ends[0])))
            ends = (("10.0.0.9", 7), None)
            node.domain.in_channel("if1/anep", "type 405", lambda packet, _: behind.pass_on(packet, ends))
            node.domain.out_channel("if0/anep", "type 405").send(b"onward", to=("10.0.0.2", 0))
            data, source = came.get(timeout=PATIENCE)
            self.assertEqual((data, source[1]), (b"onward", 7))
            behind.destroy()
            packet = node.domain.packet()
            self.refuses(nodeos.ESTALE, behind.pass_on, packet)
            packet.free()

    def test_a_flows_compute_by_the_threads_of_the_domain_above(self):
        came, ran = queue.Queue(), queue.Queue()
        with self.connect(role="ee") as node:
            flow = node.domain.flow(title="one user", timers=1, timer_ms=10)
            flow.in_channel("if1/anep", "type 404", lambda packet, _: came.put(bytes(packet.data)))
            out = flow.out_channel("if0/anep", "type 404")
            flow.event(1, lambda: out.send(b"tick", to=("10.0.0.2", 0)))
            self.assertEqual(came.get(timeout=PATIENCE), b"tick")
            flow.run(lambda: ran.put(1))
            self.assertEqual(ran.get(timeout=PATIENCE), 1)
            flow.event(1000000, lambda: None)
            self.refuses(nodeos.ELIMIT, flow.event, 1, lambda: None)
            self.refuses(nodeos.EINVAL, flow.flow)
            flow.destroy()
            self.refuses(nodeos.ESTALE, flow.run, lambda: None)

    def test_a_classifier_of_its_own_tells_payloads_apart(self):
        own = "(protocol own (hdr_len 2) (field kind offset 0 length 1) (field user offset 1 length 1 flow))"
        with self.connect(role="ee") as node:
            classifier = node.domain.classifier(own, root="own", mode="all")
            one, more = classifier.add("[own (user = 5) | *]"), classifier.add("[own (user = 4..6) | *]")
            self.assertEqual([classifier.match(b"\1\5"), classifier.match(b"\1\6")], [[one, more], [more]])
            self.assertIn("own, bytes 0 to 2: kind = 1, user = 5", classifier.explain(b"\1\5"))
            with self.assertRaises(nodeos.Error) as caught:
                classifier.add("[own (usr = 5) | *]")
            self.assertIn("do you mean 'user'?", str(caught.exception))
            classifier.remove(more)
            classifier.settle()
            self.assertEqual(classifier.match(b"\1\6"), [])
            self.refuses(nodeos.EEXIST, classifier.unteach, "own")
            classifier.destroy()
            with self.assertRaisesRegex(nodeos.Error, "'ethernet'"):
                node.domain.classifier(root="ethernot")

    def test_soft_state_is_changed_in_one_step(self):
        with self.connect(role="ee") as node:
            domain, keep = node.domain, 60000
            self.assertIsNone(domain.state(1))
            self.assertEqual([domain.state_add(1, 5, keep), domain.state_add(1, 2**64 - 1, keep)], [5, 4])
            self.assertEqual([domain.state_max(1, 3, keep), domain.state_max(1, 9, keep)], [4, 9])
            self.assertFalse(domain.state_exchange(1, 8, [7, 7], keep))
            self.assertTrue(domain.state_exchange(1, 9, [10, 7], keep))
            self.assertEqual(domain.state(1), [10, 7, 0, 0, 0, 0, 0, 0])
            domain.state_put(1, range(8), keep)
            self.assertEqual(domain.state(1), list(range(8)))
            domain.state_put(1, [], 0)
            self.assertIsNone(domain.state(1))
            below = domain.domain()
            below.terminate()
            self.refuses(nodeos.ESTALE, below.state_add, 1, 1, keep)

    def test_a_registry_tells_where_services_are(self):
        told = queue.Queue()
        with self.connect(role="ee", title="directory") as registry, self.connect(role="ee", title="needs") as needs:
            names = registry.domain.store("services", size=4096)
            self.refuses(nodeos.EACCES, needs.domain.store, "services", holder="directory")
            names.share("*", "read")
            seen = needs.domain.store("services", holder="directory")
            self.refuses(nodeos.EACCES, seen.put, b"dns", b"10.0.0.9")
            seen.watch(lambda watch: told.put(watch.changes()), prefix=b"d")
            first = names.put(b"dns", b"10.0.0.7", expected=0)
            self.assertEqual(told.get(timeout=PATIENCE), ([(b"dns", first, False)], 0))
            self.assertEqual(seen.get(b"dns"), (b"10.0.0.7", first))
            self.refuses(nodeos.ECHANGED, names.put, b"dns", b"10.0.0.8", expected=0)
            before = seen.snapshot()
            names.put(b"ntp", bytes(range(256)))
            gone = names.delete(b"dns", expected=first)
            self.assertEqual(told.get(timeout=PATIENCE), ([(b"dns", gone, True)], 0))
            self.assertEqual([key for key, _, _ in seen.keys()], [b"ntp"])
            self.assertEqual(seen.keys(snapshot=before), [(b"dns", 8, first)])
            self.assertEqual((seen.get(b"dns", snapshot=before)[0], seen.get(b"dns")), (b"10.0.0.7", None))
            before.destroy()
            self.assertEqual((names.facts()["keys"], names.facts()["limit"]), (1, 4096))
            self.refuses(nodeos.ELIMIT, names.put, b"large", bytes(5000))
            seen.close()

    def test_what_is_registered_ends_with_its_domain(self):
        with self.connect(role="ee", title="directory") as registry:
            names = registry.domain.store("services", size=4096)
            names.share("*", "write")
            with self.connect(role="ee", title="resolver") as service:
                theirs = service.domain.store("services", holder="directory")
                self.assertEqual(theirs.register(b"dns", b"10.0.0.7:53", expected=0), 1)
                self.refuses(nodeos.ECHANGED, theirs.register, b"dns", b"", expected=0)
                theirs.put(b"stays", b"")
                below = service.domain.domain()
                below.store("services", holder="directory").register(b"ntp", b"")
                self.assertEqual([key for key, _, _ in names.keys()], [b"dns", b"ntp", b"stays"])
                below.terminate()
                self.assertEqual([key for key, _, _ in names.keys()], [b"dns", b"stays"])

    def test_streams_have_bytes_both_ways(self):
        with self.connect(role="ee") as node:
            channel = node.domain.listen(f"127.0.0.1:{self.listened}")
            self.refuses(nodeos.EACCES, node.domain.listen, "127.0.0.1:1")
            self.refuses(nodeos.EAGAIN, channel.accept, wait_ms=0)
            stream = node.domain.connect(f"127.0.0.1:{self.listened}")
            other, who = channel.accept()
            self.assertEqual(who[0], "127.0.0.1")
            stream.write(b"there")
            stream.finish()
            self.assertEqual((other.read(), other.read()), (b"there", b""))
            other.write(b"back")
            other.close()
            self.assertEqual((stream.read(), stream.read()), (b"back", b""))
            stream.close()
            with socket.create_connection(("127.0.0.1", self.listened), timeout=PATIENCE) as outside:
                inside, who = channel.accept()
                self.assertEqual(who, outside.getsockname())
                outside.sendall(b"hello")
                self.assertEqual(inside.read(), b"hello")
            channel.destroy()
        with self.connect() as anyone:
            self.refuses(nodeos.EACCES, anyone.domain.connect, f"127.0.0.1:{self.listened}")

    def test_the_registry_of_the_page_works(self):
        with open(os.path.join(ROOT, "docs", "nodeos.md"), encoding="utf-8") as file:
            (example,) = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        environment = dict(os.environ, ANODE_NODEOS=self.path, ANODE_LIBRARY=self.lib._name)
        environment["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(
            [sys.executable, "-c", example], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(b'10.0.0.7:53', 1)", done.stdout)

    def test_a_persistent_store_is_there_for_the_next_domain_of_its_holder(self):
        for rounds in range(3):
            with self.connect(role="ee", title="keeper") as node:
                store = node.domain.store("counts", size=4096, persistent=True)
                value, version = store.get(b"rounds") or (b"0", 0)
                self.assertEqual(int(value), rounds)
                store.put(b"rounds", b"%d" % (rounds + 1), expected=version)
                store.sync()
        with self.connect(role="ee", title="keeper") as node:
            node.domain.store("counts", size=4096, persistent=True).remove()
            self.refuses(nodeos.ENOENT, node.domain.store, "counts")

    def test_what_is_refused_raises_with_the_number(self):
        self.refuses(nodeos.ENOENT, nodeos.connect, "/nowhere", lib=self.lib)
        self.refuses(nodeos.ENOENT, self.connect, role="nobody")
        with self.connect() as anyone:
            self.refuses(nodeos.ELIMIT, anyone.domain.out_channel, "if0/anep", "type 403")
        with self.connect(role="ee") as node:
            below = node.domain.domain(threads=2)
            out = below.out_channel("if0/anep", "type 403")
            before = node.now()
            below.terminate()
            self.refuses(nodeos.ESTALE, below.packet)
            self.refuses(nodeos.ESTALE, out.destroy)
            self.assertGreater(node.now(), before)
            below.destroy()
        self.refuses(nodeos.ESTALE, node.now)


if __name__ == "__main__":
    unittest.main()
