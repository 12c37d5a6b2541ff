/*
 * hash POOL [OPTION]...: Hash of the SPMS paper, insertions into and deletions from a hash table.
 *
 * Our assumptions (the paper and Kiln, which it cites, say no more than that): chains, one bucket for each
 * element at most and for every second one at least, 64 bytes an entry; all threads share the table, with a
 * lock for some buckets each, so that they meet in lines, four buckets each, and in chains.
 *
 * Always true: an entry is in the chain of its key's bucket, once, with its own value; a bucket's count is
 * its chain's length.
 */
#define PROGRAM "hash"
#include "elements.h"

enum { VALUE_WORDS = 4 };

struct item {
    alignas(LINE_BYTES) uint64_t used;
    struct item *next;
    uint64_t key;
    uint64_t element;
    uint64_t value[VALUE_WORDS];
};

struct bucket {
    struct item *first;
    uint64_t count;
};

static uint64_t buckets_count(void)
{
    uint64_t count = 4;
    while (count * 2 <= work.elements) {
        count *= 2;
    }
    return count;
}

static uint64_t buckets_mask;

static size_t structure_table_bytes(void)
{
    buckets_mask = buckets_count() - 1;
    return buckets_count() * sizeof(struct bucket);
}

static uint64_t structure_blocks(void)
{
    return elements_all();
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct item);
}

static void structure_make(struct transaction transaction)
{
    insert_first_elements(transaction);
}

OPERATION void structure_insert(struct transaction transaction, uint64_t element)
{
    const uint64_t key = key_of(element), index = key & buckets_mask, value = value_of(element);
    struct bucket *bucket = (struct bucket *)table + index;
    lock(index);
    struct item *item = take_block(transaction);
    SET(transaction, &item->next, GET(transaction, &bucket->first));
    SET(transaction, &item->key, key);
    SET(transaction, &item->element, element);
    for (unsigned i = 0; i < VALUE_WORDS; i++) {
        SET(transaction, &item->value[i], value + i);
    }
    SET(transaction, &bucket->first, item);
    SET(transaction, &bucket->count, GET(transaction, &bucket->count) + 1);
    commit(transaction);
    unlock(index);
}

OPERATION void structure_erase(struct transaction transaction, uint64_t element)
{
    const uint64_t key = key_of(element), index = key & buckets_mask;
    struct bucket *bucket = (struct bucket *)table + index;
    lock(index);
    struct item **place = &bucket->first, *item = GET(transaction, place);
    while (item != NULL && GET(transaction, &item->key) != key) {
        place = &item->next;
        item = GET(transaction, place);
    }
    if (item == NULL) {
        die(STATUS_WRONG, "element %" PRIu64 " is not in the table", element);
    }
    SET(transaction, place, GET(transaction, &item->next));
    SET(transaction, &bucket->count, GET(transaction, &bucket->count) - 1);
    give_block(transaction, item);
    commit(transaction);
    unlock(index);
}

static void check_item(const struct item *item, uint64_t index)
{
    found_element(item->element);
    if (item->key != key_of(item->element) || (item->key & buckets_mask) != index) {
        die(STATUS_WRONG, "element %" PRIu64 " has another's key or bucket", item->element);
    }
    for (unsigned i = 0; i < VALUE_WORDS; i++) {
        if (item->value[i] != value_of(item->element) + i) {
            die(STATUS_WRONG, "element %" PRIu64 " has another's value", item->element);
        }
        found(item->value[i]);
    }
}

static void structure_check(void)
{
    begin_elements_check();
    for (uint64_t index = 0; index <= buckets_mask; index++) {
        const struct bucket *bucket = (const struct bucket *)table + index;
        uint64_t count = 0;
        for (const struct item *at = bucket->first; at != NULL; at = at->next) {
            check_item(claim_block(at), index);
            count++;
        }
        if (count != bucket->count) {
            die(STATUS_WRONG, "bucket %" PRIu64 " counts %" PRIu64 " elements, but has %" PRIu64, index,
                bucket->count, count);
        }
    }
    end_elements_check();
}
