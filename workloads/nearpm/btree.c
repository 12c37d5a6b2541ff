/*
 * btree POOL [OPTION]...: PMDK's btree example, insertions into a B-tree of order 8.
 *
 * Our assumptions: full nodes are split on the way down; a value is a block of its own, to which its item
 * leads; each thread has a tree of its own.
 *
 * Always true: all leaves are equally deep; but for the root, a node has 3 to 7 items; between two children
 * stands the item that is between all of theirs.
 */
#define PROGRAM "btree"
#include "values.h"

enum { ITEMS = 7, HALF = ITEMS / 2, CHILDREN = ITEMS + 1 };
enum { NODES, VALUES }; /* classes of blocks */

struct holder {
    alignas(LINE_BYTES) uint64_t used;
    alignas(LINE_BYTES) struct value value;
};

struct node {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t count;
    uint64_t key[ITEMS];
    struct holder *item[ITEMS];
    struct node *child[CHILDREN]; /* NULL in a leaf */
};

struct root {
    struct node *top;
};

static uint64_t structure_pages(void)
{
    const unsigned count = (unsigned)work.threads;
    const uint64_t nodes_end =
        np_declare_blocks(&np, count, sizeof(struct node), items_of_thread() / HALF + 2, work.threads);
    return np_declare_blocks(&np, count, sizeof(struct holder), items_of_thread(), nodes_end);
}

static void structure_make(void)
{
}

OPERATION const struct node *see(struct np_transaction transaction, struct node *node)
{
    return NP_READ(transaction, node);
}

/* ---- Insertion -------------------------------------------------------------------------------- */

/* An empty node; where it is written. */
OPERATION struct node *new_node(struct np_transaction transaction, struct node **node)
{
    *node = np_allocate(transaction, NODES);
    struct node *written = NP_WRITE(transaction, *node);
    *written = (struct node){.used = 1};
    return written;
}

/* Makes room for an item, and for a child behind it. */
static inline void open_place(struct node *node, uint64_t at)
{
    for (uint64_t i = node->count; i > at; i--) {
        node->key[i] = node->key[i - 1];
        node->item[i] = node->item[i - 1];
        node->child[i + 1] = node->child[i];
    }
    node->count++;
}

/* Of a full child, the upper half goes into a new one behind it, and the middle item up between them. */
OPERATION void split(struct np_transaction transaction, struct node *parent, uint64_t at)
{
    struct node *left = NP_WRITE(transaction, see(transaction, parent)->child[at]), *right;
    struct node *right_written = new_node(transaction, &right);
    const uint64_t moved = (ITEMS - HALF - 1) * sizeof left->key[0];
    memcpy(right_written->key, &left->key[HALF + 1], moved);
    memcpy(right_written->item, &left->item[HALF + 1], moved);
    memcpy(right_written->child, &left->child[HALF + 1], moved + sizeof left->child[0]);
    right_written->count = ITEMS - HALF - 1;
    left->count = HALF;
    struct node *written = NP_WRITE(transaction, parent);
    open_place(written, at);
    written->key[at] = left->key[HALF];
    written->item[at] = left->item[HALF];
    written->child[at + 1] = right;
}

/* The root, which is not full. */
OPERATION struct node *open_root(struct np_transaction transaction, struct root *root)
{
    struct node *top = NP_READ(transaction, root)->top, *new;
    if (top != NULL && see(transaction, top)->count < ITEMS) {
        return top;
    }
    struct node *written = new_node(transaction, &new);
    NP_WRITE(transaction, root)->top = new;
    if (top != NULL) {
        written->child[0] = top;
        split(transaction, new, 0);
    }
    return new;
}

/* How many of the node's keys are below the key. */
OPERATION uint64_t place_of(const struct node *node, uint64_t key)
{
    uint64_t at = 0;
    while (at < node->count && node->key[at] < key) {
        at++;
    }
    return at;
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t number = number_of(transaction.thread->number, index), key = key_of(number);
    struct node *node = open_root(transaction, root_of(transaction.thread->number));
    uint64_t at = place_of(see(transaction, node), key);
    for (struct node *child; (child = see(transaction, node)->child[at]) != NULL;) {
        if (see(transaction, child)->count == ITEMS) {
            split(transaction, node, at);
            at += see(transaction, node)->key[at] < key ? 1 : 0;
            child = see(transaction, node)->child[at];
        }
        node = child;
        at = place_of(see(transaction, node), key);
    }
    struct holder *holder = np_allocate(transaction, VALUES);
    fill_value(&NP_WRITE(transaction, holder)->value, number);
    struct node *leaf = NP_WRITE(transaction, node);
    open_place(leaf, at);
    leaf->key[at] = key;
    leaf->item[at] = holder;
    np_commit(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* All keys are from `first` to `last`; how deep the leaves are. */
static uint64_t check_node(uint64_t thread, const struct node *home, bool is_root, uint64_t first,
                           uint64_t last)
{
    const struct node *node = LOOK((const struct node *)claim_block(NODES, home));
    if (node->count > ITEMS || node->count < (is_root ? 1 : HALF)) {
        die(STATUS_WRONG, "a node has %" PRIu64 " items", node->count);
    }
    const bool is_leaf = node->child[0] == NULL;
    uint64_t depth = 0;
    for (uint64_t i = 0; i <= node->count; i++) {
        const uint64_t from = i == 0 ? first : node->key[i - 1] + 1;
        const uint64_t to = i == node->count ? last : node->key[i] - 1;
        if (i < node->count && (node->key[i] < from || node->key[i] > last)) {
            die(STATUS_WRONG, "key %016" PRIx64 " is out of order", node->key[i]);
        }
        if (i < node->count) {
            const struct holder *holder = LOOK((const struct holder *)claim_block(VALUES, node->item[i]));
            check_value(&holder->value, node->key[i], thread);
        }
        const uint64_t below = is_leaf ? 0 : check_node(thread, node->child[i], false, from, to) + 1;
        if (i > 0 && below != depth) {
            die(STATUS_WRONG, "leaves are not equally deep");
        }
        depth = below;
    }
    return depth;
}

static void structure_check(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        const struct node *top = LOOK((struct root *)root_of(thread))->top;
        if (top != NULL) {
            check_node(thread, top, true, 1, UINT64_MAX - 1);
        }
    }
}
