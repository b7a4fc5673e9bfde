/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The contract between the kernel half and the node: the values of their shared maps, and the form of punted packets.
 * The node takes sizes, places and numbers from contract.bpf.c.
 */
#ifndef ANODE_CONTRACT_H
#define ANODE_CONTRACT_H

#include "base.h"

/* Entries of the maps. The direct-mapped ones are powers of two. */
enum {
    CODES = 4096,
    PROBES = 16,
    PROGRAMS = 1024,
    PORTS = 4096,
    NEIGHBOUR_PLACES = 1024,
    /* In pairs. */
    NEXT_HOPS = 8192,
};

/* Where a capsule header can stand in a frame: its form. Map `programs` has the program of each code at its slot. */
enum { BEHIND_IPV4 = 42, BEHIND_UDP = 50, BEHIND_IPV6 = 62, BEHIND_UDP6 = 70 };

/* Map `stations`: programs of our own that others jump to: what looks closely, since no code has run; where a packet goes whose
 * code has run; and where goes what is not the node's, while another program stood at an interface before. */
enum { LEARN, ACT, FAMILY, LATER, FOUND, STATIONS };

/* Map `program_slots`: programs that are there only while a process of the node's is and has channels (cut.bpf.c). */
enum { CUT, LOOK, PROGRAM_SLOTS };

/* An address: 16 bytes, IPv4 mapped. In packets it may stand anywhere: loads need not be aligned
 * where XDP runs. */
struct addr {
    u64 half[2];
};

/* What mobile code sees of the packet's place: struct an_context of sdk/anode/capsule.h. */
struct context {
    u64 here[2];
    /* Each line is one word of 8 bytes. */
    u32 payload_length, window_length;
    u32 flags, in_port;
    u32 from, bound;
    u32 app_port, neighbours;
    u64 more[2];
};

/* Map `node`, one entry. */
struct node {
    /* Next hops found under another generation are looked up again. */
    u64 generation;
    u8 name[16];
    /* When its clock began, in nanoseconds of the kernel's. */
    u64 origin;
    /* For the node alone: version of this contract. */
    u32 neighbours, version;
    /* Entries of maps `flow_cache` and `records` for each CPU, powers of two. */
    u32 cached_flows, records;
    /* Whether rules of policy routing have a say: then a way is that of one packet, and not believed for another. */
    u32 ruled;
    /* What capsules of one port may use of a CPU, in thousandths (ceiling.h); 0: all of it. */
    u32 permille;
};

/* Map `ports`, by interface index. */
struct port {
    /* Whether the node has this interface; its number; bytes of the largest IP packet that arrives when it is
     * redirected there, 0: none. */
    u32 present, number, mtu;
    /* Its own link address, as the 32 and 16 bits that it is in a frame. */
    u32 mac;
    u16 mac_end;
    /* AF_XDP sockets of its first receive queues: how many, and the number of the first (sockets.h). */
    u16 sockets, first_socket;
    /* Whether frames that come in by it can be copied: its program stands in the driver. */
    u16 copies;
    /* The node's address on it for each family; zero: none. */
    u64 v4[2], v6[2];
    /* Capsules with a larger resource bound that come in by it go up: the node knows whose they are, cuts it, and counts that. */
    u32 bound_max, zero;
};

/* Map `codes`: a code stands at the place its name says, or at one of the next if others were there. */
struct code {
    u64 name[4];
    /* Its program in map `programs`, and its place in map `usage`; 0: no code. */
    u32 slot;
    /* Payload bytes in its window. */
    u16 window;
    /* Codes that found this place taken and stand behind it. */
    u16 passed;
    /* For the node alone: a digest of its program as it was linked. */
    u64 made_of[3];
};

