/*
 * network-flow NODES ARCS: minimum-cost flow on a sparse random graph, by the network simplex.
 *
 * Computes: half of the nodes supply goods, half of them demand as much; arcs have capacities and
 * costs; the cheapest flow that serves everybody. Arcs lead mostly to nodes nearby, some anywhere;
 * a ring of expensive arcs makes sure that a flow exists.
 *
 * Algorithm: primal network simplex with strongly feasible spanning trees, which cannot cycle: W.
 * H. Cunningham, "A network simplex method", Mathematical Programming 11 (1976); block search
 * pricing as in M. D. Grigoriadis, "An efficient implementation of the network simplex method",
 * Mathematical Programming Study 26 (1986). The tree is kept as mcf does (A. Loebel): every node
 * has its parent, its first child, its siblings, its depth and its potential.
 *
 * Memory behaviour that it stands for (mcf): pricing streams over 40-byte arcs and looks up two
 * nodes at random for each; pivots chase pointers up the tree and through whole subtrees, and write
 * potentials and depths of nodes that lie all over memory.
 *
 * Check: balance at every node and bounds on every arc; and, as a certificate of optimality that
 * needs no trust in the tree, the sign of every arc's reduced cost against its flow, and equality
 * of the primal and the dual objective.
 */
#define KERNEL "network-flow"
#include "kernel.h"

/* Where an arc's flow is: at zero, in the tree (so anything between its bounds), at its capacity.
 */
enum state { AT_CAPACITY = -1, IN_TREE = 0, AT_ZERO = 1 };

enum direction { DOWN = -1, UP = 1 };

struct arc {
    int64_t cost;
    int64_t capacity;
    int64_t flow;
    uint32_t tail, head;
    int32_t state;
};

struct node {
    int64_t potential;
    int64_t supply;
    struct node *parent;
    struct node *first_child;
    struct node *next_sibling;
    struct node *previous_sibling;
    struct arc *arc; /* the tree arc between this node and its parent */
    int32_t depth;
    int32_t direction; /* of that arc: UP if it leads to the parent */
};

struct network {
    size_t nodes_count; /* without the root, which is the node after the last */
    size_t arcs_count;  /* without the artificial arcs, which come after the last */
    struct node *nodes;
    struct arc *arcs;
    size_t block;    /* arcs that are priced at once */
    size_t next_arc; /* where pricing goes on */
    uint64_t pivots;
};

enum { COST_NEAR = 1000, COST_RING = 100000, SUPPLY_MAX = 20 };

/* More than any path of real arcs may cost. */
static int64_t artificial_cost(const struct network *network)
{
    return (int64_t)COST_RING * (int64_t)(network->nodes_count + 1);
}

/* ---- The tree ----------------------------------------------------------------------------- */

static void hang(struct node *node, struct node *parent, struct arc *arc, enum direction direction)
{
    node->parent = parent;
    node->arc = arc;
    node->direction = direction;
    node->previous_sibling = NULL;
    node->next_sibling = parent->first_child;
    if (node->next_sibling != NULL) {
        node->next_sibling->previous_sibling = node;
    }
    parent->first_child = node;
}

static void unhang(struct node *node)
{
    if (node->previous_sibling != NULL) {
        node->previous_sibling->next_sibling = node->next_sibling;
    } else {
        node->parent->first_child = node->next_sibling;
    }
    if (node->next_sibling != NULL) {
        node->next_sibling->previous_sibling = node->previous_sibling;
    }
}

/* The arcs' reduced cost is cost + potential(tail) - potential(head); it is zero in the tree. This
   adds to the potentials, and sets the depths, of a whole subtree. */
static void refresh(struct node *top, int64_t potential_change)
{
    struct node *node = top;
    for (;;) {
        node->potential += potential_change;
        node->depth = node->parent->depth + 1;
        if (node->first_child != NULL) {
            node = node->first_child;
            continue;
        }
        while (node != top && node->next_sibling == NULL) {
            node = node->parent;
        }
        if (node == top) {
            return;
        }
        node = node->next_sibling;
    }
}

/* ---- Building ----------------------------------------------------------------------------- */

