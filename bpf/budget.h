/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The budget of a code's domain over both halves: packets and time, from buckets that fill at a steady rate. Example:
 * 1,000 packets a second, whether they run here or in the user half. A CPU takes packets a share at a time, so it
 * touches the bucket's lock once a share.
 *
 * One packet of each share is timed and stands for all of them. It is chosen at random, so nobody can send cheap
 * packets in the places that count. The user half has a bucket too, and each half charges its own with what the other
 * has spent (src/core/share.rs).
 */
#ifndef ANODE_BUDGET_H
#define ANODE_BUDGET_H

#include "contract.h"

/* In microseconds: how much comes back at once, at most, and how much may be owed. */
enum { SECOND = 1000000, BURST = SECOND / 10 };

/* Whole microseconds since a bucket was looked at, which is now; as many as matter at most. */
INLINE u64 passed_since(u64 *at, u64 now)
{
    u64 passed = (now - *at) / 1000;

    if (passed > SECOND + BURST) {
        passed = SECOND + BURST;
        *at = now;
    } else {
        *at += passed * 1000;
    }
    return passed;
}

/* What a bucket that has room for `most` holds after so many microseconds. The rate is 10^11 at most, so nothing overflows. */
INLINE long long filled(long long tokens, long long most, u64 rate, u64 passed, u32 *part)
{
    u64 gained = passed * rate + *part;
    long long more = tokens + (long long)(gained / SECOND);

    /* A full bucket has no part of a token. */
    *part = more < most ? (u32)(gained % SECOND) : 0;
    return more < most ? more : most;
}

/* The same of a bucket that has room for what comes back in a tenth of a second. */
INLINE long long refilled(long long tokens, u64 rate, u64 passed, u32 *part)
{
    return filled(tokens, (long long)(rate / 10 + 1), rate, passed, part);
}

/* What is left if so much is charged, there or not. */
INLINE long long charged(long long tokens, u64 spent, u64 rate)
{
    long long owed = -(long long)rate, left = tokens - (long long)spent;
    return left > owed ? left : owed;
}

/* A number from 1 to `count`, each as likely as the others. */
INLINE u16 one_of(u32 count) { return (u16)(1 + ((u64)get_prandom_u32() * count >> 32)); }

/* Brings a bucket up to date: what has come back, and what the user half has spent. */
INLINE void settle(struct budget *budget, const struct account *account, u64 now)
{
    u64 passed = passed_since(&budget->at, now);
    u64 packets = *(const volatile u64 *)&account->user_packets, time = *(const volatile u64 *)&account->user_time;

    budget->packets = refilled(budget->packets, budget->packets_rate, passed, &budget->packets_part);
    budget->time = refilled(budget->time, budget->time_rate, passed, &budget->time_part);
    budget->packets = charged(budget->packets, packets - budget->charged_packets, budget->packets_rate);
    budget->time = charged(budget->time, time - budget->charged_time, budget->time_rate);
    budget->charged_packets = packets;
    budget->charged_time = time;
}

/* Takes the next share of packets for this CPU; 0 if the domain is over its budget. */
INLINE int take_share(u32 slot, struct usage *usage, u64 now)
{
    struct budget *budget = map_lookup(budgets_map, &slot);
    struct account *account = map_lookup(accounts_map, &slot);
    long long share;

    if (!budget || !account)
        return 0;
    spin_lock(budget);
    settle(budget, account, now);
    share = (long long)(budget->packets_rate >> 10);
    share = share < SHARE ? SHARE : share < SHARE_MAX ? share : SHARE_MAX;
    if (share > budget->packets)
        share = budget->packets;
    if (share < 0 || budget->time <= 0)
        share = 0;
    budget->packets -= share;
    account->packets += (u64)share;
    account->refused += !share;
    spin_unlock(budget);
    usage->left = (u32)share;
    usage->share = (u16)share;
    usage->timed = one_of((u32)share);
    return share != 0;
}

/* Nanoseconds that a packet can take of code that has few instructions. */
enum { FEW = 100000 };

/* Nanoseconds since a timed packet began. Beyond what its code can take the CPU was taken away, which is not the code's doing, and a sample
 * stands for a whole share. */
INLINE u64 took(u64 began, u32 slot)
{
    const struct budget *budget = map_lookup(budgets_map, &slot);
    u64 time = ktime_get_ns() - began, most = FEW;

    if (budget && budget->most > FEW)
        most = budget->most;
    return time < most ? time : most;
}

/* Whether the next packet of a share is the one that is timed. */
INLINE int is_timed(const struct usage *usage) { return usage->left == usage->timed; }

/* Charges the time of the packet of a share that is timed, which stands for all of it. */
INLINE void charge(u32 slot, struct usage *usage, u64 time)
{
    struct budget *budget = map_lookup(budgets_map, &slot);
    struct account *account = map_lookup(accounts_map, &slot);

    if (!budget || !account)
        return;
    time *= usage->share;
    usage->time += time;
    spin_lock(budget);
    budget->time = charged(budget->time, time, budget->time_rate);
    account->time += time;
    spin_unlock(budget);
}

#endif
