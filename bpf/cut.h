/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Cut-through channels in the kernel half: packets pass from an incoming to an outgoing channel of one domain, which
 * pays. It does the same as src/node/forms.rs in the user half. IP cut-through routes a packet as it is. UDP
 * cut-through gives it the headers of the outgoing channel and carries the checksum over, so damage on the way stays
 * visible.
 *
 *     headers ─▶ flow ─▶ budget ─▶ bandwidth of the domain and of the channel ─▶ headers ─▶ redirect
 *
 * Only packets without anything unusual pass here. All others are punted before anything has been counted.
 */
#ifndef ANODE_CUT_H
#define ANODE_CUT_H

#include "budget.h"
#include "channel.h"
#include "next_hop.h"
#include "plain.h"
#include "sockets.h"

/* Cut-through channels, domains that have some, and bandwidths; number 0 is none. Places for flows, in pairs. */
enum { CUTS = 1024, ALLOWANCES = 2048, FLOW_PLACES = 4096 };

/* Hops that a packet with headers of the node's may go: as in src/graph/exit.rs. */
enum { HOPS = 64 };

/* Map `cuts`: where the packets of a cut-through channel go. */
struct cut {
    /* The outgoing channel's own addresses and ports; zero: the packet's. Of IP cut-through `to` is the next hop. */
    u64 from[2], to[2];
    u16 from_port, to_port;
    /* The only interface by which they may leave; 0: that of the route. */
    u32 interface;
    /* Who pays: place in `budgets`, places in `allowances` of the domain's and the channel's bandwidth, or 0. */
    u32 domain, of_domain, of_channel;
    /* ON_IP or ON_TRANSPORT. */
    u32 layer;
    /* Of a graph's incoming channel: the place of the graph's program in `graphs`, and 1; 0: it is a cut-through channel. */
    u32 graph, zero;
};

/* Graphs with a program in the kernel; words that one counts in. */
enum { GRAPHS = 256, GRAPH_WORDS = 1024 };

/* Map `graph_words`, for each CPU, one entry: what the engines of one generation of a graph have counted. */
struct graph_words {
    u64 word[GRAPH_WORDS];
};

/* Key of map `graph_table`: an engine, and what it looks for. */
struct graph_key {
    u32 engine, word[4];
};

/* Map `graph_table`: what the engines of one generation of a graph know of flows and stations. */
struct graph_found {
    /* New ends of a flow as they stand in a packet (source, destination, ports), or a link address. */
    u8 bytes[16];
    u32 output;
    /* What the new ends add to the sums of IP and of the transport. */
    u16 of_ip, of_transport;
    /* When a packet was of it last, in nanoseconds of the kernel's coarse clock. Of a station until when it holds; of a flow how
     * long it may have had no packet. */
    u64 used, until;
};

/* Map `cut_usage`, for each CPU: what has gone through a cut-through channel. */
struct cut_usage {
    /* Its packets within the budget, and bytes of all frames; `passed_up`: left to the user half, not among them;
     * `by_code`: dropped since their headers could not be changed. */
    struct usage usage;
    /* Bytes of payload within the budget, and beyond it. */
    u64 bytes, refused_bytes;
    /* Dropped for bandwidth: the domain's, the channel's. */
    u64 by_domain, by_channel;
    /* Bytes that were sent, as the outgoing channel counts them. */
    u64 sent_bytes;
    /* Bytes this CPU may still send before it asks for more. */
    u64 of_domain, of_channel;
    /* Packets that were sent: those that were not dropped. */
    u64 sent;
};

/* Map `allowances`: what is left of a bandwidth over both halves, in bytes. */
struct allowance {
    u32 lock;
    /* What has come back of the next byte, in millionths. */
    u32 part;
    u64 rate, burst;
    long long tokens;
    /* When it was looked at last; what the user half has spent, as far as it has been charged here. */
    u64 at, charged;
};

/* Map `spent`, by place in `allowances`, shared with the node's memory: bytes that each half has spent. */
struct spent {
    u64 kernel, zero[7], user, more[7];
};

/* Bytes that a CPU takes at once, if they are there, or what comes back in a millisecond. */
enum { SHARE_MIN = 16384 };

/* What becomes of the packets of a flow. */
enum { TO_STACK = 1, TO_USER, TO_CUT, TO_GRAPH };

