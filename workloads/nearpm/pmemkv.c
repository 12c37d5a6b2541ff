/*
 * pmemkv POOL [OPTION]...: pmemkv's B+ tree, tree3, under fillrandom of pmemkv-bench: puts keys of 16 digits,
 * drawn from as many as there are puts, with values of 100 bytes. A key that is drawn again has its value
 * replaced.
 *
 * As in tree3, leaves are persistent, in a list without order, and have 48 slots in any order, each with a
 * pointer to a pair of key and value. Inner nodes, of 4 keys, and copies of leaves' keys with a byte of hash
 * for each are in ordinary memory, and made anew when the pool is opened. (The paper says that pmemkv has a
 * B+ tree; its artifact runs pmemkv's hash table.)
 *
 * Our assumptions: full inner nodes are split on the way down; each thread has a tree and keys of its own;
 * the first leaf is made with the pool.
 *
 * Always true: a leaf's keys are above all of the leaf that sorts before it; unless it is alone, it has at
 * least 24.
 */
#define PROGRAM "pmemkv"
#define VALUE_BYTES 100
#include "records.h"

enum { LEAF_KEYS = 48, LEAF_LEAST = LEAF_KEYS / 2, INNER_KEYS = 4, INNER_HALF = INNER_KEYS / 2 };
enum { LEAVES, PAIRS }; /* classes of blocks */

struct key {
    char digits[16];
};

struct pair {
    alignas(LINE_BYTES) uint64_t used;
    struct key key;
    char value[VALUE_BYTES];
};

struct leaf {
    alignas(LINE_BYTES) uint64_t used;
    struct leaf *next;
    struct pair *pair[LEAF_KEYS];
};

struct root {
    struct leaf *first;
};

/* ---- In ordinary memory ----------------------------------------------------------------------- */

/* What is known of a leaf. A hash of 0 stands for an empty slot. */
struct leaf_node {
    uint8_t hash[LEAF_KEYS];
    struct key key[LEAF_KEYS];
    struct leaf *home;
};

/* Up to and with each key lies what is in the child before it. */
struct inner_node {
    uint64_t count;
    struct key key[INNER_KEYS];
    void *child[INNER_KEYS + 1];
};

/* So many levels of inner nodes, and below them leaf nodes. */
struct tree {
    alignas(LINE_BYTES) void *top;
    uint64_t levels;
};

static struct tree trees[THREADS_MAX];

/* ---- What follows from the command line ------------------------------------------------------- */

static void open_trees(void);

static void structure_defaults(void)
{
    work.operations = 10000;
    structure_open = open_trees;
}

static void structure_plan(void)
{
}

static uint64_t records_of(uint64_t thread)
{
    return share(work.operations, thread);
}

static uint64_t record_written(uint64_t thread, uint64_t index)
{
    return random_at(work.seed, 2, thread << THREAD_SHIFT | index) % records_of(thread);
}

static struct key key_of(uint64_t record)
{
    char text[sizeof(struct key) + 1];
    struct key key;
    const uint64_t number = (uint32_t)record * work.threads + (record >> THREAD_SHIFT);
    snprintf(text, sizeof text, "%016" PRIu64, number % UINT64_C(10000000000000000));
    memcpy(key.digits, text, sizeof key.digits);
    return key;
}

static uint64_t structure_pages(void)
{
    const unsigned count = (unsigned)work.threads;
    const uint64_t leaves = records_of(0) / LEAF_LEAST + 1;
    const uint64_t leaves_end = np_declare_blocks(&np, count, sizeof(struct leaf), leaves, work.threads);
    /* A pair that is replaced is given back at the end of its transaction. */
    return np_declare_blocks(&np, count, sizeof(struct pair), records_of(0) + 1, leaves_end);
}

static void structure_make(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        struct leaf *leaf = (void *)np_block_at(&np, LEAVES, thread * np.classes[LEAVES].blocks);
        leaf->used = 1;
        ((struct root *)root_of(thread))->first = leaf;
    }
}

/* ---- Keys ------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct key));
}

static bool is_above(const struct key *a, const struct key *b)
{
    return compare_keys(a, b) > 0;
}

static uint8_t hash_of(const struct key *key)
{
    uint64_t words[2];
    memcpy(words, key, sizeof words);
    return (uint8_t)(1 + mix(mix(words[0]) ^ words[1]) % UINT8_MAX);
}

/* ---- Inner nodes ------------------------------------------------------------------------------ */

/* The child that the key belongs to. */
static uint64_t place_of(const struct inner_node *node, const struct key *key)
{
    uint64_t at = 0;
    while (at < node->count && is_above(key, &node->key[at])) {
        at++;
    }
    return at;
}

