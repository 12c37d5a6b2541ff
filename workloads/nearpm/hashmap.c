/*
 * hashmap POOL [OPTION]...: PMDK's hashmap example, insertions into a hash table with chains.
 *
 * Our assumptions: as many buckets as insertions, rounded up to a power of two, from the beginning, so that
 * no transaction builds the table anew; each thread has a table of its own.
 */
#define PROGRAM "hashmap"
#include "values.h"

/* Of the table. */
struct root {
    uint64_t count;
};

struct entry {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t key;
    struct entry *next;
    alignas(LINE_BYTES) struct value value;
};

enum { BUCKETS_OF_PAGE = PAGE_BYTES / sizeof(struct entry *) };

static uint64_t buckets, bucket_pages;

static uint64_t structure_pages(void)
{
    for (buckets = BUCKETS_OF_PAGE; buckets < items_of_thread();) {
        buckets *= 2;
    }
    bucket_pages = buckets / BUCKETS_OF_PAGE;
    const uint64_t tables_end = work.threads + bucket_pages * work.threads;
    return np_declare_blocks(&np, (unsigned)work.threads, sizeof(struct entry), items_of_thread(), tables_end);
}

static void structure_make(void)
{
}

static struct entry **bucket_of(uint64_t thread, uint64_t bucket)
{
    struct entry **table = (struct entry **)(void *)np_home(&np, work.threads + thread * bucket_pages);
    return &table[bucket];
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t thread = transaction.thread->number, number = number_of(thread, index);
    const uint64_t key = key_of(number);
    struct root *root = root_of(thread);
    struct entry **bucket = bucket_of(thread, key % buckets);
    struct entry *entry = np_allocate(transaction, 0);
    struct entry *entry_written = NP_WRITE(transaction, entry);
    entry_written->key = key;
    entry_written->next = *NP_READ(transaction, bucket);
    fill_value(&entry_written->value, number);
    *NP_WRITE(transaction, bucket) = entry;
    NP_WRITE(transaction, root)->count++;
    np_commit(transaction);
}

static void check_table(uint64_t thread)
{
    uint64_t count = 0;
    for (uint64_t bucket = 0; bucket < buckets; bucket++) {
        for (const struct entry *home = *LOOK(bucket_of(thread, bucket)); home != NULL; count++) {
            const struct entry *entry = LOOK((const struct entry *)claim_block(0, home));
            if (entry->key % buckets != bucket) {
                die(STATUS_WRONG, "key %016" PRIx64 " is in the wrong bucket", entry->key);
            }
            check_value(&entry->value, entry->key, thread);
            home = entry->next;
        }
    }
    if (LOOK((struct root *)root_of(thread))->count != count) {
        die(STATUS_WRONG, "a table of %" PRIu64 " has another count", count);
    }
}

static void structure_check(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        check_table(thread);
    }
}
