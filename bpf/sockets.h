/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Punting: the way of a packet from the kernel into the user half. It is redirected to the AF_XDP socket of its
 * interface and receive queue. If that queue has no socket, it goes through the Linux stack under an Ethernet type of
 * its own. The node's AF_PACKET socket takes that type and the stack has no use for it, so no later program has to
 * look at every frame.
 *
 * Order. A receive queue is one socket, so packets of the queue stay in order there; if the socket has no room the
 * kernel drops, and counts in the socket's statistics. Also a flow must not be overtaken by its own later capsules
 * that run here. So every frame to a socket has a ticket: the count of frames so far. Its flow keeps the last one, and
 * the node says how many it has finished. A capsule runs here if its flow's ticket is finished, and follows into the
 * user half if not.
 */
#ifndef ANODE_SOCKETS_H
#define ANODE_SOCKETS_H

#include "wire.h"

/* AF_XDP sockets of a node, and flows told apart at each. */
enum { SOCKETS = 128, FLOWS = 256 };

/* Ticks of the kernel's clock for which a flow that never pauses follows what went to the user half. */
enum { HOLD_TICKS = 250 };

/* Map `punts`, by socket, shared with the node's memory. */
struct punts {
    u64 tickets, zero[7];
    /* Written by the node: of so many tickets nothing is left in the user half. */
    u64 done, more[7];
};

/* Map `flows`, by socket and flow. */
struct flow {
    u64 ticket;
    /* When a frame last had to go to the user half, by the clock of ticks. */
    u64 since;
};

/* Map `punt_counts`, for each CPU, by interface. */
struct punt_counts {
    u64 to_socket, to_stack;
    /* To the socket, though they could have run here, to keep their flow in order. */
    u64 held;
    /* Run here though their flow has something in the user half, because it has been so for too long. */
    u64 overtaking;
    /* Frames that pretend to come from here: dropped. */
    u64 forged;
};

MAP(sockets_map);
MAP(punts_map);
MAP(flows_map);
MAP(punt_counts_map);

/* One program, `raise`, as long as a process listens: the kernel empties a map of programs when no process has it open and
 * no pin keeps it. So what nobody would take is the Linux stack's, as it came. */
MAP(raise_map);

/* Whether a frame is for this port's link address: an interface may show those of others too. */
INLINE int is_for(const u8 *data, const struct port *port)
{
    return *(const u32 *)data == port->mac && *(const u16 *)(data + 4) == port->mac_end;
}

/* Whether it is for this host, alone or among others. */
INLINE int is_to_us(const u8 *data, const struct port *port) { return (data[0] & 1) || is_for(data, port); }

/* The place of a flow among those of its socket. */
INLINE u32 flow_place(const u64 from[2], const u64 to[2])
{
    u64 mixed = (from[0] ^ from[1]) * 0x9e3779b97f4a7c15ull ^ (to[0] ^ to[1]);
    return (u32)((mixed * 0x9e3779b97f4a7c15ull) >> 40) & (FLOWS - 1);
}

/* The socket of the queue that a frame came by, as its number plus 1; 0: none is meant to be there. */
INLINE u32 socket_of(const struct xdp *ctx, const struct port *port)
{
    u32 queue = ctx->rx_queue_index;

    return queue < port->sockets ? port->first_socket + queue + 1 : 0;
}

/* Notes that a frame of this flow goes to a socket. */
INLINE void note(u32 socket, u32 place, u64 ticket, int held)
{
    u32 at = socket * FLOWS + place;
    struct flow *flow = map_lookup(flows_map, &at);

    if (!flow)
        return;
    flow->ticket = ticket;
    if (!held)
        flow->since = jiffies();
}

/* Gives a frame to the user half. `place`: that of its flow, or FLOWS where nothing can overtake. */
INLINE int to_user(struct xdp *ctx, const struct port *port, u32 place, int held)
{
    u32 interface = ctx->ingress_ifindex, socket = socket_of(ctx, port);
    struct punt_counts *counts = map_lookup(punt_counts_map, &interface);

    /* A socket takes a frame in one buffer only. */
    if (socket && xdp_get_buff_len(ctx) == (u64)(packet_end(ctx) - packet(ctx))) {
        u32 at = socket - 1;
        struct punts *punts = map_lookup(punts_map, &at);
        if (punts && map_lookup(sockets_map, &at)) {
            u64 ticket = ++punts->tickets;
            if (place < FLOWS)
                note(at, place, ticket, held);
            if (counts) {
                counts->to_socket++;
                counts->held += held;
            }
            return (int)redirect_map(sockets_map, at, XDP_PASS);
        }
    }
    if (counts)
        counts->to_stack++;
    return XDP_PASS;
}

