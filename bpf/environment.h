/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The calls of sdk/anode/capsule.h in the kernel half. The linker appends to a program those that its
 * code calls, and no others; a code with a call that is not here runs in the user half.
 *
 * Every pointer comes from mobile code and is checked by the kernel's verifier, call by call: what
 * is written through it must be memory of the code's own.
 */
#ifndef ANODE_ENVIRONMENT_H
#define ANODE_ENVIRONMENT_H

#include "contract.h"

/* Numbers that the linker replaces: each stands for a value of the code being linked. */
enum { SLOT = 0x5e1f0001, WINDOW = 0x5e1f0002, OFFSET = 0x5e1f0003 };

#define constant(which)                                                                                        \
    ({                                                                                                         \
        u64 value_;                                                                                            \
        asm volatile("%0 = %1" : "=r"(value_) : "i"(which));                                                   \
        value_;                                                                                                \
    })

/* An address so many octets behind `at`, in the form the kernel lets a loader of few rights compute it. */
#define behind(at, which)                                                                                      \
    ({                                                                                                         \
        u8 *at_ = (u8 *)(at);                                                                                  \
        asm volatile("%0 += %1" : "+r"(at_) : "i"(which));                                                     \
        at_;                                                                                                   \
    })

#define CALL SECTION(".text") __attribute__((noinline))

CALL u64 an_now(void) { return ktime_get_ns(); }

CALL u64 an_random(void)
{
    u64 high = get_prandom_u32();
    return high << 32 | get_prandom_u32();
}

CALL int an_node_name(u64 *name)
{
    u32 zero = 0;
    struct node *node = map_lookup(node_map, &zero);

    if (!node)
        return -1;
    name[0] = *(u64 *)node->name;
    name[1] = *(u64 *)(node->name + 8);
    return 0;
}

CALL u32 an_neighbours(void)
{
    u32 zero = 0;
    struct node *node = map_lookup(node_map, &zero);
    return node ? node->neighbours : 0;
}

#endif
