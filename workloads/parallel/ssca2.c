/*
 * ssca2 [-s SCALE] [-i PROBABILITY] [-u PROBABILITY] [-l LENGTH] [-p EDGES] [-t THREADS]
 *
 * Computes: the adjacency arrays of a directed graph of 2^SCALE vertices with parallel edges, from
 * its edges in random order. The vertices form cliques of up to 2^(SCALE/3); two vertices of a
 * clique have an edge one way with probability -u, else both ways; from each vertex, edges lead to
 * the cliques 1, 2, 4, ... farther on with probability -i, -i/2, -i/4, ...; each of these edges is
 * 1 to -p parallel ones. The vertices are numbered at random.
 *
 * Algorithm: Kernel 1 of HPCS SSCA#2 (Bader and Madduri, HiPC 2005), the one that STAMP's ssca2
 * runs (Minh et al., IISWC 2008): count the edges from each vertex; lay the vertices out by prefix
 * sums; put each edge in its place; sort the edges of a vertex and gather parallel ones; and enter
 * each vertex in the list of implied edges of every neighbour that has no edge back to it: a fixed
 * number in an array, what is beyond in blocks of overflow. -l is for Kernel 3, which neither runs.
 * (STAMP's generator hands over its edges sorted by vertex; the benchmark's text asks for random
 * order, and has it here.)
 *
 * Locks: one spin lock for each vertex.
 *
 * Always true: lists are sorted in the end, so the graph is the same for every interleaving.
 *
 * Check: all arrays are those that one thread gets by sorting the edges.
 */
#define PROGRAM "ssca2"
#include "parallel.h"

struct edge {
    uint32_t start, end, weight;
};

/* An edge in the place of its start. */
struct out_edge {
    uint32_t end, weight;
};

/* Implied edges of a vertex that its part of the array had no place for. */
struct overflow {
    struct overflow *next;
    uint32_t starts[];
};

struct problem {
    uint64_t scale, threads;
    uint64_t vertices;
    uint64_t edge_count;
    struct edge *edges; /* the input */
    uint64_t edge_capacity;
    uint64_t clique_max; /* and room for implied edges in a vertex's part of the array */

    pthread_barrier_t barrier;
    struct spin_lock *locks; /* of each vertex, for all that is about it */
    uint64_t *thread_sums;
    uint32_t *unplaced;       /* of each vertex: edges counted and not yet put in their places */
    uint32_t *place_index;    /* where a vertex's edges begin in `placed`; one more for the end */
    struct out_edge *placed;  /* all edges by start, and in the end by end and weight */
    uint32_t *implied;        /* of vertex v from v * clique_max on */
    struct overflow **overflow;

    /* The graph. An index has an item for each vertex and one for the end. */
    uint32_t *out_degree; /* neighbours, not edges */
    uint32_t *out_index;
    uint32_t *out_neighbours; /* of vertex v from out_index[v] on, in order */
    uint32_t *parallel_index; /* where a neighbour's edges begin in `weights`, and the end */
    uint32_t *weights;
    uint32_t *in_degree; /* neighbours without an edge back */
    uint32_t *in_index;
    uint32_t *in_neighbours;
};

/* ---- The edges ---------------------------------------------------------------------------- */

