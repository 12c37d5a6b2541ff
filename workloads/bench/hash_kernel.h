/*
 * A hash table of 64 MB under random updates and look-ups.
 *
 * 4 Mi slots of 16 bytes, open addressing with linear probing, at most half full.
 * Always true: a key sits in the first free slot at or after its home slot, counted
 * when it came; keys never leave; free slots hold HASH_FREE. The sum of all counters
 * equals the sum of all that was ever added, which is checked slot by slot.
 */
#ifndef PERDURE_HASH_KERNEL_H
#define PERDURE_HASH_KERNEL_H

#include "bench.h"

enum {
    HASH_SLOTS = 4 * 1024 * 1024, /* 64 MB of 16-byte slots */
    HASH_OPERATIONS = 6 * 1000 * 1000,
};

#define HASH_FREE UINT64_MAX

struct hash_slot {
    uint64_t key;
    uint64_t counter;
};

/* The id's key: scattered, and even, so never HASH_FREE. */
static inline uint64_t hash_key(uint64_t id)
{
    return mix64(id) & ~UINT64_C(1);
}

/* The slot that holds the key, or the free one where it belongs. */
static inline struct hash_slot *hash_find(struct hash_slot *table, uint64_t slots, uint64_t key)
{
    uint64_t index = random_below(key, slots);
    while (table[index].key != key && table[index].key != HASH_FREE) {
        index = index + 1 < slots ? index + 1 : 0;
    }
    return &table[index];
}

/* Scans the table; returns what was wrong, or NULL. */
static inline const char *hash_verify(struct hash_slot *table, uint64_t slots, uint64_t keys,
                                      uint64_t sum, uint64_t *checksum)
{
    uint64_t keys_found = 0;
    uint64_t sum_found = 0;
    uint64_t fold = 0;
    for (uint64_t i = 0; i < slots; i++) {
        if (table[i].key == HASH_FREE) {
            continue;
        }
        keys_found++;
        sum_found += table[i].counter;
        fold += table[i].key ^ table[i].counter;
        if (keys_found % 64 == 0 && hash_find(table, slots, table[i].key) != &table[i]) {
            return "a key cannot be reached from its home slot";
        }
    }
    *checksum = mix64(fold);
    if (keys_found != keys) {
        return "the table holds another number of keys than was inserted";
    }
    return sum_found == sum ? NULL : "the counters add up to another sum than was added";
}

static inline struct kernel_result hash_kernel(uint64_t seed, unsigned scale_percent)
{
    const uint64_t slots = scaled(HASH_SLOTS, scale_percent);
    const uint64_t ids = slots / 2;
    const size_t operations = scaled(HASH_OPERATIONS, scale_percent);
    struct hash_slot *table = malloc(slots * sizeof *table);
    if (table == NULL) {
        return kernel_failed("no memory for the table");
    }
    for (uint64_t i = 0; i < slots; i++) {
        table[i] = (struct hash_slot){.key = HASH_FREE, .counter = 0};
    }
    uint64_t random = random_seeded(seed);
    uint64_t keys = 0;
    uint64_t sum = 0;
    uint64_t seen = 0;
    for (size_t i = 0; i < operations; i++) {
        const uint64_t word = random_next(&random);
        const uint64_t key = hash_key(random_below(word, ids));
        struct hash_slot *slot = hash_find(table, slots, key);
        if ((word & 3) == 0) { /* one in four only looks */
            seen += slot->counter;
        } else {
            keys += slot->key == HASH_FREE;
            slot->key = key;
            slot->counter += word;
            sum += word;
        }
    }
    struct kernel_result result = {.checksum = 0, .fault = NULL};
    result.fault = hash_verify(table, slots, keys, sum, &result.checksum);
    result.checksum ^= mix64(seen);
    free(table);
    return result;
}

#endif