/* Map `neighbour_places`: neighbours, direct-mapped by address and interface. */
struct neighbour {
    u64 addr[2];
    u32 interface;
    /* Its number among the node's neighbours, plus 1; 0: none. */
    u32 number;
    /* Whether a capsule of its has come since the node looked, but for TICKS (next_hop.h): set here, cleared by the node. */
    u32 heard;
    /* Of the port it is behind, as when a flow of its was looked at last: the number; the link address, and whether there are AF_XDP
     * sockets in the two bytes behind that; and its bound_max. */
    u32 port;
    u64 mac;
    u32 bound_max, zero;
};

/* A next hop. */
struct hop {
    /* The node's address on that side. */
    u64 own[2];
    /* Destination, then source. */
    u16 macs[6];
    /* HERE: it is this node. */
    u16 interface, mtu;
};
enum { HERE = 0 };

/* Map `next_hops`, for each CPU: each destination has two places next to each other. */
struct next_hop {
    u64 to[2];
    struct hop hop;
    /* On the kernel's clock of ticks. */
    u64 until;
    u32 generation, zero;
};

/* Map `flow_cache`, a part for each CPU: a flow, in one cache line, since there are many. Codes and neighbours are few,
 * so the line says only where the neighbour is; the code is found by its name, at the same time (flow_cache.h). */
struct cached_flow {
    /* Key of the flow: its destination; the previous node's place in map `neighbour_places`; and one of the four forms above. */
    u64 to[2];
    struct hop hop;
    u64 until;
    u32 generation;
    u16 neighbour, form;
};

/* Map `routes`: a prefix over addresses, and what is behind it. */
struct prefix {
    u32 length, addr[4];
};
struct route {
    /* The next router; zero: the destination itself. */
    u64 via[2];
    u32 port, here;
};
/* The port of a route that leads nowhere, though a shorter prefix would. */
enum { NOWHERE = 0x10000 };

/* Map `neighbours`, by number: their addresses (struct addr). */

/* Map `state` of one code: sets of entries. Whoever looks into a set holds its lock. */
enum { WAYS = 4, VALUE = 8 };
struct entry {
    u64 key;
    /* On the node's clock; 0: no entry. */
    u64 until;
    u64 value[VALUE];
};
struct set {
    u32 lock, zero;
    struct entry ways[WAYS];
};

/* What is done with the value of a key in one step: it is replaced; something is added to its first word; that is raised to a number if it
 * is lower; it is replaced if its first word is what was expected. Nothing kept counts as zeroes. */
enum { STATE_PUT, STATE_ADD, STATE_MAX, STATE_EXCHANGE };
/* The question of the user half (state.bpf.c). */
struct state_call {
    u64 key;
    /* On the node's clock; until when it is kept then, 0: not at all. */
    u64 now, until;
    /* What is added, the least, what is expected; afterwards the first word of what is kept. */
    u64 number;
    /* What is put, or put in its place. */
    u64 value[VALUE];
    u32 change, sets;
};

/* Map `usage`, a part for each CPU, by slot: one cache line each. */
struct usage {
    u64 packets, bytes;
    /* Given to the user half; dropped by the code, or for a verdict that does not exist. All other packets were forwarded. */
    u64 passed_up, by_code, by_verdict;
    /* Dropped because its domain is over its budget: not among the packets. */
    u64 by_budget;
    /* Time in nanoseconds, from samples. */
    u64 time;
    /* Packets this CPU may still run before it asks for more; how many it was given; which of them is timed, by how many are left then. */
    u32 left;
    u16 share, timed;
};

/* Map `budgets`, by slot: what is left of what its domain may use, over both halves. Both come back at a steady rate, for a
 * tenth of a second at most; below nothing is what has been overdrawn, by a second's worth at most. */
