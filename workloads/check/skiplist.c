/*
 * skiplist POOL [OPTION]...: a skip list of four levels.
 *
 * A node has a line with its successors on every level, and a line with its key and two values, of which a
 * word says which one counts. The lowest level is the list, as durable as any; those above only lead there
 * faster. To put links a durable node below, durably, and then above; a key that is there gets its value,
 * with a stamp, where the value does not count, and then the word. To erase unlinks from above to below.
 *
 * Always true of what is durable: on the lowest level keys increase, and the value that counts fits its
 * stamp. Recovery makes the levels above anew, so that none leads to a node that is gone.
 */
#define PROGRAM "skiplist"
#define BUGS(BUG)                                                                                            \
    BUG(NODE_NOT_FLUSHED, MISSING_FLUSH, "a new node is not flushed")                                        \
    BUG(LINK_NOT_FLUSHED, MISSING_FLUSH, "the pointer to a new node on the lowest level is not flushed")     \
    BUG(NODE_NOT_FENCED, MISSING_FENCE, "the pointer to a node may be durable before the node")              \
    BUG(FIRST_LINE_OF_NODE, WRONG_LINE, "of a new node only the line with its successors is flushed")        \
    BUG(LINKED_BEFORE_FILLED, WRONG_ORDER, "a node is linked, durably, before it has key and value")         \
    BUG(VALUE_IN_PLACE, TORN_UPDATE, "value and stamp are written over the ones that count")                 \
    BUG(WORD_BEFORE_VALUE, SEMANTIC, "a value counts, durably, before it is written")                        \
    BUG(LEVELS_TRUSTED, ABA_AFTER_RECOVERY, "recovery leaves the upper levels, which lead to nodes of before")
#define SLOT_BYTES 128
#include "run.h"

enum { LEVELS = 4 };

struct node {
    alignas(LINE_BYTES) struct node *next[LEVELS];
    alignas(LINE_BYTES) uint64_t key;
    uint64_t which; /* of the values counts */
    struct pair {
        uint64_t value, stamp;
    } pair[2];
};

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

static struct node *const head = (struct node *)(POOL_ADDRESS + PAGE_BYTES);

/* A node is on the levels below this, whatever becomes of it. */
static unsigned height_of(uint64_t key)
{
    const unsigned height = 1 + (unsigned)__builtin_ctzll(mix(key) | UINT64_C(1) << 32);
    return height < LEVELS ? height : LEVELS;
}

/* The last nodes before the key, on every level. */
static void find(uint64_t key, struct node *before[LEVELS])
{
    struct node *at = head;
    for (unsigned level = LEVELS; level-- > 0;) {
        while (at->next[level] != NULL && at->next[level]->key < key) {
            at = at->next[level];
        }
        before[level] = at;
    }
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void write_pair(struct node *node, uint64_t which, uint64_t value)
{
    node->pair[which].value = value;
    node->pair[which].stamp = mix(value); /* store: value-in-place, word-before-value */
}

/* A new value for a node that is there. */
static void replace(struct node *node, uint64_t value)
{
    const uint64_t which = planted(VALUE_IN_PLACE) ? node->which : 1 - node->which;
    if (planted(WORD_BEFORE_VALUE)) {
        node->which = which; /* bug: word-before-value */
        persist(&node->which);
    }
    write_pair(node, which, value); /* bug: value-in-place */
    persist(node->pair);
    node->which = which;
    persist(&node->which);
}

static void link_below(struct node *node, struct node *before)
{
    before->next[0] = node; /* store: link-not-flushed */
    if (!planted(LINK_NOT_FLUSHED)) {
        flush(before); /* bug: link-not-flushed */
    }
    fence();
}

static void structure_put(uint64_t key, uint64_t value)
{
    struct node *before[LEVELS];
    find(key, before);
    struct node *node = before[0]->next[0];
    if (node != NULL && node->key == key) {
        replace(node, value);
        return;
    }
    node = take_slot();
    for (unsigned level = 0; level < LEVELS; level++) {
        node->next[level] = level < height_of(key) ? before[level]->next[level] : NULL;
    }
    if (planted(LINKED_BEFORE_FILLED)) {
        persist(node);
        link_below(node, before[0]); /* bug: linked-before-filled */
    }
    node->key = key; /* store: node-not-flushed, node-not-fenced, first-line-of-node, linked-before-filled */
    node->which = 0;
    write_pair(node, 0, value);
    if (planted(FIRST_LINE_OF_NODE)) {
        flush(node); /* bug: first-line-of-node */
    } else if (!planted(NODE_NOT_FLUSHED)) {
        flush_range(node, sizeof *node); /* bug: node-not-flushed */
    }
    if (!planted(NODE_NOT_FENCED)) {
        fence(); /* bug: node-not-fenced */
    }
    link_below(node, before[0]);
    for (unsigned level = 1; level < height_of(key); level++) {
        before[level]->next[level] = node;
    }
}

static void structure_erase(uint64_t key)
{
    struct node *before[LEVELS];
    find(key, before);
    struct node *node = before[0]->next[0];
    if (node == NULL || node->key != key) {
        return;
    }
    for (unsigned level = height_of(key); level-- > 0;) {
        before[level]->next[level] = node->next[level];
    }
    persist(before[0]);
    give_slot(node);
}

static uint64_t structure_get(uint64_t key)
{
    struct node *before[LEVELS];
    find(key, before);
    const struct node *node = before[0]->next[0];
    return node != NULL && node->key == key ? node->pair[node->which].value : 0;
}

/* Whoever is on an upper level must be on the lowest; nothing is written. */
static void check_levels(void)
{
    for (unsigned level = 1; level < LEVELS; level++) {
        const struct node *last = head;
        for (const struct node *node = head->next[level]; node != NULL; node = node->next[level]) {
            const uint64_t index = (uint64_t)((const struct slot *)node - slots);
            if (index >= slots_all || claimed[index] == 0 || (last != head && node->key <= last->key)) {
                die(STATUS_WRONG, "level %u leads to a node that is gone", level);
            }
            last = node;
        }
    }
}

/* What was not durable is gone; what is not linked anew, neither. */
static void make_levels(void)
{
    struct node *last[LEVELS] = {NULL};
    for (unsigned level = 1; level < LEVELS; level++) {
        last[level] = head;
    }
    for (struct node *node = head->next[0]; node != NULL; node = node->next[0]) {
        for (unsigned level = 1; level < height_of(node->key); level++) {
            last[level]->next[level] = node;
            last[level] = node;
        }
    }
    for (unsigned level = 1; level < LEVELS; level++) {
        last[level]->next[level] = NULL;
    }
}

static void structure_recover(void)
{
    const struct node *last = claim(head);
    for (const struct node *node = head->next[0]; node != NULL; node = node->next[0]) {
        node = claim(node);
        if (last != head && node->key <= last->key) {
            die(STATUS_WRONG, "key %" PRIu64 " is behind %" PRIu64, node->key, last->key);
        }
        if (node->which > 1 || node->pair[node->which].stamp != mix(node->pair[node->which].value)) {
            die(STATUS_WRONG, "the value of key %" PRIu64 " is torn", node->key);
        }
        found_item(node->key, node->pair[node->which].value);
        last = node;
    }
    if (!planted(LEVELS_TRUSTED)) {
        make_levels(); /* bug: levels-trusted */
    }
    check_levels();
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
