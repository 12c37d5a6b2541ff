/*
 * A red-black tree from 64-bit keys to pointers, as in Cormen, Leiserson, Rivest and Stein,
 * "Introduction to Algorithms", 3rd edition, chapter 13.
 *
 * Always true between calls: keys ascend from left to right; no red node has a red child; every
 * way from the root down meets the same number of black nodes. One node is one block of malloc's,
 * and a value never moves. The tree does no locking.
 */
#ifndef PERDURE_RED_BLACK_TREE_H
#define PERDURE_RED_BLACK_TREE_H

#include "parallel.h"

enum side { LEFT, RIGHT };

struct tree_node {
    struct tree_node *parent;
    struct tree_node *child[2];
    uint64_t key;
    void *value;
    bool red;
};

/* `nil` stands for every missing child and for the root's parent; it is black. Its parent is
   scratch space of tree_erase. */
struct tree {
    struct tree_node *root;
    struct tree_node nil;
    uint64_t count;
};

static inline void tree_init(struct tree *tree)
{
    memset(tree, 0, sizeof *tree);
    tree->root = &tree->nil;
}

/* The value at `key`, or NULL if there is none. */
static inline void *tree_find(const struct tree *tree, uint64_t key)
{
    const struct tree_node *node = tree->root;
    while (node != &tree->nil) {
        if (node->key == key) {
            return node->value;
        }
        node = node->child[key > node->key ? RIGHT : LEFT];
    }
    return NULL;
}

static inline enum side tree_side(const struct tree_node *node)
{
    return node == node->parent->child[RIGHT] ? RIGHT : LEFT;
}

static inline enum side tree_other(enum side side)
{
    return side == LEFT ? RIGHT : LEFT;
}

/* Puts `replacement` where `node` hangs. */
static inline void tree_replace(struct tree *tree, struct tree_node *node,
                                struct tree_node *replacement)
{
    if (node->parent == &tree->nil) {
        tree->root = replacement;
    } else {
        node->parent->child[tree_side(node)] = replacement;
    }
    replacement->parent = node->parent;
}

/* Turns `node` down to its `side`; its child on the other side takes its place. */
static inline void tree_rotate(struct tree *tree, struct tree_node *node, enum side side)
{
    const enum side other = tree_other(side);
    struct tree_node *up = node->child[other];
    node->child[other] = up->child[side];
    if (up->child[side] != &tree->nil) {
        up->child[side]->parent = node;
    }
    tree_replace(tree, node, up);
    up->child[side] = node;
    node->parent = up;
}

/* Adds a key that the tree does not hold. */
static inline void tree_insert(struct tree *tree, uint64_t key, void *value)
{
    struct tree_node *node = (struct tree_node *)malloc(sizeof *node);
    if (node == NULL) {
        die(STATUS_USAGE, "no memory for a node of a tree");
    }
    struct tree_node *parent = &tree->nil;
    enum side side = LEFT;
    for (struct tree_node *at = tree->root; at != &tree->nil; at = at->child[side]) {
        parent = at;
        side = key > at->key ? RIGHT : LEFT;
    }
    node->parent = parent;
    node->child[LEFT] = node->child[RIGHT] = &tree->nil;
    node->key = key;
    node->value = value;
    node->red = true;
    if (parent == &tree->nil) {
        tree->root = node;
    } else {
        parent->child[side] = node;
    }
    tree->count++;

    while (node->parent->red) {
        struct tree_node *grandparent = node->parent->parent;
        const enum side toward = tree_side(node->parent);
        struct tree_node *uncle = grandparent->child[tree_other(toward)];
        if (uncle->red) {
            node->parent->red = false;
            uncle->red = false;
            grandparent->red = true;
            node = grandparent;
            continue;
        }
        if (tree_side(node) != toward) {
            node = node->parent;
            tree_rotate(tree, node, toward);
        }
        node->parent->red = false;
        grandparent->red = true;
        tree_rotate(tree, grandparent, tree_other(toward));
    }
    tree->root->red = false;
}

