// One level of the reversible 5/3 wavelet (ISO/IEC 15444-1, annex F) of 1,024 samples: work that pays for an optimiser.
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
#define SAMPLES 1024

struct seed { s32 first, last; };

AN_CAPSULE(wavelet, struct seed)
{
    SCRATCH(s32, x, SAMPLES + 4);
    s32 before = 0;
    x[0] = w->payload.first;
    x[SAMPLES] = w->payload.last;
    UNROLL for (u32 i = 0; i < SAMPLES; i += 2) {
        s32 high = x[i + 1] - ((x[i] + x[i + 2]) >> 1);
        x[i] += (before + high + 2) >> 2;
        x[i + 1] = before = high;
    }
    w->payload.first = x[1];
    w->payload.last = x[SAMPLES - 2];
    return an_forward();
}
