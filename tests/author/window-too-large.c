#include <anode/capsule.h>
struct p { u8 x[513]; };
AN_CAPSULE(p, struct p)
{
    return an_forward();
}
