/*
 * radix POOL [OPTION]...: a radix tree of three levels with sixteen children each.
 *
 * A key's path are twelve bits, in which keys lie far from each other. A node has two lines of pointers, a
 * leaf one line with key, value and a stamp. To put builds all that is missing of the path, from the leaf
 * up, makes it durable, and stores one pointer to it in the lowest node that is there. To erase stores NULL
 * over the highest pointer to what would be empty.
 *
 * Always true of what is durable: a leaf that is reached never changes; a node that is reached but the root
 * has a child; stamps fit; leaves are where their keys belong. Recovery has nothing to mend.
 */
#define PROGRAM "radix"
#define BUGS(BUG)                                                                                            \
    BUG(LEAF_NOT_FLUSHED, MISSING_FLUSH, "a leaf is not flushed")                                            \
    BUG(PATH_NOT_FLUSHED, MISSING_FLUSH, "new nodes above the leaf are not flushed")                         \
    BUG(PATH_NOT_FENCED, MISSING_FENCE, "the pointer to a new path may be durable before it")                \
    BUG(FIRST_LINE_OF_NODE, WRONG_LINE, "of a new node only the first line is flushed")                      \
    BUG(LINKED_FROM_ABOVE, WRONG_ORDER, "a new node is linked, durably, before its child")                   \
    BUG(VALUE_IN_PLACE, TORN_UPDATE, "value and stamp are written over the old ones")                        \
    BUG(PRUNED_IN_STEPS, NON_ATOMIC_CHANGE, "an erasure takes the leaf, then the empty nodes above it")
#define SLOT_BYTES 128
#define SLOTS (1 + 4 * KEYS)
#include "run.h"

enum { LEVELS = 3, CHILDREN = 16 };

struct node {
    alignas(LINE_BYTES) void *child[CHILDREN]; /* nodes, and on the last level leaves */
};

struct leaf {
    alignas(LINE_BYTES) uint64_t key;
    uint64_t value, stamp;
};

static_assert(sizeof(struct node) == SLOT_BYTES && sizeof(struct leaf) <= SLOT_BYTES, "each has a slot");

static struct node *const root = (struct node *)(POOL_ADDRESS + PAGE_BYTES);

/* Which child a key is under: an odd factor permutes twelve bits. */
static unsigned index_of(uint64_t key, unsigned level)
{
    return (unsigned)(key * 0x9e5 >> 4 * (LEVELS - 1 - level)) % CHILDREN;
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void lead(void **link, void *to)
{
    *link = to; /* store: pruned-in-steps */
    persist(link);
}

static struct leaf *new_leaf(uint64_t key, uint64_t value)
{
    struct leaf *leaf = take_slot();
    leaf->key = key;
    leaf->value = value;
    leaf->stamp = mix(value); /* store: leaf-not-flushed, path-not-fenced */
    if (!planted(LEAF_NOT_FLUSHED)) {
        flush(leaf); /* bug: leaf-not-flushed */
    }
    return leaf;
}

/* A node with one child, which is flushed. */
static struct node *new_node(unsigned index, void *child)
{
    struct node *node = take_slot();
    memset(node, 0, sizeof *node);
    node->child[index] = child; /* store: path-not-flushed, first-line-of-node */
    if (planted(FIRST_LINE_OF_NODE)) {
        flush(node); /* bug: first-line-of-node */
    } else if (!planted(PATH_NOT_FLUSHED)) {
        flush_range(node, sizeof *node); /* bug: path-not-flushed */
    }
    return node;
}

/* Links new nodes one below the other, as long as there are levels, and the leaf to the last one. */
static void lead_from_above(void **link, unsigned level, uint64_t key, struct leaf *leaf)
{
    for (; level < LEVELS; level++) {
        struct node *node = new_node(0, NULL);
        fence();
        lead(link, node); /* bug: linked-from-above */
        link = &node->child[index_of(key, level)];
    }
    lead(link, leaf); /* store: linked-from-above */
}

static void structure_put(uint64_t key, uint64_t value)
{
    void **link = &root->child[index_of(key, 0)];
    unsigned level = 1;
    while (level < LEVELS && *link != NULL) {
        link = &((struct node *)*link)->child[index_of(key, level++)];
    }
    struct leaf *old = level == LEVELS ? *link : NULL;
    if (old != NULL && planted(VALUE_IN_PLACE)) {
        old->value = value; /* bug: value-in-place */
        old->stamp = mix(value);
        persist(old);
        return;
    }
    struct leaf *leaf = new_leaf(key, value);
    if (planted(LINKED_FROM_ABOVE)) {
        lead_from_above(link, level, key, leaf);
    } else {
        void *path = leaf;
        for (unsigned above = LEVELS; above > level; above--) {
            path = new_node(index_of(key, above - 1), path);
        }
        if (!planted(PATH_NOT_FENCED)) {
            fence(); /* bug: path-not-fenced */
        }
        lead(link, path);
    }
    if (old != NULL) {
        give_slot(old);
    }
}

static unsigned children_of(const struct node *node)
{
    unsigned count = 0;
    for (unsigned i = 0; i < CHILDREN; i++) {
        count += node->child[i] != NULL;
    }
    return count;
}

static void structure_erase(uint64_t key)
{
    struct node *path[LEVELS] = {root};
    for (unsigned level = 0; level + 1 < LEVELS; level++) {
        path[level + 1] = path[level]->child[index_of(key, level)];
        if (path[level + 1] == NULL) {
            return;
        }
    }
    unsigned highest = LEVELS - 1;
    struct leaf *old = path[highest]->child[index_of(key, highest)];
    if (old == NULL) {
        return;
    }
    while (highest > 0 && children_of(path[highest]) == 1) {
        highest--;
    }
    if (planted(PRUNED_IN_STEPS)) {
        for (unsigned level = LEVELS - 1; level > highest; level--) {
            lead(&path[level]->child[index_of(key, level)], NULL); /* bug: pruned-in-steps */
        }
    }
    lead(&path[highest]->child[index_of(key, highest)], NULL);
    for (unsigned level = highest + 1; level < LEVELS; level++) {
        give_slot(path[level]);
    }
    give_slot(old);
}

static uint64_t structure_get(uint64_t key)
{
    const void *at = root;
    for (unsigned level = 0; level < LEVELS && at != NULL; level++) {
        at = ((const struct node *)at)->child[index_of(key, level)];
    }
    return at == NULL ? 0 : ((const struct leaf *)at)->value;
}

static void recover_leaf(const struct leaf *leaf, unsigned path)
{
    if (index_of(leaf->key, 0) << 8 != (path & 0xf00) || (path & 0xff) !=
        (index_of(leaf->key, 1) << 4 | index_of(leaf->key, 2))) {
        die(STATUS_WRONG, "key %" PRIu64 " is at the end of another's path", leaf->key);
    }
    if (leaf->stamp != mix(leaf->value)) {
        die(STATUS_WRONG, "the value of key %" PRIu64 " is torn", leaf->key);
    }
    found_item(leaf->key, leaf->value);
}

static void recover_node(const struct node *node, unsigned level, unsigned path)
{
    if (node != root && children_of(node) == 0) {
        die(STATUS_WRONG, "a node is empty");
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (node->child[i] == NULL) {
            continue;
        }
        const void *child = claim(node->child[i]);
        if (level + 1 < LEVELS) {
            recover_node(child, level + 1, path << 4 | i);
        } else {
            recover_leaf(child, path << 4 | i);
        }
    }
}

static void structure_recover(void)
{
    recover_node(claim(root), 0, 0);
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
