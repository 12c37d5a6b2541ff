/*
 * Router of wires: joins pairs of points in a three-dimensional grid by paths that do not meet.
 * Stands for STAMP's `labyrinth` (Minh, Chung, Kozyrakis and Olukotun, IISWC 2008), which is Lee's
 * algorithm (Lee, "An algorithm for path connections and its applications", 1961).
 *
 * Threads take pairs from a common list, the longest first. For a pair, a thread copies the whole
 * grid to one of its own, expands a wave of costs from the first point through free cells until it
 * has reached the second (a step costs 1, to another layer 2), walks back along falling costs,
 * straight on rather than round a bend, and enters the path in the common grid. If a cell of the
 * path is no longer free then, it starts over with a new copy.
 *
 * Locks in place of STAMP's transactions: the grid is cut into bands of rows with one lock each.
 * To enter a path, a thread takes the locks of all bands that it touches, in ascending order,
 * looks whether all cells are still free, and takes them. The copy is made without locks, by
 * relaxed atomic loads: cells never become free again, so that a stale copy costs a repetition at
 * worst.
 *
 * Memory behaviour: streams over grids larger than the caches, read from the common one and
 * written to each thread's own; a wave that walks the own grid in all three directions.
 *
 * Checked: each path starts and ends at its points, each step leads to a neighbour, no cell is in
 * two paths, and the grid holds exactly the paths. A pair may have none: then the final grid, in
 * which no more is taken than what a path would have to cross, must have no way between its
 * points either. Which paths are taken depends on how threads interleave, so the last line tells
 * only what was asked.
 *
 * Our assumption: STAMP reads a file of random pairs; ours come from a fixed seed. -x, -y, -z are
 * the sizes of the grid (random-x512-y512-z7-n512 unless told otherwise), -n the number of pairs,
 * -t the threads. STAMP's default costs are constants here.
 */
#define PROGRAM "labyrinth"
#include "parallel.h"

enum { BANDS = 64, AXES = 3, DIRECTIONS = 2 * AXES };

/* What a cell holds; in a thread's own grid also the cost of the way to it, zero or more. */
enum cell { CELL_FREE = -1, CELL_TAKEN = -2 };

/* STAMP's defaults: a step along each axis, and the cost of a bend when walking back. */
static const int64_t STEP_COST[AXES] = {1, 1, 2};
enum { BEND_COST = 1 };

struct pair {
    uint32_t from, to; /* cells */
    uint32_t *path;    /* from `to` to `from`, or NULL if there is none */
    size_t path_cells;
};

struct band {
    _Alignas(CACHE_LINE_BYTES) struct spin_lock lock;
};

struct maze {
    uint64_t size[AXES], pairs_count, threads;
    uint32_t stride[AXES]; /* from a cell to the next along each axis */
    uint32_t cells;
    int64_t *grid; /* as STAMP's, one word per cell */
    struct pair *pairs;
    struct band bands[BANDS];
    _Alignas(CACHE_LINE_BYTES) struct spin_lock list_lock;
    uint64_t next_pair; /* under list_lock */
};

/* Cells that the wave has reached and not yet left: a ring that grows when full. */
struct wave {
    uint32_t *cells;
    size_t room, first, count; /* room is a power of two */
};

struct router {
    struct maze *maze;
    int64_t *grid;
    struct wave wave;
    uint32_t *path; /* grows as needed */
    size_t path_room, path_cells;
};

static void *new_block(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        die(STATUS_USAGE, "no memory for %zu bytes", bytes);
    }
    return block;
}

static uint32_t coordinate(const struct maze *maze, uint32_t cell, int axis)
{
    return cell / maze->stride[axis] % (uint32_t)maze->size[axis];
}

/* The neighbours of a cell inside the grid, two places for each axis; `cell` itself stands for one
   that is not there. */
static void neighbours(const struct maze *maze, uint32_t cell, uint32_t next[DIRECTIONS])
{
    for (int axis = 0; axis < AXES; axis++) {
        const uint32_t at = coordinate(maze, cell, axis);
        next[2 * axis] = at + 1 < maze->size[axis] ? cell + maze->stride[axis] : cell;
        next[2 * axis + 1] = at > 0 ? cell - maze->stride[axis] : cell;
    }
}

/* ---- The wave ----------------------------------------------------------------------------- */

