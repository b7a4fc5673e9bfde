# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The NodeOS interface from Python: anode/nodeos.h by ctypes, standard library only.

    with nodeos.connect(role="ee") as node:
        out = node.domain.out_channel("if1/ip/udp", "*:6000 -> 10.0.2.2:7000")
        node.domain.in_channel("if0/ip/udp", "10.0.1.2:5000", lambda packet, ends: out.send(packet))
        node.domain.wait()

Functions of channels and events run in threads of the library, as many of a domain at the same time as it has. A packet is sent or
freed by whoever gets it; what a function leaves, or raises, is freed. Calls that fail raise nodeos.Error with
the number and text of anode/nodeos.h, which is the reference.
"""

import ctypes
import ipaddress
import os
import sys
import traceback

VERSION = 1

OK, EINVAL, ESTALE, EACCES, ELIMIT, EEXIST, ENOENT, ENOSPC, EMSGSIZE, EAGAIN, ENOSYS, ESHUTDOWN, EIO, ENOMEM, ECHANGED = range(
    15
)

_object = ctypes.c_void_p


class _ThreadPoolSpec(ctypes.Structure):
    _fields_ = [("maxthreads", ctypes.c_int), ("stackbytes", ctypes.c_uint), ("own", ctypes.c_int), ("holdms", ctypes.c_uint)]


class _NodeSpec(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("title", ctypes.c_char_p),
        ("cred", _object),
        ("threads", ctypes.POINTER(_ThreadPoolSpec)),
        ("busypoll_us", ctypes.c_uint),
    ]


class _End(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint8 * 16), ("port", ctypes.c_uint16), ("known", ctypes.c_uint16)]


class _Ends(ctypes.Structure):
    _fields_ = [("source", _End), ("destination", _End)]


class _KeyTuple(ctypes.Structure):
    _fields_ = [
        ("offset", ctypes.c_uint),
        ("length", ctypes.c_uint),
        ("value", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
    ]


class _DemuxKey(ctypes.Structure):
    _fields_ = [("ntuples", ctypes.c_int), ("tuples", ctypes.POINTER(_KeyTuple))]


class _NetSpec(ctypes.Structure):
    _fields_ = [
        ("maxthreads", ctypes.c_int),
        ("bandwidth", ctypes.c_uint),
        ("npbufs", ctypes.c_int),
        ("pbufs", ctypes.c_void_p),
    ]


class _Usage(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("packets", "bytes", "forwarded", "drops", "memory_bytes", "cpu_ns")
    ]


class _FlowSpec(ctypes.Structure):
    _fields_ = [
        ("title", ctypes.c_char_p),
        ("pool", _object),
        ("cred", _object),
        ("maxthreads", ctypes.c_int),
        ("holdms", ctypes.c_uint),
        ("ntimers", ctypes.c_uint),
        ("timer_ms", ctypes.c_uint),
        ("state", ctypes.c_void_p),
        ("endfunc", ctypes.c_void_p),
    ]


class _ClassifierSpec(ctypes.Structure):
    _fields_ = [
        ("protocols", ctypes.c_char_p),
        ("root", ctypes.c_char_p),
        ("mode", ctypes.c_uint),
        ("flows", ctypes.c_uint),
    ]


class _StateValue(ctypes.Structure):
    _fields_ = [("word", ctypes.c_uint64 * 8)]


class _StoreSpec(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64), ("flags", ctypes.c_uint)]


class _StoreFacts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("version", "keys", "bytes", "limit")]


EXCLUSIVE, PERSISTENT = 1, 2
ACCESS = {None: 0, "read": 1, "write": 2}
VALUE_BYTES_MAX = 65536

_number = ctypes.POINTER(ctypes.c_uint64)
_size = ctypes.POINTER(ctypes.c_size_t)
_bytes = (ctypes.c_char_p, ctypes.c_size_t)
_Receive = ctypes.CFUNCTYPE(None, _object, _object, ctypes.POINTER(_Ends), ctypes.c_void_p)
_Happen = ctypes.CFUNCTYPE(None, _object, ctypes.c_void_p)
_Key = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p)
_Change = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p)

_FUNCTIONS = {
    "an_error": (ctypes.c_int, []),
    "an_strerror": (ctypes.c_char_p, [ctypes.c_int]),
    "an_credCreate": (_object, [ctypes.c_void_p, ctypes.c_char_p]),
    "an_credDestroy": (ctypes.c_int, [_object]),
    "an_nodeConnect": (_object, [ctypes.c_void_p, ctypes.POINTER(_NodeSpec)]),
    "an_nodeDisconnect": (ctypes.c_int, [_object]),
    "an_timeNow": (ctypes.c_int, [_object, ctypes.POINTER(ctypes.c_uint64)]),
    "an_domainSelf": (_object, [_object]),
    "an_domainCreate": (_object, [ctypes.c_void_p, _object, ctypes.POINTER(_ThreadPoolSpec), ctypes.c_void_p]),
    "an_domainTerminate": (ctypes.c_int, [_object]),
    "an_domainDestroy": (ctypes.c_int, [_object]),
    "an_domainUsage": (ctypes.c_int, [_object, ctypes.POINTER(_Usage)]),
    "an_domainWait": (ctypes.c_int, [_object]),
    "an_flowCreate": (_object, [ctypes.c_void_p, _object, ctypes.POINTER(_FlowSpec)]),
    "an_flowRun": (ctypes.c_int, [_object, _Happen]),
    "an_classifierCreate": (_object, [ctypes.c_void_p, _object, ctypes.POINTER(_ClassifierSpec)]),
    "an_classifierDestroy": (ctypes.c_int, [_object]),
    "an_classifierTeach": (ctypes.c_int, [_object, ctypes.c_char_p]),
    "an_classifierUnteach": (ctypes.c_int, [_object, ctypes.c_char_p]),
    "an_classifierAdd": (ctypes.c_int, [_object, ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(ctypes.c_uint)]),
    "an_classifierRemove": (ctypes.c_int, [_object, ctypes.c_uint]),
    "an_classifierSettle": (ctypes.c_int, [_object]),
    "an_classifierMatch": (
        ctypes.c_int,
        [_object, *_bytes, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, _size],
    ),
    "an_classifierExplain": (ctypes.c_int, [_object, *_bytes, ctypes.c_char_p, ctypes.c_size_t, _size]),
    "an_classifierWhy": (ctypes.c_int, [_object, ctypes.c_char_p, ctypes.c_size_t, _size]),
    "an_eventSchedule": (_object, [ctypes.c_void_p, _object, ctypes.c_uint64, _Happen, ctypes.c_void_p]),
    "an_eventCancel": (ctypes.c_int, [_object]),
    "an_stateGet": (ctypes.c_int, [_object, ctypes.c_uint64, ctypes.POINTER(_StateValue)]),
    "an_statePut": (ctypes.c_int, [_object, ctypes.c_uint64, ctypes.POINTER(_StateValue), ctypes.c_uint]),
    "an_stateAdd": (ctypes.c_int, [_object, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint, _number]),
    "an_stateMax": (ctypes.c_int, [_object, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint, _number]),
    "an_stateExchange": (
        ctypes.c_int,
        [_object, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(_StateValue), ctypes.c_uint],
    ),
    "an_storeOpen": (_object, [ctypes.c_void_p, _object, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_StoreSpec)]),
    "an_storeClose": (ctypes.c_int, [_object]),
    "an_storeRemove": (ctypes.c_int, [_object]),
    "an_storeGet": (ctypes.c_int, [_object, _object, *_bytes, ctypes.c_void_p, ctypes.c_size_t, _size, _number]),
    "an_storePut": (ctypes.c_int, [_object, *_bytes, *_bytes, _number, _number]),
    "an_storeRegister": (ctypes.c_int, [_object, *_bytes, *_bytes, _number, _number]),
    "an_storeDelete": (ctypes.c_int, [_object, *_bytes, _number, _number]),
    "an_storeList": (ctypes.c_int, [_object, _object, *_bytes, _Key, ctypes.c_void_p]),
    "an_storeShare": (ctypes.c_int, [_object, ctypes.c_char_p, ctypes.c_int]),
    "an_storeFacts": (ctypes.c_int, [_object, ctypes.POINTER(_StoreFacts)]),
    "an_storeSync": (ctypes.c_int, [_object]),
    "an_snapshotCreate": (_object, [ctypes.c_void_p, _object]),
    "an_snapshotDestroy": (ctypes.c_int, [_object]),
    "an_watchCreate": (_object, [ctypes.c_void_p, _object, *_bytes, _Happen, ctypes.c_void_p]),
    "an_watchDestroy": (ctypes.c_int, [_object]),
    "an_watchRead": (ctypes.c_int, [_object, _Change, ctypes.c_void_p, _number]),
    "an_streamListen": (_object, [ctypes.c_void_p, _object, ctypes.c_char_p]),
    "an_streamChanDestroy": (ctypes.c_int, [_object]),
    "an_streamAccept": (_object, [ctypes.c_void_p, _object, ctypes.c_int64, ctypes.POINTER(_Ends)]),
    "an_streamConnect": (_object, [ctypes.c_void_p, _object, ctypes.c_char_p]),
    "an_streamRead": (ctypes.c_int, [_object, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, _size]),
    "an_streamWrite": (ctypes.c_int, [_object, *_bytes, ctypes.c_int64, _size]),
    "an_streamFinish": (ctypes.c_int, [_object]),
    "an_streamClose": (ctypes.c_int, [_object]),
    "an_inchanCreate": (
        _object,
        [
            ctypes.c_void_p,
            _object,
            ctypes.POINTER(_DemuxKey),
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.POINTER(_NetSpec),
            _Receive,
            ctypes.c_void_p,
        ],
    ),
    "an_inchanDestroy": (ctypes.c_int, [_object]),
    "an_inchanPass": (ctypes.c_int, [_object, _object, ctypes.POINTER(_Ends)]),
    "an_outchanCreate": (
        _object,
        [ctypes.c_void_p, _object, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_NetSpec)],
    ),
    "an_outchanDestroy": (ctypes.c_int, [_object]),
    "an_outchanSend": (ctypes.c_int, [_object, ctypes.POINTER(_End), _object]),
    "an_pktbufAlloc": (_object, [_object]),
    "an_pktbufFree": (ctypes.c_int, [_object]),
    "an_pktbufData": (ctypes.c_void_p, [_object]),
    "an_pktbufLength": (ctypes.c_int, [_object, ctypes.POINTER(ctypes.c_size_t)]),
    "an_pktbufResize": (ctypes.c_int, [_object, ctypes.c_size_t]),
}


class Error(Exception):
    """A call was refused; `code` is the number of enum an_error."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def library(path=None):
    """The functions of the library at a path, or of the system's; cached."""
    path = path or os.environ.get("ANODE_LIBRARY", f"libanode{VERSION}.so")
    if path not in library.loaded:
        found = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
        library.loaded[path] = found
    return library.loaded[path]


