/*
 * rbtree POOL [OPTION]...: a red-black tree whose nodes never change.
 *
 * It is Sedgewick's left-leaning tree (2008). An operation changes copies: a node that others may reach is
 * copied before its first change, and the copy, which nothing leads to, is changed again as often as
 * needed. When the new nodes are durable, the root is stored, and the old ones are free.
 *
 * Always true of what is durable: keys are in order, no red node is right of its parent or below another, and
 * every way down has as many black nodes. Recovery has nothing to mend.
 */
#define PROGRAM "rbtree"
#define BUGS(BUG)                                                                                            \
    BUG(NODES_NOT_FLUSHED, MISSING_FLUSH, "of the new nodes only the first and the last are flushed")        \
    BUG(ROOT_NOT_FENCED, MISSING_FENCE, "the flush of the root is not waited for")                           \
    BUG(NODES_NOT_FENCED, MISSING_FENCE, "the root may be durable before the new nodes")                     \
    BUG(HEAD_FLUSHED, WRONG_LINE, "the line of the pool's head is flushed in place of the root's")           \
    BUG(ROOT_FIRST, WRONG_ORDER, "the root is stored, durably, before the new nodes are flushed")            \
    BUG(ROTATED_IN_PLACE, NON_ATOMIC_CHANGE, "a rotation changes its lower node itself, not a copy")         \
    BUG(FLIPPED_IN_PLACE, NON_ATOMIC_CHANGE, "colours of children are changed in the nodes themselves")      \
    BUG(FREED_AT_ONCE, WRONG_ORDER, "a node that was copied is taken for the next copy of the same operation")
#define SLOTS (4 * KEYS)
#include "run.h"

struct node {
    alignas(LINE_BYTES) struct node *left;
    struct node *right;
    uint64_t key, value;
    uint64_t red;
};

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

/* Of the running operation, in ordinary memory: the nodes that it has made, and those that they replace. */
static struct node *made[SLOTS], *replaced[SLOTS];
static unsigned made_count, replaced_count;

