/*
 * End-to-end test: linked structures that notice any lost, stale or mixed cache line.
 *
 *   selfcheck [OPERATIONS [NODES]]      default 10000 operations on 4096 nodes
 *
 * Nodes of exactly one cache line hang in doubly linked circular lists and in a binary search tree
 * by id. Operations walk the lists, move nodes between them, move value between nodes, and
 * replace nodes by fresh copies elsewhere on the heap. Always true between operations:
 * each node's checksum fits its contents; each link has its counterpart; every
 * node is in one list and in the tree; values sum to zero; and each node's count of changes agrees
 * with a table of counts that lies elsewhere, so that a line that is old as a whole
 * is noticed too. All of it is checked at every printed line.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

enum {
    LISTS = 61,
    CHECKS = 10,
    NODE_BYTES = 64,
};

struct node {
    struct node *next;
    struct node *previous;
    struct node *lower;  /* in the tree: ids below this one's */
    struct node *higher; /* and above */
    uint32_t id;
    uint32_t list;
    int64_t value;
    uint64_t changes;
    uint64_t checksum;
};
_Static_assert(sizeof(struct node) == NODE_BYTES, "a node is one cache line");

static struct node *lists[LISTS]; /* any node of the list, or NULL */
static struct node *tree;
static uint64_t *changes_expected; /* by id */
static uint32_t nodes_total;
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static uint32_t random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(((random_state >> 32) * bound) >> 32);
}

static void fail(const struct node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("selfcheck: CORRUPT: ");
    if (node != NULL) {
        printf("node %" PRIu32 " at %p: ", node->id, (const void *)node);
    }
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    exit(EXIT_FAILURE);
}

static uint64_t checksum_of(const struct node *node)
{
    uint64_t digest = DIGEST_EMPTY;
    digest = digest_add_word(digest, (uintptr_t)node->next);
    digest = digest_add_word(digest, (uintptr_t)node->previous);
    digest = digest_add_word(digest, (uintptr_t)node->lower);
    digest = digest_add_word(digest, (uintptr_t)node->higher);
    digest = digest_add_word(digest, (uint64_t)node->id << 32 | node->list);
    digest = digest_add_word(digest, (uint64_t)node->value);
    return digest_add_word(digest, node->changes);
}

static void verify(const struct node *node)
{
    if (node->id >= nodes_total) {
        fail(node, "no such id");
    }
    if (node->checksum != checksum_of(node)) {
        fail(node, "checksum %016" PRIx64 ", contents give %016" PRIx64, node->checksum,
             checksum_of(node));
    }
    if (node->changes != changes_expected[node->id]) {
        fail(node, "%" PRIu64 " changes, table says %" PRIu64, node->changes,
             changes_expected[node->id]);
    }
}

/* To be called after each change of a node. */
static void seal(struct node *node)
{
    node->changes++;
    changes_expected[node->id] = node->changes;
    node->checksum = checksum_of(node);
}

static void link_into(struct node *node, uint32_t list)
{
    struct node *const at = lists[list];
    node->list = list;
    if (at == NULL) {
        node->next = node->previous = node;
    } else {
        node->next = at;
        node->previous = at->previous;
        node->previous->next = node;
        if (node->previous != at) {
            seal(node->previous);
        }
        at->previous = node;
        seal(at);
    }
    seal(node);
    lists[list] = node;
}

static void unlink_from_list(struct node *node)
{
    struct node *const next = node->next;
    if (lists[node->list] == node) {
        lists[node->list] = next == node ? NULL : next;
    }
    if (next != node) {
        node->previous->next = next;
        next->previous = node->previous;
        seal(next);
        if (node->previous != next) {
            seal(node->previous);
        }
    }
}

/* The pointer in the tree that leads to the id's node, or the free one where it belongs. */
static struct node **tree_place(uint32_t id)
{
    struct node **place = &tree;
    while (*place != NULL && (*place)->id != id) {
        place = id < (*place)->id ? &(*place)->lower : &(*place)->higher;
    }
    return place;
}

static struct node *new_node(void)
{
    struct node *node = aligned_alloc(NODE_BYTES, sizeof *node);
    if (node == NULL) {
        fprintf(stderr, "selfcheck: no memory for a node\n");
        exit(2);
    }
    return node;
}

static struct node *find_by_id(uint32_t id)
{
    struct node *const node = *tree_place(id);
    if (node == NULL) {
        fail(NULL, "node %" PRIu32 " is not in the tree", id);
    }
    return node;
}

/* The node some steps after the start of a list. */
static struct node *walk(uint32_t list, uint32_t steps)
{
    struct node *node = lists[list];
    while (node != NULL && steps-- > 0) {
        verify(node);
        node = node->next;
    }
    return node;
}

static void move_node(void)
{
    struct node *const node = walk(random_below(LISTS), random_below(24));
    if (node != NULL) {
        unlink_from_list(node);
        link_into(node, random_below(LISTS));
    }
}

