// The common part of the benchmarks' kernel programs and their loaders: types, helpers by number, maps by number.
// Written out here, so that neither libbpf nor its headers are needed.
#ifndef ANODE_BENCH_PROGRAM_H
#define ANODE_BENCH_PROGRAM_H

// Upper halves of the constants that stand for a map, and for the value of a map with one element (bpf.h puts the map there).
enum { MAP_MARK = 0x0a0de001, VALUE_MARK = 0x0a0de002 };
// Bytes of Ethernet, IPv4, UDP, ANEP and capsule headers, and the largest frame.
enum { HEAD = 142, FRAME = 1536, HEADS = 16384 };
// Bytes of the first three, in shorter frames.
enum { SHORT = 42 };
// Next hops that are remembered: more than there are destinations in any regime.
enum { NEXT_HOPS = 16384 };
// Programs that destinations share, where each packet goes through one.
enum { PROGRAMS = 1000 };

// The generator's place among the heads, and in a burst.
struct generator {
	unsigned next, count, burst, left;
	unsigned long long interval_ns, until_ns;
};
// Longest wait between bursts: readings of the clock, ROUNDS times READINGS, each some 20 ns.
enum { ROUNDS = 6000, READINGS = 32 };

// What the sink has seen: frames of `length` bytes to a UDP port, in network order. It keeps one after `armed` was set. Whoever asks there
// by ARP for any address is told `mac`.
struct sink {
	unsigned long long arrived;
	unsigned length, armed;
	unsigned short port;
	unsigned char mac[6];
	unsigned char sample[FRAME];
};

struct head {
	unsigned char bytes[(HEAD + 7) & ~7];
};

// A way to a destination, good while `generation` is the router's.
struct next_hop {
	unsigned destination, generation, interface;
	unsigned short mtu, spare;
	unsigned char to[8], from[8]; // MAC addresses
};

// The children of every packet: so many, to these IPv4 addresses, by one interface.
enum { CHILDREN_MAX = 4 };
struct children {
	unsigned count, interface, destinations[CHILDREN_MAX];
};

#ifdef __bpf__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// struct xdp_md and struct bpf_fib_lookup of linux/bpf.h.
struct context {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
struct fib_lookup {
	u8 family, l4_protocol;
	u16 sport, dport, tot_len;
	u32 ifindex;
	u8 tos, pad[3];
	u32 ipv4_src, rest_src[3], ipv4_dst, rest_dst[3];
	u16 vlan_proto, vlan_tci;
	u8 smac[6], dmac[6];
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { ETHERNET = 14, IP = 20, UDP = 8, UDP_DESTINATION = ETHERNET + IP + 2, AF_INET = 2 };

#define ENTRY(name) __attribute__((section("xdp/" #name), used)) int name
#define INLINE static inline __attribute__((always_inline))
#define be16(x) __builtin_bswap16(x)
#define be32(x) __builtin_bswap32(x)

// struct __sk_buff up to what is needed.
struct skb {
	u32 len, pkt_type, mark, before[7], ifindex, behind[8], data, data_end, between[14], data_meta;
};
enum { TCX_NEXT = -1, TCX_DROP = 2 };
#define TCX(name) __attribute__((section("tcx/" #name), used)) int name

INLINE u8 *start_of(struct context *ctx)
{
	return (u8 *)(long)ctx->data;
}

INLINE u8 *end_of(struct context *ctx)
{
	return (u8 *)(long)ctx->data_end;
}

// The map of that number, for a helper; the value of a one-element array, to be used as it is.
#define MAP(number) ({ void *map_; asm("%0 = %1 ll" : "=r"(map_) : "i"((u64)MAP_MARK << 32 | (number))); map_; })
#define VALUE(number) ({ void *value_; asm("%0 = %1 ll" : "=r"(value_) : "i"((u64)VALUE_MARK << 32 | (number))); value_; })

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static u64 (*const clock_now)(void) = (void *)5;
static long (*const clone_redirect)(void *skb, u32 interface, u64 flags) = (void *)13;
static long (*const skb_load_bytes)(const void *skb, u32 offset, void *to, u32 length) = (void *)26;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const redirect_map)(void *map, u64 key, u64 otherwise) = (void *)51;
static long (*const adjust_meta)(void *ctx, int delta) = (void *)54;
static long (*const fib_lookup)(void *ctx, void *query, int size, u32 flags) = (void *)69;
static long (*const load_bytes)(void *ctx, u32 offset, void *to, u32 length) = (void *)189;
static long (*const store_bytes)(void *ctx, u32 offset, const void *from, u32 length) = (void *)190;
static long (*const tail_call)(void *ctx, void *map, u32 at) = (void *)12;
#endif
#endif