static void wave_push(struct wave *wave, uint32_t cell)
{
    if (wave->count == wave->room) {
        uint32_t *larger = new_block(2 * wave->room * sizeof *larger);
        for (size_t i = 0; i < wave->count; i++) {
            larger[i] = wave->cells[(wave->first + i) & (wave->room - 1)];
        }
        free(wave->cells);
        wave->cells = larger;
        wave->room *= 2;
        wave->first = 0;
    }
    wave->cells[(wave->first + wave->count++) & (wave->room - 1)] = cell;
}

static uint32_t wave_pop(struct wave *wave)
{
    const uint32_t cell = wave->cells[wave->first];
    wave->first = (wave->first + 1) & (wave->room - 1);
    wave->count--;
    return cell;
}

/* Expands costs from a pair's first point; returns whether the second was reached. */
static bool expand(struct router *router, const struct pair *pair)
{
    struct wave *wave = &router->wave;
    int64_t *grid = router->grid;
    wave->first = wave->count = 0;
    grid[pair->from] = 0;
    grid[pair->to] = CELL_FREE;
    wave_push(wave, pair->from);
    while (wave->count > 0) {
        const uint32_t cell = wave_pop(wave);
        if (cell == pair->to) {
            return true;
        }
        uint32_t next[DIRECTIONS];
        neighbours(router->maze, cell, next);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const int64_t cost = grid[cell] + STEP_COST[direction / 2];
            const int64_t known = grid[next[direction]];
            if (known == CELL_FREE || known > cost) {
                grid[next[direction]] = cost;
                wave_push(wave, next[direction]);
            }
        }
    }
    return false;
}

static void path_append(struct router *router, uint32_t cell)
{
    if (router->path_cells == router->path_room) {
        router->path_room *= 2;
        router->path = realloc(router->path, router->path_room * sizeof *router->path);
        if (router->path == NULL) {
            die(STATUS_USAGE, "no memory for a path of %zu cells", router->path_room);
        }
    }
    router->path[router->path_cells++] = cell;
}

/* Walks back from a pair's second point to its first, always to a cheaper cell. */
static void trace_back(struct router *router, const struct pair *pair)
{
    const int64_t *grid = router->grid;
    uint32_t cell = pair->to;
    int heading = DIRECTIONS;
    router->path_cells = 0;
    path_append(router, cell);
    while (cell != pair->from) {
        uint32_t next[DIRECTIONS];
        int best = DIRECTIONS;
        int64_t best_cost = INT64_MAX;
        neighbours(router->maze, cell, next);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const int64_t cost = grid[next[direction]];
            const int64_t bend = heading != DIRECTIONS && direction != heading ? BEND_COST : 0;
            if (cost >= 0 && cost < grid[cell] && cost + bend < best_cost) {
                best = direction;
                best_cost = cost + bend;
            }
        }
        if (best == DIRECTIONS) {
            die(STATUS_WRONG, "no way back from cell %" PRIu32, cell);
        }
        heading = best;
        cell = next[best];
        path_append(router, cell);
    }
}

/* ---- The common grid ---------------------------------------------------------------------- */

static void copy_grid(struct router *router)
{
    const struct maze *maze = router->maze;
    for (uint32_t cell = 0; cell < maze->cells; cell++) {
        router->grid[cell] = __atomic_load_n(&maze->grid[cell], __ATOMIC_RELAXED);
    }
}

/* Takes the cells of the path between its end points if all are free; returns whether they were. */
static bool enter_path(struct router *router)
{
    struct maze *maze = router->maze;
    uint64_t touched = 0;
    for (size_t i = 0; i < router->path_cells; i++) {
        const uint64_t row = coordinate(maze, router->path[i], 1);
        touched |= UINT64_C(1) << (row * BANDS / maze->size[1]);
    }
    for (unsigned band = 0; band < BANDS; band++) {
        if ((touched >> band & 1) != 0) {
            spin_lock_take(&maze->bands[band].lock);
        }
    }
    bool is_free = true;
    for (size_t i = 1; is_free && i + 1 < router->path_cells; i++) {
        is_free = __atomic_load_n(&maze->grid[router->path[i]], __ATOMIC_RELAXED) == CELL_FREE;
    }
    for (size_t i = 1; is_free && i + 1 < router->path_cells; i++) {
        __atomic_store_n(&maze->grid[router->path[i]], CELL_TAKEN, __ATOMIC_RELAXED);
    }
    for (unsigned band = 0; band < BANDS; band++) {
        if ((touched >> band & 1) != 0) {
            spin_lock_release(&maze->bands[band].lock);
        }
    }
    return is_free;
}