static void make_arcs(struct network *network)
{
    const uint64_t nodes = network->nodes_count;
    uint64_t random = random_seeded(1);
    for (size_t i = 0; i < network->arcs_count; i++) {
        struct arc *arc = &network->arcs[i];
        const uint64_t tail = i % nodes;
        const uint64_t word = random_next(&random);
        uint64_t head;
        if (i < nodes) {
            head = tail + 1 < nodes ? tail + 1 : 0; /* the ring */
            arc->cost = COST_RING;
            arc->capacity = (int64_t)nodes * SUPPLY_MAX;
        } else {
            const bool far = (word & 7) == 0;
            const uint64_t reach = far ? nodes - 1 : nodes / 64 + 1;
            head = tail + 1 + (((word >> 32) * reach) >> 32);
            head = head < nodes ? head : head - nodes;
            arc->cost = 1 + (int64_t)((word >> 8) % COST_NEAR) * (far ? 4 : 1);
            arc->capacity = 1 + (int64_t)((word >> 24) & 31);
        }
        arc->tail = (uint32_t)tail;
        arc->head = (uint32_t)head;
        arc->flow = 0;
        arc->state = AT_ZERO;
    }
}

/* The first tree: every node hangs on the root by an artificial arc that carries its supply. An arc
   without flow leads up, so the tree is strongly feasible. */
static void make_tree(struct network *network)
{
    struct node *root = &network->nodes[network->nodes_count];
    *root = (struct node){.depth = 0};
    uint64_t random = random_seeded(2);
    int64_t supply = 0;
    for (size_t i = 0; i < network->nodes_count; i++) {
        struct node *node = &network->nodes[i];
        struct arc *arc = &network->arcs[network->arcs_count + i];
        if (i % 2 == 0) { /* what one supplies, the next one demands */
            supply =
                i + 1 < network->nodes_count ? 1 + (int64_t)random_below(&random, SUPPLY_MAX) : 0;
            node->supply = supply;
        } else {
            node->supply = -supply;
        }
        const bool up = node->supply >= 0;
        *arc = (struct arc){
            .cost = artificial_cost(network),
            .capacity = INT64_MAX,
            .flow = up ? node->supply : -node->supply,
            .tail = (uint32_t)(up ? i : network->nodes_count),
            .head = (uint32_t)(up ? network->nodes_count : i),
            .state = IN_TREE,
        };
        node->potential = up ? -arc->cost : arc->cost;
        node->depth = 1;
        node->first_child = NULL;
        hang(node, root, arc, up ? UP : DOWN);
    }
}

/* ---- The simplex -------------------------------------------------------------------------- */

static int64_t reduced_cost(const struct network *network, const struct arc *arc)
{
    return arc->cost + network->nodes[arc->tail].potential - network->nodes[arc->head].potential;
}

/* The worst arc of the next block that has a bad one; NULL if no arc is bad. */
static struct arc *price(struct network *network)
{
    size_t left = network->arcs_count;
    size_t at = network->next_arc;
    while (left > 0) {
        struct arc *worst = NULL;
        int64_t worst_cost = 0;
        const size_t count = left < network->block ? left : network->block;
        for (size_t i = 0; i < count; i++) {
            struct arc *arc = &network->arcs[at];
            const int64_t cost = arc->state * reduced_cost(network, arc);
            if (cost < worst_cost) {
                worst_cost = cost;
                worst = arc;
            }
            at = at + 1 < network->arcs_count ? at + 1 : 0;
        }
        left -= count;
        network->next_arc = at;
        if (worst != NULL) {
            return worst;
        }
    }
    return NULL;
}

static struct node *apex(struct node *a, struct node *b)
{
    while (a != b) {
        if (a->depth >= b->depth) {
            a = a->parent;
        } else {
            b = b->parent;
        }
    }
    return a;
}

/* How much more the tree arc above the node can take in the direction `way`. */
static int64_t residual(const struct node *node, enum direction way)
{
    return node->direction == (int32_t)way ? node->arc->capacity - node->arc->flow
                                           : node->arc->flow;
}

/* Makes `in` the parent arc of its end `lower`: turns the path from `lower` up to `cut` over, and
   hangs all of it on `upper`. */
static void exchange(struct node *lower, struct node *upper, struct node *cut, struct arc *in,
                     enum direction direction)
{
    struct node *node = lower;
    struct node *parent = upper;
    struct arc *arc = in;
    for (;;) {
        struct node *const old_parent = node->parent;
        struct arc *const old_arc = node->arc;
        const enum direction old_direction = node->direction;
        unhang(node);
        hang(node, parent, arc, direction);
        if (node == cut) {
            return;
        }
        parent = node;
        node = old_parent;
        arc = old_arc;
        direction = old_direction == UP ? DOWN : UP;
    }
}

