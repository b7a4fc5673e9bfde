// 64 updates of a count-min sketch (Cormode and Muthukrishnan, 2005) of two rows: the payload's words are the keys.
#include <anode/capsule.h>

// Memory that is zero before every packet. In wasm the node sees to that; native code has its stack alone, and no memset() to call.
#ifdef __wasm__
#define SCRATCH(type, name, count) static type name[count]
#else
typedef u64 wide __attribute__((vector_size(16)));
#define SCRATCH(type, name, count)                                                                   \
    type name[count] __attribute__((aligned(16)));                                                   \
    for (u32 at = 0; at < sizeof(name) / (sizeof(wide)); at++) {                                     \
        ((wide *)name)[at] = (wide){0};                                                              \
        __asm__ volatile("" : : : "memory");                                                         \
    }
#endif

// Fewer loops' heads, each of which counts steps in wasm.
#define UNROLL _Pragma("clang loop unroll_count(8)")
#define KEYS 64
#define COLUMNS 256

struct keys { u32 key[KEYS]; };

AN_CAPSULE(sketch, struct keys)
{
    SCRATCH(u32, first, COLUMNS);
    SCRATCH(u32, second, COLUMNS);
    UNROLL for (u32 i = 0; i < KEYS; i++) {
        u32 key = w->payload.key[i];
        first[key * 0x9e3779b1u >> 24]++;
        second[key * 0x85ebca77u >> 24]++;
    }
    w->payload.key[0] = first[w->payload.key[1] & (COLUMNS - 1)] + second[w->payload.key[2] & (COLUMNS - 1)];
    return an_forward();
}