library.loaded = {}


class _Object:
    """Something with a name in the library and a call that ends it."""

    def __init__(self, lib, handle, destroy):
        self._lib, self._destroy = lib, destroy
        self.handle = self._made(handle)

    def _made(self, handle):
        if not handle:
            self._check(self._lib.an_error())
        return handle

    def _check(self, code):
        if code != OK:
            raise Error(code, self._lib.an_strerror(code).decode())

    def destroy(self):
        """Ends it, here and in the node."""
        self._check(getattr(self._lib, self._destroy)(self.handle))


def _net(lib_spec):
    return None if lib_spec is None else ctypes.byref(_NetSpec(**lib_spec))


class Packet:
    """A packet in its buffer. Whoever has it sends or frees it."""

    def __init__(self, lib, handle):
        self._lib, self._handle = lib, handle

    def take(self):
        """The library's name of it, which is from now on the caller's."""
        handle, self._handle = self._handle, None
        return handle

    def free(self):
        """Gives it back; nothing happens to one that was sent."""
        if self._handle is not None:
            self._lib.an_pktbufFree(self.take())

    @property
    def data(self):
        """Its bytes: a view to read and change, no longer than the packet lives."""
        length = ctypes.c_size_t()
        code = self._lib.an_pktbufLength(self._handle, ctypes.byref(length))
        if code != OK:
            raise Error(code, self._lib.an_strerror(code).decode())
        array = ctypes.c_uint8 * length.value
        return memoryview(array.from_address(self._lib.an_pktbufData(self._handle))).cast("B")

    @data.setter
    def data(self, new):
        code = self._lib.an_pktbufResize(self._handle, len(new))
        if code != OK:
            raise Error(code, self._lib.an_strerror(code).decode())
        ctypes.memmove(self._lib.an_pktbufData(self._handle), bytes(new), len(new))


