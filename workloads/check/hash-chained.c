/*
 * hash-chained POOL [OPTION]...: a hash table with chains, which doubles.
 *
 * A node is a line. To put makes a node durable at the head of its chain, or in place of the key's old one,
 * and stores the pointer to it; to erase stores the pointer past it. When there are twice as many nodes as
 * buckets, a table of twice as many buckets is made with copies of all nodes, and is durable before one
 * word is stored that says which of the tables counts. Each size has a place of its own for its table.
 *
 * Always true of what is durable: a node that is reached changes nothing but its successor, and is in its
 * key's chain. The table of the next size is empty: recovery clears what a doubling that was cut has left.
 */
#define PROGRAM "hash-chained"
#define BUGS(BUG)                                                                                            \
    BUG(NODE_NOT_FLUSHED, MISSING_FLUSH, "a node that a chain leads to is not flushed")                      \
    BUG(COPIES_NOT_FLUSHED, MISSING_FLUSH, "the nodes of a doubled table are not flushed")                   \
    BUG(LINK_NOT_FENCED, MISSING_FENCE, "the flush of the pointer to a new node is not waited for")          \
    BUG(TABLE_NOT_FENCED, MISSING_FENCE, "the word may be durable before the table that it makes count")     \
    BUG(FIRST_BUCKET_FLUSHED, WRONG_LINE, "the line of the first bucket is flushed, whichever was stored")   \
    BUG(NODES_MOVED, NON_ATOMIC_CHANGE, "doubling puts the nodes themselves into the new chains")            \
    BUG(TABLE_NOT_CLEARED, ABA_AFTER_RECOVERY, "the next doubling finds what one that was cut has left")     \
    BUG(TABLE_FIRST, WRONG_ORDER, "the doubled table counts, durably, before it is filled")                  \
    BUG(REPLACED_IN_TWO, SEMANTIC, "the old node is unlinked, durably, before the new one is linked")
#define SLOTS (3 * KEYS)
#define BESIDE_BYTES (64 * 8)
#include "run.h"

enum { FIRST_BITS = 2, LAST_BITS = 4 };

struct node {
    alignas(LINE_BYTES) struct node *next;
    uint64_t key, value;
};

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

/* Which table counts: the logarithm of its size, or 0 for the first. */
static uint64_t *bits(void)
{
    return &pool->root[0].word;
}

/* Tables of 4, 8 and 16 buckets begin at buckets 8, 16 and 32: lines of their own. */
static struct node **table_of(uint64_t size_bits)
{
    return (struct node **)beside_slots() + (UINT64_C(2) << size_bits);
}

static uint64_t bits_now(void)
{
    return *bits() == 0 ? FIRST_BITS : *bits();
}

static uint64_t bucket_of(uint64_t key, uint64_t size_bits)
{
    return mix(key) >> (64 - size_bits);
}

/* The pointer to the key's node, or NULL at the end of its chain. */
static struct node **find(uint64_t key)
{
    struct node **link = &table_of(bits_now())[bucket_of(key, bits_now())];
    while (*link != NULL && (*link)->key != key) {
        link = &(*link)->next;
    }
    return link;
}

static uint64_t node_count; /* in ordinary memory */

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void lead(struct node **link, struct node *node)
{
    *link = node; /* store: first-bucket-flushed, link-not-fenced */
    flush(planted(FIRST_BUCKET_FLUSHED) ? table_of(bits_now()) : link); /* bug: first-bucket-flushed */
    if (!planted(LINK_NOT_FENCED)) {
        fence(); /* bug: link-not-fenced */
    }
}

/* Fills the table of twice the size with copies of all nodes. */
static void fill_double(uint64_t size_bits)
{
    struct node **from = table_of(size_bits), **to = table_of(size_bits + 1);
    for (uint64_t bucket = 0; bucket < UINT64_C(1) << size_bits; bucket++) {
        for (struct node *node = from[bucket], *next; node != NULL; node = next) {
            struct node *copy = planted(NODES_MOVED) ? node : take_slot();
            struct node **link = &to[bucket_of(node->key, size_bits + 1)];
            next = node->next;
            copy->key = node->key;
            copy->value = node->value;
            copy->next = *link; /* bug: nodes-moved */ /* store: copies-not-flushed */
            *link = copy; /* store: table-first, table-not-fenced */
            if (!planted(COPIES_NOT_FLUSHED)) {
                flush(copy); /* bug: copies-not-flushed */
            }
        }
    }
    flush_range(to, sizeof *to << (size_bits + 1));
    if (!planted(TABLE_NOT_FENCED)) {
        fence(); /* bug: table-not-fenced */
    }
}