static struct node **root(void)
{
    return (struct node **)&pool->root[0].word;
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static struct node *new_node(void)
{
    return made[made_count++] = take_slot();
}

static bool is_made(const struct node *node)
{
    for (unsigned i = 0; i < made_count; i++) {
        if (made[i] == node) {
            return true;
        }
    }
    return false;
}

/* What is there no more when the operation is done. */
static void drop(struct node *node)
{
    if (planted(FREED_AT_ONCE)) {
        give_slot(node); /* bug: freed-at-once */
    } else {
        replaced[replaced_count++] = node;
    }
}

/* The node, or a copy of it, which may be changed. */
static struct node *own(struct node *node)
{
    if (is_made(node)) {
        return node;
    }
    const struct node old = *node;
    drop(node);
    struct node *copy = new_node();
    *copy = old; /* store: nodes-not-flushed, nodes-not-fenced, root-first */
    return copy;
}

/* ---- The algorithm: every function returns the node in whose place it was given ---------------- */

static bool is_red(const struct node *node)
{
    return node != NULL && node->red != 0;
}

static struct node *rotate_left(struct node *node)
{
    struct node *high = own(node->right);
    node->right = high->left;
    high->left = node;
    high->red = node->red;
    node->red = 1;
    return high;
}

static struct node *rotate_right(struct node *node)
{
    struct node *high = planted(ROTATED_IN_PLACE) ? node->left : own(node->left);
    node->left = high->right;
    high->right = node; /* bug: rotated-in-place */
    high->red = node->red;
    node->red = 1;
    return high;
}

/* A black node with two red children is a red one with two black ones, and the other way round. */
static void flip(struct node *node)
{
    if (!planted(FLIPPED_IN_PLACE)) {
        node->left = own(node->left);
        node->right = own(node->right);
    }
    node->red ^= 1;
    node->left->red ^= 1; /* bug: flipped-in-place */
    node->right->red ^= 1;
}

static struct node *balance(struct node *node)
{
    if (is_red(node->right) && !is_red(node->left)) {
        node = rotate_left(node);
    }
    if (is_red(node->left) && is_red(node->left->left)) {
        node = rotate_right(node);
    }
    if (is_red(node->left) && is_red(node->right)) {
        flip(node);
    }
    return node;
}

static struct node *insert(struct node *node, uint64_t key, uint64_t value)
{
    if (node == NULL) {
        node = new_node();
        *node = (struct node){.key = key, .value = value, .red = 1};
        return node;
    }
    node = own(node);
    if (key == node->key) {
        node->value = value;
    } else if (key < node->key) {
        node->left = insert(node->left, key, value);
    } else {
        node->right = insert(node->right, key, value);
    }
    return balance(node);
}

/* Makes the left child, or a child of it, red. */
static struct node *move_red_left(struct node *node)
{
    flip(node);
    if (is_red(node->right->left)) {
        node->right = rotate_right(own(node->right));
        node = rotate_left(node);
        flip(node);
    }
    return node;
}

static struct node *move_red_right(struct node *node)
{
    flip(node);
    if (is_red(node->left->left)) {
        node = rotate_right(node);
        flip(node);
    }
    return node;
}

static struct node *erase_least(struct node *node)
{
    if (node->left == NULL) {
        drop(node);
        return NULL;
    }
    node = own(node);
    if (!is_red(node->left) && !is_red(node->left->left)) {
        node = move_red_left(node);
    }
    node->left = erase_least(node->left);
    return balance(node);
}

static struct node *erase_right(struct node *node, uint64_t key);

/* A key that is there. */
static struct node *erase(struct node *node, uint64_t key)
{
    if (key >= node->key) {
        return erase_right(node, key);
    }
    node = own(node);
    if (!is_red(node->left) && !is_red(node->left->left)) {
        node = move_red_left(node);
    }
    node->left = erase(node->left, key);
    return balance(node);
}

/* A key that is the node's, or right of it. */
static struct node *erase_right(struct node *node, uint64_t key)
{
    node = own(node);
    if (is_red(node->left)) {
        node = rotate_right(node);
    }
    if (key == node->key && node->right == NULL) {
        drop(node);
        return NULL;
    }
    if (!is_red(node->right) && !is_red(node->right->left)) {
        node = move_red_right(node);
    }
    if (key != node->key) {
        node->right = erase(node->right, key);
        return balance(node);
    }
    const struct node *least = node->right;
    while (least->left != NULL) {
        least = least->left;
    }
    node->key = least->key;
    node->value = least->value;
    node->right = erase_least(node->right);
    return balance(node);
}

/* ---- Operations ------------------------------------------------------------------------------- */

static void store_root(struct node *node)
{
    *root() = node; /* store: root-not-fenced, head-flushed */
    if (planted(HEAD_FLUSHED)) {
        flush(pool); /* bug: head-flushed */
    } else {
        flush(root());
    }
    if (!planted(ROOT_NOT_FENCED)) {
        fence(); /* bug: root-not-fenced */
    }
}

/* Lets the new tree be seen. */
static void publish(struct node *node)
{
    if (node != NULL) {
        node->red = 0;
    }
    if (planted(ROOT_FIRST)) {
        store_root(node); /* bug: root-first */
    }
    for (unsigned i = 0; i < made_count; i++) {
        if (!planted(NODES_NOT_FLUSHED) || i == 0 || i + 1 == made_count) {
            flush(made[i]); /* bug: nodes-not-flushed */
        }
    }
    if (!planted(NODES_NOT_FENCED)) {
        fence(); /* bug: nodes-not-fenced */
    }
    store_root(node);
    while (replaced_count > 0) {
        give_slot(replaced[--replaced_count]);
    }
    made_count = 0;
}

static void structure_put(uint64_t key, uint64_t value)
{
    publish(insert(*root(), key, value));
}

static const struct node *find(uint64_t key)
{
    const struct node *node = *root();
    while (node != NULL && node->key != key) {
        node = key < node->key ? node->left : node->right;
    }
    return node;
}

static void structure_erase(uint64_t key)
{
    if (find(key) == NULL) {
        return;
    }
    struct node *node = own(*root());
    if (!is_red(node->left) && !is_red(node->right)) {
        node->red = 1;
    }
    publish(erase(node, key));
}

static uint64_t structure_get(uint64_t key)
{
    const struct node *node = find(key);
    return node == NULL ? 0 : node->value;
}

/* ---- Recovery --------------------------------------------------------------------------------- */

/* Keys lie between `low` and `high`. How many black nodes are on each way down. */
static unsigned recover_node(const struct node *node, uint64_t low, uint64_t high, bool below_red)
{
    if (node == NULL) {
        return 0;
    }
    node = claim(node);
    if (node->key <= low || node->key >= high) {
        die(STATUS_WRONG, "key %" PRIu64 " is not between %" PRIu64 " and %" PRIu64, node->key, low, high);
    }
    if (node->red > 1 || (is_red(node) && below_red)) {
        die(STATUS_WRONG, "key %" PRIu64 " is red below a red one", node->key);
    }
    found_item(node->key, node->value);
    const unsigned left = recover_node(node->left, low, node->key, is_red(node));
    const unsigned right = recover_node(node->right, node->key, high, is_red(node));
    if (left != right || (node->right != NULL && node->right->red != 0)) {
        die(STATUS_WRONG, "key %" PRIu64 " has %u black nodes on its left and %u on its right", node->key,
            left, right);
    }
    return left + !is_red(node);
}

static void structure_recover(void)
{
    recover_node(*root(), 0, UINT64_MAX, true);
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