def _end(address, port=0):
    address = ipaddress.ip_address(address)
    mapped = address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed
    return _End((ctypes.c_uint8 * 16)(*mapped), port, 1)


def _pair(end):
    if not end.known:
        return None
    address = ipaddress.IPv6Address(bytes(end.address))
    return (str(address.ipv4_mapped or address), end.port)


class OutChannel(_Object):
    """Packets go by it."""

    def send(self, packet, to=None):
        """Sends a packet, or bytes in one of the domain's; to: (address, port) if the channel leaves it open."""
        if not isinstance(packet, Packet):
            new, packet = packet, self.domain.packet()
            packet.data = new
        handle = packet.take()
        code = self._lib.an_outchanSend(self.handle, ctypes.byref(_end(*to)) if to else None, handle)
        if code != OK:
            packet._handle = handle
            self._check(code)


class InChannel(_Object):
    """Packets come by it."""

    def pass_on(self, packet, ends=None):
        """Has a packet come by this channel, of which another one's function has it; ends: (source, destination), each (address, port)."""
        told = ctypes.byref(_Ends(*[_end(*end) if end else _End() for end in ends])) if ends else None
        handle = packet.take()
        code = self._lib.an_inchanPass(self.handle, handle, told)
        if code != OK:
            packet._handle = handle
            self._check(code)


