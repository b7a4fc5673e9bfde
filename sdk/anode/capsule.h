/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * anode/capsule.h: the interface of a capsule's code to its node.
 *
 * One C source, compiled for wasm32 (user half) and for bpf (kernel half), is one program:
 *
 *     #include <anode/capsule.h>
 *
 *     struct ping { be32 sequence; u8 turned; u8 pad[3]; };
 *
 *     AN_CAPSULE(ping, struct ping)
 *     {
 *         if (!(ctx->flags & AN_HERE) || w->payload.turned)
 *             return an_forward();
 *         w->payload.turned = 1;
 *         w->destination = w->source;
 *         w->source = ctx->here;
 *         return an_forward();
 *     }
 *
 * The node runs the body once per packet. `ctx` (read it) says where the packet is; `w` is the
 * window (read and write it): the capsule's source, its destination and the first sizeof(payload)
 * bytes of its payload. A capsule whose payload is shorter than the window is dropped before the
 * body runs. The rest of the payload is reached by an_load() and an_store(). The body ends with a
 * verdict. Nothing survives from packet to packet except soft state (an_state_*): there are no
 * mutable globals, and string literals or tables in static memory are refused for bpf.
 *
 * Units: time in nanoseconds or milliseconds as named, sizes in bytes, load in 1/1000.
 * Fields of the types be16, be32, be64 are in network byte order. They are no numbers, so the compiler refuses `hops + 1`
 * of a be32; an_be32() converts either way: `w->payload.hops = an_be32(an_be32(w->payload.hops) + 1)`.
 * Failures are negative numbers of enum an_error. docs/bundle.md is the normative text.
 */
#ifndef ANODE_CAPSULE_H
#define ANODE_CAPSULE_H

#if !defined(__wasm__) && !defined(__BPF__) && !defined(AN_NATIVE)
#error "capsules are compiled with clang for --target=wasm32 and --target=bpf; use: anode code build FILE.c"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "capsules are little endian code: use --target=bpfel"
#endif

/** The version of this interface; a bundle carries it as the annotation anode.api. */
#define AN_API 1

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
/** 16 bits in network byte order: no number, an_be16() makes one of it. */
typedef struct an_be16 {
    u16 network;
} be16;
/** 32 bits in network byte order: no number, an_be32() makes one of it. */
typedef struct an_be32 {
    u32 network;
} be32;
/** 64 bits in network byte order: no number, an_be64() makes one of it. */
typedef struct an_be64 {
    u64 network;
} be64;

#define AN_INLINE static inline __attribute__((always_inline, unused))

/** The most payload bytes a window may show. */
#define AN_WINDOW_MAX 512

/** A network address: 16 bytes, IPv4 in its IPv4-mapped form (::ffff:a.b.c.d). */
struct an_addr {
    union {
        be32 word[4];
        /** The same as they lie, to compare and to copy. */
        u32 half[4];
        u8 byte[16];
    };
};

/** A node's name: 16 bytes of text, zero padded (not terminated if all 16 are used). */
struct an_name {
    union {
        u32 word[4];
        u8 byte[16];
    };
};

/** What one key of soft state holds: 64 bytes. an_state_add(), an_state_max() and an_state_exchange() work with word[0]. */
struct an_value {
    union {
        u64 word[8];
        u32 half[16];
        u8 byte[64];
    };
};

/** Where the packet is, 64 bytes; only for reading. */
struct an_context {
    /** This node's address. */
    struct an_addr here;
    /** Bytes of payload the capsule carries in all; at least window_length. */
    u32 payload_length;
    /** Bytes of payload that the window shows: sizeof(payload). */
    u32 window_length;
    /** A sum of enum an_flags. */
    u32 flags;
    /** Number of the port through which the packet came in; AN_NONE if it was injected here. */
    u32 in_port;
    /** Index (an_neighbour()) of the neighbour that sent it; AN_NONE if injected or unknown. */
    u32 from;
    /** The resource bound left: hops and children this packet may still pay for. */
    u32 bound;
    /** The application port of the capsule header, 0 to 65535. */
    u32 app_port;
    /** How many neighbours this node has: an_neighbours() without a call. */
    u32 neighbours;
    /** Zero. */
    u32 reserved[4];
};

