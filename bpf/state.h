/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Soft state in the kernel half: a map of each code's own, in sets of a few entries. The user half reads and
 * writes the same map (src/kernel/state.rs), so a code has one state wherever it runs. An entry that finds
 * no room takes that of another key: state may vanish early.
 */
#ifndef ANODE_STATE_H
#define ANODE_STATE_H

#include "contract.h"

/* Way `way` of a set, by an address of its own: the compiler must not compute with offsets. */
#define WAY(set, way) ((struct entry *)behind(set, 8 + (way) * (int)sizeof(struct entry)))

/* The place of a key's set, of which `last` is the last. */
INLINE u32 set_place(u64 key, u32 last) { return (u32)((key * 0x9e3779b97f4a7c15ull) >> 32) & last; }

INLINE struct set *set_of(u64 key)
{
    u32 at = set_place(key, (u32)constant(SETS));
    return map_lookup(state_map, &at);
}

INLINE void read_value(u64 *to, const struct entry *entry)
{
#pragma clang loop unroll(full)
    for (int i = 0; i < VALUE; i++)
        to[i] = entry->value[i];
}

CALL int an_state_get(u64 key, u64 *value)
{
    struct set *set = set_of(key);
    u64 now = clock();
    int found = -1;

#pragma clang loop unroll(full)
    for (int i = 0; i < VALUE; i++)
        value[i] = 0;
    if (!set)
        return -1;
    spin_lock(set);
#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++) {
        struct entry *entry = WAY(set, way);
        if (found && entry->key == key && entry->until > now) {
            read_value(value, entry);
            found = 0;
        }
    }
    spin_unlock(set);
    return found;
}

/* Writes an entry if it is the one wanted; 1 if so. `wanted` 0: that of the key; 1: a free one; 2: this one. */
INLINE int write_entry(struct entry *entry, int wanted, u64 key, const u64 *value, u64 now, u64 until)
{
    if (wanted == 0 ? entry->key != key || !entry->until : wanted == 1 && entry->until > now)
        return 0;
    entry->key = key;
    entry->until = until;
#pragma clang loop unroll(full)
    for (int i = 0; i < VALUE; i++)
        entry->value[i] = value[i];
    return 1;
}

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

/* Until when something is kept for so many milliseconds; 0: not at all. */
INLINE u64 kept(u64 now, u32 keep_ms)
{
    u64 most = constant(KEEP), keep = keep_ms < most ? keep_ms : most;
    return keep ? now + keep * 1000000 : 0;
}

CALL int an_state_put(u64 key, const u64 *value, u32 keep_ms)
{
    struct set *set = set_of(key);
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
    struct set *set = set_of(key);
    u64 now = clock(), until = kept(now, keep_ms), value[VALUE] = {0};

    if (!set)
        return ~0ull;
    spin_lock(set);
#pragma clang loop unroll(full)
    for (int way = 0; way < WAYS; way++) {
        struct entry *entry = WAY(set, way);
        if (entry->key == key && entry->until > now)
            read_value(value, entry);
    }
    value[0] += delta;
    write_set(set, key, value, now, until);
    spin_unlock(set);
    return value[0];
}

#endif