class Stream(_Object):
    """A TCP stream: bytes both ways."""

    close = _Object.destroy

    def read(self, most=65536, wait_ms=-1):
        """Some bytes, at most so many; none at the end. EAGAIN: none came in time."""
        room, done = ctypes.create_string_buffer(most), ctypes.c_size_t()
        self._check(self._lib.an_streamRead(self.handle, room, most, wait_ms, ctypes.byref(done)))
        return room.raw[: done.value]

    def write(self, data, wait_ms=-1):
        """Writes all of it. EAGAIN: there was no room for all in time."""
        done = ctypes.c_size_t()
        self._check(self._lib.an_streamWrite(self.handle, data, len(data), wait_ms, ctypes.byref(done)))

    def finish(self):
        """Nothing more is written; the other end may go on."""
        self._check(self._lib.an_streamFinish(self.handle))


class StreamChannel(_Object):
    """TCP streams come by it."""

    def accept(self, wait_ms=-1):
        """The next stream, and the address and port of who has begun it. EAGAIN: none came in time."""
        ends = _Ends()
        handle = self._lib.an_streamAccept(None, self.handle, wait_ms, ctypes.byref(ends))
        return Stream(self._lib, handle, "an_streamClose"), _pair(ends.source)


def _value(words):
    return _StateValue((ctypes.c_uint64 * 8)(*words))


def _expected(version):
    return None if version is None else ctypes.byref(ctypes.c_uint64(version))


class Snapshot(_Object):
    """A store as it was."""


class Watch(_Object):
    """Tells of changes in a store."""

    def changes(self):
        """Changes since the last time: tuples (key, version, deleted), and how many more there were."""
        found, lost = [], ctypes.c_uint64()

        def note(key, size, version, deleted, _argument):
            found.append((ctypes.string_at(key, size), version, bool(deleted)))

        self._check(self._lib.an_watchRead(self.handle, _Change(note), None, ctypes.byref(lost)))
        return found, lost.value


