/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Counts redirects of the kernel half's that the kernel has refused: the interface is down or takes no such frames. It stands behind the
 * kernel's tracepoint for that, which nothing reaches while redirects succeed, and looks at the map that the frame was to leave by.
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
