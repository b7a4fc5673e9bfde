# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The binary form of PLAN's values and chunks (docs/plan.md), used by `anode_plan`."""

import ipaddress
import re
import struct
from dataclasses import dataclass, field

import anode

#: The names that every node knows, by number (plan/src/name.rs).
NAMES = """
 NotEnoughRB NoRoute NotNeighbor BadHost BadPort ServiceNotPresent BadService NotFound FileNotFound DivByZero EmptyList
BadChr TooBig Refused RIPNoRoute eval getRB length abort print defHandler thisHost thisHostIs getSource getHostByName
defaultRoute RIP getNeighbors getSrcDev getMTU getPort openPort deliver getSession put get getFlow fragment getBlobFromFile
installServices time rand closePort getRouteTable flowRoute setFlow memoryUse getPrincipal getHandler getRouting getDest
getPrevious getDevices getHostOn authEval reliably acknowledged reassemble bandwidthReceive bandwidthSend bandwidthCount
bandwidthReport explodeBlob makeBlob sizeOf
""".split()
NAMES.insert(0, "")

_NUMBERS = {name: number for number, name in enumerate(NAMES)}
_DEPTH = 64
#: The longest name, in bytes.
NAME_MAX = 48
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_']*")


class Malformed(anode.Error):
    """Bytes that are no PLAN packet, or a value that cannot be sent."""


def host(address):
    """The host with this address."""
    return ipaddress.ip_address(address)


@dataclass(frozen=True)
class Char:
    """A character: one byte."""

    byte: int


@dataclass(frozen=True)
class PortId:
    """A port of some node."""

    number: int


@dataclass(frozen=True)
class Key:
    """A session key: 16 bytes."""

    data: bytes


@dataclass(frozen=True)
class Exn:
    """An exception."""

    name: str


@dataclass(frozen=True)
class Dev:
    """An interface of some node."""

    number: int


@dataclass(frozen=True)
class Service:
    """A service, by name."""

    name: str


@dataclass
class Chunk:
    """A call to be made elsewhere: of a service if `code` is None, else of the function with number `function` in `code`."""

    service: str = ""
    code: object = None
    function: int = 0
    arguments: list = field(default_factory=list)


def whole(value, bits):
    """A number of so many bits that is not negative; `Malformed` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise Malformed(f"{value!r} is no number of {bits} bits")
    return value


def byte_string(value, what, length=None):
    """Bytes, so many if that is said; `Malformed` if they are not."""
    if not isinstance(value, (bytes, bytearray)) or length is not None and len(value) != length:
        raise Malformed(f"{what} is {'bytes' if length is None else f'{length} bytes'}, not {value!r}")
    return bytes(value)


def identifier(name):
    """A name of a service or exception; `Malformed` if it cannot be one."""
    if not isinstance(name, str) or len(name) > NAME_MAX or not _IDENTIFIER.fullmatch(name):
        raise Malformed(f"{name!r} is no name")
    return name


def text_bytes(text):
    """A string's bytes: UTF-8, but for bytes that came as none."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Malformed(f"{text!r} is no text that can be sent") from error


class Reader:
    def __init__(self, raw):
        self.raw, self.at, self.names, self.codes = raw, 0, [], []

    def take(self, count):
        if count > len(self.raw) - self.at:
            raise Malformed("the packet ends too early")
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self):
        value, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if byte == 0 and shift > 7 or value >> 64:
                    raise Malformed("a number is not in its shortest form")
                return value
            if shift > 63:
                raise Malformed("a number is too large")

    def data(self):
        return self.take(self.number())

    def name(self):
        number = self.number()
        at = number >> 1
        if number & 1 == 0:
            if at >= len(NAMES):
                raise Malformed(f"name number {at} is not known")
            return NAMES[at]
        if at > len(self.names):
            raise Malformed("a name is used before it is given")
        if at == len(self.names):
            self.names.append(identifier(self.data().decode("ascii", "replace")))
        return self.names[at]

    def chunk(self, depth):
        code = self.number()
        if code > len(self.codes):
            raise Malformed("a chunk's code is not in the packet")
        found = Chunk(service=self.name()) if code == 0 else Chunk(code=self.codes[code - 1], function=self.number())
        found.arguments = self.values(depth + 1)
        return found

    def values(self, depth):
        return [self.value(depth) for _ in range(self.number())]

    def tuple(self, depth):
        items = tuple(self.values(depth))
        if len(items) < 2:
            raise Malformed("a tuple has at least two parts")
        return items

    def host6(self):
        found = ipaddress.IPv6Address(self.take(16))
        if found.ipv4_mapped:
            raise Malformed("an IPv4 address stands in the form of IPv6")
        return found

    def value(self, depth):
        if depth > _DEPTH:
            raise Malformed("a value nests too deep")
        (tag,) = self.take(1)
        if tag < 3:
            return (None, False, True)[tag]
        if tag == 3:
            number = self.number()
            return number >> 1 ^ -(number & 1)
        simple = {
            4: lambda: Char(self.take(1)[0]),
            5: lambda: self.data().decode("utf-8", "surrogateescape"),
            6: lambda: self.tuple(depth + 1),
            7: lambda: self.values(depth + 1),
            8: lambda: self.chunk(depth),
            9: lambda: ipaddress.IPv4Address(self.take(4)),
            10: lambda: self.host6(),
            11: lambda: PortId(int.from_bytes(self.take(8), "big")),
            12: lambda: Key(self.take(16)),
            13: lambda: bytes(self.data()),
            14: lambda: Exn(self.name()),
            15: lambda: Dev(whole(self.number(), 32)),
            16: lambda: Service(self.name()),
        }
        if tag not in simple:
            raise Malformed(f"value tag {tag} is not known")
        return simple[tag]()


