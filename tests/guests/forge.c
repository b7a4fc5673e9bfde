// Writes into the context, which is only for reading, and then passes an address from there for the node's own.
#include <anode/capsule.h>

struct forge {
    be32 left;
    u8 pad[4];
};

AN_CAPSULE(forge, struct forge)
{
    struct an_context *writable = (struct an_context *)ctx;

    w->payload.left.network = ctx->reserved[3];
    writable->reserved[3] = 0x11223344;
    writable->here.half[3] ^= 0x01000000;
    w->source = ctx->here;
    return an_forward();
}
