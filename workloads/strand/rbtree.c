/*
 * rbtree POOL [OPTION]...: RBTree of the SPMS paper, insertions into and deletions from a red-black tree.
 *
 * The algorithm is that of Cormen, Leiserson, Rivest and Stein, with pointers to parents and without a common
 * sentinel, which every deletion would write. Our assumption: each thread has a tree of its own, so that
 * threads meet in nothing, and a lock over a whole tree does not decide what is measured. A line for a node.
 *
 * Always true: nodes are in the order of their keys; the root is black, no red node has a red child, and as
 * many black nodes are on every way down; every node knows its parent.
 */
#define PROGRAM "rbtree"
#include "elements.h"

enum side { LEFT, RIGHT };
enum colour { BLACK, RED };
enum { DEPTH_MAX = 64 };

struct node {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t key;
    uint64_t element;
    struct node *child[2];
    struct node *parent;
    uint64_t colour;
    uint64_t value;
};

static struct node **root_of(uint64_t thread)
{
    return (struct node **)&head->root[thread].word;
}

static size_t structure_table_bytes(void)
{
    return 0;
}

static uint64_t structure_blocks(void)
{
    return elements_all();
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct node);
}

static void structure_make(struct transaction transaction)
{
    insert_first_elements(transaction);
}

/* ---- Links ------------------------------------------------------------------------------------ */

OPERATION bool is_red(struct transaction transaction, struct node *node)
{
    return node != NULL && GET(transaction, &node->colour) == RED;
}

OPERATION enum side side_of(struct transaction transaction, struct node *parent, struct node *child)
{
    return GET(transaction, &parent->child[LEFT]) == child ? LEFT : RIGHT;
}

/* What the parent, or the tree, had as `before` is `after` now. */
OPERATION void replace_child(struct transaction transaction, struct node *parent, struct node *before,
                             struct node *after)
{
    if (parent == NULL) {
        SET(transaction, root_of(transaction.thread->number), after);
    } else {
        SET(transaction, &parent->child[side_of(transaction, parent, before)], after);
    }
}

OPERATION void set_parent(struct transaction transaction, struct node *node, struct node *parent)
{
    if (node != NULL) {
        SET(transaction, &node->parent, parent);
    }
}

/* The node goes down on `side`, and its child on the other side takes its place. */
OPERATION void rotate(struct transaction transaction, struct node *node, enum side side)
{
    struct node *up = GET(transaction, &node->child[!side]), *inner = GET(transaction, &up->child[side]);
    struct node *parent = GET(transaction, &node->parent);
    SET(transaction, &node->child[!side], inner);
    set_parent(transaction, inner, node);
    SET(transaction, &up->parent, parent);
    replace_child(transaction, parent, node, up);
    SET(transaction, &up->child[side], node);
    SET(transaction, &node->parent, up);
}

/* ---- Insertion -------------------------------------------------------------------------------- */

OPERATION struct node *new_node(struct transaction transaction, uint64_t element, struct node *parent)
{
    struct node *node = take_block(transaction);
    SET(transaction, &node->key, key_of(element));
    SET(transaction, &node->element, element);
    SET(transaction, &node->child[LEFT], NULL);
    SET(transaction, &node->child[RIGHT], NULL);
    SET(transaction, &node->parent, parent);
    SET(transaction, &node->colour, RED);
    SET(transaction, &node->value, value_of(element));
    return node;
}

/* A red node may have a red parent. */
OPERATION void mend_red(struct transaction transaction, struct node *node)
{
    struct node *parent = GET(transaction, &node->parent);
    while (is_red(transaction, parent)) {
        struct node *above = GET(transaction, &parent->parent);
        const enum side side = side_of(transaction, above, parent);
        struct node *uncle = GET(transaction, &above->child[!side]);
        if (is_red(transaction, uncle)) {
            SET(transaction, &parent->colour, BLACK);
            SET(transaction, &uncle->colour, BLACK);
            SET(transaction, &above->colour, RED);
            node = above;
            parent = GET(transaction, &node->parent);
            continue;
        }
        if (side_of(transaction, parent, node) != side) {
            rotate(transaction, parent, side);
            parent = node;
        }
        SET(transaction, &parent->colour, BLACK);
        SET(transaction, &above->colour, RED);
        rotate(transaction, above, !side);
        return;
    }
    if (parent == NULL) {
        SET(transaction, &node->colour, BLACK);
    }
}

OPERATION void structure_insert(struct transaction transaction, uint64_t element)
{
    /* While the structure is made, one thread inserts for all. */
    transaction.thread = &threads[element % work.threads];
    const uint64_t key = key_of(element);
    struct node *parent = NULL, *at = GET(transaction, root_of(transaction.thread->number));
    enum side side = LEFT;
    while (at != NULL) {
        parent = at;
        side = key > GET(transaction, &at->key) ? RIGHT : LEFT;
        at = GET(transaction, &at->child[side]);
    }
    struct node *node = new_node(transaction, element, parent);
    if (parent == NULL) {
        SET(transaction, root_of(transaction.thread->number), node);
    } else {
        SET(transaction, &parent->child[side], node);
    }
    mend_red(transaction, node);
    commit(transaction);
}

/* ---- Deletion --------------------------------------------------------------------------------- */

