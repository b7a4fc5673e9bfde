/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner: what stands around the code of a capsule in its program. The node links it anew with
 * every code (src/code/link): `capsule` below is that code, verified by the kernel for itself, over
 * the context and the window and nothing else; `constant` values are put in by the linker.
 *
 * The code returns a verdict, and another program acts on it: the code has no way to the packet but its
 * window. There is one program of a code for each place where a capsule can stand in a frame, since the
 * kernel lets a loader of few rights compute packet addresses from constants only. What it verifies for such a
 * loader is also slower (barriers against speculation), so nothing is done here that can be done elsewhere.
 */
#include "code.h"

SECTION("xdp") int runner(struct xdp *ctx)
{
    if (run_code(ctx))
        tail_call(ctx, stations_map, ACT);
    return XDP_ABORTED;
}
