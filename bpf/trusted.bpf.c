/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner of code in a role that is trusted (docs/trust.md): as runner.bpf.c, but loaded with the node's own rights, so without
 * barriers against speculation, and it acts on the verdict itself.
 */
#include "act.h"
#include "code.h"

SECTION("xdp") int runner(struct xdp *ctx)
{
    const struct current *now = run_code(ctx);

    return now ? finish(ctx, now) : XDP_ABORTED;
}
