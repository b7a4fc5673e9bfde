// Tells its sender how busy the link of port 0 is and what waits there; comes back at once.
#include <anode/capsule.h>

struct meters {
    be32 load;
    be32 queue;
};

AN_CAPSULE(meters, struct meters)
{
    w->payload.load = an_be32(an_link_load(0));
    w->payload.queue = an_be32(an_link_queue(0));
    return an_deliver_to(7);
}
