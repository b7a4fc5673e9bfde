/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The contract between C and Rust as data. Example: the field `next_hop` at byte 8 of a structure becomes a constant
 * of Rust. This file is no program: the build compiles it with debugging information, reads that (src/contract), and
 * generates the module crate::contract.
 *
 * So a field that moves here moves there, and one that goes or changes its size ends the build where Rust uses it. A
 * new structure or number of both sides needs one line here.
 */
#include "ceiling.h"
#include "cut.h"
#include "seen.h"
#include <anode/capsule.h>

/* Structures of maps that outlive the process (kernel/pins.rs): when the layout of one changes, the version of the contract has to. */
#define KEPT(name) struct name kept_##name
/* Others. */
#define SHARED(name) struct name shared_##name
/* A number of both sides. */
#define NUMBER(name) number_##name = name

KEPT(account);
KEPT(replicas);
KEPT(budget);
KEPT(ceiling);
KEPT(code);
KEPT(context);
KEPT(current);
KEPT(entry);
KEPT(flow);
KEPT(hop);
KEPT(cached_flow);
KEPT(punt_counts);
KEPT(line);
KEPT(neighbour);
KEPT(next_hop);
KEPT(node);
KEPT(port);
KEPT(prefix);
KEPT(punts);
KEPT(record);
KEPT(route);
KEPT(send);
KEPT(set);
KEPT(usage);
KEPT(window);

SHARED(addr);
SHARED(allowance);
SHARED(an_addr);
SHARED(an_context);
SHARED(an_name);
SHARED(an_value);
SHARED(candidates);
SHARED(capsule);
SHARED(channels);
SHARED(cut);
SHARED(cut_flow);
SHARED(cut_usage);
SHARED(lengths);
SHARED(fib);
SHARED(foreign);
SHARED(foreign_count);
SHARED(foreign_flow);
SHARED(graph_found);
SHARED(graph_key);
SHARED(graph_words);
SHARED(key);
SHARED(listed);
SHARED(owners);
SHARED(passed_up);
SHARED(pattern);
SHARED(refused);
SHARED(scratch);
SHARED(seen);
SHARED(shapes);
SHARED(spent);
SHARED(state_call);
SHARED(tuple);

enum numbers {
    /* Entries of maps, and how often what is in them. */
    NUMBER(ALLOWANCES),
    NUMBER(CEILINGS),
    NUMBER(CHILDREN),
    NUMBER(CODES),
    NUMBER(CUTS),
    NUMBER(GRAPHS),
    NUMBER(GRAPH_WORDS),
    NUMBER(PROGRAM_SLOTS),
    NUMBER(FLOWS),
    NUMBER(FLOW_PLACES),
    NUMBER(FOREIGN_FLOWS),
    NUMBER(LINES),
    NUMBER(NEIGHBOUR_PLACES),
    NUMBER(NEXT_HOPS),
    NUMBER(NOWHERE),
    NUMBER(PORTS),
    NUMBER(PROBES),
    NUMBER(PROGRAMS),
    NUMBER(SENDS),
    NUMBER(SOCKETS),
    NUMBER(STATIONS),
    NUMBER(WAYS),
    NUMBER(VALUE),
    NUMBER(STATE_PUT),
    NUMBER(STATE_ADD),
    NUMBER(STATE_MAX),
    NUMBER(STATE_EXCHANGE),
    NUMBER(WINDOW_BYTES),
    /* Links in the name of a set of them. */
    NUMBER(LINKS),
    NUMBER(LINK_BITS),
    /* Places of programs. */
    NUMBER(LEARN),
    NUMBER(ACT),
    NUMBER(FAMILY),
    NUMBER(LATER),
    NUMBER(FOUND),
    NUMBER(CUT),
    NUMBER(LOOK),
    /* Filters. */
    NUMBER(SHAPES),
    NUMBER(SHAPE_SETS),
    NUMBER(LISTED),
    NUMBER(CANDIDATES),
    NUMBER(KEYS),
    NUMBER(TUPLES),
    NUMBER(AT_PORT),
    NUMBER(AT_KIND),
    NUMBER(AT_SOURCE),
    NUMBER(AT_DESTINATION_PORT),
    NUMBER(AT_DESTINATION),
    NUMBER(AT_SOURCE_PORT),
    NUMBER(AT_LAYER),
    NUMBER(ON_LINK),
    NUMBER(ON_IP),
    NUMBER(ON_TRANSPORT),
    /* What the linker replaces. */
    NUMBER(SLOT),
    NUMBER(WINDOW),
    NUMBER(SETS),
    NUMBER(KEEP),
    NUMBER(MOST),
    /* In packets. */
    NUMBER(ADDRESSES),
    NUMBER(CAPSULE),
    NUMBER(COPIED),
    NUMBER(HOPS),
    NUMBER(LOCKED),
    NUMBER(PASSED_UP),
    NUMBER(PORT),
    NUMBER(ANEP),
    NUMBER(UDP),
    NUMBER(TCP),
    NUMBER(ICMPV6),
    NUMBER(IPV4),
    NUMBER(ARP),
    NUMBER(VLAN),
    NUMBER(IPV6),
    /* Verdicts. */
    NUMBER(VERDICT_DROP),
    NUMBER(VERDICT_FORWARD),
    NUMBER(VERDICT_DELIVER),
    /* Families of addresses. */
    NUMBER(INET),
    NUMBER(INET6),
    /* Budgets. */
    NUMBER(SHARE),
    NUMBER(SHARE_MAX),
    NUMBER(SECOND),
    NUMBER(BURST),
    /* What code sees. */
    NUMBER(AN_API),
    NUMBER(AN_HERE),
    NUMBER(AN_INJECTED),
    NUMBER(AN_NONE),
    NUMBER(AN_WINDOW_MAX),
};

enum errors {
    NUMBER(AN_E_ABSENT),
    NUMBER(AN_E_RANGE),
    NUMBER(AN_E_FULL),
    NUMBER(AN_E_BOUND),
    NUMBER(AN_E_DENIED),
    NUMBER(AN_E_HERE),
    NUMBER(AN_E_CHANGED),
};

enum numbers numbers;
enum errors errors;

/* What programs here call `struct context` is what code sees. */
#define SAME(field) _Static_assert(__builtin_offsetof(struct context, field) == __builtin_offsetof(struct an_context, field), #field)
SAME(here);
SAME(payload_length);
SAME(window_length);
SAME(flags);
SAME(in_port);
SAME(from);
SAME(bound);
SAME(app_port);
SAME(neighbours);
_Static_assert(sizeof(struct context) == sizeof(struct an_context) && sizeof(struct an_value) == VALUE * 8, "code");
_Static_assert(WINDOW_BYTES == ADDRESSES + AN_WINDOW_MAX && AN_NONE64 == ~0ull, "code");
