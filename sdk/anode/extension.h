/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Extensions of a node in C: calls, engines and orders as functions of a WebAssembly module (docs/extensions.md). Example:
 *
 *     #include <anode/extension.h>
 *     AN_CALL(add) { AN_WORD(0) += AN_WORD(1); return 8; }          int add(int, int): two words came, one goes back
 *
 *     clang --target=wasm32 -O2 -nostdlib -I "$(anode code sdk-path)" -Wl,--no-entry -Wl,--export=an_buffer -o sums.wasm sums.c
 *     anode extension pack sums.wasm sums.toml -o sums.ext.wasm     sums.toml: name = "sums" [[call]] name = "add" type = …
 *
 * The same text is a shared object for nodes that let native extensions in, with its manifest in it:
 *
 *     AN_EXTENSION("name = 'sums'\n[[call]]\nname = 'add'\ntype = …")
 *
 *     cc -shared -fPIC -O2 -I "$(anode code sdk-path)" -o sums.so sums.c
 *
 * A function finds its arguments in the buffer and gets their length. It leaves its result there and returns the length of that, or a
 * negative number. Numbers, characters, truth values and ports (by their numbers) have a word; hosts and keys two, as bytes of a packet,
 * IPv4 as ::ffff:10.0.0.2; strings and blobs a word with their length, then their bytes, then zeroes up to a whole word. Variables keep
 * their values from call to call.
 */
#ifndef ANODE_EXTENSION_H
#define ANODE_EXTENSION_H

typedef unsigned long long an_word;

/* Bytes of the buffer. */
enum { AN_BUFFER_BYTES = 4096 };

/* What a call gives that has no result. */
enum { AN_NOT_FOUND = -1, AN_REFUSED = -2, AN_NO_SUCH_HOST = -3, AN_TOO_BIG = -4, AN_FAILED = -5 };

#ifdef __wasm__
#define AN_EXPORTED
#else
#define AN_EXPORTED __attribute__((visibility("default")))
#endif

/* Where arguments and results are. */
AN_EXPORTED __attribute__((weak)) union {
    unsigned char bytes[AN_BUFFER_BYTES];
    an_word words[AN_BUFFER_BYTES / sizeof(an_word)];
} an_buffer;

/* A word of the buffer, counted from 0, and the bytes that begin there. */
#define AN_WORD(at) (an_buffer.words[at])
#define AN_BYTES(at) (an_buffer.bytes + (at) * sizeof(an_word))

/* Words of a string or blob of so many bytes, with that of its length. */
#define AN_WORDS_OF(bytes) (1 + ((an_word)(bytes) + 7) / 8)

/* A function of the module: a call, an engine, an order, or what takes an engine's arguments. `length`: bytes of what was given.
 * AN_NEED: a call of another extension, which `needs` of the manifest names; it is called with the length of what was put into the buffer.
 * an_now, an_random: the node's clock in nanoseconds, and random numbers, not for secrets.
 * Calls of the node are those of extensions that every node has, such as AN_NEED(code, fetch, fetch). */
#ifdef __wasm__

#define AN_EXTENSION(manifest)
#define AN_CALL(name) __attribute__((export_name(#name))) int name(unsigned length)
#define AN_NEED(extension, call, function) \
    __attribute__((import_module(#extension), import_name(#call))) int function(unsigned length)

__attribute__((import_module("anode"), import_name("an_now"))) an_word an_now(void);
__attribute__((import_module("anode"), import_name("an_random"))) an_word an_random(void);

#else

/* What the node gives a shared object, before any function of it is called. */
struct an_given {
    unsigned size;
    void *of;
    an_word (*now)(void *of);
    an_word (*random)(void *of);
    int (*need)(void *of, const char *call, unsigned length);
};
AN_EXPORTED __attribute__((weak)) const struct an_given *an_given;

/* The table's bytes as this header has it: a node with another table refuses the object. */
AN_EXPORTED __attribute__((weak)) const unsigned an_given_bytes = sizeof(struct an_given);

#define AN_EXTENSION(manifest) \
    __attribute__((section("anode.extension"), used)) static const char an_extension[] = manifest;
#define AN_CALL(name) \
    AN_EXPORTED int name(unsigned length) __asm__("an_call_" #name); \
    int name(unsigned length)
#define AN_NEED(extension, call, function) \
    static inline int function(unsigned length) { return an_given->need(an_given->of, #extension "." #call, length); } \
    struct an_need_of_##function

static inline an_word an_now(void) { return an_given->now(an_given->of); }
static inline an_word an_random(void) { return an_given->random(an_given->of); }

#endif

#endif
