-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- anode's packets in Wireshark and tshark: ANEP with its options, capsules, code fetch (objects put together again), PLAN messages,
-- revocations, hellos. docs/wire.md has the formats; README.md says how to install it.
--
--     tshark -X lua_script:clients/wireshark/anode.lua -r seen.pcapng
--
-- Every read is preceded by a look at what is there, so a packet that is cut short is shown as far as it goes, with the reason.

local CAPSULE, FETCH, PLAN, REVOCATION, HELLO = 0x0ac0, 0x0ac1, 0x0ac2, 0x0ac3, 0x0ac4
local UDP_PORT, IP_PROTOCOL = 3322, 107
local PART = 1024
-- Objects that are being put together, and bytes of one (docs/wire.md).
local OBJECTS_MAX, OBJECT_MAX = 1024, 65536

local anep = Proto("anep", "Active Network Encapsulation Protocol")
local capsule = Proto("anode.capsule", "anode capsule")
local fetch = Proto("anode.fetch", "anode code fetch")
local plan = Proto("anode.plan", "anode PLAN message")
local revocation = Proto("anode.revocation", "anode revocation")
local hello = Proto("anode.hello", "anode hello")

local types = {
    [0] = "reserved", [1] = "ANON", [51] = "anetd", [CAPSULE] = "capsule", [FETCH] = "code fetch", [PLAN] = "PLAN",
    [REVOCATION] = "revocation", [HELLO] = "hello",
}
local option_types = {
    [1] = "source identifier", [2] = "destination identifier", [3] = "integrity checksum", [4] = "authentication",
}
local identifier_schemes = { [1] = "IPv4", [2] = "IPv6", [3] = "IEEE 802.3" }
local proof_schemes = { [1] = "SPKI", [2] = "X.509", [0x686d6163] = "neighbour's proof" }

local f = {
    version = ProtoField.uint8("anep.version", "Version"),
    discard = ProtoField.bool("anep.discard", "Discard if the type is unknown", 8, nil, 0x80),
    type = ProtoField.uint16("anep.type", "Type", base.HEX, types),
    header = ProtoField.uint16("anep.header_length", "Header length (words)"),
    length = ProtoField.uint16("anep.length", "Packet length"),
    option = ProtoField.uint16("anep.option", "Option", base.DEC, option_types, 0x3fff),
    option_private = ProtoField.bool("anep.option.private", "Private", 16, nil, 0x8000),
    option_discard = ProtoField.bool("anep.option.discard", "Discard if unknown", 16, nil, 0x4000),
    option_length = ProtoField.uint16("anep.option.length", "Length (words)"),
    option_value = ProtoField.bytes("anep.option.value", "Value"),
    scheme = ProtoField.uint32("anep.option.scheme", "Scheme", base.DEC, identifier_schemes),
    identifier4 = ProtoField.ipv4("anep.option.ipv4", "Address"),
    identifier6 = ProtoField.ipv6("anep.option.ipv6", "Address"),
    identifier_mac = ProtoField.ether("anep.option.ether", "Address"),
    checksum = ProtoField.uint16("anep.option.checksum", "Checksum", base.HEX),
    proof_scheme = ProtoField.uint32("anep.option.proof.scheme", "Scheme", base.HEX, proof_schemes),
    proof_key = ProtoField.uint32("anep.option.proof.key", "Key", base.HEX),
    proof_counter = ProtoField.uint64("anep.option.proof.counter", "Counter"),
    proof_code = ProtoField.bytes("anep.option.proof.code", "Code"),
    payload = ProtoField.bytes("anep.payload", "Payload"),
}
anep.fields = f

local c = {
    version = ProtoField.uint8("anode.capsule.version", "Version"),
    flags = ProtoField.uint8("anode.capsule.flags", "Flags", base.HEX),
    app_port = ProtoField.uint16("anode.capsule.app_port", "Application port"),
    bound = ProtoField.uint32("anode.capsule.bound", "Resource bound"),
    code = ProtoField.bytes("anode.capsule.code", "Code name"),
    previous = ProtoField.ipv6("anode.capsule.previous", "Previous node"),
    source = ProtoField.ipv6("anode.capsule.source", "Source"),
    destination = ProtoField.ipv6("anode.capsule.destination", "Destination"),
    payload = ProtoField.bytes("anode.capsule.payload", "Payload"),
}
capsule.fields = c