/* Makes up for a black node that is missing on all ways through `node`. */
static inline void tree_restore_black(struct tree *tree, struct tree_node *node)
{
    while (node != tree->root && !node->red) {
        const enum side side = tree_side(node);
        const enum side other = tree_other(side);
        struct tree_node *sibling = node->parent->child[other];
        if (sibling->red) {
            sibling->red = false;
            node->parent->red = true;
            tree_rotate(tree, node->parent, side);
            sibling = node->parent->child[other];
        }
        if (!sibling->child[LEFT]->red && !sibling->child[RIGHT]->red) {
            sibling->red = true;
            node = node->parent;
            continue;
        }
        if (!sibling->child[other]->red) {
            sibling->child[side]->red = false;
            sibling->red = true;
            tree_rotate(tree, sibling, other);
            sibling = node->parent->child[other];
        }
        sibling->red = node->parent->red;
        node->parent->red = false;
        sibling->child[other]->red = false;
        tree_rotate(tree, node->parent, side);
        node = tree->root;
    }
    node->red = false;
}

/* Takes out a key that the tree holds; its value is the caller's to free. */
static inline void tree_erase(struct tree *tree, uint64_t key)
{
    struct tree_node *node = tree->root;
    while (node->key != key) {
        node = node->child[key > node->key ? RIGHT : LEFT];
    }
    bool lost_red = node->red;
    struct tree_node *moved;
    if (node->child[LEFT] == &tree->nil || node->child[RIGHT] == &tree->nil) {
        moved = node->child[node->child[LEFT] == &tree->nil ? RIGHT : LEFT];
        tree_replace(tree, node, moved);
    } else {
        struct tree_node *next = node->child[RIGHT];
        while (next->child[LEFT] != &tree->nil) {
            next = next->child[LEFT];
        }
        lost_red = next->red;
        moved = next->child[RIGHT];
        if (next->parent == node) {
            moved->parent = next;
        } else {
            tree_replace(tree, next, moved);
            next->child[RIGHT] = node->child[RIGHT];
            next->child[RIGHT]->parent = next;
        }
        tree_replace(tree, node, next);
        next->child[LEFT] = node->child[LEFT];
        next->child[LEFT]->parent = next;
        next->red = node->red;
    }
    if (!lost_red) {
        tree_restore_black(tree, moved);
    }
    tree->count--;
    free(node);
}

/* Calls visit(key, value, context) for every key, in ascending order, and checks the tree below
   `node`, whose keys must lie in first..last; returns its number of black nodes per way. */
static inline unsigned tree_check_below(const struct tree *tree, const struct tree_node *node,
                                        uint64_t first, uint64_t last, uint64_t *count,
                                        void (*visit)(uint64_t, void *, void *), void *context)
{
    if (node == &tree->nil) {
        return 0;
    }
    if (node->key < first || node->key > last) {
        die(STATUS_WRONG, "key %" PRIu64 " of a tree is out of order", node->key);
    }
    if (node->red && (node->child[LEFT]->red || node->child[RIGHT]->red)) {
        die(STATUS_WRONG, "red node %" PRIu64 " of a tree has a red child", node->key);
    }
    for (int side = LEFT; side <= RIGHT; side++) {
        if (node->child[side] != &tree->nil && node->child[side]->parent != node) {
            die(STATUS_WRONG, "a child of node %" PRIu64 " has another parent", node->key);
        }
    }
    /* A key at the end of its range can have no child beyond it. */
    if ((node->key == first && node->child[LEFT] != &tree->nil) ||
        (node->key == last && node->child[RIGHT] != &tree->nil)) {
        die(STATUS_WRONG, "a key below %" PRIu64 " of a tree is out of order", node->key);
    }
    const unsigned left = tree_check_below(tree, node->child[LEFT], first, node->key - 1, count,
                                           visit, context);
    visit(node->key, node->value, context);
    ++*count;
    const unsigned right = tree_check_below(tree, node->child[RIGHT], node->key + 1, last, count,
                                            visit, context);
    if (left != right) {
        die(STATUS_WRONG, "a tree is out of balance at %" PRIu64, node->key);
    }
    return left + (node->red ? 0 : 1);
}

/* Checks the whole tree while visiting it in order; one that is not as it should be ends the
   program with status 1. */
static inline void tree_check(const struct tree *tree,
                              void (*visit)(uint64_t, void *, void *), void *context)
{
    uint64_t count = 0;
    if (tree->root->red) {
        die(STATUS_WRONG, "the root of a tree is red");
    }
    tree_check_below(tree, tree->root, 0, UINT64_MAX, &count, visit, context);
    if (count != tree->count) {
        die(STATUS_WRONG, "a tree has %" PRIu64 " keys, but counts %" PRIu64, count, tree->count);
    }
}

#endif
