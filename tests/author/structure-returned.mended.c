#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
struct big { u64 a, b, c; };
AN_INLINE struct big make(u64 x) { struct big b = { x, an_random(), x }; return b; }
AN_CAPSULE(p, struct p)
{
    w->payload.n = (u8)make(w->payload.n).b;
    return an_forward();
}
