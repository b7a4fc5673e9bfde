# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A client of anode nodes: send and receive capsules, ask a node for its status.

It speaks the two local sockets of a node, in the node's run directory: `apps.sock` (sequenced
packets, one message each) and `control.sock` (a JSON object a line). Standard library only.

    import anode
    node = anode.run_dir("n1")
    with anode.Control(node) as control:
        code = control.add_code("ping.anb")
    with anode.Attachment(node) as here:
        here.send("10.0.0.3", code, payload=bytes(12), bound=64)
        capsule = here.receive(timeout=2)

Nothing here trusts what a node delivers: a capsule that is cut short raises `Malformed`.
"""

import hashlib
import ipaddress
import json
import os
import socket
import struct
from dataclasses import dataclass, field

#: Bytes of a capsule header.
HEADER = 88
#: The version of capsule headers this client speaks.
VERSION = 1

_ATTACH, _SEND = 0x01, 0x02
_ATTACHED, _DELIVERED, _REFUSED = 0x81, 0x82, 0x8F
_TELL, _TELLS, _ENDED = 0x04, 0x84, 0x85
_MESSAGE = 65536
_FIXED = struct.Struct("!BBHI32s16s16s16s")
_MAPPED = bytes(10) + b"\xff\xff"
_NONE = ipaddress.IPv6Address(0)


class Error(Exception):
    """Something is wrong; the text says what, and what to do."""


class NotRunning(Error):
    """No node answers in this run directory."""


class Refused(Error):
    """The node says no: its own words."""

    #: The number of the capsule that has ended at the node, from 1, if that is what it says (`tell_ends`).
    number = None


class Malformed(Error):
    """Bytes that are no capsule, or no bundle."""


def run_dir(node):
    """The run directory of a node given by name; a text with a '/' is one already."""
    if "/" in node:
        return node
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/run", "anode", node)


def pack_address(address):
    """The 16 bytes of an address (text or `ipaddress` object); IPv4 in its mapped form."""
    address = ipaddress.ip_address(address)
    return _MAPPED + address.packed if address.version == 4 else address.packed


def unpack_address(raw):
    """The `ipaddress` object for 16 bytes."""
    address = ipaddress.IPv6Address(raw)
    return address.ipv4_mapped or address


def code_name(name):
    """The 32 bytes of a code name, from bytes or 64 hexadecimal digits (with or without sha256:)."""
    if isinstance(name, str):
        name = bytes.fromhex(name.removeprefix("sha256:"))
    if len(name) != 32:
        raise Malformed("a code name has 32 bytes, or 64 hexadecimal digits")
    return bytes(name)


def bundle_name(bundle):
    """The code name of a bundle file's bytes: the SHA-256 of its manifest."""
    if bundle[:4] not in (b"ANB1", b"ANB2", b"ANB3") or len(bundle) < 8:
        raise Malformed("not a bundle file (.anb): it does not begin with ANB1, ANB2 or ANB3")
    (length,) = struct.unpack_from("!I", bundle, 4)
    manifest = bundle[8 : 8 + length]
    if len(manifest) != length:
        raise Malformed("the bundle file ends early; copy it again")
    return hashlib.sha256(manifest).digest()


@dataclass
class Capsule:
    """A capsule: header and payload. Addresses are `ipaddress` objects or texts."""

    destination: object
    code: bytes
    payload: bytes = b""
    #: Links that it and its children may still pass.
    bound: int = 64
    #: The application port to which it is delivered.
    app_port: int = 0
    source: object = field(default=_NONE)
    previous: object = field(default=_NONE)

    def encode(self):
        """The bytes: 88 of header, then the payload."""
        header = _FIXED.pack(
            VERSION,
            0,
            self.app_port,
            self.bound,
            code_name(self.code),
            pack_address(self.previous),
            pack_address(self.source),
            pack_address(self.destination),
        )
        return header + bytes(self.payload)

    @classmethod
    def decode(cls, raw):
        """The capsule in these bytes; `Malformed` if they are none."""
        if len(raw) < HEADER:
            raise Malformed(f"a capsule has at least {HEADER} bytes, these are {len(raw)}")
        version, flags, app_port, bound, code, previous, source, destination = _FIXED.unpack_from(raw)
        if version != VERSION or flags != 0:
            raise Malformed(f"capsule version {version} with flags {flags}; only version 1 is known")
        return cls(
            destination=unpack_address(destination),
            code=code,
            payload=bytes(raw[HEADER:]),
            bound=bound,
            app_port=app_port,
            source=unpack_address(source),
            previous=unpack_address(previous),
        )


def _connect(kind, directory, name):
    path = os.path.join(run_dir(directory), name)
    connection = socket.socket(socket.AF_UNIX, kind)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise NotRunning(f"no node answers at {path}: {error}; start it: anode node run CONFIG.toml") from error
    return connection