/* Adds 1 to `parallel_max` edges from one vertex to another. */
static void add_edges(struct problem *problem, uint64_t start, uint64_t end, uint64_t parallel_max,
                      uint64_t *random)
{
    const uint64_t count = 1 + random_below(random, parallel_max);
    if (problem->edge_count + count > UINT32_MAX) {
        die(STATUS_USAGE, "the graph has more than %" PRIu32 " edges", UINT32_MAX);
    }
    if (problem->edge_count + count > problem->edge_capacity) {
        problem->edge_capacity = 2 * (problem->edge_capacity + count);
        problem->edges =
            realloc(problem->edges, problem->edge_capacity * sizeof *problem->edges);
        if (problem->edges == NULL) {
            die(STATUS_USAGE, "no memory for %" PRIu64 " edges", problem->edge_capacity);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t weight = (uint32_t)random_below(random, problem->vertices);
        problem->edges[problem->edge_count] =
            (struct edge){(uint32_t)start, (uint32_t)end, weight};
        problem->edge_count++;
    }
}

/* The edges among the vertices of a clique, first..end-1. */
static void add_clique(struct problem *problem, uint64_t first, uint64_t end, double one_way,
                       uint64_t parallel_max, uint64_t *random)
{
    for (uint64_t a = first; a < end; a++) {
        for (uint64_t b = a + 1; b < end; b++) {
            const bool is_one_way = random_unit(random) < one_way;
            const bool is_forward = random_below(random, 2) == 0;
            if (!is_one_way || is_forward) {
                add_edges(problem, a, b, parallel_max, random);
            }
            if (!is_one_way || !is_forward) {
                add_edges(problem, b, a, parallel_max, random);
            }
        }
    }
}

/* The edges from the vertices of a clique to other cliques. `firsts` has each clique's first vertex
   and one item for the end. */
static void add_between_cliques(struct problem *problem, const uint64_t *firsts, uint64_t cliques,
                                uint64_t clique, double probability, uint64_t parallel_max,
                                uint64_t *random)
{
    for (uint64_t v = firsts[clique]; v < firsts[clique + 1]; v++) {
        double likely = probability;
        for (uint64_t distance = 1; distance < cliques; distance *= 2, likely /= 2) {
            if (random_unit(random) < likely) {
                const uint64_t other = (clique + distance) % cliques;
                const uint64_t size = firsts[other + 1] - firsts[other];
                add_edges(problem, v, firsts[other] + random_below(random, size), parallel_max,
                          random);
            }
        }
    }
}

/* A random order of 0..count-1. */
static uint32_t *random_order(uint64_t count, uint64_t *random)
{
    uint32_t *order = allocate(count, sizeof *order);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t place = random_below(random, i + 1);
        order[i] = order[place];
        order[place] = (uint32_t)i;
    }
    return order;
}

static void make_edges(struct problem *problem, double between, double one_way,
                       uint64_t parallel_max)
{
    uint64_t random = random_seeded(1);
    uint64_t *firsts = allocate(problem->vertices + 1, sizeof *firsts);
    uint64_t cliques = 0;
    for (uint64_t first = 0; first < problem->vertices; cliques++) {
        firsts[cliques] = first;
        first += 1 + random_below(&random, problem->clique_max);
    }
    firsts[cliques] = problem->vertices;
    for (uint64_t c = 0; c < cliques; c++) {
        add_clique(problem, firsts[c], firsts[c + 1], one_way, parallel_max, &random);
        add_between_cliques(problem, firsts, cliques, c, between, parallel_max, &random);
    }
    uint32_t *names = random_order(problem->vertices, &random);
    for (uint64_t i = 0; i < problem->edge_count; i++) {
        struct edge *edge = &problem->edges[i];
        edge->start = names[edge->start];
        edge->end = names[edge->end];
    }
    for (uint64_t i = problem->edge_count; i > 1; i--) {
        const uint64_t other = random_below(&random, i);
        const struct edge edge = problem->edges[i - 1];
        problem->edges[i - 1] = problem->edges[other];
        problem->edges[other] = edge;
    }
    free(names);
    free(firsts);
}

/* ---- Construction ------------------------------------------------------------------------- */

static struct share vertices_of(const struct problem *problem, unsigned thread)
{
    return thread_share(problem->vertices, (unsigned)problem->threads, thread);
}

static struct share edges_of(const struct problem *problem, unsigned thread)
{
    return thread_share(problem->edge_count, (unsigned)problem->threads, thread);
}