static void route(struct router *router, struct pair *pair)
{
    do {
        copy_grid(router);
        if (!expand(router, pair)) {
            return;
        }
        trace_back(router, pair);
    } while (!enter_path(router));
    pair->path = new_block(router->path_cells * sizeof *pair->path);
    memcpy(pair->path, router->path, router->path_cells * sizeof *pair->path);
    pair->path_cells = router->path_cells;
}

static void run_router(unsigned thread, void *context)
{
    (void)thread;
    struct maze *maze = context;
    struct router router = {.maze = maze, .path_room = 256, .wave = {.room = 1024}};
    router.grid = new_block(maze->cells * sizeof *router.grid);
    router.wave.cells = new_block(router.wave.room * sizeof *router.wave.cells);
    router.path = new_block(router.path_room * sizeof *router.path);
    for (;;) {
        spin_lock_take(&maze->list_lock);
        const uint64_t index = maze->next_pair;
        maze->next_pair += index < maze->pairs_count ? 1 : 0;
        spin_lock_release(&maze->list_lock);
        if (index == maze->pairs_count) {
            break;
        }
        route(&router, &maze->pairs[index]);
    }
    free(router.grid);
    free(router.wave.cells);
    free(router.path);
}

/* ---- Set-up and check --------------------------------------------------------------------- */

static uint64_t squared_length(const struct maze *maze, const struct pair *pair)
{
    uint64_t sum = 0;
    for (int axis = 0; axis < AXES; axis++) {
        const int64_t difference = (int64_t)coordinate(maze, pair->from, axis) -
                                   (int64_t)coordinate(maze, pair->to, axis);
        sum += (uint64_t)(difference * difference);
    }
    return sum;
}

struct ordered_pair {
    struct pair pair;
    uint64_t length;
};

/* The longest first; among equals an order that does not depend on qsort. */
static int compare_pairs(const void *left, const void *right)
{
    const struct ordered_pair *a = left;
    const struct ordered_pair *b = right;
    if (a->length != b->length) {
        return a->length > b->length ? -1 : 1;
    }
    return a->pair.from < b->pair.from ? -1 : a->pair.from > b->pair.from;
}

/* A free cell at random, taken from now on. */
static uint32_t place_point(struct maze *maze, uint64_t *random)
{
    uint32_t cell;
    do {
        cell = (uint32_t)random_below(random, maze->cells);
    } while (maze->grid[cell] != CELL_FREE);
    maze->grid[cell] = CELL_TAKEN;
    return cell;
}

/* Makes the grid, and pairs whose points are all different and taken from the start. */
static void make_maze(struct maze *maze)
{
    uint64_t random = random_seeded(0);
    maze->stride[0] = 1;
    maze->stride[1] = (uint32_t)maze->size[0];
    maze->stride[2] = (uint32_t)(maze->size[0] * maze->size[1]);
    maze->cells = (uint32_t)(maze->size[0] * maze->size[1] * maze->size[2]);
    maze->grid = allocate(maze->cells, sizeof *maze->grid);
    for (uint32_t cell = 0; cell < maze->cells; cell++) {
        maze->grid[cell] = CELL_FREE;
    }
    struct ordered_pair *ordered = allocate(maze->pairs_count, sizeof *ordered);
    for (uint64_t i = 0; i < maze->pairs_count; i++) {
        const uint32_t from = place_point(maze, &random);
        const uint32_t to = place_point(maze, &random);
        ordered[i].pair = (struct pair){from, to, NULL, 0};
        ordered[i].length = squared_length(maze, &ordered[i].pair);
    }
    qsort(ordered, maze->pairs_count, sizeof *ordered, compare_pairs);
    maze->pairs = allocate(maze->pairs_count, sizeof *maze->pairs);
    for (uint64_t i = 0; i < maze->pairs_count; i++) {
        maze->pairs[i] = ordered[i].pair;
    }
    free(ordered);
}

