/* The digest by which the C test programs print bulk data: FNV-1a, 64 bits, over bytes. */
#ifndef DIGEST_H
#define DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_EMPTY UINT64_C(0xcbf29ce484222325)

static inline uint64_t digest_add(uint64_t digest, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) {
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}

static inline uint64_t digest_add_word(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ (digest >> 32);
}

#endif