/* index[v] becomes the sum of counts[0] to counts[v - 1]; all threads call it together. */
static void sum_prefixes(struct problem *problem, unsigned thread, const uint32_t *counts,
                         uint32_t *index)
{
    const struct share share = vertices_of(problem, thread);
    uint64_t sum = 0;
    for (uint64_t v = share.first; v < share.end; v++) {
        sum += counts[v];
    }
    problem->thread_sums[thread] = sum;
    barrier_wait(&problem->barrier);
    uint64_t before = 0;
    for (unsigned t = 0; t < thread; t++) {
        before += problem->thread_sums[t];
    }
    for (uint64_t v = share.first; v < share.end; v++) {
        index[v] = (uint32_t)before;
        before += counts[v];
    }
    if (thread + 1 == problem->threads) {
        index[problem->vertices] = (uint32_t)before;
    }
    barrier_wait(&problem->barrier);
}

static void count_edges(struct problem *problem, unsigned thread)
{
    const struct share share = edges_of(problem, thread);
    for (uint64_t i = share.first; i < share.end; i++) {
        const uint32_t start = problem->edges[i].start;
        spin_lock_take(&problem->locks[start]);
        problem->unplaced[start]++;
        spin_lock_release(&problem->locks[start]);
    }
}

static void place_edges(struct problem *problem, unsigned thread)
{
    const struct share share = edges_of(problem, thread);
    for (uint64_t i = share.first; i < share.end; i++) {
        const struct edge *edge = &problem->edges[i];
        spin_lock_take(&problem->locks[edge->start]);
        const uint32_t place =
            problem->place_index[edge->start] + --problem->unplaced[edge->start];
        problem->placed[place] = (struct out_edge){edge->end, edge->weight};
        spin_lock_release(&problem->locks[edge->start]);
    }
}

static bool is_before(struct out_edge a, struct out_edge b)
{
    return a.end < b.end || (a.end == b.end && a.weight < b.weight);
}

/* Ciura's gaps for Shell's sort, which is quick for the short lists there are, and not slow for a
   long one. */