/* Checks one path, and marks its cells, which must not be marked yet. */
static void check_path(const struct maze *maze, const struct pair *pair, bool *marked)
{
    if (pair->path[0] != pair->to || pair->path[pair->path_cells - 1] != pair->from) {
        die(STATUS_WRONG, "the path from cell %" PRIu32 " to %" PRIu32 " ends elsewhere",
            pair->from, pair->to);
    }
    for (size_t i = 0; i < pair->path_cells; i++) {
        const uint32_t cell = pair->path[i];
        if (cell >= maze->cells || maze->grid[cell] != CELL_TAKEN || marked[cell]) {
            die(STATUS_WRONG, "cell %" PRIu32 " is in two paths, or in none by the grid", cell);
        }
        marked[cell] = true;
        if (i > 0) {
            const struct pair step = {pair->path[i - 1], cell, NULL, 0};
            if (squared_length(maze, &step) != 1) {
                die(STATUS_WRONG, "the path from cell %" PRIu32 " jumps at %" PRIu32, pair->from,
                    cell);
            }
        }
    }
}

/* Whether the final grid has a way between the points of a pair, by flooding. */
static bool has_way(const struct maze *maze, const struct pair *pair)
{
    bool *seen = allocate_zeroed(maze->cells, sizeof *seen);
    uint32_t *stack = allocate(maze->cells, sizeof *stack);
    size_t depth = 0;
    stack[depth++] = pair->from;
    seen[pair->from] = true;
    while (depth > 0 && !seen[pair->to]) {
        uint32_t next[DIRECTIONS];
        neighbours(maze, stack[--depth], next);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const uint32_t cell = next[direction];
            if (!seen[cell] && (maze->grid[cell] == CELL_FREE || cell == pair->to)) {
                seen[cell] = true;
                stack[depth++] = cell;
            }
        }
    }
    const bool found = seen[pair->to];
    free(seen);
    free(stack);
    return found;
}

static void check_maze(const struct maze *maze)
{
    bool *marked = allocate_zeroed(maze->cells, sizeof *marked);
    for (uint64_t i = 0; i < maze->pairs_count; i++) {
        const struct pair *pair = &maze->pairs[i];
        if (pair->path != NULL) {
            check_path(maze, pair, marked);
            continue;
        }
        if (marked[pair->from] || marked[pair->to]) {
            die(STATUS_WRONG, "a path leads over the points %" PRIu32 " and %" PRIu32, pair->from,
                pair->to);
        }
        marked[pair->from] = marked[pair->to] = true;
        if (has_way(maze, pair)) {
            die(STATUS_WRONG, "cells %" PRIu32 " and %" PRIu32 " could be joined, but are not",
                pair->from, pair->to);
        }
    }
    for (uint32_t cell = 0; cell < maze->cells; cell++) {
        if (marked[cell] != (maze->grid[cell] == CELL_TAKEN)) {
            die(STATUS_WRONG, "cell %" PRIu32 " is taken, but in no path", cell);
        }
    }
    free(marked);
}

int main(int argc, char **argv)
{
    static struct maze maze = {
        .size = {512, 512, 7}, .pairs_count = 512, .threads = THREADS_DEFAULT};
    const struct parameter parameters[] = {
        option_whole('x', "width of the grid", 1, 1 << 12, &maze.size[0]),
        option_whole('y', "height of the grid", 1, 1 << 12, &maze.size[1]),
        option_whole('z', "layers of the grid", 1, 1 << 7, &maze.size[2]),
        option_whole('n', "pairs to join", 0, 1 << 20, &maze.pairs_count),
        option_threads('t', &maze.threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    const uint64_t cells = maze.size[0] * maze.size[1] * maze.size[2];
    if (4 * maze.pairs_count > cells) {
        die(STATUS_USAGE,
            "%" PRIu64 " pairs take more than half of %" PRIu64 " cells: a smaller -n, please",
            maze.pairs_count, cells);
    }

    make_maze(&maze);
    uint64_t digest = DIGEST_START;
    uint64_t length = 0;
    for (uint64_t i = 0; i < maze.pairs_count; i++) {
        digest_word(&digest, maze.pairs[i].from);
        digest_word(&digest, maze.pairs[i].to);
        for (int axis = 0; axis < AXES; axis++) {
            length += (uint64_t)llabs((long long)coordinate(&maze, maze.pairs[i].from, axis) -
                                      (long long)coordinate(&maze, maze.pairs[i].to, axis));
        }
    }
    ready("%" PRIu64 " pairs in %" PRIu64 " x %" PRIu64 " x %" PRIu64 " cells",
          maze.pairs_count, maze.size[0], maze.size[1], maze.size[2]);
    run_threads((unsigned)maze.threads, run_router, &maze);

    check_maze(&maze);
    return verified(digest,
                    "%" PRIu64 " pairs, %" PRIu64
                    " steps apart in all: each joined, or shown to be cut off",
                    maze.pairs_count, length);
}