/* Map `cut_flows`, for each CPU: what was found out about the first packet of a flow. */
struct cut_flow {
    u64 from[2], to[2];
    u32 ports, interface;
    u32 generation, channels;
    u64 until;
    u16 protocol;
    /* TO_…; whether the interface has AF_XDP sockets. */
    u8 what, sockets;
    u32 cut;
    /* The link address that its frames are for, in the first six bytes. */
    u64 mac;
    struct hop hop;
    u32 of_domain, of_channel;
    /* Of UDP cut-through: ports, and what has to be added to the checksum's complement. */
    u32 new_ports;
    /* Whether the channel's payload is behind the transport's header: of cut-through that is UDP's. */
    u16 change, on_transport;
    /* Of a graph's channel: the place of its program. */
    u32 domain, graph;
    u64 new_from[2], new_to[2], more[4];
};

MAP(cuts_map);
MAP(cut_usage_map);
MAP(allowances_map);
MAP(spent_map);
MAP(cut_flows_map);
MAP(graphs_map);
MAP(graph_words_map);

/* Map `scratch`, for each CPU, one entry: what a close look works with. */
struct scratch {
    struct plain plain;
    struct fields fields;
    struct pattern key;
    struct found found;
    struct candidates among;
    /* Whether there is nothing unusual in the packet. */
    u32 is_plain;
    /* Told to the program of a graph: the channel's number in `cuts`, bytes of payload, and of the frame. */
    u32 door, payload, frame;
};

MAP(scratch_map);

static long (*const xdp_adjust_tail)(struct xdp *ctx, int delta) = (void *)65;

/* Takes the next share of a bandwidth for this CPU; 0 if there is less than the packet needs. */
INLINE int take_bytes(u32 at, u64 *left, u32 bytes)
{
    struct allowance *allowance = map_lookup(allowances_map, &at);
    struct spent *spent = map_lookup(spent_map, &at);
    u64 now = ktime_get_ns(), user;
    long long share = 0, wanted;

    if (!allowance || !spent || !left)
        return 0;
    wanted = (long long)bytes - (long long)*left;
    user = *(const volatile u64 *)&spent->user;
    spin_lock(allowance);
    u64 passed = passed_since(&allowance->at, now);
    long long tokens = filled(allowance->tokens, (long long)allowance->burst, allowance->rate, passed, &allowance->part);
    tokens = charged(tokens, user - allowance->charged, allowance->rate);
    allowance->charged = user;
    if (tokens >= wanted) {
        share = allowance->rate >> 10 > SHARE_MIN ? (long long)(allowance->rate >> 10) : SHARE_MIN;
        if (share > tokens)
            share = tokens;
        if (share < wanted)
            share = wanted;
        spent->kernel += (u64)share;
    }
    allowance->tokens = tokens - share;
    spin_unlock(allowance);
    if (tokens < wanted)
        return 0;
    *left += (u64)share - bytes;
    return 1;
}

INLINE int may_send(u32 at, u64 *left, u32 bytes)
{
    if (!at)
        return 1;
    if (LIKELY(*left >= bytes)) {
        *left -= bytes;
        return 1;
    }
    return take_bytes(at, left, bytes);
}

/* Bytes of a packet: its payload, its frame as it came and as it leaves, what the outgoing channel counts. */
struct lengths {
    u32 payload, frame, leaving, sent;
};

/* Whether the domain and the channel may send a packet, by the bytes of the frame that leaves; accounts for it. */
INLINE int is_granted(const struct cut_flow *flow, struct cut_usage *used, const struct lengths *of, u64 *began)
{
    used->usage.bytes += of->frame;
    if (UNLIKELY(!used->usage.left) && !take_share(flow->domain, &used->usage, ktime_get_ns())) {
        used->usage.by_budget++;
        used->refused_bytes += of->payload;
        return 0;
    }
    if (UNLIKELY(is_timed(&used->usage)))
        *began = ktime_get_ns();
    used->usage.left--;
    used->usage.packets++;
    used->bytes += of->payload;
    if (!may_send(flow->of_domain, &used->of_domain, of->leaving)) {
        used->by_domain++;
        return 0;
    }
    if (!may_send(flow->of_channel, &used->of_channel, of->leaving)) {
        used->by_channel++;
        return 0;
    }
    used->sent_bytes += of->sent;
    return 1;
}

