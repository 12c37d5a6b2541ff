/*
 * rbt POOL [OPTION]...: RBT of the flush study, a red-black tree.
 *
 * Operations (section III-A of the paper): insert, delete and search random keys, by the rules of Cormen,
 * Leiserson, Rivest and Stein, chapter 13. A line for each node.
 *
 * Flushes and fences: the paper says that the tree is made durable when it is updated. Our assumption: a
 * node that is reached is never changed. An insertion or deletion makes copies of all nodes that it gives
 * another colour or child; one barrier (fence, a flush for each, fence) makes them durable, and a second
 * one the one pointer that leads to them. So there are no pointers to parents: the way down is remembered.
 *
 * Always true of what is durable: the nodes that the root leads to are a red-black tree.
 *
 * Recovery: nothing to mend. Check: pointers, order of keys, colours and black heights, contents.
 */
#define PROGRAM "rbt"
#include "operations.h"

enum side { LEFT, RIGHT };
enum { DEPTH_MAX = 128, CHANGES_MAX = 4 * DEPTH_MAX };

struct node {
    alignas(LINE_BYTES) uint64_t key;
    uint64_t element;
    struct node *child[2];
    uint64_t red;
};

_Static_assert(sizeof(struct node) == sizeof(struct slot), "a node is one line");

/* The way down that the operation took: nodes, and at each the side to which it went on. */
static struct node *way[DEPTH_MAX];
static enum side side[DEPTH_MAX];
/* What the operation makes, and what its one store leaves behind. */
static struct node *fresh[CHANGES_MAX], *gone[CHANGES_MAX];
static size_t fresh_count, gone_count;

static struct node **tree_root(void)
{
    return (struct node **)&pool->root[0].word;
}

/* The pointer to what lies at a depth of the way. */
static struct node **place_at(size_t depth)
{
    return depth == 0 ? tree_root() : &way[depth - 1]->child[side[depth - 1]];
}

static bool is_red(const struct node *node)
{
    return node != NULL && node->red != 0;
}

static struct node *make(struct node content)
{
    struct node *node = take_slot();
    *node = content;
    return fresh[fresh_count++] = node;
}

/* A copy that takes the place of the node. */
static struct node *copy(struct node *node)
{
    gone[gone_count++] = node;
    return make(*node);
}

/* The one store that lets the operation's nodes be seen. */
static void replace(struct node **place, struct node *instead)
{
    if (fresh_count > 0) {
        fence();
        while (fresh_count > 0) {
            flush_line(fresh[--fresh_count]);
        }
        fence();
    }
    *place = instead;
    persist(place);
    while (gone_count > 0) {
        give_slot(gone[--gone_count]);
    }
}

/* Goes down until it comes to the key or to nothing: the depth of that. */
static size_t go_down(uint64_t key)
{
    size_t depth = 0;
    for (struct node *node = *tree_root(); node != NULL && node->key != key;
         node = node->child[side[depth++]]) {
        if (depth == DEPTH_MAX - 1) {
            die(STATUS_USAGE, "the tree is too deep");
        }
        way[depth] = node;
        side[depth] = key > node->key ? RIGHT : LEFT;
    }
    return depth;
}

static void structure_make(void)
{
}

static void structure_insert(uint64_t element)
{
    const uint64_t key = key_of(element);
    size_t depth = go_down(key);
    struct node *node = make((struct node){.key = key, .element = element, .red = 1});
    /* A red parent is not the root. */
    while (depth >= 2 && way[depth - 1]->red) {
        const enum side outer = side[depth - 2], inner = side[depth - 1];
        struct node *parent = copy(way[depth - 1]), *grandparent = copy(way[depth - 2]);
        struct node *uncle = grandparent->child[1 - outer];
        parent->child[inner] = node;
        grandparent->child[outer] = parent;
        depth -= 2;
        if (is_red(uncle)) {
            grandparent->child[1 - outer] = uncle = copy(uncle);
            uncle->red = parent->red = 0;
            grandparent->red = 1;
            node = grandparent;
            continue;
        }
        if (inner != outer) {
            parent->child[inner] = node->child[outer];
            node->child[outer] = parent;
        } else {
            node = parent;
        }
        grandparent->child[outer] = node->child[1 - outer];
        node->child[1 - outer] = grandparent;
        node->red = 0;
        grandparent->red = 1;
        break;
    }
    if (depth == 0) {
        node->red = 0;
    }
    replace(place_at(depth), node);
}