static struct leaf_node *leaf_for(const struct tree *tree, const struct key *key)
{
    void *node = tree->top;
    for (uint64_t level = tree->levels; level > 0; level--) {
        const struct inner_node *inner = node;
        node = inner->child[place_of(inner, key)];
    }
    return node;
}

static void add_child(struct inner_node *node, uint64_t at, const struct key *key, void *child)
{
    for (uint64_t i = node->count; i > at; i--) {
        node->key[i] = node->key[i - 1];
        node->child[i + 1] = node->child[i];
    }
    node->count++;
    node->key[at] = *key;
    node->child[at + 1] = child;
}

/* Of a full child, the upper keys go into a new one behind it, and the middle one up between them. */
static void split_inner(struct inner_node *parent, uint64_t at)
{
    struct inner_node *left = parent->child[at], *right = ordinary(1, sizeof *right);
    right->count = INNER_KEYS - INNER_HALF - 1;
    left->count = INNER_HALF;
    memcpy(right->key, &left->key[INNER_HALF + 1], right->count * sizeof right->key[0]);
    memcpy(right->child, &left->child[INNER_HALF + 1], (right->count + 1) * sizeof right->child[0]);
    add_child(parent, at, &left->key[INNER_HALF], right);
}

/* The leaf comes behind the one that keys up to and with `last` belong to. */
static void add_leaf(struct tree *tree, const struct key *last, struct leaf_node *leaf)
{
    struct inner_node *node = tree->top;
    if (tree->levels == 0 || node->count == INNER_KEYS) {
        node = ordinary(1, sizeof *node);
        node->child[0] = tree->top;
        tree->top = node;
        if (tree->levels++ > 0) {
            split_inner(node, 0);
        }
    }
    uint64_t at = place_of(node, last);
    for (uint64_t level = tree->levels; level > 1; level--) {
        if (((struct inner_node *)node->child[at])->count == INNER_KEYS) {
            split_inner(node, at);
            at = place_of(node, last);
        }
        node = node->child[at];
        at = place_of(node, last);
    }
    add_child(node, at, last, leaf);
}

/* ---- Opening ---------------------------------------------------------------------------------- */

/* A leaf as the pool has it. */
struct read_leaf {
    struct key last, first; /* in this order, for sorting */
    struct leaf_node *node;
};

static struct read_leaf read_leaf(struct leaf *home)
{
    struct read_leaf leaf = {.node = ordinary(1, sizeof *leaf.node)};
    bool is_empty = true;
    leaf.node->home = home;
    for (unsigned slot = 0; slot < LEAF_KEYS; slot++) {
        const struct pair *pair = LOOK(home)->pair[slot];
        if (pair != NULL) {
            const struct key key = LOOK(pair)->key;
            leaf.node->key[slot] = key;
            leaf.node->hash[slot] = hash_of(&key);
            leaf.last = is_empty || is_above(&key, &leaf.last) ? key : leaf.last;
            leaf.first = is_empty || is_above(&leaf.first, &key) ? key : leaf.first;
            is_empty = false;
        }
    }
    return leaf;
}

/* The leaves of a thread in the order of their keys; how many there are. */
static struct read_leaf *read_leaves(uint64_t thread, uint64_t *count)
{
    struct read_leaf *leaves = ordinary(np.classes[LEAVES].blocks, sizeof *leaves);
    *count = 0;
    struct leaf *home = LOOK((struct root *)root_of(thread))->first;
    while (home != NULL) {
        leaves[(*count)++] = read_leaf(home);
        home = LOOK(home)->next;
    }
    qsort(leaves, *count, sizeof *leaves, compare_keys);
    return leaves;
}

static void open_trees(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        uint64_t count;
        struct read_leaf *leaves = read_leaves(thread, &count);
        trees[thread] = (struct tree){.top = leaves[0].node};
        for (uint64_t i = 1; i < count; i++) {
            add_leaf(&trees[thread], &leaves[i - 1].last, leaves[i].node);
        }
        free(leaves);
    }
}

/* ---- Puts ------------------------------------------------------------------------------------- */

/* The key's slot, or else an empty one; LEAF_KEYS if there is neither. */
static unsigned slot_for(const struct leaf_node *leaf, const struct key *key)
{
    const uint8_t hash = hash_of(key);
    unsigned empty = LEAF_KEYS;
    for (unsigned slot = 0; slot < LEAF_KEYS; slot++) {
        if (leaf->hash[slot] == hash && compare_keys(&leaf->key[slot], key) == 0) {
            return slot;
        }
        empty = leaf->hash[slot] == 0 ? slot : empty;
    }
    return empty;
}

