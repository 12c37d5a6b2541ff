/*
 * ssca2 POOL [OPTION]...: SSCA2 of the SPMS paper, a benchmark of graph analysis (Bader and Madduri).
 *
 * A directed graph of --elements vertices (a power of two, or the next one) gets --operations edges whose
 * ends are drawn as R-MAT does, with the benchmark's 0.55, 0.10, 0.10 and 0.25, and whose weights are 1 to
 * the number of vertices. They are drawn when the pool is made, and written there as a list. Kernel 1
 * constructs the graph: an edge is inserted into its start's list of blocks, three edges a block. Kernel 2
 * scans all lists for the heaviest weight, and again for the edges that have it, which go into a list of
 * results. An insertion into either is a transaction. Our assumptions: kernels 1 and 2 alone, as the others
 * change nothing; edges in the order in which they are drawn; the graph is empty at first. Threads take
 * edges in turn, and in kernel 2 vertices; they share the graph, with a lock for some vertices each, so that
 * they meet in lines, four vertices each, and in lists.
 *
 * Always true: a list has as many edges as its vertex's degree, each with the ends and weight that were
 * drawn; a result is an edge of the graph and one of the heaviest, and is there once.
 */
#define PROGRAM "ssca2"
#include "run.h"

enum purpose { ENDS, WEIGHTS };
enum { BLOCK_EDGES = 3 };

/* An edge in its start's list: end | weight << 32, and its number. */
struct listed {
    uint64_t end_and_weight;
    uint64_t number;
};

struct edges {
    alignas(LINE_BYTES) uint64_t used;
    struct edges *next;
    struct listed edge[BLOCK_EDGES]; /* the first block's may be in part, the first of them */
};

struct vertex {
    struct edges *first;
    uint64_t degree;
};

/* An edge in the list that the pool is made with. */
struct drawn {
    uint64_t start;
    uint64_t end_and_weight;
};

struct result {
    alignas(LINE_BYTES) uint64_t used;
    struct result *next;
    uint64_t number;
    uint64_t start;
    uint64_t end_and_weight;
};

_Static_assert(sizeof(struct result) == sizeof(struct edges), "all blocks are of one size");

/* An edge as it is drawn. */
struct edge {
    uint64_t start, end;
};

static uint64_t vertices, vertices_bits;

static struct vertex *vertex_at(uint64_t number)
{
    return (struct vertex *)table + number;
}

/* Behind the vertices. */
static struct drawn *drawn_at(uint64_t number)
{
    return (struct drawn *)(void *)vertex_at(vertices) + number;
}

static struct result **results(void)
{
    return (struct result **)&head->root[0].word;
}

/* Of each thread, in ordinary memory: the heaviest weight and the edges that have the heaviest of all. */
static struct scan {
    alignas(LINE_BYTES) uint64_t weight;
    uint64_t count, capacity;
    struct result *edge;
} scans[THREADS_MAX];
static pthread_barrier_t barrier;

/* ---- What is drawn ---------------------------------------------------------------------------- */

/* The vertices are numbered at random, as otherwise low numbers would have the most edges. */
static uint64_t renumbered(uint64_t vertex)
{
    return (vertex * UINT64_C(0x9e3779b97f4a7c15) + mix(work.seed)) & (vertices - 1);
}

/* In 65,536ths: which quarter of the matrix, or of a quarter of it, an edge lies in. */
enum { FIRST = 36045, SECOND = FIRST + 6554, THIRD = SECOND + 6554 };

static struct edge edge_at(uint64_t number)
{
    uint64_t random = random_at(work.seed, ENDS, number), start = 0, end = 0;
    for (uint64_t bit = 0; bit < vertices_bits; bit++, random >>= 16) {
        if (bit % 4 == 0 && bit > 0) {
            random = random_at(work.seed, ENDS, number + (bit << 32));
        }
        const uint64_t chance = random & 0xffff;
        start = start << 1 | (chance >= SECOND);
        end = end << 1 | ((chance >= FIRST && chance < SECOND) || chance >= THIRD);
    }
    return (struct edge){renumbered(start), renumbered(end)};
}

static uint64_t weight_of(uint64_t number)
{
    return 1 + random_at(work.seed, WEIGHTS, number) % vertices;
}

/* The heaviest edges, by number; and whose vertices' they are. */
struct heaviest {
    uint64_t count;
    uint64_t *number;
    unsigned char *thread;
};