_Static_assert(sizeof(struct an_addr) == 16, "an address is 16 bytes");
_Static_assert(sizeof(struct an_name) == 16, "a node name is 16 bytes");
_Static_assert(sizeof(struct an_value) == 64, "a state value is 64 bytes");
_Static_assert(sizeof(struct an_context) == 64, "the context is 64 bytes");

/** Bits of an_context.flags. */
enum an_flags {
    /** This node is the capsule's destination. */
    AN_HERE = 1,
    /** The capsule was injected at this node: this is its first hop. */
    AN_INJECTED = 2,
};

/** "There is none": ports, neighbour indices, loads and queues that are not known. */
#define AN_NONE 0xffffffffu
/** "There is none" of the calls that return 64 bits. */
#define AN_NONE64 0xffffffffffffffffull

/** What a call that fails returns. */
enum an_error {
    /** No such key, neighbour, route or edit. */
    AN_E_ABSENT = -1,
    /** An offset, size or number outside what there is. */
    AN_E_RANGE = -2,
    /** A quota is used up: state entries of this code, children of this packet, log lines, edits. */
    AN_E_FULL = -3,
    /** The resource bound does not suffice. */
    AN_E_BOUND = -4,
    /** The role of this code's principal does not include the call, or has no edits. */
    AN_E_DENIED = -5,
    /** The address is this node's own. */
    AN_E_HERE = -6,
    /** What is kept is not what was expected. */
    AN_E_CHANGED = -7,
};

#ifdef __wasm__
#define AN_CALL(name) __attribute__((import_module("anode"), import_name(#name))) extern
#else
#define AN_CALL(name) extern
#endif

/* ---- Calls to the node ------------------------------------------------------------------ */

/** The host's clock in nanoseconds, which never goes back. Nodes of one host, such as those of a lab, and both
 *  halves read the same one, so their readings can be subtracted; so can all of a simulation, where it is
 *  constant while one packet is handled. Other hosts began to count at another time. */
AN_CALL(an_now) u64 an_now(void);

/** 64 random bits. Not for secrets. */
AN_CALL(an_random) u64 an_random(void);

/** Writes this node's name. 0. */
AN_CALL(an_node_name) int an_node_name(struct an_name *name);

/** `size` bytes (1, 2, 4 or 8) of the payload at `offset` bytes from its beginning, which are in
 *  network byte order there, as a number. AN_NONE64 if the size is none of these or the bytes
 *  are not all inside the payload (compare with ctx->payload_length first if 8 bytes of ones may
 *  be meant). Sees what the window was given so far. */
AN_CALL(an_load) u64 an_load(u32 offset, u32 size);

/** Writes the low `size` bytes (1, 2, 4 or 8) of `value` in network byte order into the payload
 *  at `offset`. 0, or AN_E_RANGE as for an_load(). A payload never changes its length. */
AN_CALL(an_store) int an_store(u32 offset, u64 value, u32 size);

/** Reads the soft state that this code (every capsule of the same name, whoever sent it) keeps at
 *  this node under `key`. 0; AN_E_ABSENT (never put, timed out, evicted), AN_E_FULL (unreadable):
 *  then *value is zeroed. */
AN_CALL(an_state_get) int an_state_get(u64 key, struct an_value *value);

/** Keeps `value` under `key` for at most `keep_ms` milliseconds from now (the node has a longest
 *  time; 0 removes it). It may vanish earlier. 0, or AN_E_FULL if this code's quota is used up. */
AN_CALL(an_state_put) int an_state_put(u64 key, const struct an_value *value, u32 keep_ms);

/** Adds `delta` (modulo 2^64) to word[0] under `key`, which counts from zero if absent, keeps it
 *  for `keep_ms` from now, and returns the sum. AN_NONE64 if this code's quota is used up. */
