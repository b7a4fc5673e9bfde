/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An environment that ends a domain of its own while a function of it never returns: the call waits, and nobody else
 * does.
 */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int hangs;

static void hang(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    count_up(&hangs);
    for (;;)
        pause();
}

int main(void)
{
    struct an_ThreadPoolSpec threads = {.maxthreads = 1};
    an_Node_t node = an_nodeConnect(0, 0);
    an_Domain_t below = node ? an_domainCreate(0, an_domainSelf(node), &threads, 0) : 0;
    if (!below || !an_eventSchedule(0, below, 1, hang, 0)) {
        fprintf(stderr, "nothing to end: %s\n", an_strerror(an_error()));
        return 1;
    }
    await_count(&hangs, 1);
    fprintf(stderr, "it ends a domain.\n");
    an_domainTerminate(below);
    fprintf(stderr, "it has ended it.\n");
    for (;;)
        pause();
}