/* Makes up, if it can, for a black node that is `missing` on the ways through one side of `parent`, a
   fresh node. What takes the parent's place. */
static struct node *make_up(struct node *parent, enum side short_side, bool *missing)
{
    const enum side other = 1 - short_side;
    struct node *sibling = copy(parent->child[other]);
    struct node *near = sibling->child[short_side], *far = sibling->child[other];
    parent->child[other] = sibling;
    if (sibling->red) {
        parent->child[other] = near;
        parent->red = 1;
        sibling->red = 0;
        sibling->child[short_side] = make_up(parent, short_side, missing);
        return sibling;
    }
    if (!is_red(near) && !is_red(far)) {
        sibling->red = 1;
        *missing = !parent->red;
        parent->red = 0;
        return parent;
    }
    struct node *top = sibling;
    if (is_red(far)) {
        parent->child[other] = near;
        sibling->child[other] = far = copy(far);
        far->red = 0;
    } else {
        top = copy(near);
        parent->child[other] = top->child[short_side];
        sibling->child[short_side] = top->child[other];
        top->child[other] = sibling;
    }
    top->child[short_side] = parent;
    top->red = parent->red;
    parent->red = 0;
    *missing = false;
    return top;
}

static void structure_erase(uint64_t element)
{
    const size_t erased_depth = go_down(key_of(element));
    struct node *erased = *place_at(erased_depth), *taken_out = erased;
    size_t depth = erased_depth;
    if (erased == NULL) {
        die(STATUS_WRONG, "element %" PRIu64 " is to be erased, but is not there", element);
    }
    if (erased->child[LEFT] != NULL && erased->child[RIGHT] != NULL) {
        /* Its successor is taken out, and a copy of it has the successor's key. */
        for (enum side toward = RIGHT; taken_out->child[toward] != NULL; toward = LEFT) {
            way[depth] = taken_out;
            side[depth++] = toward;
            taken_out = taken_out->child[toward];
        }
    }
    struct node *node = taken_out->child[taken_out->child[LEFT] != NULL ? LEFT : RIGHT];
    bool missing = !taken_out->red;
    gone[gone_count++] = taken_out;
    if (missing && is_red(node)) {
        node = copy(node);
        node->red = 0;
        missing = false;
    }
    while (depth > erased_depth || (missing && depth > 0)) {
        struct node *parent = copy(way[--depth]);
        parent->child[side[depth]] = node;
        if (depth == erased_depth) {
            parent->key = taken_out->key;
            parent->element = taken_out->element;
        }
        node = missing ? make_up(parent, side[depth], &missing) : parent;
    }
    replace(place_at(depth), node);
}

static bool structure_find(uint64_t element)
{
    const struct node *node = *place_at(go_down(key_of(element)));
    return node != NULL && node->element == element;
}

/* Claims and checks the tree below `pointer`, whose keys must lie in first..last; its number of black
   nodes on each way. */
static unsigned check_below(const struct node *pointer, uint64_t first, uint64_t last, unsigned depth)
{
    if (pointer == NULL) {
        return 0;
    }
    const struct node *node = claim(pointer);
    if (depth == DEPTH_MAX) {
        die(STATUS_WRONG, "the tree is deeper than a red-black tree can be");
    }
    found_in_order(node->element, node->key, first, last, node->child[LEFT], node->child[RIGHT]);
    const unsigned left = check_below(node->child[LEFT], first, node->key - 1, depth + 1);
    const unsigned right = check_below(node->child[RIGHT], node->key + 1, last, depth + 1);
    if (left != right) {
        die(STATUS_WRONG, "the tree is out of balance at element %" PRIu64, node->element);
    }
    if (node->red > 1 || (node->red && (is_red(node->child[LEFT]) || is_red(node->child[RIGHT])))) {
        die(STATUS_WRONG, "element %" PRIu64 " is red and has a red child", node->element);
    }
    return left + (node->red ? 0 : 1);
}

static void structure_recover(void)
{
    check_below(*tree_root(), 0, UINT64_MAX, 0);
    if (is_red(*tree_root())) {
        die(STATUS_WRONG, "the root is red");
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv, CHANGES_MAX, NULL);
}
