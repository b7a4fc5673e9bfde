// The common part of the pieces of work of `anode bench tiers`.
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
