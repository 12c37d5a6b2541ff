/*
 * btree POOL [OPTION]...: B+Tree of the SPMS paper, insertions into and deletions from a B+ tree.
 *
 * Our assumptions: nodes of 256 bytes with up to 14 keys, at least half full; each thread has a tree of its
 * own, so that threads meet in nothing, and a lock over a whole tree does not decide what is measured.
 *
 * Always true: leaves are at level 0, in the order of their keys, and each leads to the next; but for the
 * root, which may have fewer, a node has 7 to 14 items; an inner node's item is a child and, but for the
 * first, the key below which none of it lies and above which none of the children before it does.
 */
#define PROGRAM "btree"
#include "elements.h"

enum { ITEMS = 14, ITEMS_MIN = ITEMS / 2, DEPTH_MAX = 16 };

/* An item of a leaf is a key and its element; of another node, a key and a child. */
struct node {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t level;
    uint64_t count;
    struct node *next; /* of a leaf */
    uint64_t key[ITEMS];
    uint64_t item[ITEMS];
};

/* The way from the root to a leaf, with the item that it takes in each node. */
struct path {
    uint64_t depth;
    struct node *node[DEPTH_MAX];
    uint64_t at[DEPTH_MAX];
};

static struct node **root_of(uint64_t thread)
{
    return (struct node **)&head->root[thread].word;
}

static struct node *child_of(uint64_t item)
{
    return (struct node *)(uintptr_t)item;
}

static size_t structure_table_bytes(void)
{
    return 0;
}

static uint64_t structure_blocks(void)
{
    return elements_all() / ITEMS_MIN * 5 / 4 + DEPTH_MAX * work.threads;
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct node);
}

OPERATION struct node *new_node(struct transaction transaction, uint64_t level, uint64_t count,
                                struct node *next)
{
    struct node *node = take_block(transaction);
    SET(transaction, &node->level, level);
    SET(transaction, &node->count, count);
    SET(transaction, &node->next, next);
    return node;
}

static void structure_make(struct transaction transaction)
{
    for (uint64_t i = 0; i < work.threads; i++) {
        *root_of(i) = new_node(transaction, 0, 0, NULL);
    }
    insert_first_elements(transaction);
}

/* ---- Nodes ------------------------------------------------------------------------------------ */

OPERATION void set_item(struct transaction transaction, struct node *node, uint64_t at, uint64_t key,
                        uint64_t item)
{
    SET(transaction, &node->key[at], key);
    SET(transaction, &node->item[at], item);
}

OPERATION void copy_item(struct transaction transaction, struct node *to, uint64_t to_at,
                         struct node *from, uint64_t from_at)
{
    set_item(transaction, to, to_at, GET(transaction, &from->key[from_at]),
             GET(transaction, &from->item[from_at]));
}

OPERATION void insert_item(struct transaction transaction, struct node *node, uint64_t at, uint64_t key,
                           uint64_t item)
{
    const uint64_t count = GET(transaction, &node->count);
    for (uint64_t i = count; i > at; i--) {
        copy_item(transaction, node, i, node, i - 1);
    }
    set_item(transaction, node, at, key, item);
    SET(transaction, &node->count, count + 1);
}

OPERATION void remove_item(struct transaction transaction, struct node *node, uint64_t at)
{
    const uint64_t count = GET(transaction, &node->count);
    for (uint64_t i = at + 1; i < count; i++) {
        copy_item(transaction, node, i - 1, node, i);
    }
    SET(transaction, &node->count, count - 1);
}

/* Finds the leaf that has the key or would have it; there, how many keys are below it. */
OPERATION void find_leaf(struct transaction transaction, uint64_t key, struct path *path)
{
    struct node *node = GET(transaction, root_of(transaction.thread->number));
    for (path->depth = 0;; path->depth++) {
        const uint64_t count = GET(transaction, &node->count);
        const bool is_leaf = GET(transaction, &node->level) == 0;
        uint64_t at = is_leaf ? 0 : 1;
        while (at < count && (is_leaf ? GET(transaction, &node->key[at]) < key
                                      : GET(transaction, &node->key[at]) <= key)) {
            at++;
        }
        path->node[path->depth] = node;
        path->at[path->depth] = is_leaf ? at : at - 1;
        if (is_leaf) {
            return;
        }
        node = child_of(GET(transaction, &node->item[at - 1]));
    }
}

