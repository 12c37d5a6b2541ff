/*
 * A hash table in ordinary memory, from keys to what the pool has of them. It is made anew when the pool is
 * opened.
 */
#ifndef PERDURE_NEARPM_TABLE_H
#define PERDURE_NEARPM_TABLE_H

#include "run.h"

struct entry {
    struct entry *next;
    void *home;
    size_t key_bytes;
    char key[];
};

struct table {
    struct entry **bucket;
    uint64_t buckets;
};

static inline struct table make_table(uint64_t buckets)
{
    return (struct table){ordinary(buckets, sizeof(struct entry *)), buckets};
}

/* The link to the key's entry, or the one where it would be, which is NULL. */
static inline struct entry **find_entry(const struct table *table, const char *key, size_t key_bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < key_bytes; i++) {
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(0x100000001b3);
    }
    struct entry **link = &table->bucket[hash % table->buckets];
    while (*link != NULL && ((*link)->key_bytes != key_bytes || memcmp((*link)->key, key, key_bytes) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

/* At a link that find_entry found to be NULL. */
static inline void add_entry(struct entry **link, const char *key, size_t key_bytes, void *home)
{
    struct entry *entry = ordinary(1, sizeof *entry + key_bytes);
    entry->home = home;
    entry->key_bytes = key_bytes;
    memcpy(entry->key, key, key_bytes);
    *link = entry;
}

static inline void remove_entry(struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    free(entry);
}

#endif