local fetch_kinds = { [1] = "request", [2] = "part", [3] = "absent" }
local g = {
    version = ProtoField.uint8("anode.fetch.version", "Version"),
    kind = ProtoField.uint8("anode.fetch.kind", "Kind", base.DEC, fetch_kinds),
    part = ProtoField.uint16("anode.fetch.part", "Part number"),
    nonce = ProtoField.uint32("anode.fetch.nonce", "Nonce", base.HEX),
    digest = ProtoField.bytes("anode.fetch.digest", "Object"),
    missing = ProtoField.uint64("anode.fetch.missing", "Missing parts", base.HEX),
    requester = ProtoField.ipv6("anode.fetch.requester", "Requester"),
    total = ProtoField.uint32("anode.fetch.total", "Total length"),
    bytes = ProtoField.bytes("anode.fetch.bytes", "Bytes of the part"),
    object = ProtoField.bytes("anode.fetch.object", "Object put together"),
    object_length = ProtoField.uint32("anode.fetch.object.length", "Length of the object"),
    object_frames = ProtoField.string("anode.fetch.object.frames", "Frames with its parts"),
}
fetch.fields = g

local plan_kinds = {
    [1] = "packet", [0x80] = "piece", [0x81] = "want code", [0x82] = "code", [0x83] = "have code", [0x84] = "routes",
}
local p = {
    kind = ProtoField.uint8("anode.plan.kind", "Message", base.HEX, plan_kinds),
    by_digest = ProtoField.bool("anode.plan.by_digest", "Codes by digest", 8, nil, 1),
    report = ProtoField.bool("anode.plan.report", "Report", 8, nil, 2),
    bound = ProtoField.uint32("anode.plan.bound", "Resource bound"),
    flow = ProtoField.uint32("anode.plan.flow", "Flow"),
    port = ProtoField.uint64("anode.plan.port", "Application port", base.HEX),
    session = ProtoField.bytes("anode.plan.session", "Session key"),
    source = ProtoField.ipv6("anode.plan.source", "Source"),
    destination = ProtoField.ipv6("anode.plan.destination", "Destination"),
    previous = ProtoField.ipv6("anode.plan.previous", "Previous node"),
    program = ProtoField.bytes("anode.plan.program", "Routing function, handler, codes, chunk"),
    index = ProtoField.uint8("anode.plan.piece.index", "Piece"),
    count = ProtoField.uint8("anode.plan.piece.count", "Of"),
    id = ProtoField.uint32("anode.plan.piece.id", "Message number", base.HEX),
    total = ProtoField.uint32("anode.plan.piece.total", "Bytes of the message"),
    bytes = ProtoField.bytes("anode.plan.bytes", "Bytes"),
    digest = ProtoField.bytes("anode.plan.digest", "Code"),
    request = ProtoField.uint8("anode.plan.routes.request", "Asks for routes"),
    route = ProtoField.ipv6("anode.plan.route", "Route"),
    route_length = ProtoField.uint8("anode.plan.route.length", "Prefix length"),
    route_metric = ProtoField.uint8("anode.plan.route.metric", "Metric"),
}
plan.fields = p

local subjects = { [1] = "token", [2] = "principal", [3] = "code" }
local r = {
    version = ProtoField.uint8("anode.revocation.version", "Version"),
    what = ProtoField.uint8("anode.revocation.what", "What", base.DEC, subjects),
    time = ProtoField.uint64("anode.revocation.time", "Signed (seconds since 1970)"),
    subject = ProtoField.bytes("anode.revocation.subject", "Subject"),
    signer = ProtoField.bytes("anode.revocation.signer", "Signer"),
    signature = ProtoField.bytes("anode.revocation.signature", "Signature"),
}
revocation.fields = r

