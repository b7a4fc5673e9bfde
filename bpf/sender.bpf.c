/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner of code that sends children or writes into the log. Such code runs on a copy of its window, so a child
 * can be copied from it at the moment of the call. Its actions are written into a record (children.h). It returns as
 * the other runner does.
 */
#include "environment.h"
#include "wire.h"

/* The code, as a global function of its own. */
extern int capsule(struct context *context, struct addr *window);

SECTION("xdp") int sender(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);
    struct window *own = map_lookup(window_map, zero_value);

    if (!now || !own)
        return 0;
    now->next = LATER;
    now->window = (u16)constant(WINDOW);
    if (LIKELY(own->ready && !xdp_load_bytes(ctx, now->offset + LOCKED, own->send.window, (u32)constant(WINDOW) + ADDRESSES))) {
        now->verdict = (u32)capsule(&now->context, (struct addr *)own->send.window);
        now->next = FAMILY;
    }
    return 0;
}
