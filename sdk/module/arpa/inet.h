/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What modules have of C's library: addresses as text, and the network's order.
 */
#ifndef ANODE_MODULE_INET_H
#define ANODE_MODULE_INET_H

#include <stdint.h>
#include <stdio.h>

#define AF_INET 2
#define AF_INET6 10
#define INET_ADDRSTRLEN 16
#define INET6_ADDRSTRLEN 46

static inline uint16_t htons(uint16_t number) { return __builtin_bswap16(number); }
static inline uint16_t ntohs(uint16_t number) { return __builtin_bswap16(number); }
static inline uint32_t htonl(uint32_t number) { return __builtin_bswap32(number); }
static inline uint32_t ntohl(uint32_t number) { return __builtin_bswap32(number); }

/* As RFC 5952 writes them, without dots in those of IPv6. */
ANODE_MODULE_FUNCTION const char *inet_ntop(int family, const void *address, char *to, unsigned room)
{
    const unsigned char *bytes = address;
    char text[INET6_ADDRSTRLEN];
    int length = 0, best = -1, most = 1;
    if (family == AF_INET) {
        length = snprintf(text, sizeof text, "%d.%d.%d.%d", bytes[0], bytes[1], bytes[2], bytes[3]);
    } else if (family == AF_INET6) {
        /* The first of the longest runs of at least two zeroes. */
        for (int at = 0; at < 8; at++) {
            int run = 0;
            while (at + run < 8 && !bytes[2 * (at + run)] && !bytes[2 * (at + run) + 1])
                run++;
            if (run > most)
                best = at, most = run;
        }
        for (int at = 0; at < 8; at++) {
            if (at == best) {
                length += snprintf(text + length, sizeof text - length, "::");
                at += most - 1;
                continue;
            }
            int is_first = at == 0 || at == best + most;
            unsigned group = bytes[2 * at] << 8 | bytes[2 * at + 1];
            length += snprintf(text + length, sizeof text - length, is_first || (best >= 0 && at == best + most) ? "%x" : ":%x", group);
        }
    }
    if (!length || (unsigned)length >= room)
        return 0;
    memcpy(to, text, length + 1);
    return to;
}

#endif