/* ---- Insertion -------------------------------------------------------------------------------- */

/* Moves the upper half of a full node into a new one. */
OPERATION struct node *split(struct transaction transaction, struct node *node)
{
    struct node *right = new_node(transaction, GET(transaction, &node->level), ITEMS - ITEMS_MIN,
                                  GET(transaction, &node->next));
    for (uint64_t i = ITEMS_MIN; i < ITEMS; i++) {
        copy_item(transaction, right, i - ITEMS_MIN, node, i);
    }
    SET(transaction, &node->count, ITEMS_MIN);
    if (GET(transaction, &node->level) == 0) {
        SET(transaction, &node->next, right);
    }
    return right;
}

OPERATION void grow(struct transaction transaction, struct node *left, uint64_t key, uint64_t right)
{
    struct node *root = new_node(transaction, GET(transaction, &left->level) + 1, 2, NULL);
    set_item(transaction, root, 0, GET(transaction, &left->key[0]), (uint64_t)(uintptr_t)left);
    set_item(transaction, root, 1, key, right);
    SET(transaction, root_of(transaction.thread->number), root);
}

OPERATION void structure_insert(struct transaction transaction, uint64_t element)
{
    /* While the structure is made, one thread inserts for all. */
    transaction.thread = &threads[element % work.threads];
    struct path path;
    uint64_t key = key_of(element), item = element;
    find_leaf(transaction, key, &path);
    for (uint64_t depth = path.depth;; depth--) {
        struct node *node = path.node[depth];
        const uint64_t at = path.at[depth] + (depth == path.depth ? 0 : 1);
        if (GET(transaction, &node->count) < ITEMS) {
            insert_item(transaction, node, at, key, item);
            break;
        }
        struct node *right = split(transaction, node);
        if (at <= ITEMS_MIN) {
            insert_item(transaction, node, at, key, item);
        } else {
            insert_item(transaction, right, at - ITEMS_MIN, key, item);
        }
        key = GET(transaction, &right->key[0]);
        item = (uint64_t)(uintptr_t)right;
        if (depth == 0) {
            grow(transaction, node, key, item);
            break;
        }
    }
    commit(transaction);
}

/* ---- Deletion --------------------------------------------------------------------------------- */

/* Two children that lie side by side, at `at` and behind it, are one; the right one is given back. */
OPERATION void merge(struct transaction transaction, struct node *parent, uint64_t at, struct node *left,
                     struct node *right)
{
    const uint64_t left_count = GET(transaction, &left->count), count = GET(transaction, &right->count);
    for (uint64_t i = 0; i < count; i++) {
        copy_item(transaction, left, left_count + i, right, i);
    }
    if (GET(transaction, &left->level) > 0) {
        SET(transaction, &left->key[left_count], GET(transaction, &parent->key[at + 1]));
    }
    SET(transaction, &left->count, left_count + count);
    SET(transaction, &left->next, GET(transaction, &right->next));
    remove_item(transaction, parent, at + 1);
    give_block(transaction, right);
}

/* The left one gets the right one's first item. */
OPERATION void move_left(struct transaction transaction, struct node *parent, uint64_t at,
                         struct node *left, struct node *right)
{
    const bool is_leaf = GET(transaction, &left->level) == 0;
    const uint64_t key = is_leaf ? GET(transaction, &right->key[0]) : GET(transaction, &parent->key[at + 1]);
    insert_item(transaction, left, GET(transaction, &left->count), key, GET(transaction, &right->item[0]));
    remove_item(transaction, right, 0);
    SET(transaction, &parent->key[at + 1], GET(transaction, &right->key[0]));
}

/* The right one gets the left one's last item. */
OPERATION void move_right(struct transaction transaction, struct node *parent, uint64_t at,
                          struct node *left, struct node *right)
{
    const uint64_t last = GET(transaction, &left->count) - 1, key = GET(transaction, &left->key[last]);
    insert_item(transaction, right, 0, key, GET(transaction, &left->item[last]));
    if (GET(transaction, &left->level) > 0) {
        SET(transaction, &right->key[1], GET(transaction, &parent->key[at + 1]));
    }
    SET(transaction, &left->count, last);
    SET(transaction, &parent->key[at + 1], key);
}