class Writer:
    def __init__(self):
        self.out, self.names, self.codes = bytearray(), [], []

    def number(self, value):
        value = whole(value, 64)
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def data(self, data):
        self.number(len(data))
        self.out += data

    def name(self, name):
        if name in _NUMBERS:
            self.number(2 * _NUMBERS[name])
        elif name in self.names:
            self.number(2 * self.names.index(name) + 1)
        else:
            self.number(2 * len(self.names) + 1)
            self.names.append(name)
            self.data(identifier(name).encode("ascii"))

    def collect(self, value, depth=0):
        """The codes of all chunks, in the order of their first use."""
        if depth > _DEPTH:
            raise Malformed("a value nests too deep")
        if isinstance(value, Chunk):
            if value.code is not None and byte_string(value.code, "a chunk's code") not in self.codes:
                self.codes.append(bytes(value.code))
            value = value.arguments
            if not isinstance(value, (tuple, list)):
                raise Malformed(f"a chunk's arguments are a list, not {value!r}")
        if isinstance(value, (tuple, list)):
            for item in value:
                self.collect(item, depth + 1)

    def chunk(self, chunk):
        if chunk.code is None:
            self.number(0)
            self.name(chunk.service)
        else:
            self.number(self.codes.index(bytes(chunk.code)) + 1)
            self.number(whole(chunk.function, 16))
        self.values(chunk.arguments)

    def values(self, values):
        self.number(len(values))
        for value in values:
            self.value(value)

    def tagged(self, tag, data=b""):
        self.out.append(tag)
        self.out += data

    def value(self, value):
        if value is None or isinstance(value, bool):
            self.tagged(0 if value is None else 1 + value)
        elif isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 63:
                raise Malformed(f"{value} has more than 64 bits")
            self.tagged(3)
            self.number(value << 1 if value >= 0 else ~value << 1 | 1)
        elif isinstance(value, str):
            self.tagged(5)
            self.data(text_bytes(value))
        elif isinstance(value, (bytes, bytearray)):
            self.tagged(13)
            self.data(value)
        elif isinstance(value, (tuple, list)):
            if isinstance(value, tuple) and len(value) < 2:
                raise Malformed("a tuple has at least two parts")
            self.tagged(6 if isinstance(value, tuple) else 7)
            self.values(value)
        elif isinstance(value, Chunk):
            self.tagged(8)
            self.chunk(value)
        else:
            self.other(value)

    def other(self, value):
        if isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped:
            value = value.ipv4_mapped
        if isinstance(value, ipaddress.IPv4Address):
            self.tagged(9, value.packed)
        elif isinstance(value, ipaddress.IPv6Address):
            self.tagged(10, value.packed)
        elif isinstance(value, Char):
            self.tagged(4, whole(value.byte, 8).to_bytes(1, "big"))
        elif isinstance(value, PortId):
            self.tagged(11, whole(value.number, 64).to_bytes(8, "big"))
        elif isinstance(value, Key):
            self.tagged(12, byte_string(value.data, "a key", 16))
        elif isinstance(value, (Exn, Service)):
            self.tagged(14 if isinstance(value, Exn) else 16)
            self.name(value.name)
        elif isinstance(value, Dev):
            self.tagged(15)
            self.number(whole(value.number, 32))
        else:
            raise Malformed(f"{value!r} is no PLAN value")