/* Lets `in` into the tree, or over to its other bound. */
static void pivot(struct network *network, struct arc *in)
{
    /* Flow is pushed from `first` through the arc to `second`, up to the apex, down to `first`. */
    const bool forward = in->state == AT_ZERO;
    struct node *const first = &network->nodes[forward ? in->tail : in->head];
    struct node *const second = &network->nodes[forward ? in->head : in->tail];
    struct node *const top = apex(first, second);

    /* The last blocking arc from the apex on, in the direction of the push, must leave. */
    int64_t amount = in->capacity;
    struct node *cut = NULL;
    bool cut_at_first = false;
    for (struct node *node = first; node != top; node = node->parent) {
        const int64_t room = residual(node, DOWN);
        if (room < amount) {
            amount = room;
            cut = node;
            cut_at_first = true;
        }
    }
    for (struct node *node = second; node != top; node = node->parent) {
        const int64_t room = residual(node, UP);
        if (room <= amount) {
            amount = room;
            cut = node;
            cut_at_first = false;
        }
    }

    if (amount > 0) {
        in->flow += forward ? amount : -amount;
        for (struct node *node = first; node != top; node = node->parent) {
            node->arc->flow -= node->direction * amount;
        }
        for (struct node *node = second; node != top; node = node->parent) {
            node->arc->flow += node->direction * amount;
        }
    }
    if (cut == NULL) {
        in->state = -in->state;
        return;
    }
    const int64_t cost = reduced_cost(network, in);
    cut->arc->state = cut->arc->flow == 0 ? AT_ZERO : AT_CAPACITY;
    in->state = IN_TREE;
    struct node *const lower = cut_at_first ? first : second;
    struct node *const upper = cut_at_first ? second : first;
    const bool up = &network->nodes[in->tail] == lower;
    exchange(lower, upper, cut, in, up ? UP : DOWN);
    refresh(lower, up ? -cost : cost);
}

/* ---- The check ---------------------------------------------------------------------------- */

/* Returns the optimal cost. */
static int64_t check(const struct network *network)
{
    int64_t *balance = allocate_zeroed(network->nodes_count, sizeof *balance);
    int64_t primal = 0;
    int64_t dual = 0;
    for (size_t i = 0; i < network->arcs_count; i++) {
        const struct arc *arc = &network->arcs[i];
        if (arc->flow < 0 || arc->flow > arc->capacity) {
            wrong("arc %zu carries %" PRId64 " of %" PRId64, i, arc->flow, arc->capacity);
        }
        const int64_t cost = reduced_cost(network, arc);
        if ((cost > 0 && arc->flow != 0) || (cost < 0 && arc->flow != arc->capacity)) {
            wrong("arc %zu has reduced cost %" PRId64 " and carries %" PRId64, i, cost, arc->flow);
        }
        balance[arc->tail] += arc->flow;
        balance[arc->head] -= arc->flow;
        primal += arc->cost * arc->flow;
        dual += cost < 0 ? cost * arc->capacity : 0;
    }
    for (size_t i = 0; i < network->nodes_count; i++) {
        if (balance[i] != network->nodes[i].supply) {
            wrong("node %zu sends out %" PRId64 ", but has %" PRId64, i, balance[i],
                  network->nodes[i].supply);
        }
        dual -= network->nodes[i].potential * network->nodes[i].supply;
    }
    if (primal != dual) {
        wrong("the flow costs %" PRId64 ", but the dual bound is %" PRId64, primal, dual);
    }
    free(balance);
    return primal;
}

/* The whole number at or below the square root. */
static size_t square_root(size_t number)
{
    size_t root = 0;
    while ((root + 1) * (root + 1) <= number) {
        root++;
    }
    return root;
}

int main(int argc, char **argv)
{
    struct network network = {.pivots = 0};
    network.nodes_count = argument(argc, argv, 1, "nodes", 4, 10000000);
    network.arcs_count = argument(argc, argv, 2, "arcs", network.nodes_count, 100000000);
    arguments_end(argc, 2);
    network.nodes = allocate(network.nodes_count + 1, sizeof *network.nodes);
    network.arcs = allocate(network.arcs_count + network.nodes_count, sizeof *network.arcs);
    network.block = square_root(network.arcs_count);
    make_arcs(&network);
    make_tree(&network);
    steady("%zu nodes, %zu arcs", network.nodes_count, network.arcs_count);

    for (struct arc *in = price(&network); in != NULL; in = price(&network)) {
        pivot(&network, in);
        network.pivots++;
    }

    const int64_t cost = check(&network);
    uint64_t digest = (uint64_t)cost;
    digest_word(&digest, network.pivots);
    return verified(digest, "cost %" PRId64 " after %" PRIu64 " pivots", cost, network.pivots);
}
