/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner: what stands around the code of a capsule in its program. The node links it anew with
 * every code (src/code/link): `capsule` below is that code, verified by the kernel for itself, over
 * the context and the window and nothing else; `constant` values are put in by the linker.
 *
 * The code returns a verdict, and who has jumped here acts on it (enter.h): the code has no way to the packet but its
 * window. What the kernel verifies for a loader of few rights is slower (barriers against speculation), and there is a runner
 * for each code, which a processor has to fetch, so nothing is done here that can be done elsewhere.
 */
#include "code.h"

SECTION("xdp") int runner(struct xdp *ctx)
{
    run_code(ctx);
    return 0;
}