/* A child that has too few items gets one from its neighbour, or is one with it; true if it is. */
OPERATION bool mend(struct transaction transaction, struct node *parent, uint64_t at)
{
    const bool has_left = at > 0;
    const uint64_t left_at = has_left ? at - 1 : at;
    struct node *left = child_of(GET(transaction, &parent->item[left_at]));
    struct node *right = child_of(GET(transaction, &parent->item[left_at + 1]));
    if (GET(transaction, &left->count) + GET(transaction, &right->count) <= ITEMS) {
        merge(transaction, parent, left_at, left, right);
        return true;
    }
    if (has_left) {
        move_right(transaction, parent, left_at, left, right);
    } else {
        move_left(transaction, parent, left_at, left, right);
    }
    return false;
}

OPERATION void structure_erase(struct transaction transaction, uint64_t element)
{
    struct path path;
    const uint64_t key = key_of(element);
    find_leaf(transaction, key, &path);
    struct node *leaf = path.node[path.depth];
    const uint64_t at = path.at[path.depth];
    if (at == GET(transaction, &leaf->count) || GET(transaction, &leaf->key[at]) != key) {
        die(STATUS_WRONG, "element %" PRIu64 " is not in the tree", element);
    }
    remove_item(transaction, leaf, at);
    uint64_t depth = path.depth;
    while (depth > 0 && GET(transaction, &path.node[depth]->count) < ITEMS_MIN &&
           mend(transaction, path.node[depth - 1], path.at[depth - 1])) {
        depth--;
    }
    struct node *root = path.node[0];
    if (GET(transaction, &root->level) > 0 && GET(transaction, &root->count) == 1) {
        SET(transaction, root_of(transaction.thread->number), child_of(GET(transaction, &root->item[0])));
        give_block(transaction, root);
    }
    commit(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* The leaf that the check came to last. */
static const struct node *leaf_before;

static void check_leaf(const struct node *leaf)
{
    for (uint64_t i = 0; i < leaf->count; i++) {
        found_element(leaf->item[i]);
        if (leaf->key[i] != key_of(leaf->item[i])) {
            die(STATUS_WRONG, "element %" PRIu64 " has another's key", leaf->item[i]);
        }
    }
    if (leaf_before != NULL && leaf_before->next != leaf) {
        die(STATUS_WRONG, "a leaf does not lead to the next");
    }
    leaf_before = leaf;
}

/* A node at the level, with all its keys from `first` to `last`. */
static void check_node(const struct node *node, uint64_t level, bool is_root, uint64_t first, uint64_t last)
{
    const uint64_t least = !is_root ? ITEMS_MIN : level > 0 ? 2 : 0;
    if (node->level != level || node->count < least || node->count > ITEMS) {
        die(STATUS_WRONG, "a node has level %" PRIu64 " and %" PRIu64 " items", node->level, node->count);
    }
    for (uint64_t i = level > 0 ? 1 : 0; i < node->count; i++) {
        const bool follows = i == (level > 0 ? 1 : 0) || node->key[i] > node->key[i - 1];
        if (node->key[i] < first || node->key[i] > last || !follows) {
            die(STATUS_WRONG, "key %016" PRIx64 " is out of order", node->key[i]);
        }
    }
    for (uint64_t i = 0; i < node->count && level > 0; i++) {
        check_node(claim_block(child_of(node->item[i])), level - 1, false, i == 0 ? first : node->key[i],
                   i + 1 == node->count ? last : node->key[i + 1] - 1);
    }
    if (level == 0) {
        check_leaf(node);
    }
}

static void structure_check(void)
{
    begin_elements_check();
    for (uint64_t i = 0; i < work.threads; i++) {
        const struct node *root = claim_block(*root_of(i));
        if (root->level >= DEPTH_MAX) {
            die(STATUS_WRONG, "the root has level %" PRIu64, root->level);
        }
        leaf_before = NULL;
        check_node(root, root->level, true, 0, UINT64_MAX);
        if (leaf_before->next != NULL) {
            die(STATUS_WRONG, "the last leaf leads to another");
        }
    }
    end_elements_check();
}
