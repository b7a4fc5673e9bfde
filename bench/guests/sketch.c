// 64 updates of a count-min sketch (Cormode and Muthukrishnan, 2005) of two rows: the payload's words are the keys.
#include <anode/capsule.h>
#include "scratch.h"

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
