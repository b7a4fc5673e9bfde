/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Soft state in the kernel half: one map for each code, in sets of a few entries under a lock. Example:
 * `an_state_add(1, 1, 60000)` counts packets of the last minute. If a set is full, a new entry takes the place of
 * another: state may vanish early.
 *
 * The calls of mobile code are here. The user half changes the same map by a program made of the same functions
 * (state.bpf.c). So a code has one state wherever it runs, and no change of either half is lost.
 */
#ifndef ANODE_STATE_H
#define ANODE_STATE_H

#include "contract.h"

/* Way `way` of a set, by an address of its own: the compiler must not compute with offsets. */
#define WAY(set, way) ((struct entry *)behind(set, 8 + (way) * (int)sizeof(struct entry)))

/* The place of a key's set, of which `last` is the last. */
INLINE u32 set_place(u64 key, u32 last) { return (u32)((key * 0x9e3779b97f4a7c15ull) >> 32) & last; }

INLINE struct set *set_of(u64 key, u32 last)
{
    u32 at = set_place(key, last);
    return map_lookup(state_map, &at);
}

INLINE void copy_value(u64 *to, const u64 *from)
{
#pragma clang loop unroll(full)
    for (int i = 0; i < VALUE; i++)
        to[i] = from[i];
}

/* Reads what is kept under a key, or zeroes; 1: it is there. */
INLINE int read_set(struct set *set, u64 key, u64 *value, u64 now)
{
    int found = 0;

#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++) {
        struct entry *entry = WAY(set, way);
        if (!found && entry->key == key && entry->until > now) {
            copy_value(value, entry->value);
            found = 1;
        }
    }
    return found;
}

/* Writes an entry if it is the one wanted; 1 if so. `wanted` 0: that of the key; 1: a free one; 2: this one. */
INLINE int write_entry(struct entry *entry, int wanted, u64 key, const u64 *value, u64 now, u64 until)
{
    if (wanted == 0 ? entry->key != key || !entry->until : wanted == 1 && entry->until > now)
        return 0;
    entry->key = key;
    entry->until = until;
    copy_value(entry->value, value);
    return 1;
}

/* Keeps a value under a key until then, 0: not at all. */
INLINE void write_set(struct set *set, u64 key, const u64 *value, u64 now, u64 until)
{
    int done = 0;

#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++)
        done = done || write_entry(WAY(set, way), 0, key, value, now, until);
    if (!until)
        return;
#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++)
        done = done || write_entry(WAY(set, way), 1, key, value, now, until);
#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++)
        done = done || ((now >> 10 & (WAYS - 1)) == (u64)way && write_entry(WAY(set, way), 2, key, value, now, until));
}

/* Puts what is to be kept into `value`, which begins as what is kept: a change of its first word. */
INLINE void change_value(u32 change, u64 *value, u64 number)
{
    if (change == STATE_ADD)
        value[0] += number;
    else if (change == STATE_MAX && value[0] < number)
        value[0] = number;
}

/* Reads, changes and keeps a value in one step; then `value` is what is kept. With STATE_EXCHANGE `other` takes its place if its first
 * word is `number`; else nothing changes, and -7 comes back. */
INLINE int change_set(struct set *set, u32 change, u64 key, u64 number, u64 *value, const u64 *other, u64 now, u64 until)
{
    int done = 0;

    spin_lock(set);
    read_set(set, key, value, now);
    if (change == STATE_PUT || (change == STATE_EXCHANGE && value[0] == number))
        copy_value(value, other);
    else if (change == STATE_EXCHANGE)
        done = -7;
    else
        change_value(change, value, number);
    if (!done)
        write_set(set, key, value, now, until);
    spin_unlock(set);
    return done;
}

/* Until when something is kept for so many milliseconds; 0: not at all. */
INLINE u64 kept(u64 now, u32 keep_ms)
{
    u64 most = constant(KEEP), keep = keep_ms < most ? keep_ms : most;
    return keep ? now + keep * 1000000 : 0;
}

CALL int an_state_get(u64 key, u64 *value)
{
    struct set *set = set_of(key, (u32)constant(SETS));
    u64 now = clock();

#pragma clang loop unroll(full)
    for (int i = 0; i < VALUE; i++)
        value[i] = 0;
    if (!set)
        return -1;
    spin_lock(set);
    int found = read_set(set, key, value, now);
    spin_unlock(set);
    return found - 1;
}

CALL int an_state_put(u64 key, const u64 *value, u32 keep_ms)
{
    struct set *set = set_of(key, (u32)constant(SETS));
    u64 now = clock(), until = kept(now, keep_ms);

    if (!set)
        return -3;
    spin_lock(set);
    write_set(set, key, value, now, until);
    spin_unlock(set);
    return 0;
}

CALL u64 an_state_add(u64 key, u64 delta, u32 keep_ms)
{
    struct set *set = set_of(key, (u32)constant(SETS));
    u64 now = clock(), until = kept(now, keep_ms), value[VALUE] = {0};

    if (!set)
        return ~0ull;
    change_set(set, STATE_ADD, key, delta, value, 0, now, until);
    return value[0];
}

CALL u64 an_state_max(u64 key, u64 least, u32 keep_ms)
{
    struct set *set = set_of(key, (u32)constant(SETS));
    u64 now = clock(), until = kept(now, keep_ms), value[VALUE] = {0};

    if (!set)
        return ~0ull;
    change_set(set, STATE_MAX, key, least, value, 0, now, until);
    return value[0];
}

CALL int an_state_exchange(u64 key, u64 expected, const u64 *other, u32 keep_ms)
{
    struct set *set = set_of(key, (u32)constant(SETS));
    u64 now = clock(), until = kept(now, keep_ms), value[VALUE] = {0};

    if (!set)
        return -3;
    return change_set(set, STATE_EXCHANGE, key, expected, value, other, now, until);
}

#endif
