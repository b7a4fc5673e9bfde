/* The kernel half's bucket, compiled for this machine. It reads a rate and then, a line each, elapsed microseconds and
 * a charge, and prints the rest. */
#include "../../bpf/budget.h"

int scanf(const char *, ...);
int printf(const char *, ...);

int main(void)
{
    u64 rate, passed, spent;
    u32 part = 0;

    if (scanf("%llu", &rate) != 1)
        return 1;
    long long tokens = (long long)(rate / 10 + 1);
    while (scanf("%llu %llu", &passed, &spent) == 2) {
        tokens = charged(refilled(tokens, rate, passed, &part), spent, rate);
        printf("%lld\n", tokens);
    }
    return 0;
}
