/*
 * A B+tree that takes a million inserts of random keys.
 *
 * Nodes are 512 bytes and come from one arena. Always true between inserts: the
 * entries of a node ascend by key; an inner node's entry i leads to the child with
 * all keys from its own key up to the next entry's, and the first entry of the
 * leftmost nodes has key 0, below every key; leaves are linked in key order and all
 * at the same depth. Full nodes are split on the way down: an insert never climbs.
 */
#ifndef PERDURE_BTREE_KERNEL_H
#define PERDURE_BTREE_KERNEL_H

#include "bench.h"

enum {
    BTREE_INSERTS = 1000000,
    BTREE_ENTRIES_MAX = 31,
    BTREE_NODE_BYTES = 512,
};

struct btree_entry {
    uint64_t key;
    union {
        uint64_t value;           /* in a leaf */
        struct btree_node *child; /* in an inner node */
    } to;
};

struct btree_node {
    uint32_t entries_used;
    uint32_t is_leaf;
    struct btree_node *next_leaf;
    struct btree_entry entries[BTREE_ENTRIES_MAX];
};

_Static_assert(sizeof(struct btree_node) == BTREE_NODE_BYTES, "a node fills eight cache lines");

struct btree {
    struct btree_node *root;
    struct btree_node *arena;
    size_t nodes_used;
};

static inline struct btree_node *btree_new_node(struct btree *tree, uint32_t is_leaf)
{
    struct btree_node *node = &tree->arena[tree->nodes_used++];
    node->entries_used = 0;
    node->is_leaf = is_leaf;
    node->next_leaf = NULL;
    return node;
}

/* The last entry whose key is not greater; in a leaf it may lie just before the first. */
static inline struct btree_entry *btree_search(struct btree_node *node, uint64_t key)
{
    struct btree_entry *first = node->entries;
    uint64_t length = node->entries_used;
    while (length > 1) { /* the entry is first, or one of the length - 1 after it */
        const uint64_t half = length / 2;
        if (first[half].key <= key) {
            first += half;
        }
        length -= half;
    }
    return length == 1 && first->key <= key ? first : first - 1;
}

/* Puts the entry at the position of a node that has room, and moves the later ones up. */
static inline void btree_insert_at(struct btree_node *node, struct btree_entry *position,
                                   struct btree_entry entry)
{
    const struct btree_entry *last = &node->entries[node->entries_used++];
    while (position <= last) {
        const struct btree_entry displaced = *position;
        *position++ = entry;
        entry = displaced;
    }
}

/* Moves the upper half of the full child behind the entry into a new right neighbour. */
static inline void btree_split_child(struct btree *tree, struct btree_node *parent,
                                     struct btree_entry *entry)
{
    struct btree_node *left = entry->to.child;
    struct btree_node *right = btree_new_node(tree, left->is_leaf);
    left->entries_used = BTREE_ENTRIES_MAX / 2;
    right->entries_used = BTREE_ENTRIES_MAX - BTREE_ENTRIES_MAX / 2;
    for (size_t i = 0; i < right->entries_used; i++) {
        right->entries[i] = left->entries[left->entries_used + i];
    }
    if (left->is_leaf) {
        right->next_leaf = left->next_leaf;
        left->next_leaf = right;
    }
    btree_insert_at(parent, entry + 1,
                    (struct btree_entry){.key = right->entries[0].key, .to.child = right});
}

static inline void btree_grow_root(struct btree *tree)
{
    struct btree_node *root = btree_new_node(tree, 0);
    root->entries_used = 1;
    root->entries[0] = (struct btree_entry){.key = 0, .to.child = tree->root};
    tree->root = root;
    btree_split_child(tree, root, root->entries);
}

/* Adds the value to the key's, which starts at zero; returns whether the key was new. */
static inline int btree_add(struct btree *tree, uint64_t key, uint64_t value)
{
    if (tree->root->entries_used == BTREE_ENTRIES_MAX) {
        btree_grow_root(tree);
    }
    struct btree_node *node = tree->root;
    while (!node->is_leaf) {
        struct btree_entry *entry = btree_search(node, key);
        if (entry->to.child->entries_used == BTREE_ENTRIES_MAX) {
            btree_split_child(tree, node, entry);
            entry += entry[1].key <= key;
        }
        node = entry->to.child;
    }
    struct btree_entry *entry = btree_search(node, key);
    if (entry >= node->entries && entry->key == key) {
        entry->to.value += value;
        return 0;
    }
    btree_insert_at(node, entry + 1, (struct btree_entry){.key = key, .to.value = value});
    return 1;
}

static inline int btree_contains(const struct btree *tree, uint64_t key)
{
    struct btree_node *node = tree->root;
    while (!node->is_leaf) {
        node = btree_search(node, key)->to.child;
    }
    const struct btree_entry *entry = btree_search(node, key);
    return entry >= node->entries && entry->key == key;
}

/* What was inserted, and so must be found again at the end. */
struct btree_expectation {
    uint64_t keys;
    uint64_t sum_of_values;
    uint64_t seed;
};

/* Walks all leaves in order, then looks up the first keys; returns what was wrong, or NULL. */
static inline const char *btree_verify(const struct btree *tree, struct btree_expectation expected,
                                       uint64_t *checksum)
{
    const struct btree_node *leaf = tree->root;
    while (!leaf->is_leaf) {
        leaf = leaf->entries[0].to.child;
    }
    uint64_t keys = 0;
    uint64_t sum_of_values = 0;
    uint64_t fold = 0;
    uint64_t previous_key = 0;
    for (; leaf != NULL; leaf = leaf->next_leaf) {
        for (size_t i = 0; i < leaf->entries_used; i++) {
            const struct btree_entry entry = leaf->entries[i];
            if (entry.key <= previous_key) {
                return "keys are out of order along the leaves";
            }
            previous_key = entry.key;
            keys++;
            sum_of_values += entry.to.value;
            fold = fold * 31 + (entry.key ^ entry.to.value);
        }
    }
    if (keys != expected.keys) {
        return "the leaves hold another number of keys than was inserted";
    }
    if (sum_of_values != expected.sum_of_values) {
        return "the values add up to another sum than was inserted";
    }
    uint64_t random = random_seeded(expected.seed);
    for (uint64_t i = 0; i < keys / 64; i++) {
        if (!btree_contains(tree, random_next(&random))) {
            return "an inserted key is not found from the root";
        }
    }
    *checksum = mix64(fold);
    return NULL;
}

static inline struct kernel_result btree_kernel(uint64_t seed, unsigned scale_percent)
{
    const size_t inserts = scaled(BTREE_INSERTS, scale_percent);
    /* A split leaves 15 entries or more in a node, so this many nodes always suffice. */
    const size_t nodes_max = inserts / (BTREE_ENTRIES_MAX / 2 - 1) + 8;
    struct btree tree = {.arena = malloc(nodes_max * sizeof *tree.arena)};
    if (tree.arena == NULL) {
        return kernel_failed("no memory for the nodes");
    }
    tree.root = btree_new_node(&tree, 1);
    struct btree_expectation expected = {.seed = seed};
    uint64_t random = random_seeded(seed);
    for (size_t i = 0; i < inserts; i++) {
        const uint64_t key = random_next(&random); /* never 0 */
        const uint64_t value = key ^ i;
        expected.keys += (uint64_t)btree_add(&tree, key, value);
        expected.sum_of_values += value;
    }
    struct kernel_result result = {.checksum = 0, .fault = NULL};
    result.fault = btree_verify(&tree, expected, &result.checksum);
    free(tree.arena);
    return result;
}

#endif