static const uint64_t GAPS[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
enum { GAP_COUNT = sizeof GAPS / sizeof *GAPS };

static void sort_edges(struct out_edge *edges, uint64_t count)
{
    for (int g = 0; g < GAP_COUNT; g++) {
        for (uint64_t i = GAPS[g]; i < count; i++) {
            const struct out_edge edge = edges[i];
            uint64_t at = i;
            for (; at >= GAPS[g] && is_before(edge, edges[at - GAPS[g]]); at -= GAPS[g]) {
                edges[at] = edges[at - GAPS[g]];
            }
            edges[at] = edge;
        }
    }
}

static void sort_vertices(uint32_t *vertices, uint64_t count)
{
    for (int g = 0; g < GAP_COUNT; g++) {
        for (uint64_t i = GAPS[g]; i < count; i++) {
            const uint32_t vertex = vertices[i];
            uint64_t at = i;
            for (; at >= GAPS[g] && vertex < vertices[at - GAPS[g]]; at -= GAPS[g]) {
                vertices[at] = vertices[at - GAPS[g]];
            }
            vertices[at] = vertex;
        }
    }
}

/* Sorts the edges of each vertex of a thread, and counts its neighbours. */
static void sort_vertices_edges(struct problem *problem, unsigned thread)
{
    const struct share share = vertices_of(problem, thread);
    for (uint64_t v = share.first; v < share.end; v++) {
        struct out_edge *edges = problem->placed + problem->place_index[v];
        const uint32_t count = problem->place_index[v + 1] - problem->place_index[v];
        sort_edges(edges, count);
        uint32_t neighbours = 0;
        for (uint32_t i = 0; i < count; i++) {
            neighbours += i == 0 || edges[i].end != edges[i - 1].end;
        }
        problem->out_degree[v] = neighbours;
    }
}

/* Writes the neighbours and weights of each vertex of a thread. */
static void gather_neighbours(struct problem *problem, unsigned thread)
{
    const struct share share = vertices_of(problem, thread);
    for (uint64_t v = share.first; v < share.end; v++) {
        uint32_t neighbour = problem->out_index[v];
        for (uint32_t i = problem->place_index[v]; i < problem->place_index[v + 1]; i++) {
            const struct out_edge edge = problem->placed[i];
            if (i == problem->place_index[v] || edge.end != problem->placed[i - 1].end) {
                problem->out_neighbours[neighbour] = edge.end;
                problem->parallel_index[neighbour] = i;
                neighbour++;
            }
            problem->weights[i] = edge.weight;
        }
    }
}

static bool has_edge(const struct problem *problem, uint64_t start, uint64_t end)
{
    for (uint32_t i = problem->out_index[start]; i < problem->out_index[start + 1]; i++) {
        if (problem->out_neighbours[i] == end) {
            return true;
        }
    }
    return false;
}

/* Enters an edge from `start` that has none back, in the list of its end. */
static void add_implied(struct problem *problem, uint32_t start, uint32_t end)
{
    spin_lock_take(&problem->locks[end]);
    const uint64_t number = problem->in_degree[end];
    const uint64_t room = problem->clique_max;
    problem->in_degree[end]++;
    if (number < room) {
        problem->implied[end * room + number] = start;
    } else {
        if (number % room == 0) {
            struct overflow *block = malloc(sizeof *block + room * sizeof *block->starts);
            if (block == NULL) {
                die(STATUS_USAGE, "no memory for implied edges");
            }
            block->next = problem->overflow[end];
            problem->overflow[end] = block;
        }
        problem->overflow[end]->starts[number % room] = start;
    }
    spin_lock_release(&problem->locks[end]);
}

static void add_implied_edges(struct problem *problem, unsigned thread)
{
    const struct share share = vertices_of(problem, thread);
    for (uint64_t v = share.first; v < share.end; v++) {
        for (uint32_t i = problem->out_index[v]; i < problem->out_index[v + 1]; i++) {
            const uint32_t neighbour = problem->out_neighbours[i];
            if (!has_edge(problem, neighbour, v)) {
                add_implied(problem, (uint32_t)v, neighbour);
            }
        }
    }
}

/* Copies the implied edges of each vertex of a thread from the array and the overflow, the last
   block of which is the first in its list, and sorts them. */
static void gather_implied(struct problem *problem, unsigned thread)
{
    const struct share share = vertices_of(problem, thread);
    const uint64_t room = problem->clique_max;
    for (uint64_t v = share.first; v < share.end; v++) {
        uint32_t *list = problem->in_neighbours + problem->in_index[v];
        uint64_t left = problem->in_degree[v];
        for (struct overflow *block = problem->overflow[v]; block != NULL;) {
            struct overflow *next = block->next;
            const uint64_t count = (left - 1) % room + 1;
            left -= count;
            memcpy(list + left, block->starts, count * sizeof *list);
            free(block);
            block = next;
        }
        memcpy(list, problem->implied + v * room, left * sizeof *list);
        sort_vertices(list, problem->in_degree[v]);
    }
}

static void build_graph(unsigned thread, void *context)
{
    struct problem *problem = context;
    count_edges(problem, thread);
    barrier_wait(&problem->barrier);
    sum_prefixes(problem, thread, problem->unplaced, problem->place_index);
    place_edges(problem, thread);
    barrier_wait(&problem->barrier);
    sort_vertices_edges(problem, thread);
    sum_prefixes(problem, thread, problem->out_degree, problem->out_index);
    if (thread == 0) {
        const uint64_t neighbours = problem->out_index[problem->vertices];
        problem->out_neighbours = allocate(neighbours, sizeof *problem->out_neighbours);
        problem->parallel_index = allocate(neighbours + 1, sizeof *problem->parallel_index);
        problem->parallel_index[neighbours] = (uint32_t)problem->edge_count;
    }
    barrier_wait(&problem->barrier);
    gather_neighbours(problem, thread);
    barrier_wait(&problem->barrier);
    add_implied_edges(problem, thread);
    barrier_wait(&problem->barrier);
    sum_prefixes(problem, thread, problem->in_degree, problem->in_index);
    if (thread == 0) {
        problem->in_neighbours =
            allocate(problem->in_index[problem->vertices], sizeof *problem->in_neighbours);
    }
    barrier_wait(&problem->barrier);
    gather_implied(problem, thread);
}

/* ---- The check ---------------------------------------------------------------------------- */

static uint32_t key_of(const struct edge *edge, int key)
{
    return key == 0 ? edge->weight : key == 1 ? edge->end : edge->start;
}

/* Sorts the input by start, end and weight: a stable counting sort for each, the last first. */
static void sort_input(struct problem *problem)
{
    struct edge *sorted = allocate(problem->edge_count, sizeof *sorted);
    uint64_t *places = allocate(problem->vertices + 1, sizeof *places);
    for (int key = 0; key < 3; key++) {
        memset(places, 0, (problem->vertices + 1) * sizeof *places);
        for (uint64_t i = 0; i < problem->edge_count; i++) {
            places[key_of(&problem->edges[i], key) + 1]++;
        }
        for (uint64_t v = 0; v < problem->vertices; v++) {
            places[v + 1] += places[v];
        }
        for (uint64_t i = 0; i < problem->edge_count; i++) {
            sorted[places[key_of(&problem->edges[i], key)]++] = problem->edges[i];
        }
        memcpy(problem->edges, sorted, problem->edge_count * sizeof *sorted);
    }
    free(places);
    free(sorted);
}

static void require(bool is_right, const char *what)
{
    if (!is_right) {
        die(STATUS_WRONG, "%s are not those of the sorted edges", what);
    }
}

/* Goes through the sorted edges and the graph side by side. */
static void check_out_edges(const struct problem *problem)
{
    uint64_t edge = 0;
    uint64_t neighbour = 0;
    for (uint64_t v = 0; v < problem->vertices; v++) {
        require(problem->out_index[v] == neighbour, "the places of neighbours");
        uint64_t degree = 0;
        while (edge < problem->edge_count && problem->edges[edge].start == v) {
            const uint32_t end = problem->edges[edge].end;
            require(problem->out_neighbours[neighbour] == end, "the neighbours");
            require(problem->parallel_index[neighbour] == edge, "the places of parallel edges");
            for (; edge < problem->edge_count && problem->edges[edge].start == v &&
                   problem->edges[edge].end == end;
                 edge++) {
                require(problem->weights[edge] == problem->edges[edge].weight, "the weights");
            }
            neighbour++;
            degree++;
        }
        require(problem->out_degree[v] == degree, "the numbers of neighbours");
    }
    require(edge == problem->edge_count && problem->out_index[problem->vertices] == neighbour &&
                problem->parallel_index[neighbour] == edge,
            "the totals");
}

/* Whether the sorted input has an edge; by binary search. */
static bool input_has(const struct problem *problem, uint32_t start, uint32_t end)
{
    uint64_t first = 0;
    uint64_t behind = problem->edge_count;
    while (first < behind) {
        const uint64_t middle = first + (behind - first) / 2;
        const struct edge *edge = &problem->edges[middle];
        if (edge->start < start || (edge->start == start && edge->end < end)) {
            first = middle + 1;
        } else {
            behind = middle;
        }
    }
    return first < problem->edge_count && problem->edges[first].start == start &&
           problem->edges[first].end == end;
}

/* The sorted edges without one back come to each end in the order of their starts. */
static void check_implied_edges(const struct problem *problem)
{
    uint32_t *seen = allocate_zeroed(problem->vertices, sizeof *seen);
    for (uint64_t i = 0; i < problem->edge_count; i++) {
        const struct edge *edge = &problem->edges[i];
        const bool is_repeated =
            i > 0 && edge[-1].start == edge->start && edge[-1].end == edge->end;
        if (is_repeated || input_has(problem, edge->end, edge->start)) {
            continue;
        }
        const uint64_t place = (uint64_t)problem->in_index[edge->end] + seen[edge->end];
        require(place < problem->in_index[edge->end + 1] &&
                    problem->in_neighbours[place] == edge->start,
                "the implied edges");
        seen[edge->end]++;
    }
    uint64_t sum = 0;
    for (uint64_t v = 0; v < problem->vertices; v++) {
        require(problem->in_degree[v] == seen[v], "the numbers of implied edges");
        require(problem->in_index[v] == sum, "the places of implied edges");
        sum += seen[v];
    }
    require(problem->in_index[problem->vertices] == sum, "the totals of implied edges");
    free(seen);
}

static void digest_words(uint64_t *digest, const uint32_t *words, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        digest_word(digest, words[i]);
    }
}

