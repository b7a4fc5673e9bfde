/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The kernel's interface for programs here: integers, the context of XDP, and helpers by number (bpf-helpers(7)). Maps
 * are undefined symbols; the node's loader resolves them by name.
 */
#ifndef ANODE_BASE_H
#define ANODE_BASE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static inline __attribute__((always_inline))
/* A function of our own that is called, not a part of its caller. */
#define FUNCTION __attribute__((section(".text"), noinline, used))
#define SECTION(name) __attribute__((section(name), used))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define be16(x) __builtin_bswap16(x)
#define be32(x) __builtin_bswap32(x)

/* struct xdp_md (linux/bpf.h). */
struct xdp {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

#define MAP(name) extern const char name[]

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u32 (*const get_prandom_u32)(void) = (void *)7;
static long (*const tail_call)(void *ctx, const void *map, u32 index) = (void *)12;
static long (*const xdp_adjust_head)(void *ctx, int delta) = (void *)44;
static long (*const redirect_map)(const void *map, u64 key, u64 flags) = (void *)51;
static void (*const spin_lock)(void *lock) = (void *)93;
static void (*const spin_unlock)(void *lock) = (void *)94;
static long (*const fib_lookup)(void *ctx, void *params, int size, u32 flags) = (void *)69;
static u32 (*const smp_processor_id)(void) = (void *)8;
static u64 (*const xdp_get_buff_len)(void *ctx) = (void *)188;
static long (*const xdp_load_bytes)(void *ctx, u32 offset, void *to, u32 length) = (void *)189;
static long (*const xdp_store_bytes)(void *ctx, u32 offset, const void *from, u32 length) = (void *)190;
static u64 (*const jiffies)(void) = (void *)118;

INLINE u8 *packet(const struct xdp *ctx) { return (u8 *)(long)ctx->data; }
INLINE u8 *packet_end(const struct xdp *ctx) { return (u8 *)(long)ctx->data_end; }

/* A jump to the program with this number: fixed in the code, so the kernel makes it a direct one. */
#define JUMP(ctx, map, number)                                                                                 \
    do {                                                                                                       \
        register const void *r1_ asm("r1") = (ctx);                                                            \
        register const void *r2_ asm("r2") = (map);                                                            \
        register u64 r3_ asm("r3") = (number);                                                                 \
        asm volatile("call 12" : "+r"(r1_), "+r"(r2_), "+r"(r3_) : : "r0", "r4", "r5", "memory");             \
    } while (0)

#endif
