// Sends the children named in its payload, each with the result of its call, writes lines into the log, and returns
// the verdict named in its payload.
#include <anode/capsule.h>

#define MOST 18

struct sends {
    be32 verdict;
    u8 count;
    u8 lines;
    // Which child this is, as it was when it was sent; behind all of them the number of them.
    u8 mark;
    // 1: children come from here.
    u8 from_here;
    // What an_send gave, three bits of each, the last ones last; so that no place depends on a number.
    be64 gave;
    u8 pad[16];
    be32 bounds[4];
    struct an_addr to[4];
    struct an_addr source;
    struct an_addr destination;
};

AN_CAPSULE(sends, struct sends)
{
    struct sends *s = &w->payload;
    u64 gave = 0;

    for (u32 i = 0; i < MOST; i++) {
        if (i >= s->count)
            break;
        s->mark = (u8)i;
        w->destination = i & 2 ? (i & 1 ? s->to[3] : s->to[2]) : (i & 1 ? s->to[1] : s->to[0]);
        if (s->from_here)
            w->source = ctx->here;
        be32 bound = i & 2 ? (i & 1 ? s->bounds[3] : s->bounds[2]) : (i & 1 ? s->bounds[1] : s->bounds[0]);
        gave = gave << 3 | (u32)-an_send(an_be32(bound));
    }
    for (u32 i = 0; i < 5; i++) {
        if (i >= s->lines)
            break;
        an_log(i, s->mark);
    }
    s->gave = an_be64(gave);
    s->mark = s->count;
    w->source = s->source;
    w->destination = s->destination;
    return (int)an_be32(s->verdict);
}
