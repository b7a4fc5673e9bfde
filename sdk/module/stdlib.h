/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What modules have of C's library: numbers in texts, and memory. A block has a power of two of bytes, with its size before it. One that
 * is freed waits for the next of its size. New ones are cut from pages that the memory grows by, as long as the role grants more.
 */
#ifndef ANODE_MODULE_STDLIB_H
#define ANODE_MODULE_STDLIB_H

#include <string.h>

ANODE_MODULE_FUNCTION unsigned long long strtoull(const char *text, char **end, int base)
{
    unsigned long long number = 0;
    const char *at = text;
    if ((base == 0 || base == 16) && at[0] == '0' && (at[1] | 32) == 'x')
        base = 16, at += 2;
    else if (base == 0)
        base = *at == '0' ? 8 : 10;
    for (;; at++) {
        int digit = *at >= '0' && *at <= '9' ? *at - '0' : (*at | 32) >= 'a' && (*at | 32) <= 'z' ? (*at | 32) - 'a' + 10 : 99;
        if (digit >= base)
            break;
        number = number * base + digit;
    }
    if (end)
        *end = (char *)at;
    return number;
}

ANODE_MODULE_FUNCTION int atoi(const char *text)
{
    return *text == '-' ? -(int)strtoull(text + 1, 0, 10) : (int)strtoull(text, 0, 10);
}

/* Freed blocks by the logarithm of their bytes, and what is left of the last pages. */
ANODE_MODULE_FUNCTION void *an_module_free_blocks[32];
ANODE_MODULE_FUNCTION char *an_module_pages, *an_module_pages_end;

ANODE_MODULE_FUNCTION void *malloc(size_t bytes)
{
    enum { HEAD = 16, PAGE = 65536, MOST = 1 << 30 };
    if (bytes > MOST - HEAD)
        return 0;
    unsigned kind = 32 - __builtin_clz(((unsigned)bytes + HEAD - 1) | 31);
    size_t size = (size_t)1 << kind;
    char *block = an_module_free_blocks[kind];
    if (block) {
        memcpy(&an_module_free_blocks[kind], block + HEAD, sizeof(void *));
        return block + HEAD;
    }
    if ((size_t)(an_module_pages_end - an_module_pages) < size) {
        size_t pages = (size + PAGE - 1) / PAGE;
        size_t before = __builtin_wasm_memory_grow(0, pages);
        if (before == (size_t)-1)
            return 0;
        if ((char *)(before * PAGE) != an_module_pages_end)
            an_module_pages = (char *)(before * PAGE);
        an_module_pages_end = (char *)((before + pages) * PAGE);
    }
    block = an_module_pages;
    an_module_pages += size;
    *(unsigned *)block = kind;
    return block + HEAD;
}

ANODE_MODULE_FUNCTION void free(void *block)
{
    if (!block)
        return;
    unsigned kind = *(unsigned *)((char *)block - 16);
    memcpy(block, &an_module_free_blocks[kind], sizeof(void *));
    an_module_free_blocks[kind] = (char *)block - 16;
}

ANODE_MODULE_FUNCTION void *calloc(size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all))
        return 0;
    void *block = malloc(all);
    return block ? memset(block, 0, all) : 0;
}

ANODE_MODULE_FUNCTION void *realloc(void *block, size_t bytes)
{
    if (!block)
        return malloc(bytes);
    size_t had = ((size_t)1 << *(unsigned *)((char *)block - 16)) - 16;
    if (bytes <= had)
        return block;
    void *longer = malloc(bytes);
    if (longer) {
        memcpy(longer, block, had);
        free(block);
    }
    return longer;
}

static inline _Noreturn void abort(void)
{
    __builtin_trap();
}

#endif
