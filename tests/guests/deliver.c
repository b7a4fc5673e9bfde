// Delivered to application port 7 at the first node that runs it.
#include <anode/capsule.h>

AN_CAPSULE(deliver, struct an_nothing)
{
    return an_deliver_to(7);
}