class Attachment:
    """An application port at a node. Closing it frees the port."""

    def __init__(self, directory, port=0, timeout=10.0):
        """Attaches to the node with this name or run directory at `port` (0: any free one)."""
        self._asking = False
        self._socket = _connect(socket.SOCK_SEQPACKET, directory, "apps.sock")
        try:
            self._socket.send(struct.pack("!BH", _ATTACH, port))
            kind, body = self._message(timeout) or (None, b"")
            if kind != _ATTACHED or len(body) != 18:
                raise Error("the node does not answer in time, or not as expected")
        except BaseException:
            self._socket.close()
            raise
        #: The application port.
        (self.port,) = struct.unpack_from("!H", body)
        #: The node's address.
        self.address = unpack_address(body[2:])

    def tell_ends(self):
        """From now on `receive` raises `Refused` for each capsule sent here that has ended at this node.

        Its `number` says which one, from 1. A node of before says nothing.
        """
        self._asking = True
        self._socket.send(bytes([_TELL]))

    def send(self, destination, code, payload=b"", bound=64, app_port=None):
        """Sends a capsule; answers come to this attachment unless `app_port` names another.

        A refusal is raised by the next `receive`.
        """
        app_port = self.port if app_port is None else app_port
        self.send_capsule(Capsule(destination, code, payload, bound, app_port))

    def send_capsule(self, capsule):
        """Sends a capsule as it is; a source of all zeroes is replaced by the node's address."""
        self._socket.send(bytes([_SEND]) + capsule.encode())

    def receive(self, timeout=None):
        """The next capsule delivered, or None after `timeout` seconds (None: waits for ever)."""
        message = self._message(timeout)
        if message is None:
            return None
        kind, body = message
        if kind != _DELIVERED:
            raise Malformed(f"the node sent a message of kind {kind:#04x}, which this client does not know")
        return Capsule.decode(body)

    def _message(self, timeout):
        self._socket.settimeout(timeout)
        try:
            message = self._socket.recv(_MESSAGE)
        except (socket.timeout, BlockingIOError):
            return None
        if not message:
            raise NotRunning("the node has closed the connection")
        if self._asking and message[0] in (_TELLS, _REFUSED):
            # A node of before refuses the question. It answers in order, so this is the answer to it.
            self._asking = False
            return self._message(timeout)
        if message[0] == _ENDED and len(message) >= 5:
            refused = Refused(message[5:].decode(errors="replace"))
            refused.number = int.from_bytes(message[1:5], "big")
            raise refused
        if message[0] == _REFUSED:
            raise Refused(message[1:].decode(errors="replace"))
        return message[0], message[1:]

    def close(self):
        """Frees the port."""
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Control:
    """The control socket of a node. Only the node's own user may use it."""

    def __init__(self, directory, timeout=10.0):
        """Connects to the node with this name or run directory."""
        self._socket = _connect(socket.SOCK_STREAM, directory, "control.sock")
        self._socket.settimeout(timeout)
        self._lines = self._socket.makefile("r", encoding="utf-8")

    def ask(self, **request):
        """Sends a request and gives the answer; `Refused` if the node says no."""
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise NotRunning("the node has closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def status(self):
        """All counters of the node, as nested dictionaries and lists."""
        return self.ask(do="status")  # "drops" has former names too, as sums: docs/drops.md

    def log(self):
        """What mobile code has logged lately: a list of at, code, tag, value."""
        return self.ask(do="log")

    def add_code(self, bundle):
        """Puts a bundle (a path, or the bytes of an .anb file) into the node; its code name."""
        if isinstance(bundle, (str, os.PathLike)):
            with open(bundle, "rb") as file:
                bundle = file.read()
        name = bundle_name(bundle)
        self.ask(do="add-code", bundle=bundle.hex())
        return name

    def remove_code(self, name):
        """Takes code out of the node."""
        return self.ask(**{"do": "remove-code", "name": code_name(name).hex()})

    def revoke(self, *, code=None, principal=None, token=None):
        """Takes back what a code, a principal or a token has at this node, now and from now on, as its operator.

        Exactly one is named: a code by its name, a principal as `ed25519:` and 64 hexadecimal digits, a token by the
        64 hexadecimal digits that `anode cred show` says. Gives what has ended: `codes`, `domains`, and whether it is
        `remembered` over restarts. Neighbours are not told: only a key can do that (`anode cred revoke --key`).
        """
        named = {"code": code, "principal": principal, "token": token}
        given = [(what, name) for what, name in named.items() if name is not None]
        if len(given) != 1:
            raise Error("name one to revoke: code, principal or token")
        what, name = given[0]
        if what == "code":
            name = code_name(name).hex()
        return self.ask(**{"do": "revoke", "what": what, "name": name})

    def down(self):
        """Stops the node."""
        return self.ask(do="down")

    def close(self):
        """Ends the connection."""
        self._lines.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