class Store(_Object):
    """Values under keys, both bytes, which domains share."""

    close = _Object.destroy

    def get(self, key, snapshot=None):
        """The value under a key and its version, or None; now, or in a snapshot."""
        size, version = ctypes.c_size_t(), ctypes.c_uint64()
        room = ctypes.create_string_buffer(VALUE_BYTES_MAX)
        at = snapshot.handle if snapshot else None
        code = self._lib.an_storeGet(
            self.handle, at, key, len(key), room, len(room), ctypes.byref(size), ctypes.byref(version)
        )
        if code == ENOENT:
            return None
        self._check(code)
        return room.raw[: size.value], version.value

    def put(self, key, value, expected=None):
        """Keeps a value; expected: only if this version is there (0: nothing). The new version."""
        return self._keep(self._lib.an_storePut, key, value, expected)

    def register(self, key, value, expected=None):
        """The same until the domain ends that has opened the store."""
        return self._keep(self._lib.an_storeRegister, key, value, expected)

    def _keep(self, call, key, value, expected):
        version = ctypes.c_uint64()
        self._check(call(self.handle, key, len(key), value, len(value), _expected(expected), ctypes.byref(version)))
        return version.value

    def delete(self, key, expected=None):
        """Takes a key away. The number of the change."""
        version = ctypes.c_uint64()
        self._check(self._lib.an_storeDelete(self.handle, key, len(key), _expected(expected), ctypes.byref(version)))
        return version.value

    def keys(self, prefix=b"", snapshot=None):
        """All keys with a beginning, in their order: tuples (key, bytes of its value, version)."""
        found = []

        def note(key, size, length, version, _argument):
            found.append((ctypes.string_at(key, size), length, version))
            return 0

        at = snapshot.handle if snapshot else None
        self._check(self._lib.an_storeList(self.handle, at, prefix, len(prefix), _Key(note), None))
        return found

    def share(self, holder, access):
        """Lets another holder ("*": all) use it: "read", "write" or None."""
        self._check(self._lib.an_storeShare(self.handle, holder.encode(), ACCESS[access]))

    def facts(self):
        """What is known of it, by name."""
        facts = _StoreFacts()
        self._check(self._lib.an_storeFacts(self.handle, ctypes.byref(facts)))
        return {name: getattr(facts, name) for name, _ in _StoreFacts._fields_}

    def sync(self):
        """Waits until its changes are on the disk, if it is persistent."""
        self._check(self._lib.an_storeSync(self.handle))

    def snapshot(self):
        """It as it is now."""
        return Snapshot(self._lib, self._lib.an_snapshotCreate(None, self.handle), "an_snapshotDestroy")

    def watch(self, happen, prefix=b""):
        """Has happen(watch) called when a key with this beginning has changed: watch.changes() says what."""

        def told(handle, _argument):
            # A change may come before the call that makes the watch has returned.
            watch._lib, watch.handle = self._lib, handle
            try:
                happen(watch)
            except Exception:  # pylint: disable=broad-except  # nobody above could catch it
                traceback.print_exc(file=sys.stderr)

        watch = Watch.__new__(Watch)
        function = _Happen(told)
        self.domain._functions.append(function)
        handle = self._lib.an_watchCreate(None, self.handle, prefix, len(prefix), function, None)
        watch.__init__(self._lib, handle, "an_watchDestroy")
        return watch

    def remove(self):
        """Ends it, with all in it."""
        self._check(self._lib.an_storeRemove(self.handle))


MODES = {"first": 0, "all": 1, "best": 2}


class Classifier(_Object):
    """Protocols that the program teaches, and rules over them (docs/classifier.md). What is refused says where and why."""

    def _text(self, call, *arguments):
        room = 4096
        while True:
            text, length = ctypes.create_string_buffer(room), ctypes.c_size_t()
            code = call(*arguments, text, room, ctypes.byref(length))
            if code == OK or length.value < room:
                self._check(code)
                return text.value.decode()
            room = length.value + 1

    def _taught(self, code):
        if code != OK:
            why = self._text(self._lib.an_classifierWhy, self.handle)
            raise Error(code, why or self._lib.an_strerror(code).decode())

    def teach(self, protocols):
        """Teaches all protocols of a text, or none."""
        self._taught(self._lib.an_classifierTeach(self.handle, protocols.encode()))

    def unteach(self, protocol):
        """Forgets one."""
        self._taught(self._lib.an_classifierUnteach(self.handle, protocol.encode()))

    def add(self, rule, order=0):
        """Adds a rule, or a pcap filter; its number."""
        number = ctypes.c_uint()
        self._taught(self._lib.an_classifierAdd(self.handle, rule.encode(), order, ctypes.byref(number)))
        return number.value

    def remove(self, number):
        """Takes a rule out."""
        self._taught(self._lib.an_classifierRemove(self.handle, number))

    def settle(self):
        """Makes look-ups of many rules fast."""
        self._check(self._lib.an_classifierSettle(self.handle))

    def match(self, packet):
        """The numbers of the rules that hold, as the mode wants them."""
        packet, room = bytes(packet), 64
        while True:
            rules, count = (ctypes.c_uint * room)(), ctypes.c_size_t()
            code = self._lib.an_classifierMatch(self.handle, packet, len(packet), rules, room, ctypes.byref(count))
            if code == OK or count.value <= room:
                self._check(code)
                return rules[: count.value]
            room = count.value

    def explain(self, packet):
        """What a packet is, and why each rule holds or not, in lines."""
        packet = bytes(packet)
        return self._text(self._lib.an_classifierExplain, self.handle, packet, len(packet))


