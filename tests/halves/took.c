/* The charge for a timed packet in the kernel half, compiled for this machine and with a clock of its own. It reads a
 * line each of a packet's maximum and its elapsed time, both in nanoseconds, and prints the charge. */
#include "../../bpf/base.h"

static u64 shown;
static struct budget *kept;

#define ktime_get_ns() shown
#define map_lookup(map, key) ((void *)kept)
#include "../../bpf/budget.h"

int scanf(const char *, ...);
int printf(const char *, ...);

int main(void)
{
    struct budget budget = {};
    u64 began = 1000, time;

    kept = &budget;
    while (scanf("%u %llu", &budget.most, &time) == 2) {
        shown = began + time;
        printf("%llu\n", took(began, 0));
    }
    return 0;
}
