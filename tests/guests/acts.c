// Returns the verdict named in its payload, with the addresses there, and shows its context.
#include <anode/capsule.h>

enum change { SOURCE = 1, DESTINATION = 2, SOURCE_HERE = 4, BACK = 8 };

struct acts {
    be32 verdict;
    u8 changes;
    u8 pad[3];
    struct an_addr source;
    struct an_addr destination;
    struct an_context seen;
    struct an_addr next;
    be32 port;
};

AN_CAPSULE(acts, struct acts)
{
    struct acts *a = &w->payload;
    struct an_addr next;

    an_copy(&a->seen, ctx, sizeof(a->seen));
    a->port = an_be32((u32)an_route(&w->destination, &next));
    a->next = next;
    if (a->changes & BACK)
        w->destination = w->source;
    if (a->changes & SOURCE)
        w->source = a->source;
    if (a->changes & DESTINATION)
        w->destination = a->destination;
    if (a->changes & SOURCE_HERE)
        w->source = ctx->here;
    return (int)an_be32(a->verdict);
}