AN_CALL(an_state_add) u64 an_state_add(u64 key, u64 delta, u32 keep_ms);

/** Raises word[0] under `key`, zero if absent, to `least` if it is lower (without a sign), keeps it
 *  for `keep_ms` from now, and returns what it is then. AN_NONE64 if this code's quota is used up. */
AN_CALL(an_state_max) u64 an_state_max(u64 key, u64 least, u32 keep_ms);

/** Keeps `value` under `key` as an_state_put() does, if word[0] of what is there, zero if absent, is
 *  `expected`. 0; AN_E_CHANGED if it is not, and then nothing changes; or AN_E_FULL. */
AN_CALL(an_state_exchange) int an_state_exchange(u64 key, u64 expected, const struct an_value *value, u32 keep_ms);

/** How many neighbours this node has. */
AN_CALL(an_neighbours) u32 an_neighbours(void);

/** The address of neighbour `index`, counted from 0. 0, or AN_E_ABSENT. The order stays the same
 *  while one packet is handled. */
AN_CALL(an_neighbour) int an_neighbour(u32 index, struct an_addr *addr);

/** The next hop on the way to `to`. Returns the number of the port (0 and more) by which it is
 *  reached, AN_E_ABSENT without a route, or AN_E_HERE if `to` is this node; `next` is zeroed
 *  unless there is a next hop. */
AN_CALL(an_route) int an_route(const struct an_addr *to, struct an_addr *next);

/** How busy the link behind `port` is, 0 to 1000 (permille of its rate over the last
 *  tenth of a second). AN_NONE if there is no such port or its rate is not known. */
AN_CALL(an_link_load) u32 an_link_load(u32 port);

/** Bytes waiting to leave by `port`. AN_NONE if there is no such port or it does not say. */
AN_CALL(an_link_queue) u32 an_link_queue(u32 port);

/** Sends a child: a copy of the capsule as window and payload are now goes to the destination
 *  that the window holds now, and takes `bound` (1 and more) of this packet's resource bound with
 *  it. 0, AN_E_BOUND if this packet has less, AN_E_FULL if it had its share of children. */
AN_CALL(an_send) int an_send(u32 bound);

/** Writes a line with `tag` and `value` into the node's log. 0, or AN_E_FULL: lines are limited
 *  in rate. */
AN_CALL(an_log) int an_log(u32 tag, u64 value);

/** Wishes that a graph of this node becomes another one: by the edit with this number, which the node's operator has
 *  written for the role of this code (docs/graphs.md). The packet does not wait. 0: the edit begins after this call, once for all
 *  who have wished for it until then. AN_E_DENIED if the role has no edits, AN_E_ABSENT if it has none with this number,
 *  AN_E_FULL if it has had all changes of this second. */
AN_CALL(an_graph_wish) int an_graph_wish(u32 number);

/* ---- Verdicts: what `return` tells the node --------------------------------------------- */

/** The packet ends here, counted as dropped by its code. */
AN_INLINE int an_drop(void) { return 0; }

/** The packet goes on towards the destination that the window holds now; it costs one of its
 *  resource bound. To this node itself: the same as an_deliver(). */
AN_INLINE int an_forward(void) { return 1; }

/** The packet goes to the application at `port` (1 to 65535) of this node. */
AN_INLINE int an_deliver_to(u16 port) { return (int)(2u | (u32)port << 16); }

/** The packet goes to the application at its application port (ctx->app_port) of this node. */
AN_INLINE int an_deliver(void) { return 2; }

/* ---- Helpers, compiled into the capsule ------------------------------------------------- */

/* No function: clang takes a structure that is passed as a value for one of bytes, and the kernel half would load it so. */
#define AN_TURNED_(type, turn, value)                                                                          \
    ({                                                                                                         \
        __auto_type an_turned = (value);                                                                       \
        _Generic(an_turned,                                                                                    \
            type: turn(_Generic(an_turned, type: an_turned, default: (type){ 0 }).network),                    \
            default: (type){ turn(_Generic(an_turned, type: 0, default: an_turned)) });                        \
    })
