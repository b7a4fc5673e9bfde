/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An extension of which a test makes a shared object, with what counted.c has not: an order of queues by weights, an admission with a
 * bound, and a call that PLAN programs see.
 */
#include <anode/extension.h>

AN_EXTENSION("name = 'fair'\nabout = 'shares'\n"
             "[[call]]\nname = 'twice'\ntype = 'int -> int'\nservice = true\n"
             "[[engine]]\nname = 'Shares'\nports = '1-/1'\norder = true\nsetup = 'weights'\n"
             "[[admission]]\nname = 'Most'\nsetup = 'most'\n")

enum { INPUTS = 8 };

static an_word shares[INPUTS], times[INPUTS], bound;

/* Reads the numbers of a string, at most so many; how many there are. */
static unsigned numbers(unsigned length, an_word *into, unsigned limit)
{
    an_word bytes = length >= sizeof(an_word) ? AN_WORD(0) : 0;
    unsigned count = 0, in_one = 0;
    for (an_word at = 0; at < bytes && at < length - sizeof(an_word); at++) {
        unsigned digit = AN_BYTES(1)[at] - '0';
        if (digit > 9) {
            in_one = 0;
            continue;
        }
        if (!in_one && count == limit)
            return 0;
        if (!in_one)
            into[count++] = 0;
        in_one = 1;
        into[count - 1] = into[count - 1] * 10 + digit;
    }
    return count;
}

AN_CALL(twice)
{
    (void)length;
    AN_WORD(0) *= 2;
    return 8;
}

AN_CALL(weights)
{
    unsigned count = numbers(length, shares, INPUTS);
    for (unsigned at = 0; at < count; at++)
        if (shares[at] == 0)
            return AN_REFUSED;
    return count > 0 ? 0 : AN_REFUSED;
}

/* (int, int, int, int) -> int: inputs, those that had nothing, the input of the packet before and its bytes; the next input. */
AN_CALL(Shares)
{
    an_word inputs = AN_WORD(0), empty = AN_WORD(1), before = AN_WORD(2), best = INPUTS;
    (void)length;
    if (before < INPUTS)
        times[before] += (AN_WORD(3) << 16) / (shares[before] ? shares[before] : 1);
    for (an_word at = 0; at < inputs && at < INPUTS; at++)
        if (!(empty >> at & 1) && (best == INPUTS || times[at] < times[best]))
            best = at;
    if (best == INPUTS)
        return AN_NOT_FOUND;
    for (an_word at = 0; at < inputs && at < INPUTS; at++)
        if (empty >> at & 1 && times[at] < times[best])
            times[at] = times[best];
    AN_WORD(0) = best;
    return 8;
}

AN_CALL(most)
{
    return numbers(length, &bound, 1) == 1 ? 0 : AN_REFUSED;
}

/* (int, int, int, int) -> int: packets that wait, and more; whether another one may. */
AN_CALL(Most)
{
    (void)length;
    AN_WORD(0) = AN_WORD(0) < bound;
    return 8;
}