static const struct heaviest *heaviest_edges(void)
{
    static struct heaviest heaviest;
    uint64_t weight = 0;
    for (uint64_t number = 0; number < work.operations && heaviest.count == 0; number++) {
        weight = weight_of(number) > weight ? weight_of(number) : weight;
    }
    if (heaviest.count == 0) {
        heaviest.number = ordinary(work.operations, sizeof *heaviest.number);
        heaviest.thread = ordinary(work.operations, 1);
        for (uint64_t number = 0; number < work.operations; number++) {
            if (weight_of(number) == weight) {
                heaviest.thread[heaviest.count] = (unsigned char)(edge_at(number).start % work.threads);
                heaviest.number[heaviest.count++] = number;
            }
        }
    }
    return &heaviest;
}

static void structure_plan(void)
{
    if (work.elements == 0 || work.operations < work.threads) {
        die(STATUS_USAGE, "there must be a vertex, and an edge for each thread");
    }
    for (vertices = 1; vertices < work.elements; vertices *= 2) {
        vertices_bits++;
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)work.threads);
    if (plan.acknowledge_interval != 0) {
        heaviest_edges(); /* which threads will ask for */
    }
}

/* The n-th operation of kernel 2 of a thread enters the n-th of its heaviest edges. */
static uint64_t structure_operations(uint64_t thread)
{
    const struct heaviest *heaviest = heaviest_edges();
    uint64_t count = share(work.operations, thread);
    for (uint64_t i = 0; i < heaviest->count; i++) {
        count += heaviest->thread[i] == thread ? 1 : 0;
    }
    return count;
}

/* ---- Where it lies ---------------------------------------------------------------------------- */

static size_t structure_table_bytes(void)
{
    return vertices * sizeof(struct vertex) + work.operations * sizeof(struct drawn);
}

/* Each vertex may have a block that is not full; and far more edges of one weight than will be. */
static uint64_t structure_blocks(void)
{
    const uint64_t in_part = vertices < work.operations ? vertices : work.operations;
    const uint64_t heaviest = 64 + 8 * (work.operations / vertices);
    return work.operations / BLOCK_EDGES + in_part + heaviest;
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct edges);
}

static void structure_make(struct transaction transaction)
{
    (void)transaction;
    for (uint64_t number = 0; number < work.operations; number++) {
        const struct edge edge = edge_at(number);
        *drawn_at(number) = (struct drawn){edge.start, edge.end | weight_of(number) << 32};
        if (number % 64 == 63) {
            end_making_step();
        }
    }
}

/* ---- Kernel 1 --------------------------------------------------------------------------------- */

OPERATION void insert_edge(struct transaction transaction, uint64_t number)
{
    const struct drawn edge = *drawn_at(number);
    struct vertex *vertex = vertex_at(edge.start);
    lock(edge.start);
    const uint64_t degree = GET(transaction, &vertex->degree), place = degree % BLOCK_EDGES;
    struct edges *edges = GET(transaction, &vertex->first);
    if (place == 0) {
        struct edges *next = edges;
        edges = take_block(transaction);
        SET(transaction, &edges->next, next);
        SET(transaction, &vertex->first, edges);
    }
    SET(transaction, &edges->edge[place].end_and_weight, edge.end_and_weight);
    SET(transaction, &edges->edge[place].number, number);
    SET(transaction, &vertex->degree, degree + 1);
    commit(transaction);
    unlock(edge.start);
}

/* ---- Kernel 2 --------------------------------------------------------------------------------- */

static inline void keep_edge(struct scan *scan, const struct listed *edge, uint64_t start)
{
    if (scan->count == scan->capacity) {
        scan->capacity = scan->capacity == 0 ? 16 : 2 * scan->capacity;
        struct result *more = ordinary(scan->capacity, sizeof *more);
        memcpy(more, scan->edge, scan->count * sizeof *more);
        free(scan->edge);
        scan->edge = more;
    }
    scan->edge[scan->count++] = (struct result){
        .number = edge->number, .start = start, .end_and_weight = edge->end_and_weight};
}

/* Goes over the edges of the thread's vertices; keeps those of the weight, and says the heaviest. */
OPERATION uint64_t scan_edges(struct transaction transaction, uint64_t weight)
{
    const uint64_t thread = transaction.thread->number;
    uint64_t heaviest = 0;
    for (uint64_t start = thread; start < vertices; start += work.threads) {
        struct vertex *vertex = vertex_at(start);
        uint64_t left = GET(transaction, &vertex->degree);
        for (struct edges *edges = GET(transaction, &vertex->first); edges != NULL;
             edges = GET(transaction, &edges->next)) {
            for (; left > 0; left--) {
                struct listed *place = &edges->edge[(left - 1) % BLOCK_EDGES];
                const struct listed edge = {GET(transaction, &place->end_and_weight),
                                            GET(transaction, &place->number)};
                heaviest = edge.end_and_weight >> 32 > heaviest ? edge.end_and_weight >> 32 : heaviest;
                if (edge.end_and_weight >> 32 == weight) {
                    keep_edge(&scans[thread], &edge, start);
                }
                if ((left - 1) % BLOCK_EDGES == 0) {
                    left--;
                    break;
                }
            }
        }
    }
    return heaviest;
}

