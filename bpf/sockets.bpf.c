/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What stands at an interface whose capsules go to AF_XDP sockets, without a kernel half: takes them there (or up, see
 * sockets.h), and leaves everything else to the Linux stack.
 */
#include "sockets.h"

SECTION("xdp") int sockets(struct xdp *ctx)
{
    return lift(ctx, 0, 0);
}
