# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PLAN for applications: packets and values as bytes, and a PLAN port of a node.

A program is written and checked by `anode plan`, which also makes a packet of it; this module takes such a packet,
gives it other arguments, injects it, and reads the values that come back. Standard library only.

    import anode_plan as plan
    ping = plan.Packet.decode(open("ping.packet", "rb").read())   # anode plan inject ping.plan 9 'ping(…)' -o ping.packet
    with plan.Port("n1") as here:                                 # or plan.Port(("127.0.0.1", 3324))
        ping.chunk.arguments = [here.addresses[0], plan.host("10.0.0.3")]
        here.inject(ping)
        print(here.receive(timeout=2))

PLAN's values are Python's: None for (), bool, int, str, bytes for blobs, tuple, list, `ipaddress` objects for hosts; and
Char, Chunk, PortId, Key, Exn, Dev, Service for the others. A string of PLAN is bytes: text is UTF-8 both ways, and bytes
that are no UTF-8 come as Python's surrogate escapes, which go back as the same bytes. Whatever cannot be sent, and
whatever is read that is no packet, is `Malformed`.
"""

import ipaddress
import os
import socket
import struct
from dataclasses import dataclass

import anode
from anode_plan_form import NAMES, Char, Chunk, Dev, Exn, Key, Malformed, PortId, Service, host  # noqa: F401
from anode_plan_form import Reader, Writer, byte_string, whole

#: The version of packets that this module speaks.
VERSION = 1
#: Bytes of a packet's fixed header.
FIXED = 84
_FIXED = struct.Struct("!BBHIIQ16s16s16s16s")
_BY_DIGEST, _REPORT = 1, 2
_ATTACH, _SEND, _CLOSE = 0x11, 0x12, 0x13
_ATTACHED, _PRINTED, _DELIVERED, _OPENED, _CLOSED, _REFUSED = 0x90, 0x91, 0x92, 0x93, 0x94, 0x8F
_MESSAGE = 65536

_NOWHERE = ipaddress.IPv6Address(0)


def _address(address):
    try:
        return anode.pack_address(address)
    except ValueError as error:
        raise Malformed(f"{address!r} is no address") from error


@dataclass
class Packet:
    """A PLAN packet. Addresses are `ipaddress` objects; a node fills in source, port and session of what is injected."""

    chunk: Chunk
    bound: int = 64
    flow: int = 0
    destination: object = _NOWHERE
    routing: str = "defaultRoute"
    handler: str = "defHandler"
    source: object = _NOWHERE
    previous: object = _NOWHERE
    port: int = 0
    session: bytes = bytes(16)
    report: bool = False

    def encode(self):
        """The bytes."""
        writer = Writer()
        if not isinstance(self.chunk, Chunk):
            raise Malformed(f"a packet carries a Chunk, not {self.chunk!r}")
        writer.collect(self.chunk)
        addresses = [_address(each) for each in (self.source, self.destination, self.previous)]
        flags = _REPORT if self.report else 0
        session = self.session.data if isinstance(self.session, Key) else self.session
        numbers = [whole(self.bound, 32), whole(self.flow, 32), whole(self.port, 64)]
        writer.out += _FIXED.pack(VERSION, flags, 0, *numbers, byte_string(session, "a session", 16), *addresses)
        writer.name(self.routing)
        writer.name(self.handler)
        writer.number(len(writer.codes))
        for code in writer.codes:
            writer.data(code)
        writer.chunk(self.chunk)
        return bytes(writer.out)

    @classmethod
    def decode(cls, raw):
        """The packet in these bytes; `Malformed` if they are none."""
        raw = byte_string(raw, "a packet")
        if len(raw) < FIXED:
            raise Malformed(f"a PLAN packet has at least {FIXED} bytes, these are {len(raw)}")
        version, flags, zero, bound, flow, port, session, *addresses = _FIXED.unpack_from(raw)
        if version != VERSION or flags & ~_REPORT or zero:
            raise Malformed(f"PLAN packet version {version} with flags {flags}; only version 1 with whole codes is known")
        source, destination, previous = map(anode.unpack_address, addresses)
        reader = Reader(raw)
        reader.at = FIXED
        routing, handler = reader.name(), reader.name()
        reader.codes = [bytes(reader.data()) for _ in range(reader.number())]
        chunk = reader.chunk(0)
        if reader.at != len(raw):
            raise Malformed("bytes follow the packet")
        return cls(
            chunk, bound, flow, destination, routing, handler, source, previous, port, session, bool(flags & _REPORT)
        )


@dataclass
class Printed:
    """A text that was printed."""

    text: str


@dataclass
class Delivered:
    """A value that was delivered to a port of ours, and the packet that did it."""

    port: int
    value: object
    packet: Packet


@dataclass
class Opened:
    """A connection to the number that we listen as."""

    port: int
    source: object
    number: int


@dataclass
class Closed:
    """The end of a connection."""

    port: int


class Port:
    """A PLAN port at a node. Closing it frees the port."""

    def __init__(self, node, listen=0, timeout=10.0):
        """Attaches to a node by name, run directory or (address, TCP port), to listen as `listen` if that is not 0."""
        self._framed = not isinstance(node, str)
        try:
            if self._framed:
                self._socket = socket.create_connection(node, timeout)
            else:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._socket.connect(os.path.join(anode.run_dir(node), "apps.sock"))
        except OSError as error:
            raise anode.NotRunning(f"no node answers at {node}: {error}; start it: anode node run CONFIG.toml") from error
        try:
            self._say(struct.pack("!BI", _ATTACH, listen))
            message = self._hear(timeout)
            if message is None or message[0] != _ATTACHED or len(message) < 25 or (len(message) - 25) % 16:
                raise anode.Error("the node does not answer in time, or not as expected")
        except BaseException:
            self._socket.close()
            raise
        #: The port, by which programs that are injected here answer.
        (self.port,) = struct.unpack_from("!Q", message, 1)
        #: The key of the session.
        self.session = Key(message[9:25])
        #: The node's addresses.
        self.addresses = [anode.unpack_address(message[at : at + 16]) for at in range(25, len(message), 16)]

    def inject(self, packet):
        """Injects a packet; a refusal is raised by the next `receive`."""
        self._say(bytes([_SEND]) + packet.encode())

    def close_connection(self, port):
        """Closes a connection to this application."""
        self._say(struct.pack("!BQ", _CLOSE, port))

    def receive(self, timeout=None):
        """What comes next: Printed, Delivered, Opened or Closed; None after `timeout` seconds (None: waits for ever)."""
        message = self._hear(timeout)
        if message is None:
            return None
        kind, body = message[0], message[9:]
        (port,) = struct.unpack_from("!Q", message, 1) if len(message) >= 9 else (0,)
        if kind == _PRINTED:
            return Printed(body.decode("utf-8", "replace"))
        if kind == _DELIVERED:
            packet = Packet.decode(body)
            if packet.chunk.service != "deliver" or len(packet.chunk.arguments) != 2:
                raise Malformed("what was delivered is no value")
            return Delivered(port, packet.chunk.arguments[1], packet)
        if kind == _OPENED and len(body) == 20:
            return Opened(port, anode.unpack_address(body[:16]), int.from_bytes(body[16:], "big"))
        if kind == _CLOSED:
            return Closed(port)
        raise Malformed(f"the node sent a message of kind {kind:#04x}, which this client does not know")

    def _say(self, message):
        self._socket.sendall(struct.pack("!I", len(message)) + message if self._framed else message)

    def _hear(self, timeout):
        self._socket.settimeout(timeout)
        try:
            message = self._frame() if self._framed else self._socket.recv(_MESSAGE)
        except (socket.timeout, BlockingIOError):
            return None
        if not message:
            raise anode.NotRunning("the node has closed the connection")
        if message[0] == _REFUSED:
            raise anode.Refused(message[1:].decode(errors="replace"))
        return message

    def _frame(self):
        """A message with its length before it. Once it has begun, it is waited for."""
        head = self._socket.recv(1)
        if not head:
            return b""
        self._socket.settimeout(10)
        (length,) = struct.unpack("!I", head + self._exactly(3))
        if length > _MESSAGE:
            raise Malformed(f"a message of {length} bytes")
        return self._exactly(length)

    def _exactly(self, count):
        message = b""
        while len(message) < count:
            more = self._socket.recv(count - len(message))
            if not more:
                raise anode.NotRunning("the connection ended in the middle of a message")
            message += more
        return message

    def close(self):
        """Frees the port."""
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