local h = {
    version = ProtoField.uint8("anode.hello.version", "Version"),
    interval = ProtoField.uint16("anode.hello.interval", "Interval (tenths of a second)"),
    age = ProtoField.uint64("anode.hello.age", "Age of the sender (nanoseconds)"),
    address = ProtoField.ipv6("anode.hello.address", "Address"),
}
hello.fields = h

local short = ProtoExpert.new("anep.short", "Cut short or malformed", expert.group.MALFORMED, expert.severity.ERROR)
anep.experts = { short }

-- Says that there is less than there should be.
local function complain(tree, tvb, why)
    tree:add_proto_expert_info(short, why)
    return tvb:len()
end

-- Adds fields in a row, each {field, offset, bytes}, as far as they are there; whether all are.
local function add_all(tree, tvb, list)
    for _, one in ipairs(list) do
        if tvb:len() < one[2] + one[3] then
            complain(tree, tvb, "shorter than its header")
            return false
        end
        tree:add(one[1], tvb(one[2], one[3]))
    end
    return true
end

-- The rest of the bytes from an offset, if there are any.
local function add_rest(tree, field, tvb, from)
    if tvb:len() > from then
        tree:add(field, tvb(from))
    end
end

local function in_digits(tvb, from, count)
    return tvb(from, count):bytes():tohex(true)
end

-- An address of 16 bytes for people: IPv4 if it is a mapped one.
local function address(tvb, from)
    if tvb(from, 8):uint64() == UInt64(0) and tvb(from + 8, 4):uint() == 0xffff then
        return tostring(tvb(from + 12, 4):ipv4())
    end
    return tostring(tvb(from, 16):ipv6())
end

-- Parts by requester's nonce and object, and the frames in which an object became whole.
local parts, whole, count = {}, {}, 0

function anep.init()
    parts, whole, count = {}, {}, 0
end

