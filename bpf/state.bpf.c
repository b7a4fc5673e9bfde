/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Changes one entry of a code's soft state for the user half, under the lock that the calls of mobile code take in the kernel half (state.h).
 * User space cannot take that lock, and what it writes into a map by itself replaces a set as a whole; so it has this done, by
 * BPF_PROG_TEST_RUN. There is one for each map. The context is the question (struct state_call), and the answer afterwards.
 */
#include "environment.h"

SECTION("syscall") int state(struct state_call *call)
{
    struct set *set = set_of(call->key, call->sets - 1);
    u64 value[VALUE] = {0}, other[VALUE];

    if (!set)
        return -3;
    copy_value(other, call->value);
    int done = change_set(set, call->change, call->key, call->number, value, other, call->now, call->until);
    call->number = value[0];
    return done;
}