/** The number that a be16 is, or a number as a be16. */
#define an_be16(value) AN_TURNED_(be16, __builtin_bswap16, value)
/** The number that a be32 is, or a number as a be32. */
#define an_be32(value) AN_TURNED_(be32, __builtin_bswap32, value)
/** The number that a be64 is, or a number as a be64. */
#define an_be64(value) AN_TURNED_(be64, __builtin_bswap64, value)

/** Eight samples of 16 bits, wherever such lie: operators work on each of them, __builtin_shufflevector() moves them.
 *  One instruction in wasm (simd128) and on most processors; the kernel half does one after the other. */
typedef s16 an_s16x8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef u16 an_u16x8 __attribute__((vector_size(16), aligned(2), may_alias));

/** Network to host byte order or back, each of eight. */
AN_INLINE an_u16x8 an_be16x8(an_u16x8 values)
{
#ifdef __wasm_simd128__
    /* Of the operators below clang makes a shuffle with a second operand that it leaves undefined: what the last round of
     * a loop has left there, and a processor waits for that. */
    typedef s8 bytes __attribute__((vector_size(16)));
    bytes b = (bytes)values;
    return (an_u16x8)__builtin_wasm_shuffle_i8x16(b, b, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
    return values << 8 | values >> 8;
#endif
}

/** 1 if two addresses are equal, else 0. */
AN_INLINE int an_addr_equal(const struct an_addr *a, const struct an_addr *b)
{
    return ((a->half[0] ^ b->half[0]) | (a->half[1] ^ b->half[1]) | (a->half[2] ^ b->half[2]) |
            (a->half[3] ^ b->half[3])) == 0;
}

/** 1 if no address is given (all zeroes), else 0. */
AN_INLINE int an_addr_none(const struct an_addr *a)
{
    return (a->half[0] | a->half[1] | a->half[2] | a->half[3]) == 0;
}

/** 64 bits that differ for different addresses (nearly always): a key for an_state_*. */
AN_INLINE u64 an_addr_key(const struct an_addr *a)
{
    u64 high = (u64)a->half[0] << 32 | a->half[1], low = (u64)a->half[2] << 32 | a->half[3];
    return (high ^ high >> 29) * 0x9e3779b97f4a7c15ull ^ low;
}

/** Copies `size` bytes; `size` is a constant of at most 512, the areas do not overlap. */
AN_INLINE void an_copy(void *to, const void *from, const u32 size) { __builtin_memcpy(to, from, size); }

/** Fills `size` bytes with zeroes; `size` is a constant of at most 512. */
AN_INLINE void an_zero(void *to, const u32 size) { __builtin_memset(to, 0, size); }

/** 1 if `size` bytes are equal, else 0; `size` is a constant of at most 512. */
AN_INLINE int an_equal(const void *a, const void *b, const u32 size)
{
    const u8 *x = (const u8 *)a, *y = (const u8 *)b;
    u8 different = 0;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < size; i++)
        different |= x[i] ^ y[i];
    return different == 0;
}

/** For each `i` from 0 to `n`, exclusive, and to `most`, a constant, at most: `AN_EACH(i, w->payload.count, 8) sum += hop[i];`.
 *  Written out by the compiler, `most` times the body: so the kernel's verifier knows each `i`, and takes `hop[i]`, which it
 *  does not where `i` is counted in a loop. `n` is looked at each time. `break` and `continue` work. */
#define AN_EACH(i, n, most)                                                                                    \
    _Pragma("clang loop unroll(full)") for (u32 i = 0; i < (most); i++) if (i >= (n)) { } else

/* ---- The entry -------------------------------------------------------------------------- */

#ifndef __BPF__