class Event(_Object):
    """Something to come."""

    cancel = _Object.destroy


class Domain(_Object):
    """Who owns and pays."""

    def __init__(self, lib, handle):
        super().__init__(lib, handle, "an_domainDestroy")
        # The library calls these as long as the domain lives.
        self._functions = []

    def domain(self, threads=1):
        """A domain below this one."""
        spec = _ThreadPoolSpec(threads, 0, 0, 0)
        return Domain(self._lib, self._lib.an_domainCreate(None, self.handle, ctypes.byref(spec), None))

    def flow(self, title=None, threads=1, timers=0, timer_ms=0):
        """An a-flow below this one, for which at most so many of this one's threads work at the same time. At most so many
        events of it wait (0: as many as the role grants), and come at multiples of timer_ms."""
        spec = _FlowSpec(title.encode() if title else None, None, None, threads, 0, timers, timer_ms, None, None)
        return Flow(self._lib, self._lib.an_flowCreate(None, self.handle, ctypes.byref(spec)))

    def classifier(self, protocols="", root="ethernet", mode="first", flows=0):
        """A classifier of the program's own that goes with this domain."""
        spec = _ClassifierSpec(protocols.encode(), root.encode(), MODES[mode], flows)
        handle = self._lib.an_classifierCreate(None, self.handle, ctypes.byref(spec))
        if not handle:
            code, why = self._lib.an_error(), ctypes.create_string_buffer(4096)
            self._lib.an_classifierWhy(None, why, len(why), ctypes.byref(ctypes.c_size_t()))
            raise Error(code, why.value.decode() or self._lib.an_strerror(code).decode())
        return Classifier(self._lib, handle, "an_classifierDestroy")

    def packet(self):
        """An empty packet."""
        return Packet(self._lib, self._made(self._lib.an_pktbufAlloc(self.handle)))

    def in_channel(self, protocol, address, deliver, key=(), net=None):
        """Has deliver(packet, (source, destination)) called for every packet; key: tuples (offset, length, value, mask)."""

        def receive(_channel, handle, ends, _argument):
            packet = Packet(self._lib, handle)
            try:
                deliver(packet, (_pair(ends.contents.source), _pair(ends.contents.destination)))
            except Exception:  # pylint: disable=broad-except  # nobody above could catch it
                traceback.print_exc(file=sys.stderr)
            finally:
                packet.free()

        function = _Receive(receive)
        self._functions.append(function)
        tuples = (_KeyTuple * len(key))(*[_KeyTuple(*one) for one in key])
        spec = _DemuxKey(len(key), tuples)
        handle = self._lib.an_inchanCreate(
            None, self.handle, ctypes.byref(spec), protocol.encode(), address.encode(), _net(net), function, None
        )
        return InChannel(self._lib, handle, "an_inchanDestroy")

    def out_channel(self, protocol, address, net=None):
        """A channel to send by."""
        handle = self._lib.an_outchanCreate(None, self.handle, protocol.encode(), address.encode(), _net(net))
        channel = OutChannel(self._lib, handle, "an_outchanDestroy")
        channel.domain = self
        return channel

    def listen(self, address):
        """A channel for TCP streams at "10.0.1.2:8000", if its role lets it listen there."""
        handle = self._lib.an_streamListen(None, self.handle, address.encode())
        return StreamChannel(self._lib, handle, "an_streamChanDestroy")

    def connect(self, address):
        """A TCP stream to "10.0.2.2:80", if its role leads there; what comes of it is told when it is read."""
        return Stream(self._lib, self._lib.an_streamConnect(None, self.handle, address.encode()), "an_streamClose")

    def event(self, delay_ms, happen):
        """Has happen() called once in so many milliseconds."""
        function = _Happen(lambda _event, _argument: happen())
        self._functions.append(function)
        return Event(self._lib, self._lib.an_eventSchedule(None, self.handle, delay_ms, function, None), "an_eventCancel")

    def state(self, key):
        """The eight words that its soft state has under a key, or None."""
        value = _StateValue()
        code = self._lib.an_stateGet(self.handle, key, ctypes.byref(value))
        if code == ENOENT:
            return None
        self._check(code)
        return list(value.word)

    def state_put(self, key, words, keep_ms):
        """Keeps up to eight words for so many milliseconds, 0: not at all."""
        self._check(self._lib.an_statePut(self.handle, key, ctypes.byref(_value(words)), keep_ms))

    def state_add(self, key, delta, keep_ms):
        """Adds to the first word, which begins as 0; the sum."""
        return self._number(self._lib.an_stateAdd, key, delta, keep_ms)

    def state_max(self, key, least, keep_ms):
        """Raises the first word, if it is lower; what it is then."""
        return self._number(self._lib.an_stateMax, key, least, keep_ms)

    def state_exchange(self, key, expected, words, keep_ms):
        """Keeps other words if the first one is what was expected; whether it was."""
        code = self._lib.an_stateExchange(self.handle, key, expected, ctypes.byref(_value(words)), keep_ms)
        if code != ECHANGED:
            self._check(code)
        return code == OK

    def _number(self, call, key, number, keep_ms):
        result = ctypes.c_uint64()
        self._check(call(self.handle, key, number, keep_ms, ctypes.byref(result)))
        return result.value

    def store(self, name, holder=None, size=None, exclusive=False, persistent=False):
        """The store of this name, of a holder or its own; size, in bytes: it is made if there is none."""
        spec = None
        if size is not None:
            spec = ctypes.byref(_StoreSpec(size, EXCLUSIVE * exclusive | PERSISTENT * persistent))
        named = holder.encode() if holder else None
        handle = self._lib.an_storeOpen(None, self.handle, named, name.encode(), spec)
        store = Store(self._lib, handle, "an_storeClose")
        store.domain = self
        return store

    def usage(self):
        """What it has used, by name."""
        usage = _Usage()
        self._check(self._lib.an_domainUsage(self.handle, ctypes.byref(usage)))
        return {name: getattr(usage, name) for name, _ in _Usage._fields_}

    def terminate(self):
        """Ends it and all below it."""
        self._check(self._lib.an_domainTerminate(self.handle))

    def wait(self):
        """Waits until it has ended."""
        self._check(self._lib.an_domainWait(self.handle))


