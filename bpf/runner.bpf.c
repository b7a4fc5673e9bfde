/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner: the program around the code of one capsule. The node links it anew with every code (src/code/link.rs):
 * `capsule` below is that code. The kernel verifies it by itself, over the context and the window and nothing else.
 * The linker fills in `constant` values.
 *
 * The code returns a verdict, and the caller of the runner acts on it (enter.h); the code reaches nothing of the
 * packet but its window. Programs of a loader with few rights are slower (barriers against speculation). A processor
 * also has to fetch one runner for each code. So the runner does nothing that can be done elsewhere.
 */
#include "code.h"

SECTION("xdp") int runner(struct xdp *ctx)
{
    run_code(ctx);
    return 0;
}