/* clang may turn assignments of large structures into calls of these. */
__attribute__((weak, no_builtin)) void *memcpy(void *to, const void *from, __SIZE_TYPE__ size)
{
    for (__SIZE_TYPE__ i = 0; i < size; i++)
        ((u8 *)to)[i] = ((const u8 *)from)[i];
    return to;
}
__attribute__((weak, no_builtin)) void *memmove(void *to, const void *from, __SIZE_TYPE__ size)
{
    u8 *t = (u8 *)to;
    const u8 *f = (const u8 *)from;
    if (t < f)
        for (__SIZE_TYPE__ i = 0; i < size; i++)
            t[i] = f[i];
    else
        for (__SIZE_TYPE__ i = size; i > 0; i--)
            t[i - 1] = f[i - 1];
    return to;
}
__attribute__((weak, no_builtin)) void *memset(void *to, int value, __SIZE_TYPE__ size)
{
    for (__SIZE_TYPE__ i = 0; i < size; i++)
        ((u8 *)to)[i] = (u8)value;
    return to;
}

#endif

#ifdef __wasm__

/* The node writes the context and the window into an_arena and passes their addresses. */
#define AN_ENTRY_(name)                                                                                        \
    __attribute__((used, visibility("default"), aligned(16))) u8 an_arena[sizeof(struct an_context) + 32 +     \
                                                                          AN_WINDOW_OF_(name)];                \
    __attribute__((used, visibility("default"))) int capsule(struct an_context *ctx, struct name##_window *w)  \
    {                                                                                                          \
        return name##_body(ctx, w);                                                                            \
    }

#elif defined(AN_NATIVE)

/* The shared object exports the entry and the size of the window; its calls go through a table that
 * `anode code build --native` adds. */
#define AN_ENTRY_(name)                                                                                        \
    __attribute__((used, visibility("default"), section("anode.meta"))) const u32 an_window_size =             \
        AN_WINDOW_OF_(name);                                                                                   \
    __attribute__((used, visibility("default"))) int capsule(struct an_context *ctx, struct name##_window *w)  \
    {                                                                                                          \
        return name##_body(ctx, w);                                                                            \
    }

#else

/* The kernel's verifier takes both pointers for possibly NULL; they never are. The section
 * anode.meta tells `anode code build` the size of the window and is no part of the program. */
#define AN_ENTRY_(name)                                                                                        \
    __attribute__((used, section("anode.meta"))) static const u32 an_window_size = AN_WINDOW_OF_(name);        \
    __attribute__((used, section("anode.capsule"))) int capsule(struct an_context *ctx, struct name##_window *w)     \
    {                                                                                                          \
        if (!ctx || !w)                                                                                        \
            return an_drop();                                                                                  \
        return name##_body(ctx, w);                                                                            \
    }

#endif

#define AN_WINDOW_OF_(name) sizeof(((struct name##_window *)0)->payload)

/** Begins a program: AN_CAPSULE(name, payload type) { body }. The body sees `ctx` (const struct
 *  an_context *) and `w` with w->source, w->destination (struct an_addr) and w->payload (of the
 *  payload type), and returns a verdict. Once per file. Without payload: `struct an_nothing`. */
#define AN_CAPSULE(name, payload_type)                                                                         \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpadded\"") struct name##_window {    \
        struct an_addr source;                                                                                 \
        struct an_addr destination;                                                                            \
        payload_type payload;                                                                                  \
    };                                                                                                         \
    _Pragma("clang diagnostic pop")                                                                            \
    _Static_assert(AN_WINDOW_OF_(name) <= AN_WINDOW_MAX, "the window of a capsule shows at most 512 bytes");   \
    _Static_assert(_Alignof(payload_type) <= 8, "the payload type must not ask for more than 8-byte alignment"); \
    AN_INLINE int name##_body(const struct an_context *ctx, struct name##_window *w);                          \
    AN_ENTRY_(name)                                                                                            \
    AN_INLINE int name##_body(const struct an_context *ctx __attribute__((unused)),                            \
                              struct name##_window *w __attribute__((unused)))

/** The payload type of a capsule that looks at no payload. */
struct an_nothing {
};

#endif
