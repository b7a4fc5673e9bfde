/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An extension of which a test makes a module and a shared object: calls with numbers that stay, one of another extension, and an engine
 * that numbers its packets. STEP: by how much it counts, so that there are two of it.
 */
#include <anode/extension.h>

#ifndef STEP
#define STEP 1
#define NAME "counted"
#endif

AN_EXTENSION("name = '" NAME "'\nabout = 'counts'\nneeds = ['names.lookup : string -> host']\n"
             "[[call]]\nname = 'count'\ntype = 'int -> int'\n[[call]]\nname = 'find'\ntype = 'string -> host'\n"
             "[[call]]\nname = 'later'\ntype = 'unit -> bool'\n[[call]]\nname = 'no'\ntype = 'unit -> int'\n"
             "[[call]]\nname = 'lies'\ntype = 'unit -> int'\n"
             "[[engine]]\nname = 'Number'\nports = '1/1'\nabout = 'puts its count in front'\n")

AN_NEED(names, lookup, lookup);

static an_word total;

AN_CALL(count)
{
    (void)length;
    total += STEP;
    AN_WORD(0) += total;
    return 8;
}

AN_CALL(find)
{
    return lookup(length);
}

/* Whether the clock goes on and chance is one. */
AN_CALL(later)
{
    (void)length;
    AN_WORD(0) = an_now() > 0 && an_random() != an_random();
    return 8;
}

AN_CALL(no)
{
    (void)length;
    return AN_REFUSED;
}

/* Says that its result is longer than there is room. */
AN_CALL(lies)
{
    return (int)length + AN_BUFFER_BYTES + 1;
}

/* (int, blob) -> int * blob: input and packet. */
AN_CALL(Number)
{
    AN_WORD(0) = 0;
    AN_BYTES(2)[0] = (unsigned char)(total += STEP);
    return (int)length;
}
