// Eight samples at once, and one after the other: a difference drops the packet.
#include <anode/capsule.h>

struct samples { be16 each[8]; };

AN_CAPSULE(samples, struct samples)
{
    an_s16x8 all = (an_s16x8)an_be16x8(*(an_u16x8 *)w->payload.each);
    for (u32 i = 0; i < 8; i++)
        if (all[i] != (s16)an_be16(w->payload.each[i]))
            return an_drop();
    // Each becomes the mean of itself and the next one.
    an_s16x8 next = __builtin_shufflevector(all, all, 1, 2, 3, 4, 5, 6, 7, 0);
    *(an_u16x8 *)w->payload.each = an_be16x8((an_u16x8)((all & next) + ((all ^ next) >> 1)));
    return an_forward();
}