class Flow(Domain):
    """Computes for a user, or for many, by the threads of the domain above it."""

    def run(self, function):
        """Has one of them run function()."""
        kept = _Happen(lambda _flow, _state: function())
        self._functions.append(kept)
        self._check(self._lib.an_flowRun(self.handle, kept))


class Node(_Object):
    """A connection to a node."""

    def __init__(self, lib, handle):
        super().__init__(lib, handle, "an_nodeDisconnect")
        self.domain = Domain(lib, lib.an_domainSelf(self.handle))

    def now(self):
        """Nanoseconds of the node's clock."""
        now = ctypes.c_uint64()
        self._check(self._lib.an_timeNow(self.handle, ctypes.byref(now)))
        return now.value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.destroy()


def connect(path=None, role=None, title="python", threads=1, busypoll_us=0, lib=None):
    """Connects to the node whose socket is at a path, or where ANODE_NODEOS says; in a role, or as anyone."""
    lib = lib or library()
    cred = lib.an_credCreate(None, role.encode()) if role else None
    pool = _ThreadPoolSpec(threads, 0, 0, 0)
    spec = _NodeSpec(os.fsencode(path) if path else None, title.encode(), cred, ctypes.pointer(pool), busypoll_us)
    try:
        return Node(lib, lib.an_nodeConnect(None, ctypes.byref(spec)))
    finally:
        if cred:
            lib.an_credDestroy(cred)
