/*
 * rbtree POOL [OPTION]...: PMDK's rbtree example, insertions into a red-black tree.
 *
 * Our assumptions: the value lies in the node, in a line of its own, so that links change without it; each
 * thread has a tree of its own.
 *
 * Always true: keys are in order; the root is black, a red node has black children, and the ways from a
 * node to its ends pass the same number of black ones.
 */
#define PROGRAM "rbtree"
#include "values.h"

struct node {
    alignas(LINE_BYTES) struct links {
        uint64_t used;
        uint64_t key;
        uint64_t is_red;
        struct node *parent;
        struct node *child[2];
    } links;
    alignas(LINE_BYTES) struct value value;
};

struct root {
    struct node *top;
};

static uint64_t structure_pages(void)
{
    return np_declare_blocks(&np, (unsigned)work.threads, sizeof(struct node), items_of_thread(), work.threads);
}

static void structure_make(void)
{
}

OPERATION const struct links *see(struct np_transaction transaction, struct node *node)
{
    return NP_READ(transaction, &node->links);
}

OPERATION struct links *change(struct np_transaction transaction, struct node *node)
{
    return NP_WRITE(transaction, &node->links);
}

OPERATION bool is_red(struct np_transaction transaction, struct node *node)
{
    return node != NULL && see(transaction, node)->is_red != 0;
}

OPERATION void colour(struct np_transaction transaction, struct node *node, bool red)
{
    if (is_red(transaction, node) != red) {
        change(transaction, node)->is_red = red;
    }
}

/* ---- Insertion -------------------------------------------------------------------------------- */

/* The parent, or the root, leads to another node. */
OPERATION void replace_child(struct np_transaction transaction, struct root *root, struct node *parent,
                             struct node *old, struct node *new)
{
    if (parent == NULL) {
        NP_WRITE(transaction, root)->top = new;
    } else {
        const unsigned side = see(transaction, parent)->child[1] == old;
        change(transaction, parent)->child[side] = new;
    }
}

/* The node goes down to the side, and its child from the other side takes its place. */
OPERATION void rotate(struct np_transaction transaction, struct root *root, struct node *node, unsigned side)
{
    struct node *parent = see(transaction, node)->parent;
    struct node *up = see(transaction, node)->child[1 - side];
    struct node *between = see(transaction, up)->child[side];
    replace_child(transaction, root, parent, node, up);
    change(transaction, up)->parent = parent;
    change(transaction, up)->child[side] = node;
    change(transaction, node)->parent = up;
    change(transaction, node)->child[1 - side] = between;
    if (between != NULL) {
        change(transaction, between)->parent = node;
    }
}

/* The node is red, and its parent may be. */
OPERATION void mend(struct np_transaction transaction, struct root *root, struct node *node)
{
    struct node *parent = see(transaction, node)->parent;
    while (is_red(transaction, parent)) {
        struct node *grandparent = see(transaction, parent)->parent;
        const unsigned side = see(transaction, grandparent)->child[1] == parent;
        struct node *uncle = see(transaction, grandparent)->child[1 - side];
        if (is_red(transaction, uncle)) {
            colour(transaction, parent, false);
            colour(transaction, uncle, false);
            colour(transaction, grandparent, true);
            node = grandparent;
            parent = see(transaction, node)->parent;
            continue;
        }
        if (see(transaction, parent)->child[1 - side] == node) {
            rotate(transaction, root, parent, side);
            parent = node;
        }
        colour(transaction, parent, false);
        colour(transaction, grandparent, true);
        rotate(transaction, root, grandparent, 1 - side);
        break;
    }
    colour(transaction, NP_READ(transaction, root)->top, false);
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t number = number_of(transaction.thread->number, index), key = key_of(number);
    struct root *root = root_of(transaction.thread->number);
    struct node *parent = NULL, *next = NP_READ(transaction, root)->top;
    unsigned side = 0;
    while (next != NULL) {
        parent = next;
        side = key > see(transaction, parent)->key;
        next = see(transaction, parent)->child[side];
    }
    struct node *node = np_allocate(transaction, 0);
    struct node *written = NP_WRITE(transaction, node);
    written->links = (struct links){.used = 1, .key = key, .is_red = 1, .parent = parent};
    fill_value(&written->value, number);
    if (parent == NULL) {
        NP_WRITE(transaction, root)->top = node;
    } else {
        change(transaction, parent)->child[side] = node;
    }
    mend(transaction, root, node);
    np_commit(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* All keys are from `first` to `last`; how many black nodes each way has. */
static uint64_t check_node(uint64_t thread, const struct node *home, const struct node *parent, uint64_t first,
                           uint64_t last)
{
    if (home == NULL) {
        return 0;
    }
    const struct node *node = LOOK((const struct node *)claim_block(0, home));
    const struct links *links = &node->links;
    if (links->parent != parent || links->key < first || links->key > last || links->is_red > 1) {
        die(STATUS_WRONG, "the node of key %016" PRIx64 " is not in its place", links->key);
    }
    if (links->is_red != 0 && (parent == NULL || LOOK(&parent->links)->is_red != 0)) {
        die(STATUS_WRONG, "the node of key %016" PRIx64 " must not be red", links->key);
    }
    check_value(&node->value, links->key, thread);
    const uint64_t below = check_node(thread, links->child[0], home, first, links->key - 1);
    if (check_node(thread, links->child[1], home, links->key + 1, last) != below) {
        die(STATUS_WRONG, "the ways from key %016" PRIx64 " differ in black nodes", links->key);
    }
    return below + (links->is_red == 0 ? 1 : 0);
}

static void structure_check(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        check_node(thread, LOOK((struct root *)root_of(thread))->top, NULL, 1, UINT64_MAX - 1);
    }
}