local function take_part(pinfo, tvb, key, number, total)
    local object = parts[key]
    if not object then
        if count >= OBJECTS_MAX then
            return
        end
        count = count + 1
        object = { total = total, bytes = {}, frames = {} }
        parts[key] = object
    end
    if object.total ~= total or object.done then
        return
    end
    object.bytes[number] = tvb(44):bytes()
    object.frames[number] = pinfo.number
    local all, frames = ByteArray.new(), {}
    for at = 0, math.ceil(total / PART) - 1 do
        if not object.bytes[at] then
            return
        end
        all:append(object.bytes[at])
        frames[#frames + 1] = tostring(object.frames[at])
    end
    if all:len() == total then
        object.done = true
        whole[pinfo.number] = { bytes = all, frames = table.concat(frames, ", ") }
    end
end

function fetch.dissector(tvb, pinfo, root)
    local tree = root:add(fetch, tvb())
    if not add_all(tree, tvb, { { g.version, 0, 1 }, { g.kind, 1, 1 }, { g.part, 2, 2 }, { g.nonce, 4, 4 }, { g.digest, 8, 32 } }) then
        return
    end
    local kind, number, name = tvb(1, 1):uint(), tvb(2, 2):uint(), in_digits(tvb, 8, 32)
    local said = (fetch_kinds[kind] or "unknown kind") .. " of object " .. name:sub(1, 8)
    if kind == 1 then
        add_all(tree, tvb, { { g.missing, 40, 8 }, { g.requester, 48, 16 } })
    elseif kind == 2 and add_all(tree, tvb, { { g.total, 40, 4 } }) then
        local total = tvb(40, 4):uint()
        add_rest(tree, g.bytes, tvb, 44)
        said = said .. ", part " .. number
        if total > 0 and total <= OBJECT_MAX and number < math.ceil(total / PART) and tvb:len() > 44 then
            if not pinfo.visited then
                take_part(pinfo, tvb, tostring(tvb(4, 4):uint()) .. name, number, total)
            end
        else
            complain(tree, tvb, "a part that its object does not have")
        end
        local object = whole[pinfo.number]
        if object then
            local data = object.bytes:tvb("Object " .. name:sub(1, 8))
            local inside = tree:add(g.object, data())
            inside:add(g.object_length, data:len()):set_generated()
            inside:add(g.object_frames, object.frames):set_generated()
            said = said .. ", whole: " .. data:len() .. " bytes"
        end
    end
    tree:append_text(", " .. said)
    pinfo.cols.info = "code fetch: " .. said
end

function capsule.dissector(tvb, pinfo, root)
    local tree = root:add(capsule, tvb())
    local fields = {
        { c.version, 0, 1 }, { c.flags, 1, 1 }, { c.app_port, 2, 2 }, { c.bound, 4, 4 }, { c.code, 8, 32 }, { c.previous, 40, 16 },
        { c.source, 56, 16 }, { c.destination, 72, 16 },
    }
    if not add_all(tree, tvb, fields) then
        return
    end
    add_rest(tree, c.payload, tvb, 88)
    local said = string.format("code %s, %s to %s, bound %u", in_digits(tvb, 8, 4), address(tvb, 56), address(tvb, 72), tvb(4, 4):uint())
    tree:append_text(", " .. said)
    pinfo.cols.info = "capsule: " .. said
end

local function routes(tree, tvb)
    add_all(tree, tvb, { { p.request, 1, 1 } })
    for from = 4, tvb:len() - 20, 20 do
        local route = tree:add(p.route, tvb(from, 16))
        route:add(p.route_length, tvb(from + 16, 1))
        route:add(p.route_metric, tvb(from + 17, 1))
    end
end

function plan.dissector(tvb, pinfo, root)
    local tree = root:add(plan, tvb())
    if not add_all(tree, tvb, { { p.kind, 0, 1 } }) then
        return
    end
    local kind = tvb(0, 1):uint()
    local said = plan_kinds[kind] or "unknown message"
    if kind == 1 then
        local fields = {
            { p.by_digest, 1, 1 }, { p.report, 1, 1 }, { p.bound, 4, 4 }, { p.flow, 8, 4 }, { p.port, 12, 8 }, { p.session, 20, 16 },
            { p.source, 36, 16 }, { p.destination, 52, 16 }, { p.previous, 68, 16 },
        }
        if add_all(tree, tvb, fields) then
            add_rest(tree, p.program, tvb, 84)
            said = string.format("packet, %s to %s, bound %u", address(tvb, 36), address(tvb, 52), tvb(4, 4):uint())
        end
    elseif kind == 0x80 then
        if add_all(tree, tvb, { { p.index, 1, 1 }, { p.count, 2, 1 }, { p.id, 4, 4 }, { p.total, 8, 4 } }) then
            add_rest(tree, p.bytes, tvb, 12)
            said = string.format("piece %u of %u", tvb(1, 1):uint() + 1, tvb(2, 1):uint())
        end
    elseif kind == 0x81 or kind == 0x83 then
        add_all(tree, tvb, { { p.digest, 4, 32 } })
    elseif kind == 0x82 then
        add_rest(tree, p.bytes, tvb, 4)
    elseif kind == 0x84 then
        routes(tree, tvb)
    else
        complain(tree, tvb, "a message that is not known")
    end
    tree:append_text(", " .. said)
    pinfo.cols.info = "PLAN: " .. said
end

function revocation.dissector(tvb, pinfo, root)
    local tree = root:add(revocation, tvb())
    add_all(tree, tvb, {
        { r.version, 0, 1 }, { r.what, 1, 1 }, { r.time, 4, 8 }, { r.subject, 12, 32 }, { r.signer, 44, 32 }, { r.signature, 76, 64 },
    })
    pinfo.cols.info = "revocation"
end

function hello.dissector(tvb, pinfo, root)
    local tree = root:add(hello, tvb())
    local said = "hello"
    if add_all(tree, tvb, { { h.version, 0, 1 }, { h.interval, 2, 2 }, { h.age, 8, 8 }, { h.address, 16, 16 } }) then
        said = "hello of " .. address(tvb, 16)
    end
    tree:append_text(", " .. said)
    pinfo.cols.info = said
end

local function identifier(tree, tvb)
    local scheme = tvb(4, 4):uint()
    tree:add(f.scheme, tvb(4, 4))
    if scheme == 1 and tvb:len() >= 12 then
        tree:add(f.identifier4, tvb(8, 4))
    elseif scheme == 2 and tvb:len() >= 24 then
        tree:add(f.identifier6, tvb(8, 16))
    elseif scheme == 3 and tvb:len() >= 14 then
        tree:add(f.identifier_mac, tvb(8, 6))
    end
end

-- One option, header and value.
local function option(tree, tvb)
    local kind = tvb(0, 2):uint() % 0x4000
    local one = tree:add(f.option, tvb(0, 2))
    one:add(f.option_private, tvb(0, 2))
    one:add(f.option_discard, tvb(0, 2))
    one:add(f.option_length, tvb(2, 2))
    if tvb:len() < 8 then
        return
    end
    if kind == 1 or kind == 2 then
        identifier(one, tvb)
    elseif kind == 3 then
        one:add(f.checksum, tvb(4, 2))
    elseif kind == 4 then
        one:add(f.proof_scheme, tvb(4, 4))
        if tvb(4, 4):uint() == 0x686d6163 and tvb:len() >= 36 then
            one:add(f.proof_key, tvb(8, 4))
            one:add(f.proof_counter, tvb(12, 8))
            one:add(f.proof_code, tvb(20, 16))
        else
            add_rest(one, f.option_value, tvb, 8)
        end
    else
        one:add(f.option_value, tvb(4))
    end
end

local function options(tree, tvb, header)
    local at = 8
    while at + 4 <= header do
        local length = tvb(at + 2, 2):uint() * 4
        if length == 0 or at + length > header then
            complain(tree, tvb, "an option that leaves the header")
            return
        end
        option(tree, tvb(at, length):tvb())
        at = at + length
    end
end

local inner = { [CAPSULE] = capsule, [FETCH] = fetch, [PLAN] = plan, [REVOCATION] = revocation, [HELLO] = hello }

function anep.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "ANEP"
    local tree = root:add(anep, tvb())
    local fields = { { f.version, 0, 1 }, { f.discard, 1, 1 }, { f.type, 2, 2 }, { f.header, 4, 2 }, { f.length, 6, 2 } }
    if not add_all(tree, tvb, fields) then
        return tvb:len()
    end
    local kind, header, length = tvb(2, 2):uint(), tvb(4, 2):uint() * 4, tvb(6, 2):uint()
    tree:append_text(", " .. (types[kind] or string.format("type 0x%04x", kind)))
    pinfo.cols.info = types[kind] or string.format("ANEP type 0x%04x", kind)
    if tvb(0, 1):uint() ~= 1 or header < 8 or length < header then
        return complain(tree, tvb, "version or lengths contradict the format")
    end
    if header > tvb:len() then
        return complain(tree, tvb, "shorter than its header")
    end
    options(tree, tvb, header)
    if length > tvb:len() then
        complain(tree, tvb, "shorter than its length says")
    end
    local last = math.min(length, tvb:len())
    if last > header then
        local payload = tvb(header, last - header)
        if inner[kind] then
            inner[kind].dissector(payload:tvb(), pinfo, root)
        else
            tree:add(f.payload, payload)
        end
    end
    return last
end

-- In an overlay ports are the operator's: what looks like ANEP of a type of anode's, and fills its datagram, is.
local function looks_like_anep(tvb, pinfo, root)
    if tvb:len() < 8 or tvb(0, 1):uint() ~= 1 or tvb(1, 1):uint() % 0x80 ~= 0 then
        return false
    end
    local kind, header, length = tvb(2, 2):uint(), tvb(4, 2):uint() * 4, tvb(6, 2):uint()
    if not inner[kind] or header < 8 or header > length or length ~= tvb:reported_len() then
        return false
    end
    anep.dissector(tvb, pinfo, root)
    return true
end

DissectorTable.get("udp.port"):add(UDP_PORT, anep)
DissectorTable.get("ip.proto"):add(IP_PROTOCOL, anep)
anep:register_heuristic("udp", looks_like_anep)