struct budget {
    u32 lock;
    /* What has come back of the next packet and of the next nanosecond, in millionths. */
    u32 packets_part, time_part;
    /* Nanoseconds that one packet of the code can take, by what the verifier has seen of it; 0: no more than most code can. */
    u32 most;
    /* Packets, and nanoseconds of time, a second. */
    u64 packets_rate, time_rate;
    long long packets, time;
    /* When it was looked at last, on the kernel's clock. */
    u64 at;
    /* What the user half has spent, as far as it has been charged here. */
    u64 charged_packets, charged_time;
};

/* Map `accounts`, by slot, shared with the node's memory: what each half has spent, for the other to charge. */
struct account {
    /* Written here, under the lock of the slot's budget; also how often packets were refused. */
    u64 packets, time, refused;
    /* Edits that the code wishes for, as bits, until the node takes them; wishes for edits that its role does not have, and beyond the
     * changes that it has in a second. */
    u64 wished, wishes_refused, wishes_later, zero[2];
    /* Written by the node; also the edits of the code's role, and those that may be wished for now. */
    u64 user_packets, user_time, edits, open, more[4];
};
/* Packets that a CPU takes at once, and of which one is timed: what comes back in about a millisecond, within these. */
enum { SHARE = 64, SHARE_MAX = 256 };

/* Map `ceilings`, a part for each CPU, by port: what capsules that come in by it may still use. */
struct ceiling {
    /* Nanoseconds, and what has come back of the next one; below nothing is what has been overdrawn, by a second's worth at most. */
    long long time;
    /* When it was looked at last, on the kernel's clock. */
    u64 at;
    u32 part;
    /* Packets until it is looked at again, and which of them is timed. */
    u16 left, timed;
    /* Frames dropped; nanoseconds charged. */
    u64 refused, spent, zero[3];
};
enum { CEILINGS = 64 };

/* Map `current`, for each CPU, one entry: capsules at the ingress by what became of them; and the packet whose code runs. */
struct current {
    /* received + made = redirected + raised + punted + dropped. `raised`: given to the user half with a verdict;
     * `punted`: left as they came, to the user half or the stack; `unraised`: of those dropped, the ones that could
     * not be given to the user half. */
    u64 received, redirected, made, raised, punted, dropped, unraised;
    /* Payload bytes in its window, of code that can send. */
    u16 window, zero[3];
    /* The code may write into this; nothing in it is believed afterwards. */
    struct context context;
    /* The packet's source before the code ran. */
    u64 source[2];
    /* Its flow's place in map `flow_cache`, and what of it changes from packet to packet: offset of the capsule header in the frame, slot
     * of the code, bytes of the capsule, header included, and its resource bound. */
    u32 cached_flow;
    u16 offset;
    /* Where it goes since its code has been jumped to (a station; 0: that was not there), and what the code has returned. */
    u16 next;
    u32 slot, bytes, bound, verdict;
    /* When it began, if it is timed; else 0. */
    u64 began;
};

/* What code returns; beside VERDICT_DELIVER in the upper half an application port, or 0: the header's. */
enum { VERDICT_DROP, VERDICT_FORWARD, VERDICT_DELIVER };

/* What goes up the Linux stack to the node is in an Ethernet frame of this type (IEEE 802, local experiments), which is never
 * taken from a wire: as it came, but for the type; or, if its code has run, with this structure behind the Ethernet header. The four bits
 * behind that header tell which: a version of IP, or the first of an Ethernet type, 0 or 8. */
enum { PASSED_UP = 0x88b5 };

struct passed_up {
    u16 ethertype, zero;
    u32 verdict, bound, record;
    u64 code[4], source[2], here[2];
    /* What the code has sent and written into the log, in the record with this number. */
    u64 number;
    /* The set of links that its copies would leave by, if only that is missing here. */
    u64 links;
    u16 children, lines, zeroes[2];
};

/* What code does beside its verdict is written down while it runs: children that it sends, lines for the log. Afterwards the packet and
 * its children leave as copies of one frame, or the packet goes up and the node does what is written. The packet itself is one more send.
 *
 * A frame that is to be copied has this type (IEEE 802, local experiments) until a program at each interface makes each copy a packet
 * (egress.bpf.c), and number and place of its record where link addresses are. */