static void allocate_graph(struct problem *problem)
{
    const uint64_t vertices = problem->vertices;
    problem->locks = allocate_zeroed(vertices, sizeof *problem->locks);
    problem->thread_sums = allocate(problem->threads, sizeof *problem->thread_sums);
    problem->unplaced = allocate_zeroed(vertices, sizeof *problem->unplaced);
    problem->place_index = allocate(vertices + 1, sizeof *problem->place_index);
    problem->placed = allocate(problem->edge_count, sizeof *problem->placed);
    problem->implied = allocate(vertices * problem->clique_max, sizeof *problem->implied);
    problem->overflow = allocate_zeroed(vertices, sizeof *problem->overflow);
    problem->out_degree = allocate(vertices, sizeof *problem->out_degree);
    problem->out_index = allocate(vertices + 1, sizeof *problem->out_index);
    problem->weights = allocate(problem->edge_count, sizeof *problem->weights);
    problem->in_degree = allocate_zeroed(vertices, sizeof *problem->in_degree);
    problem->in_index = allocate(vertices + 1, sizeof *problem->in_index);
}

int main(int argc, char **argv)
{
    struct problem problem = {.scale = 17, .threads = THREADS_DEFAULT};
    double between = 1;
    double one_way = 1;
    uint64_t path_length = 3;
    uint64_t parallel_max = 3;
    const struct parameter parameters[] = {
        option_whole('s', "binary logarithm of the number of vertices", 1, 24, &problem.scale),
        option_real('i', "probability of an edge from a vertex to the next clique", 0, 1, &between),
        option_real('u', "probability that an edge in a clique is one way", 0, 1, &one_way),
        option_whole('l', "length of paths in Kernel 3, which is not run", 1, 1 << 20,
                     &path_length),
        option_whole('p', "parallel edges at most", 1, 1 << 10, &parallel_max),
        option_threads('t', &problem.threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);

    problem.vertices = UINT64_C(1) << problem.scale;
    problem.clique_max = UINT64_C(1) << (problem.scale / 3);
    make_edges(&problem, between, one_way, parallel_max);
    allocate_graph(&problem);
    barrier_init(&problem.barrier, (unsigned)problem.threads);
    ready("%" PRIu64 " vertices, %" PRIu64 " edges", problem.vertices, problem.edge_count);

    run_threads((unsigned)problem.threads, build_graph, &problem);

    sort_input(&problem);
    check_out_edges(&problem);
    check_implied_edges(&problem);
    const uint64_t neighbours = problem.out_index[problem.vertices];
    const uint64_t implied = problem.in_index[problem.vertices];
    uint64_t digest = DIGEST_START;
    digest_words(&digest, problem.out_index, problem.vertices + 1);
    digest_words(&digest, problem.out_neighbours, neighbours);
    digest_words(&digest, problem.weights, problem.edge_count);
    digest_words(&digest, problem.in_index, problem.vertices + 1);
    digest_words(&digest, problem.in_neighbours, implied);
    return verified(digest,
                    "%" PRIu64 " vertices, %" PRIu64 " edges to %" PRIu64
                    " neighbours, %" PRIu64 " of them implied edges",
                    problem.vertices, problem.edge_count, neighbours, implied);
}
