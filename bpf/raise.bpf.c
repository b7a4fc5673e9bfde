/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Punts a frame through the Linux stack, past the stack's own protocols: it sets the Ethernet type to PASSED_UP and
 * changes nothing else. The node's AF_PACKET socket is bound to that type and restores the former one from the version
 * of IP (sockets.h).
 */
#include "wire.h"

SECTION("xdp") int raise(struct xdp *ctx)
{
    struct ethernet *ethernet = (void *)packet(ctx);

    if ((const u8 *)(ethernet + 1) <= packet_end(ctx))
        ethernet->type = be16(PASSED_UP);
    return XDP_PASS;
}