/* On the way to `node`, which may be no node, below `parent`, there is a black node too few. */
OPERATION void mend_black(struct transaction transaction, struct node *node, struct node *parent)
{
    while (parent != NULL && !is_red(transaction, node)) {
        const enum side side = side_of(transaction, parent, node);
        struct node *sibling = GET(transaction, &parent->child[!side]);
        if (is_red(transaction, sibling)) {
            SET(transaction, &sibling->colour, BLACK);
            SET(transaction, &parent->colour, RED);
            rotate(transaction, parent, side);
            sibling = GET(transaction, &parent->child[!side]);
        }
        struct node *near = GET(transaction, &sibling->child[side]);
        struct node *far = GET(transaction, &sibling->child[!side]);
        if (!is_red(transaction, near) && !is_red(transaction, far)) {
            SET(transaction, &sibling->colour, RED);
            node = parent;
            parent = GET(transaction, &node->parent);
            continue;
        }
        if (!is_red(transaction, far)) {
            rotate(transaction, sibling, !side);
            far = sibling;
            sibling = near;
        }
        SET(transaction, &sibling->colour, GET(transaction, &parent->colour));
        SET(transaction, &parent->colour, BLACK);
        SET(transaction, &far->colour, BLACK);
        rotate(transaction, parent, side);
        return;
    }
    if (is_red(transaction, node)) {
        SET(transaction, &node->colour, BLACK);
    }
}

/* The node with the next key takes the place of one that has two children. What took its own place, and
   below what, is said. */
OPERATION struct node *replace_by_next(struct transaction transaction, struct node *node,
                                       struct node **below)
{
    struct node *left = GET(transaction, &node->child[LEFT]);
    struct node *right = GET(transaction, &node->child[RIGHT]), *next = right;
    for (struct node *at = right; at != NULL; at = GET(transaction, &at->child[LEFT])) {
        next = at;
    }
    struct node *moved = GET(transaction, &next->child[RIGHT]);
    *below = next;
    if (next != right) {
        *below = GET(transaction, &next->parent);
        SET(transaction, &(*below)->child[LEFT], moved);
        set_parent(transaction, moved, *below);
        SET(transaction, &next->child[RIGHT], right);
        SET(transaction, &right->parent, next);
    }
    struct node *parent = GET(transaction, &node->parent);
    SET(transaction, &next->child[LEFT], left);
    SET(transaction, &left->parent, next);
    SET(transaction, &next->parent, parent);
    replace_child(transaction, parent, node, next);
    return moved;
}

/* Takes the node out, and mends the tree. */
OPERATION void unlink_node(struct transaction transaction, struct node *node)
{
    struct node *left = GET(transaction, &node->child[LEFT]);
    struct node *right = GET(transaction, &node->child[RIGHT]), *moved, *below;
    uint64_t colour = GET(transaction, &node->colour);
    if (left != NULL && right != NULL) {
        moved = replace_by_next(transaction, node, &below);
        struct node *next = GET(transaction, &left->parent);
        const uint64_t taken = GET(transaction, &next->colour);
        SET(transaction, &next->colour, colour);
        colour = taken;
    } else {
        moved = left == NULL ? right : left;
        below = GET(transaction, &node->parent);
        set_parent(transaction, moved, below);
        replace_child(transaction, below, node, moved);
    }
    if (colour == BLACK) {
        mend_black(transaction, moved, below);
    }
}

OPERATION void structure_erase(struct transaction transaction, uint64_t element)
{
    const uint64_t key = key_of(element);
    struct node *node = GET(transaction, root_of(transaction.thread->number));
    while (node != NULL && GET(transaction, &node->key) != key) {
        node = GET(transaction, &node->child[key > GET(transaction, &node->key) ? RIGHT : LEFT]);
    }
    if (node == NULL) {
        die(STATUS_WRONG, "element %" PRIu64 " is not in the tree", element);
    }
    unlink_node(transaction, node);
    give_block(transaction, node);
    commit(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* A subtree below `parent`, with keys from `first` to `last`; how many black nodes are on each way. */
static uint64_t check_node(const struct node *at, const struct node *parent, uint64_t first, uint64_t last,
                           uint64_t depth)
{
    if (at == NULL) {
        return 0;
    }
    const struct node *node = claim_block(at);
    found_element(node->element);
    found(node->value);
    if (node->key != key_of(node->element) || node->value != value_of(node->element)) {
        die(STATUS_WRONG, "element %" PRIu64 " has another's key or value", node->element);
    }
    if (node->key < first || node->key > last || (node->key == first && node->child[LEFT] != NULL) ||
        (node->key == last && node->child[RIGHT] != NULL)) {
        die(STATUS_WRONG, "element %" PRIu64 " is out of order", node->element);
    }
    if (node->parent != parent || depth == DEPTH_MAX) {
        die(STATUS_WRONG, "element %" PRIu64 " has another's parent", node->element);
    }
    if (node->colour > RED || (node->colour == RED && (parent == NULL || parent->colour == RED))) {
        die(STATUS_WRONG, "element %" PRIu64 " is red below red", node->element);
    }
    const uint64_t left = check_node(node->child[LEFT], node, first, node->key - 1, depth + 1);
    const uint64_t right = check_node(node->child[RIGHT], node, node->key + 1, last, depth + 1);
    if (left != right) {
        die(STATUS_WRONG, "below element %" PRIu64 " ways have %" PRIu64 " and %" PRIu64 " black nodes",
            node->element, left, right);
    }
    return left + (node->colour == BLACK ? 1 : 0);
}

static void structure_check(void)
{
    begin_elements_check();
    for (uint64_t i = 0; i < work.threads; i++) {
        check_node(*root_of(i), NULL, 0, UINT64_MAX, 0);
    }
    end_elements_check();
}