static int by_number(const void *one, const void *other)
{
    const uint64_t a = ((const struct result *)one)->number, b = ((const struct result *)other)->number;
    return (a > b) - (a < b);
}

OPERATION void insert_result(struct transaction transaction, const struct result *edge)
{
    lock(0);
    struct result *result = take_block(transaction);
    SET(transaction, &result->next, GET(transaction, results()));
    SET(transaction, &result->number, edge->number);
    SET(transaction, &result->start, edge->start);
    SET(transaction, &result->end_and_weight, edge->end_and_weight);
    SET(transaction, results(), result);
    commit(transaction);
    unlock(0);
}

OPERATION void structure_operation(struct transaction transaction, uint64_t index)
{
    const uint64_t thread = transaction.thread->number, inserts = share(work.operations, thread);
    if (index < inserts) {
        insert_edge(transaction, index * work.threads + thread);
    } else {
        insert_result(transaction, &scans[thread].edge[index - inserts]);
    }
}

OPERATION void structure_run(struct transaction transaction)
{
    struct scan *scan = &scans[transaction.thread->number];
    const uint64_t inserts = share(work.operations, transaction.thread->number);
    run_operations(transaction, 0, inserts);
    pthread_barrier_wait(&barrier);
    scan->weight = scan_edges(transaction, 0);
    pthread_barrier_wait(&barrier);
    uint64_t weight = 0;
    for (uint64_t i = 0; i < work.threads; i++) {
        weight = scans[i].weight > weight ? scans[i].weight : weight;
    }
    scan_edges(transaction, weight);
    if (scan->count > 0) {
        qsort(scan->edge, scan->count, sizeof *scan->edge, by_number);
    }
    run_operations(transaction, inserts, inserts + scan->count);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void check_edge(const struct listed *listed, uint64_t start)
{
    if (listed->number >= work.operations) {
        die(STATUS_WRONG, "there is an edge %" PRIu64 ", which nobody inserts", listed->number);
    }
    const struct edge edge = edge_at(listed->number);
    const uint64_t thread = listed->number % work.threads, index = listed->number / work.threads;
    if (edge.start != start || listed->end_and_weight != (edge.end | weight_of(listed->number) << 32)) {
        die(STATUS_WRONG, "edge %" PRIu64 " has other ends or another weight", listed->number);
    }
    if (threads[thread].there[index] != 0) {
        die(STATUS_WRONG, "edge %" PRIu64 " is there twice", listed->number);
    }
    found_done(thread, index);
    found(mix(listed->number) + listed->end_and_weight);
}

static void check_vertex(uint64_t start)
{
    const struct vertex *vertex = vertex_at(start);
    uint64_t left = vertex->degree;
    for (const struct edges *at = vertex->first; at != NULL; at = at->next) {
        const struct edges *edges = claim_block(at);
        if (left == 0) {
            die(STATUS_WRONG, "vertex %" PRIu64 " has more edges than its degree", start);
        }
        const uint64_t count = (left - 1) % BLOCK_EDGES + 1;
        for (uint64_t place = 0; place < count; place++) {
            check_edge(&edges->edge[place], start);
        }
        left -= count;
    }
    if (left != 0) {
        die(STATUS_WRONG, "vertex %" PRIu64 " has fewer edges than its degree", start);
    }
}

/* The operation that enters the edge as a result. */
static void found_result(const struct result *result)
{
    const struct heaviest *heaviest = heaviest_edges();
    uint64_t before[THREADS_MAX] = {0}, at = 0;
    while (at < heaviest->count && heaviest->number[at] != result->number) {
        before[heaviest->thread[at++]]++;
    }
    if (at == heaviest->count) {
        die(STATUS_WRONG, "edge %" PRIu64 " is a result, but none of the heaviest", result->number);
    }
    const uint64_t number = result->number, thread = heaviest->thread[at];
    const uint64_t index = share(work.operations, thread) + before[thread];
    const struct edge edge = edge_at(number);
    if (threads[thread].there[index] != 0 || edge.start != result->start ||
        result->end_and_weight != (edge.end | weight_of(number) << 32)) {
        die(STATUS_WRONG, "edge %" PRIu64 " is a result twice, or as another", number);
    }
    if (threads[number % work.threads].there[number / work.threads] == 0) {
        die(STATUS_WRONG, "edge %" PRIu64 " is a result, but is not in the graph", number);
    }
    found_done(thread, index);
    found(number);
}

static void structure_check(void)
{
    for (uint64_t start = 0; start < vertices; start++) {
        check_vertex(start);
    }
    for (const struct result *at = *results(); at != NULL; at = at->next) {
        found_result(claim_block(at));
    }
}