/* A router's part: one hop less. The header's sum was right. */
INLINE void spend_hop(u8 *data, const struct plain *it)
{
    struct ipv4 *ip = (void *)(data + sizeof(struct ethernet));

    if (it->v4) {
        /* RFC 1624, equation 3, for the word of time to live and protocol. */
        u32 before = *(const u16 *)&ip->ttl, after = before - 1;
        ip->ttl = (u8)after;
        ip->checksum = (u16)~fold((u64)(u16)~ip->checksum + (u16)~before + after);
    } else {
        ((struct ipv6 *)(void *)ip)->hop_limit = it->life - 1;
    }
}

/* Headers of the outgoing channel's around the same payload. 0 if there is no room for them. */
INLINE int put_headers(u8 *data, const u8 *end, const struct plain *it, const struct cut_flow *flow)
{
    u8 *ip = data + sizeof(struct ethernet);
    struct udp *udp = (void *)(ip + (it->v4 ? sizeof(struct ipv4) : sizeof(struct ipv6)));

    if ((const u8 *)(udp + 1) > end)
        return 0;
    if (it->v4) {
        u32 *word = (u32 *)ip, from = (u32)(flow->new_from[1] >> 32), to = (u32)(flow->new_to[1] >> 32);
        u32 life = HOPS | UDP << 8, whole = (u32)be16(0x4000) << 16;
        word[0] = (word[0] & 0xffff0000) | 0x45;
        word[1] = whole;
        word[3] = from;
        word[4] = to;
        word[2] = life | (u32)(u16)~fold((u64)word[0] + whole + life + from + to) << 16;
    } else {
        struct ipv6 *ip6 = (void *)ip;
        ip6->word = be32(0x60000000);
        ip6->hop_limit = HOPS;
        copy(ip6->source.half, flow->new_from);
        copy(ip6->destination.half, flow->new_to);
    }
    *(u32 *)udp = flow->new_ports;
    /* None over IPv4 stays none. */
    if (LIKELY(udp->checksum)) {
        u16 checksum = (u16)~fold((u64)(u16)~udp->checksum + flow->change);
        udp->checksum = checksum ? checksum : 0xffff;
    }
    return 1;
}

/* A packet's headers cannot be changed. */
INLINE int drop_broken(struct cut_usage *used)
{
    used->usage.by_code++;
    return XDP_DROP;
}

/* Takes a packet through a cut-through channel; comes back with XDP_PASS if the user half has to do it. */
INLINE int cut_through(struct xdp *ctx, const struct plain *it, const struct cut_flow *flow)
{
    u32 cut = flow->cut, headers = it->v4 ? sizeof(struct ipv4) : sizeof(struct ipv6), padding;
    struct cut_usage *used = map_lookup(cut_usage_map, &cut);
    u8 *data = packet(ctx);
    u64 began = 0;

    if (!used || it->length > flow->hop.mtu)
        return XDP_PASS;
    padding = it->size - (u32)sizeof(struct ethernet) - it->length;
    if (flow->on_transport) {
        const struct udp *udp = (const void *)(data + sizeof(struct ethernet) + headers);
        headers += sizeof(*udp);
        /* Without a sum over IPv6 it is malformed; the others' is none of ours. */
        if ((const u8 *)(udp + 1) > packet_end(ctx) || (!it->v4 && !udp->checksum))
            return XDP_PASS;
    } else if (it->life < 2) {
        return XDP_PASS;
    }
    u32 payload = it->length - headers;
    /* It leaves with headers as long as those it came with, and without bytes behind the packet. */
    struct lengths lengths = {payload, it->size, it->size - padding, flow->on_transport ? payload : it->size};
    if (!is_granted(flow, used, &lengths, &began))
        return XDP_DROP;
    /* Bytes behind the packet stay behind. */
    if (UNLIKELY(padding)) {
        if (xdp_adjust_tail(ctx, -(int)padding))
            return drop_broken(used);
        data = packet(ctx);
    }
    if (data + sizeof(struct ethernet) + sizeof(struct ipv4) > packet_end(ctx))
        return drop_broken(used);
    if (flow->on_transport) {
        if (!put_headers(data, packet_end(ctx), it, flow))
            return drop_broken(used);
    } else {
        spend_hop(data, it);
    }
    used->sent++;
    *(u64 *)data = *(const u64 *)flow->hop.macs;
    *(u32 *)(data + 8) = *(const u32 *)(flow->hop.macs + 4);
    if (UNLIKELY(began))
        charge(flow->domain, &used->usage, took(began, flow->domain));
    return (int)redirect_map(transmit_map, flow->hop.interface, 0);
}

