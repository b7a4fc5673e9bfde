/* Waiting for a number that others count up: who counts wakes who waits (futex(2)), so that nobody looks again and again. */
#pragma once
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Counts one; gives what was there. */
static inline int count_up(atomic_int *number)
{
    int before = atomic_fetch_add(number, 1);
    syscall(SYS_futex, number, FUTEX_WAKE_PRIVATE, INT_MAX, (void *)0, (void *)0, 0);
    return before;
}

/* Waits until there are so many. */
static inline void await_count(atomic_int *number, int least)
{
    for (int seen; (seen = atomic_load(number)) < least;)
        syscall(SYS_futex, number, FUTEX_WAIT_PRIVATE, seen, (void *)0, (void *)0, 0);
}
