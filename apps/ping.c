// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// ping: goes to its destination, turns round there, and is delivered to the application port of
// the node it came from. Counts the nodes it passes on both ways. What it carries behind the
// window is not looked at, so any size can be tried.
//
// The host side (src/apps/ping.rs) matches answers by token and sequence and keeps the times
// itself, so no clock but its own matters.
#include <anode/capsule.h>

struct ping {
    // Chosen by the sender for one run, so that late answers of another run are not taken for ours.
    be32 token;
    // Counted by the sender.
    be32 sequence;
    // 0 on the way there, 1 on the way back.
    u8 turned;
    // Links passed on the way there, and back; they stop at 255.
    u8 hops_there;
    u8 hops_back;
    u8 reserved;
};

AN_CAPSULE(ping, struct ping)
{
    if (ctx->flags & AN_HERE) {
        if (w->payload.turned)
            return an_deliver();
        w->payload.turned = 1;
        w->destination = w->source;
        w->source = ctx->here;
    }
    if (!w->payload.turned) {
        if (w->payload.hops_there < 255)
            w->payload.hops_there++;
    } else if (w->payload.hops_back < 255) {
        w->payload.hops_back++;
    }
    return an_forward();
}