static void give_chains(uint64_t size_bits)
{
    for (uint64_t bucket = 0; bucket < UINT64_C(1) << size_bits; bucket++) {
        for (struct node *node = table_of(size_bits)[bucket]; node != NULL; node = node->next) {
            give_slot(node);
        }
    }
}

static void double_table(void)
{
    const uint64_t old = bits_now();
    if (planted(TABLE_FIRST)) {
        *bits() = old + 1; /* bug: table-first */
        persist(bits());
    }
    fill_double(old);
    *bits() = old + 1;
    persist(bits());
    if (!planted(NODES_MOVED)) {
        give_chains(old);
    }
}

static void structure_put(uint64_t key, uint64_t value)
{
    if (node_count >= UINT64_C(2) << bits_now() && bits_now() < LAST_BITS) {
        double_table();
    }
    struct node **link = find(key), *old = *link, *node = take_slot();
    if (old == NULL) {
        link = &table_of(bits_now())[bucket_of(key, bits_now())];
        node_count++;
    } else if (planted(REPLACED_IN_TWO)) {
        lead(link, old->next); /* bug: replaced-in-two */
    }
    node->next = old == NULL ? *link : old->next;
    node->key = key;
    node->value = value; /* store: node-not-flushed */
    if (!planted(NODE_NOT_FLUSHED)) {
        flush(node); /* bug: node-not-flushed */
    }
    fence();
    lead(link, node);
    if (old != NULL) {
        give_slot(old);
    }
}

static void structure_erase(uint64_t key)
{
    struct node **link = find(key), *old = *link;
    if (old == NULL) {
        return;
    }
    lead(link, old->next);
    give_slot(old);
    node_count--;
}

static uint64_t structure_get(uint64_t key)
{
    const struct node *node = *find(key);
    return node == NULL ? 0 : node->value;
}

/* A doubling that was cut leaves pointers in the next table, which the next doubling must not find. */
static void clear_next_table(void)
{
    struct node **next = table_of(bits_now() + 1);
    bool is_changed = false;
    for (uint64_t bucket = 0; bucket < UINT64_C(2) << bits_now(); bucket++) {
        if (next[bucket] != NULL) {
            next[bucket] = NULL; /* bug: table-not-cleared */
            is_changed = true;
        }
    }
    if (is_changed) {
        flush_range(next, sizeof *next << (bits_now() + 1));
        fence();
    }
}

static void check_next_table(void)
{
    for (uint64_t bucket = 0; bucket < UINT64_C(2) << bits_now(); bucket++) {
        if (table_of(bits_now() + 1)[bucket] != NULL) {
            die(STATUS_WRONG, "a table that does not count has a node in bucket %" PRIu64, bucket);
        }
    }
}

static void structure_recover(void)
{
    if (bits_now() < FIRST_BITS || bits_now() > LAST_BITS) {
        die(STATUS_WRONG, "the table has 2^%" PRIu64 " buckets", bits_now());
    }
    if (bits_now() < LAST_BITS) {
        if (!planted(TABLE_NOT_CLEARED)) {
            clear_next_table();
        }
        check_next_table();
    }
    for (uint64_t bucket = 0; bucket < UINT64_C(1) << bits_now(); bucket++) {
        for (const struct node *node = table_of(bits_now())[bucket]; node != NULL; node = node->next) {
            node = claim(node);
            if (bucket_of(node->key, bits_now()) != bucket) {
                die(STATUS_WRONG, "key %" PRIu64 " is in the chain of bucket %" PRIu64, node->key, bucket);
            }
            found_item(node->key, node->value);
            node_count++;
        }
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
