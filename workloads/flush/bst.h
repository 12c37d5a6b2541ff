/*
 * A binary search tree in a pool, not balanced. See bst.c and bst-p.c.
 *
 * Always true of what is durable: the nodes that the root leads to are a search tree. A node's key and
 * element never change. An insertion makes its node durable, and then the one pointer to it. A deletion
 * changes one pointer if the node has no two children; if it has, it makes a copy of the way from the
 * node to its successor, without the successor and with the successor's key at the top, and then changes
 * the one pointer to all of it.
 */
#ifndef PERDURE_FLUSH_BST_H
#define PERDURE_FLUSH_BST_H

#include "operations.h"

enum side { LEFT, RIGHT };
enum { DEPTH_MAX = 512 };

struct node {
    alignas(LINE_BYTES) uint64_t key;
    uint64_t element;
    struct node *child[2];
};

_Static_assert(sizeof(struct node) == sizeof(struct slot), "a node is one line");

static struct node **tree_root(void)
{
    return (struct node **)&pool->root[0].word;
}

/* Where the pointer is to the node of that key, or where it would be. */
static struct node **tree_place(uint64_t key)
{
    struct node **place = tree_root();
    while (*place != NULL && (*place)->key != key) {
        place = &(*place)->child[key > (*place)->key ? RIGHT : LEFT];
    }
    return place;
}

static void tree_insert(uint64_t element)
{
    const uint64_t key = key_of(element);
    struct node **place = tree_place(key);
    struct node *node = take_slot();
    *node = (struct node){.key = key, .element = element};
    persist(node);
    *place = node;
    persist(place);
}

/* What takes the place of a node with two children. What it copies is put into `gone`, and counted. */
static struct node *copy_without_successor(struct node *node, struct node **gone, size_t *count)
{
    struct node *top = take_slot();
    *top = *node;
    gone[(*count)++] = node;
    struct node *at = top;
    enum side side = RIGHT;
    fence();
    for (struct node *next = node->child[RIGHT];; next = next->child[LEFT]) {
        gone[(*count)++] = next;
        if (next->child[LEFT] == NULL) {
            at->child[side] = next->child[RIGHT];
            top->key = next->key;
            top->element = next->element;
            flush_line(at);
            break;
        }
        if (*count == DEPTH_MAX) {
            die(STATUS_USAGE, "the tree is too deep");
        }
        struct node *copy = take_slot();
        *copy = *next;
        at->child[side] = copy;
        if (at != top) {
            flush_line(at);
        }
        at = copy;
        side = LEFT;
    }
    if (at != top) {
        flush_line(top);
    }
    fence();
    return top;
}

static void tree_erase(uint64_t element)
{
    struct node *gone[DEPTH_MAX];
    size_t count = 0;
    struct node **place = tree_place(key_of(element));
    struct node *node = *place, *instead;
    if (node == NULL) {
        die(STATUS_WRONG, "element %" PRIu64 " is to be erased, but is not there", element);
    }
    if (node->child[LEFT] != NULL && node->child[RIGHT] != NULL) {
        instead = copy_without_successor(node, gone, &count);
    } else {
        instead = node->child[node->child[LEFT] != NULL ? LEFT : RIGHT];
        gone[count++] = node;
    }
    *place = instead;
    persist(place);
    while (count > 0) {
        give_slot(gone[--count]);
    }
}

static bool tree_find(uint64_t element)
{
    const struct node *node = *tree_place(key_of(element));
    return node != NULL && node->element == element;
}

/* Claims and checks the tree below `node`, whose keys must lie in first..last. */
static void tree_check(const struct node *pointer, uint64_t first, uint64_t last, unsigned depth)
{
    if (pointer == NULL) {
        return;
    }
    const struct node *node = claim(pointer);
    if (depth == DEPTH_MAX) {
        die(STATUS_WRONG, "the tree is deeper than random keys make one");
    }
    found_in_order(node->element, node->key, first, last, node->child[LEFT], node->child[RIGHT]);
    tree_check(node->child[LEFT], first, node->key - 1, depth + 1);
    tree_check(node->child[RIGHT], node->key + 1, last, depth + 1);
}

#endif