/* Whether a capsule that could run here has to follow others of its flow into the user half. */
INLINE int must_follow(const struct xdp *ctx, const struct port *port, u32 place)
{
    u32 socket = socket_of(ctx, port), interface = ctx->ingress_ifindex;

    if (!socket)
        return 0;
    u32 punts_at = socket - 1, flow_at = punts_at * FLOWS + place;
    const struct punts *punts = map_lookup(punts_map, &punts_at);
    const struct flow *flow = map_lookup(flows_map, &flow_at);
    if (!punts || !flow || LIKELY(flow->ticket <= *(const volatile u64 *)&punts->done))
        return 0;
    if (!map_lookup(sockets_map, &punts_at))
        return 0;
    if (jiffies() - flow->since < HOLD_TICKS)
        return 1;
    struct punt_counts *counts = map_lookup(punt_counts_map, &interface);
    if (counts)
        counts->overtaking++;
    return 0;
}

/* Whether a frame is ANEP, and if so the addresses of its flow: what take.h says of socket buffers where no program like this
 * stands before the stack. A version of IP that is not the Ethernet type's is the stack's to drop, so what goes up tells by its first
 * four bits what type it had. */
INLINE int is_anep(const u8 *data, const u8 *end, u64 from[2], u64 to[2])
{
    const struct ethernet *ethernet = (const void *)data;
    const struct ipv4 *ip = (const void *)(ethernet + 1);
    const struct udp *udp = (const void *)(ip + 1);

    if ((const u8 *)(ip + 1) > end)
        return 0;
    if (ethernet->type == be16(IPV4)) {
        if ((ip->version >> 4) != 4 || ip->fragment & be16(0x3fff))
            return 0;
        from[0] = to[0] = 0;
        from[1] = mapped(ip->source);
        to[1] = mapped(ip->destination);
        if (ip->protocol == ANEP)
            return 1;
        if (ip->protocol != UDP)
            return 0;
        udp = (const void *)((const u8 *)ip + (ip->version & 15) * 4);
        return (const u8 *)(udp + 1) <= end && udp->destination == be16(PORT);
    }
    const struct ipv6 *ip6 = (const void *)(ethernet + 1);
    if (ethernet->type != be16(IPV6) || (const u8 *)(ip6 + 1) > end || (*(const u8 *)ip6 >> 4) != 6)
        return 0;
    copy(from, ip6->source.half);
    copy(to, ip6->destination.half);
    if (ip6->next == ANEP)
        return 1;
    udp = (const void *)(ip6 + 1);
    return ip6->next == UDP && (const u8 *)(udp + 1) <= end && udp->destination == be16(PORT);
}

/* A frame that pretends to come from here. */
INLINE int refuse(u32 interface)
{
    struct punt_counts *counts = map_lookup(punt_counts_map, &interface);

    if (counts)
        counts->forged++;
    return XDP_DROP;
}

/* The end of a frame's way in the kernel that nothing has been done to: to the user half if it is for the node, else to
 * the Linux stack. */
INLINE int punt(struct xdp *ctx, int ordered, int held)
{
    const u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct ethernet *ethernet = (const void *)data;
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);
    u64 from[2], to[2];

    if (!port || !port->present || (const u8 *)(ethernet + 1) > end)
        return XDP_PASS;
    if (UNLIKELY(ethernet->type == be16(PASSED_UP)))
        return refuse(interface);
    if (!is_to_us(data, port) || !is_anep(data, end, from, to))
        return XDP_PASS;
    int done = to_user(ctx, port, ordered ? flow_place(from, to) : FLOWS, held);
    if (done == XDP_PASS)
        tail_call(ctx, raise_map, 0);
    return done;
}

#endif
