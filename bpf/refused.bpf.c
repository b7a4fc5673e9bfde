/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Counts redirects that the kernel has refused. Example: the interface went down a moment ago. It stands behind the
 * kernel's tracepoint for such failures and looks at the map of the redirect. While redirects succeed it never runs.
 */
#include "contract.h"

/* Arguments of `xdp_redirect_err`: device, program, target, error, kind and number of the map, key. */
enum { MAP_NUMBER = 5 };

MAP(refused_map);

SECTION("raw_tracepoint") int refused(const u64 *arguments)
{
    u32 zero = 0;
    struct refused *refused = map_lookup(refused_map, &zero);

    if (refused && (u32)arguments[MAP_NUMBER] == (u32)refused->map)
        __sync_fetch_and_add(&refused->frames, 1);
    return 0;
}
