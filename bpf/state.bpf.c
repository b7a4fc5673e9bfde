/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Changes one entry of a code's soft state for the user half, under the lock of the kernel half's own calls (state.h).
 * Example: adding 1 to a counter while the kernel half adds 1 on another CPU. User space cannot take that lock, and
 * its own writes replace a whole set; so it has this program do it, by BPF_PROG_TEST_RUN. There is one program for
 * each map.
 *
 * The context is the question (struct state_call), and afterwards the answer.
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