enum { COPIED = 0x88b6 };
enum { CHILDREN = 16, SENDS = CHILDREN + 1, LINES = 4, WINDOW_BYTES = 32 + 512 };

/* Map `records`, a part for each CPU. */
struct record {
    /* Which of the packets that have had it. */
    u64 number;
    /* When it came into use, on the kernel's clock of ticks. */
    u64 since;
    /* Copies that have not left yet, as bits; UP: the node has it, and writes 0 when done. 0: it is free. */
    u32 left;
    /* How many it holds. */
    u32 sends, lines;
    /* Of the packet: the code's slot, its form, bytes of its window with its two addresses. */
    u32 slot;
    u16 form, bytes, zero[2];
    /* Where each send leaves. */
    u16 interfaces[20];
};
enum { UP = 1u << 31 };

/* Map `sends`, by record: what leaves, as it was when the code sent it. */
struct send {
    u32 bound, zero;
    struct hop hop;
    u64 window[WINDOW_BYTES / 8];
};

/* Map `lines`, by record. */
struct line {
    u64 value;
    u32 tag, zero;
};

/* Map `window`, for each CPU, one entry: where code runs that can send. */
struct window {
    struct send send;
    /* The record for the next packet; whether there is one. */
    u32 record, ready;
};

/* Map `links`: device maps for copies, by the links that they leave by: of port n so many as six bits from bit 6n say. */
enum { LINK_BITS = 6, LINKS = 10 };

/* Map `replicas`, for each CPU, by slot: of code that sends or logs. */
struct replicas {
    /* Children that left from here; packets that left with them. */
    u64 children, packets;
    /* Packets that went up with what is written of them, and before their code ran since all records were in use. */
    u64 up, later;
    /* Copies dropped because their record had become another packet's (in slot 0). */
    u64 lost, zero[3];
};

/* Map `refused`: the number of the map that capsules leave by, and how many could not. */
struct refused {
    u64 map, frames;
};

/* Numbers that the linker replaces: each stands for a value of the code being linked: its slot, payload bytes in
 * its window, sets of its soft state less 1, longest keep time in milliseconds, children
 * that a packet of its may send. */
enum { SLOT = 0x5e1f0001, WINDOW = 0x5e1f0002, SETS = 0x5e1f0004, KEEP = 0x5e1f0005, MOST = 0x5e1f0006 };

/* One cache line each. */
_Static_assert(sizeof(struct cached_flow) == 64 && sizeof(struct usage) == 64 && sizeof(struct ceiling) == 64, "a cache line");

MAP(ports_map);
MAP(codes_map);
MAP(neighbour_places_map);
MAP(next_hops_map);
MAP(usage_map);
MAP(budgets_map);
MAP(accounts_map);
MAP(ceilings_map);
MAP(current_map);
MAP(flow_cache_map);
MAP(programs_map);
MAP(transmit_map);
MAP(stations_map);
MAP(program_slots_map);

/* The end of the way of what is not the node's: to the program that was found at the interface, or to the Linux stack. The jump
 * is not there while none was found at any. */
INLINE int pass(struct xdp *ctx)
{
    tail_call(ctx, stations_map, FOUND);
    return XDP_PASS;
}
MAP(routes_map);
MAP(neighbours_map);
MAP(state_map);
MAP(records_map);
MAP(sends_map);
MAP(lines_map);
MAP(window_map);
MAP(links_map);
MAP(replicas_map);

/* The one entry of map `node`; one of map `zero`, which is key 0 of all others. */
extern struct node node_value;
MAP(zero_value);

/* `node_value` in a register, so that no offset is put into its address. */
INLINE const volatile struct node *node(void)
{
    const struct node *value = &node_value;
    asm volatile("" : "+r"(value));
    return value;
}

#endif