/* The first of the two places of a flow. */
INLINE u32 flow_first(const struct plain *it)
{
    u64 mixed = (it->to[0] ^ it->to[1]) * 0x9e3779b97f4a7c15ull ^ (it->from[0] ^ it->from[1] ^ it->ports) * 0xd6e8feb86659fd93ull;
    return ((u32)(mixed >> 40) & (FLOW_PLACES / 2 - 1)) * 2;
}

INLINE int is_flow(const struct cut_flow *flow, const struct plain *it, u32 interface)
{
    return is_equal(flow->to, it->to) && is_equal(flow->from, it->from) && flow->ports == it->ports &&
           flow->protocol == it->protocol && flow->interface == interface;
}

INLINE int is_flow_current(const struct cut_flow *flow)
{
    return flow->generation == (u32)node()->generation && flow->channels == channels_now() &&
           (long long)(flow->until - jiffies()) > 0;
}

/* What must be added to the complement of a sum if some words of it become others. */
INLINE u16 change_of(const struct plain *it, const struct cut_flow *flow)
{
    u64 sum = 0;
    const u32 *before[2] = {(const u32 *)it->from, (const u32 *)it->to};
    const u32 *after[2] = {(const u32 *)flow->new_from, (const u32 *)flow->new_to};

#pragma clang loop unroll(full)
    for (int i = 0; i < 2; i++)
#pragma clang loop unroll(full)
        for (int j = 0; j < 4; j++)
            sum += (u64)~before[i][j] + after[i][j];
    sum += (u64)~it->ports + flow->new_ports;
    return (u16)fold(sum);
}

/* Finds out where the packets of a flow go that is of a cut-through channel; 0 if the user half has to do that. */
INLINE int find_way(struct xdp *ctx, const struct plain *it, u32 number, struct cut_flow *flow, u64 *until)
{
    const struct cut *cut = map_lookup(cuts_map, &number);

    if (!cut || !cut->layer)
        return 0;
    flow->on_transport = cut->layer == ON_TRANSPORT;
    if (cut->graph) {
        flow->what = TO_GRAPH;
        flow->cut = number;
        flow->graph = cut->graph - 1;
        return 1;
    }
    copy(flow->new_to, cut->to[0] | cut->to[1] ? cut->to : it->to);
    copy(flow->new_from, cut->from[0] | cut->from[1] ? cut->from : it->from);
    /* Nobody's address, as a source, is to be replaced by the port's. */
    if (is_v4(flow->new_to) != it->v4 || is_v4(flow->new_from) != it->v4 || !(flow->new_from[0] | flow->new_from[1] >> 32))
        return 0;
    u16 to_port = cut->to_port ? cut->to_port : (u16)(it->ports >> 16);
    flow->new_ports = cut->from_port | (u32)to_port << 16;
    flow->change = change_of(it, flow);
    flow->cut = number;
    flow->domain = cut->domain;
    flow->of_domain = cut->of_domain;
    flow->of_channel = cut->of_channel;
    u32 interface = cut->interface;
    const struct next_hop *next = find_next(ctx, flow->new_from, flow->new_to);
    if (!next || (interface && next->hop.interface != interface))
        return 0;
    flow->hop = next->hop;
    *until = next->until;
    return 1;
}

/* The place of a flow among those of its socket: another than that of capsules between the same hosts. */
INLINE u32 channel_place(const struct plain *it)
{
    u64 from[2] = {it->from[0] ^ it->ports, it->from[1] ^ it->protocol};

    return flow_place(from, it->to);
}

/* Gives a frame of a channel to the user half. Where there are AF_XDP sockets, what may pass here later must not overtake it. */
INLINE int punt_channel(struct xdp *ctx, const struct plain *it, int held)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);

    if (!port || !port->sockets)
        return XDP_PASS;
    return to_user(ctx, port, it ? channel_place(it) : FLOWS, held);
}

/* Counts a packet of a cut-through channel that is left to the user half. */
INLINE void leave(u32 cut)
{
    struct cut_usage *used = map_lookup(cut_usage_map, &cut);

    if (used)
        used->usage.passed_up++;
}

#endif
