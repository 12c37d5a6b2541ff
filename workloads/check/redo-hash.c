/*
 * redo-hash POOL [OPTION]...: a hash table with chains and a count, in transactions by redo.
 *
 * Nodes that are in no chain are in a list of free ones, which changes in the same transactions. A value
 * has a stamp, 16 bytes that belong together. Pointers are words.
 *
 * Always true of what is durable, after recovery: a node is in its key's chain, its stamp fits, the count is
 * right, and every node is in a chain or free.
 */
#define PROGRAM "redo-hash"
#define BUGS(BUG)                                                                                            \
    REDO_BUGS(BUG)                                                                                           \
    BUG(COUNT_NOT_LOGGED, NOT_LOGGED, "the count is changed in place, past the transaction")                 \
    BUG(VALUE_IN_PLACE, TORN_UPDATE, "value and stamp are written over the old ones, past the transaction")  \
    BUG(GIVEN_AFTER, LEAK, "a node becomes free in a transaction of its own, after the one that unlinks it")
#define BESIDE_BYTES (REDO_LOG_BYTES + 8 * BUCKETS)
#define BUCKETS 8
#define SLOTS (KEYS + 4)
#include "redo.h"

struct node {
    alignas(LINE_BYTES) uint64_t next;
    uint64_t key;
    uint64_t value, stamp;
};

#include "nodes.h"

static struct node *const nodes = (struct node *)(POOL_ADDRESS + PAGE_BYTES);

static uint64_t *bucket(uint64_t index)
{
    return (uint64_t *)((struct redo_log *)beside_slots() + 1) + index;
}

/* The pointer to the key's node, or that which is 0 at the end of its chain. */
static uint64_t *find(uint64_t key)
{
    uint64_t *link = bucket(mix(key) % BUCKETS);
    while (*link != 0 && node_at(*link)->key != key) {
        link = &node_at(*link)->next;
    }
    return link;
}

static void structure_make(void)
{
    make_free(nodes, SLOTS);
    flush_range(nodes, SLOTS * sizeof *nodes);
    flush(head);
}

static void change_count(uint64_t to)
{
    if (planted(COUNT_NOT_LOGGED)) {
        head->count = to; /* bug: count-not-logged */
        persist(&head->count);
    } else {
        redo_store(&head->count, to);
    }
}

static void change_value(struct node *node, uint64_t value)
{
    if (planted(VALUE_IN_PLACE)) {
        node->value = value; /* bug: value-in-place */
        node->stamp = mix(value);
        persist(node);
    } else {
        redo_store(&node->value, value);
        redo_store(&node->stamp, mix(value));
    }
}

static void structure_put(uint64_t key, uint64_t value)
{
    uint64_t *link = find(key);
    struct node *node = node_at(*link);
    if (node == NULL) {
        node = node_at(redo_load(&head->free));
        if (node == NULL) {
            die(STATUS_USAGE, "no node is free");
        }
        redo_store(&head->free, node->next);
        redo_store(&node->next, 0);
        redo_store(&node->key, key);
        redo_store(link, address_of(node));
        change_count(head->count + 1);
    }
    change_value(node, value);
    redo_commit();
}

static void structure_erase(uint64_t key)
{
    uint64_t *link = find(key);
    struct node *node = node_at(*link);
    if (node == NULL) {
        return;
    }
    redo_store(link, node->next);
    change_count(head->count - 1);
    if (planted(GIVEN_AFTER)) {
        redo_commit(); /* bug: given-after */
    }
    redo_store(&node->next, head->free);
    redo_store(&head->free, address_of(node));
    redo_commit();
}

static uint64_t structure_get(uint64_t key)
{
    const uint64_t *link = find(key);
    return *link == 0 ? 0 : node_at(*link)->value;
}

static void recover_chains(void)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < BUCKETS; i++) {
        for (const struct node *node = node_at(*bucket(i)); node != NULL; node = node_at(node->next)) {
            node = claim(node);
            count++;
            if (mix(node->key) % BUCKETS != i) {
                die(STATUS_WRONG, "key %" PRIu64 " is in the chain of bucket %" PRIu64, node->key, i);
            }
            if (node->stamp != mix(node->value)) {
                die(STATUS_WRONG, "the value of key %" PRIu64 " is torn", node->key);
            }
            found_item(node->key, node->value);
        }
    }
    if (head->count != count) {
        die(STATUS_WRONG, "%" PRIu64 " nodes are there, but the count is %" PRIu64, count, head->count);
    }
}

static void structure_recover(void)
{
    redo_recover(beside_slots());
    perdure_atomic(head, sizeof *head);
    recover_chains();
    recover_free("a chain");
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
