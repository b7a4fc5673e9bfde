/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Sends a frame that is the node's up the Linux stack, past the stack's own protocols: under the Ethernet type PASSED_UP, and otherwise
 * as it came. The node's AF_PACKET socket is bound to that type and puts the one back that the version of IP says (sockets.h).
 */
#include "wire.h"

SECTION("xdp") int raise(struct xdp *ctx)
{
    struct ethernet *ethernet = (void *)packet(ctx);

    if ((const u8 *)(ethernet + 1) <= packet_end(ctx))
        ethernet->type = be16(PASSED_UP);
    return XDP_PASS;
}
