/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What modules have of C's library (clang --target=wasm32 -isystem sdk/module): bytes and strings. There is nothing to link: functions
 * are in the headers, weak, so that those that the compiler calls by itself are there once.
 */
#ifndef ANODE_MODULE_STRING_H
#define ANODE_MODULE_STRING_H

#include <stddef.h>

#define ANODE_MODULE_FUNCTION __attribute__((weak))

ANODE_MODULE_FUNCTION void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    return __builtin_memcpy(to, from, bytes);
}

ANODE_MODULE_FUNCTION void *memmove(void *to, const void *from, size_t bytes)
{
    return __builtin_memmove(to, from, bytes);
}

ANODE_MODULE_FUNCTION void *memset(void *to, int value, size_t bytes)
{
    return __builtin_memset(to, value, bytes);
}

ANODE_MODULE_FUNCTION int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;
    for (; bytes; bytes--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}

ANODE_MODULE_FUNCTION size_t strlen(const char *text)
{
    const char *end = text;
    while (*end)
        end++;
    return end - text;
}

ANODE_MODULE_FUNCTION int strcmp(const char *one, const char *other)
{
    for (; *one && *one == *other; one++)
        other++;
    return (unsigned char)*one - (unsigned char)*other;
}

ANODE_MODULE_FUNCTION int strncmp(const char *one, const char *other, size_t bytes)
{
    for (; bytes && *one && *one == *other; one++, bytes--)
        other++;
    return bytes ? (unsigned char)*one - (unsigned char)*other : 0;
}

ANODE_MODULE_FUNCTION char *strchr(const char *text, int c)
{
    for (; *text != (char)c; text++)
        if (!*text)
            return 0;
    return (char *)text;
}

#endif