/* The key in the middle of a full leaf's and one more. */
static struct key middle_key(const struct leaf_node *leaf, const struct key *more)
{
    struct key keys[LEAF_KEYS + 1];
    memcpy(keys, leaf->key, sizeof leaf->key);
    keys[LEAF_KEYS] = *more;
    qsort(keys, LEAF_KEYS + 1, sizeof keys[0], compare_keys);
    return keys[LEAF_KEYS / 2];
}

/* Makes room for a key: what is above the middle goes into a new leaf. Which of the two the key is for. */
OPERATION struct leaf_node *split_leaf(struct np_transaction transaction, struct leaf_node *left,
                                       const struct key *key)
{
    const uint64_t thread = transaction.thread->number;
    const struct key last = middle_key(left, key);
    struct root *root = NP_WRITE(transaction, (struct root *)root_of(thread));
    struct leaf_node *right = ordinary(1, sizeof *right);
    right->home = np_allocate(transaction, LEAVES);
    struct leaf *right_written = NP_WRITE(transaction, right->home);
    struct leaf *left_written = NP_WRITE(transaction, left->home);
    *right_written = (struct leaf){.used = 1, .next = root->first};
    root->first = right->home;
    for (unsigned slot = 0; slot < LEAF_KEYS; slot++) {
        if (is_above(&left->key[slot], &last)) {
            right_written->pair[slot] = left_written->pair[slot];
            left_written->pair[slot] = NULL;
            right->key[slot] = left->key[slot];
            right->hash[slot] = left->hash[slot];
            left->hash[slot] = 0;
        }
    }
    add_leaf(&trees[thread], &last, right);
    return is_above(key, &last) ? right : left;
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const struct written written = write_of(transaction.thread->number, index);
    const struct key key = key_of(written.record);
    struct leaf_node *leaf = leaf_for(&trees[transaction.thread->number], &key);
    unsigned slot = slot_for(leaf, &key);
    if (slot == LEAF_KEYS) {
        leaf = split_leaf(transaction, leaf, &key);
        slot = slot_for(leaf, &key);
    }
    struct pair *pair = np_allocate(transaction, PAIRS);
    struct pair *pair_written = NP_WRITE(transaction, pair);
    pair_written->key = key;
    fill_value(pair_written->value, written);
    struct pair *before = *NP_READ(transaction, &leaf->home->pair[slot]);
    *NP_WRITE(transaction, &leaf->home->pair[slot]) = pair;
    if (before != NULL) {
        np_free(transaction, PAIRS, before);
    }
    np_commit(transaction);
    leaf->key[slot] = key;
    leaf->hash[slot] = hash_of(&key);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void check_pair(uint64_t thread, const struct pair *home)
{
    const struct pair *pair = LOOK((const struct pair *)claim_block(PAIRS, home));
    const struct written written = read_value(pair->value);
    const struct key key = key_of(written.record);
    if (compare_keys(&pair->key, &key) != 0) {
        die(STATUS_WRONG, "key %.16s has another's value", pair->key.digits);
    }
    found_record(thread, written);
}

/* How many keys it has. */
static unsigned check_leaf(uint64_t thread, const struct leaf *leaf)
{
    unsigned count = 0;
    for (unsigned slot = 0; slot < LEAF_KEYS; slot++) {
        if (leaf->pair[slot] != NULL) {
            check_pair(thread, leaf->pair[slot]);
            count++;
        }
    }
    return count;
}

static void check_leaves(uint64_t thread)
{
    const struct leaf *home = LOOK((struct root *)root_of(thread))->first;
    unsigned leaves = 0, least = LEAF_KEYS;
    while (home != NULL) {
        const struct leaf *leaf = LOOK((const struct leaf *)claim_block(LEAVES, home));
        const unsigned count = check_leaf(thread, leaf);
        least = count < least ? count : least;
        home = leaf->next;
        leaves++;
    }
    if (leaves == 0 || (leaves > 1 && least < LEAF_LEAST)) {
        die(STATUS_WRONG, "of %u leaves, one has %u keys", leaves, least);
    }
}

static void check_order(uint64_t thread)
{
    uint64_t count;
    struct read_leaf *leaves = read_leaves(thread, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0 && !is_above(&leaves[i].first, &leaves[i - 1].last)) {
            die(STATUS_WRONG, "key %.16s is in the wrong leaf", leaves[i].first.digits);
        }
        free(leaves[i].node);
    }
    free(leaves);
}

static void structure_check(void)
{
    begin_records();
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        check_leaves(thread);
        check_order(thread);
    }
    end_records();
}