static void move_value(void)
{
    struct node *const from = walk(random_below(LISTS), random_below(24));
    struct node *const to = find_by_id(random_below(nodes_total));
    const int64_t amount = (int64_t)random_below(1000);
    if (from != NULL) {
        from->value -= amount;
        seal(from);
        to->value += amount;
        seal(to);
    }
}

/* Moves a node's contents to other memory, redirects all that points to it, spoils the old. */
static void replace_node(void)
{
    struct node **const place = tree_place(random_below(nodes_total));
    struct node *const old = *place;
    if (old == NULL) {
        fail(NULL, "a node is not in the tree");
        return;
    }
    const uint32_t list = old->list;
    unlink_from_list(old);
    struct node *const node = new_node();
    *node = *old;
    if (place == &tree) {
        tree = node;
    } else {
        const uint32_t id = node->id;
        struct node *parent = tree;
        while (&parent->lower != place && &parent->higher != place) {
            parent = id < parent->id ? parent->lower : parent->higher;
        }
        *place = node;
        seal(parent);
    }
    link_into(node, list);
    memset(old, 0xa5, sizeof *old);
    free(old);
}

static uint32_t check_tree(const struct node *node, int64_t above, int64_t below)
{
    if (node == NULL) {
        return 0;
    }
    if (node->id <= above || node->id >= below) {
        fail(node, "is at a wrong place in the tree");
    }
    return 1 + check_tree(node->lower, above, node->id) + check_tree(node->higher, node->id, below);
}

static void check_everything(unsigned number)
{
    uint64_t order = DIGEST_EMPTY;
    uint32_t in_lists = 0;
    int64_t sum = 0;
    for (uint32_t list = 0; list < LISTS; list++) {
        const struct node *node = lists[list];
        if (node == NULL) {
            continue;
        }
        do {
            verify(node);
            if (node->list != list) {
                fail(node, "is in list %" PRIu32 ", but says %" PRIu32, list, node->list);
            }
            if (node->next->previous != node) {
                fail(node, "its next node does not lead back");
            }
            order = digest_add_word(order, (uint64_t)node->id << 32 ^ (uint64_t)node->value);
            sum += node->value;
            if (++in_lists > nodes_total) {
                fail(node, "more nodes in the lists than exist");
            }
            node = node->next;
        } while (node != lists[list]);
    }
    const uint32_t in_tree = check_tree(tree, -1, nodes_total);
    if (in_lists != nodes_total || in_tree != nodes_total) {
        fail(NULL, "%" PRIu32 " nodes in lists, %" PRIu32 " in the tree, of %" PRIu32, in_lists,
             in_tree, nodes_total);
    }
    if (sum != 0) {
        fail(NULL, "values sum to %" PRId64 ", not to 0", sum);
    }
    printf("check %u: %" PRIu32 " nodes, order %016" PRIx64 "\n", number, in_lists, order);
    fflush(stdout);
}

/* Ids in bit-reversed order, so that the tree is balanced without rotations. */
static void build(void)
{
    uint32_t bits = 0;
    while (UINT32_C(1) << bits < nodes_total) {
        bits++;
    }
    for (uint32_t i = 0; i < UINT32_C(1) << bits; i++) {
        uint32_t id = 0;
        for (uint32_t bit = 0; bit < bits; bit++) {
            id |= ((i >> bit) & 1) << (bits - 1 - bit);
        }
        if (id >= nodes_total) {
            continue;
        }
        struct node *node = new_node();
        memset(node, 0, sizeof *node);
        node->id = id;
        struct node **place = &tree;
        struct node *parent = NULL;
        while (*place != NULL) {
            parent = *place;
            place = id < parent->id ? &parent->lower : &parent->higher;
        }
        *place = node;
        if (parent != NULL) {
            seal(parent);
        }
        link_into(node, random_below(LISTS));
    }
}

static uint32_t number_from(const char *text, uint32_t maximum)
{
    const long number = strtol(text, NULL, 10);
    if (number < 1 || number > (long)maximum) {
        fprintf(stderr, "usage: selfcheck [OPERATIONS [NODES]]\n");
        exit(2);
    }
    return (uint32_t)number;
}

int main(int argc, char **argv)
{
    const uint32_t operations = argc > 1 ? number_from(argv[1], UINT32_C(1) << 30) : 10000;
    nodes_total = argc > 2 ? number_from(argv[2], UINT32_C(1) << 24) : 4096;
    changes_expected = calloc(nodes_total, sizeof *changes_expected);
    if (changes_expected == NULL) {
        fprintf(stderr, "selfcheck: no memory\n");
        return 2;
    }
    build();
    unsigned checks = 0;
    check_everything(checks);
    for (uint64_t done = 1; done <= operations; done++) {
        switch (random_below(4)) {
        case 0:
            move_value();
            break;
        case 1:
            replace_node();
            break;
        default:
            move_node();
        }
        if (done * CHECKS / operations > checks) {
            checks = (unsigned)(done * CHECKS / operations);
            check_everything(checks);
        }
    }
    printf("selfcheck: done\n");
    return EXIT_SUCCESS;
}
