/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An environment with a function that never returns. When the node has ended its domain for that, it prints success.
 */
#include <anode/nodeos.h>
#include <unistd.h>

static void hang(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    for (;;)
        pause();
}

int main(void)
{
    struct an_ThreadPoolSpec threads = {.maxthreads = 2, .holdms = 100};
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.threads = &threads});
    if (!node || !an_eventSchedule(0, an_domainSelf(node), 1, hang, 0))
        return 1;
    an_domainWait(an_domainSelf(node));
    _exit(0);
}
