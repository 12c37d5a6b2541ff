/*
 * path-search SIDE QUERIES: shortest paths on a large weighted map, by A*.
 *
 * Computes: a square map of SIDE x SIDE cells of rough terrain with walls is also divided into
 * regions of some dozens of cells, each with its neighbours. Queries ask for the cheapest way
 * between two places, in turn cell by cell (eight directions) and region by region.
 *
 * Algorithm: A* with a consistent estimate: P. E. Hart, N. J. Nilsson, B. Raphael, "A formal basis
 * for the heuristic determination of minimum cost paths", IEEE Trans. Systems Science and
 * Cybernetics 4 (1968); the open list is a binary heap that may hold outdated entries. Regions
 * grow from one seed in each block of 8 x 8 cells.
 *
 * Memory behaviour that it stands for (astar): the search front touches 16-byte cell records in
 * neighbouring rows all over the map, and writes most of those that it touches; the heap is hot
 * and small; the region graph is chased through lists of neighbours. Dependent, branchy, and with
 * little reuse of a line: many lines are written with few bytes changed in each.
 *
 * Check: every path is walked again and must cost what the search said; a sample of the queries is
 * solved again by Dijkstra's algorithm, without estimate, and must cost the same, and the costs
 * that it leaves must prove themselves: no step leads to a place more cheaply than the place's
 * cost.
 */
#define KERNEL "path-search"
#include "kernel.h"

enum {
    TERRAIN_MAX = 4,      /* the dearest passable terrain; the cheapest is 1 */
    WALL = 0,             /* terrain that is not passable */
    STRAIGHT = 10,        /* a step's cost for terrain 1 */
    DIAGONAL = 14,        /* the same over a corner */
    REGION_SIDE = 8,      /* of the block that a region's seed lies in */
    NEIGHBOURS_MAX = 24,  /* of a region */
    QUERIES_CHECKED = 12, /* by Dijkstra's algorithm */
};

#define NOWHERE UINT32_MAX

/* What a search knows about a place; a number of another query makes it void. */
struct place {
    uint32_t cost;
    uint32_t from;
    uint32_t query; /* twice the query's number, and one more when the place is closed */
};

struct cell {
    struct place place;
    uint16_t terrain;
    uint16_t unused;
};

struct region {
    struct place place;
    int32_t x, y; /* of the seed */
    uint32_t terrain_sum;
    uint32_t cells;
    uint32_t neighbours_count;
    uint32_t neighbours[NEIGHBOURS_MAX];
};

struct open_entry {
    uint32_t estimate; /* of the whole path through the place */
    uint32_t place;
};

struct map {
    uint32_t side;
    struct cell *cells;
    uint32_t *region_of; /* of each cell; NOWHERE for walls and for cells out of reach */
    uint32_t regions_count;
    struct region *regions;
    struct open_entry *heap;
    size_t heap_count, heap_capacity;
    uint32_t query;
    uint64_t expanded;
};

/* ---- The open list ------------------------------------------------------------------------ */

static bool before(struct open_entry a, struct open_entry b)
{
    return a.estimate != b.estimate ? a.estimate < b.estimate : a.place < b.place;
}

static void heap_push(struct map *map, struct open_entry entry)
{
    if (map->heap_count == map->heap_capacity) {
        map->heap_capacity *= 2;
        map->heap = realloc(map->heap, map->heap_capacity * sizeof *map->heap);
        if (map->heap == NULL) {
            fprintf(stderr, KERNEL ": no memory for the open list\n");
            exit(2);
        }
    }
    size_t at = map->heap_count++;
    while (at > 0) {
        const size_t parent = (at - 1) / 2;
        if (!before(entry, map->heap[parent])) {
            break;
        }
        map->heap[at] = map->heap[parent];
        at = parent;
    }
    map->heap[at] = entry;
}

static struct open_entry heap_pop(struct map *map)
{
    const struct open_entry first = map->heap[0];
    const struct open_entry entry = map->heap[--map->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= map->heap_count) {
            break;
        }
        if (child + 1 < map->heap_count && before(map->heap[child + 1], map->heap[child])) {
            child++;
        }
        if (!before(map->heap[child], entry)) {
            break;
        }
        map->heap[at] = map->heap[child];
        at = child;
    }
    map->heap[at] = entry;
    return first;
}

/* ---- The map ------------------------------------------------------------------------------ */

/* Hills from two levels of coarse random heights, and short walls. */
static void make_terrain(struct map *map)
{
    uint64_t random = random_seeded(1);
    const uint32_t side = map->side;
    const uint32_t coarse = side / 16 + 2;
    uint8_t *heights = allocate((size_t)coarse * coarse, 1);
    for (size_t i = 0; i < (size_t)coarse * coarse; i++) {
        heights[i] = (uint8_t)random_below(&random, 256);
    }
    for (uint32_t y = 0; y < side; y++) {
        for (uint32_t x = 0; x < side; x++) {
            const uint8_t *height = &heights[y / 16 * coarse + x / 16];
            const uint32_t right = x % 16;
            const uint32_t down = y % 16;
            const uint32_t sum =
                (height[0] * (16 - right) + height[1] * right) * (16 - down) +
                (height[coarse] * (16 - right) + height[coarse + 1] * right) * down;
            map->cells[(size_t)y * side + x] = (struct cell){
                .place = {.query = 0},
                .terrain = (uint16_t)(1 + sum * TERRAIN_MAX / (256 * 256)),
            };
        }
    }
    for (uint32_t i = 0; i < side * side / 400; i++) {
        uint64_t at = random_below(&random, (uint64_t)side * side);
        const uint64_t step = random_below(&random, 2) ? 1 : side;
        for (uint32_t length = 0; length < 24 && at < (uint64_t)side * side; length++) {
            map->cells[at].terrain = WALL;
            at += step;
        }
    }
    /* The border is a wall, so that no search has to look where it is. */
    for (uint32_t i = 0; i < side; i++) {
        map->cells[i].terrain = WALL;
        map->cells[(size_t)(side - 1) * side + i].terrain = WALL;
        map->cells[(size_t)i * side].terrain = WALL;
        map->cells[(size_t)i * side + side - 1].terrain = WALL;
    }
    free(heights);
}

static void add_neighbour(struct map *map, uint32_t from, uint32_t to)
{
    struct region *region = &map->regions[from];
    for (uint32_t i = 0; i < region->neighbours_count; i++) {
        if (region->neighbours[i] == to) {
            return;
        }
    }
    if (region->neighbours_count < NEIGHBOURS_MAX) {
        region->neighbours[region->neighbours_count++] = to;
    }
}

/* All regions grow at once, ring by ring, until they meet. */
static void make_regions(struct map *map)
{
    const uint32_t side = map->side;
    const size_t cells = (size_t)side * side;
    const uint32_t blocks = side / REGION_SIDE;
    map->region_of = allocate(cells, sizeof *map->region_of);
    map->regions = allocate((size_t)blocks * blocks, sizeof *map->regions);
    map->regions_count = 0;
    memset(map->region_of, 0xff, cells * sizeof *map->region_of);
    uint32_t *queue = allocate(cells, sizeof *queue);
    size_t queued = 0;
    uint64_t random = random_seeded(2);
    for (uint32_t block = 0; block < blocks * blocks; block++) {
        const uint32_t x =
            block % blocks * REGION_SIDE + (uint32_t)random_below(&random, REGION_SIDE);
        const uint32_t y =
            block / blocks * REGION_SIDE + (uint32_t)random_below(&random, REGION_SIDE);
        const uint32_t at = y * side + x;
        if (map->cells[at].terrain == WALL) {
            continue;
        }
        map->regions[map->regions_count] =
            (struct region){.place = {.query = 0}, .x = (int32_t)x, .y = (int32_t)y};
        map->region_of[at] = map->regions_count++;
        queue[queued++] = at;
    }
    const int64_t steps[4] = {1, -1, side, -(int64_t)side};
    for (size_t head = 0; head < queued; head++) {
        const uint32_t at = queue[head];
        const uint32_t own = map->region_of[at];
        map->regions[own].cells++;
        map->regions[own].terrain_sum += map->cells[at].terrain;
        for (int i = 0; i < 4; i++) {
            const uint32_t next = (uint32_t)(at + steps[i]);
            if (map->cells[next].terrain == WALL) {
                continue;
            }
            const uint32_t other = map->region_of[next];
            if (other == NOWHERE) {
                map->region_of[next] = own;
                queue[queued++] = next;
            } else if (other != own) {
                add_neighbour(map, own, other);
                add_neighbour(map, other, own);
            }
        }
    }
    free(queue);
}

/* ---- What a search asks of the two graphs ------------------------------------------------- */

static uint32_t octile(int64_t dx, int64_t dy)
{
    const uint32_t x = (uint32_t)(dx < 0 ? -dx : dx);
    const uint32_t y = (uint32_t)(dy < 0 ? -dy : dy);
    return x > y ? STRAIGHT * x + (DIAGONAL - STRAIGHT) * y
                 : STRAIGHT * y + (DIAGONAL - STRAIGHT) * x;
}

static uint32_t cell_distance(const struct map *map, uint32_t a, uint32_t b)
{
    return octile((int64_t)(a % map->side) - b % map->side,
                  (int64_t)(a / map->side) - b / map->side);
}

static uint32_t region_distance(const struct map *map, uint32_t a, uint32_t b)
{
    return octile(map->regions[a].x - map->regions[b].x, map->regions[a].y - map->regions[b].y);
}

/* The way between the seeds of neighbouring regions: its length times the mean terrain of both, so
   never less than the distance. */
static uint32_t region_step(const struct map *map, uint32_t a, uint32_t b)
{
    const struct region *one = &map->regions[a];
    const struct region *two = &map->regions[b];
    const uint64_t terrain = (uint64_t)one->terrain_sum + two->terrain_sum;
    const uint64_t cells = (uint64_t)one->cells + two->cells;
    return (uint32_t)(region_distance(map, a, b) * terrain / cells);
}

/* ---- The searches ------------------------------------------------------------------------- */

/* Takes the better way into the place; `estimate` is that of the rest of the path from there. */
static void relax(struct map *map, struct place *place, uint32_t at, uint32_t from, uint32_t cost,
                  uint32_t estimate)
{
    if (place->query / 2 == map->query && place->cost <= cost) {
        return;
    }
    *place = (struct place){.cost = cost, .from = from, .query = 2 * map->query};
    heap_push(map, (struct open_entry){.estimate = cost + estimate, .place = at});
}

/* Closes the place; false if it was closed before, by a better entry. */
static bool close(struct map *map, struct place *place)
{
    if (place->query == 2 * map->query + 1) {
        return false;
    }
    place->query = 2 * map->query + 1;
    map->expanded++;
    return true;
}

/* The cost of the cheapest way by cells; NOWHERE if there is none. Without `guided` the estimate is
   zero, which makes it Dijkstra's algorithm. */
static uint32_t search_cells(struct map *map, uint32_t start, uint32_t goal, bool guided)
{
    const int64_t side = map->side;
    const int64_t steps[8] = {1, -1, side, -side, side + 1, side - 1, -side + 1, -side - 1};
    map->query++;
    map->heap_count = 0;
    relax(map, &map->cells[start].place, start, start, 0, 0);
    while (map->heap_count > 0) {
        const uint32_t at = heap_pop(map).place;
        struct cell *cell = &map->cells[at];
        if (!close(map, &cell->place)) {
            continue;
        }
        if (at == goal) {
            return cell->place.cost;
        }
        for (int i = 0; i < 8; i++) {
            const uint32_t next = (uint32_t)(at + steps[i]);
            struct cell *neighbour = &map->cells[next];
            if (neighbour->terrain == WALL) {
                continue;
            }
            const uint32_t cost =
                cell->place.cost + neighbour->terrain * (uint32_t)(i < 4 ? STRAIGHT : DIAGONAL);
            relax(map, &neighbour->place, next, at, cost,
                  guided ? cell_distance(map, next, goal) : 0);
        }
    }
    return NOWHERE;
}

/* The same by regions. */
static uint32_t search_regions(struct map *map, uint32_t start, uint32_t goal, bool guided)
{
    map->query++;
    map->heap_count = 0;
    relax(map, &map->regions[start].place, start, start, 0, 0);
    while (map->heap_count > 0) {
        const uint32_t at = heap_pop(map).place;
        struct region *region = &map->regions[at];
        if (!close(map, &region->place)) {
            continue;
        }
        if (at == goal) {
            return region->place.cost;
        }
        for (uint32_t i = 0; i < region->neighbours_count; i++) {
            const uint32_t next = region->neighbours[i];
            relax(map, &map->regions[next].place, next, at,
                  region->place.cost + region_step(map, at, next),
                  guided ? region_distance(map, next, goal) : 0);
        }
    }
    return NOWHERE;
}

/* ---- Walking the found paths again -------------------------------------------------------- */

static uint32_t walk_cells(const struct map *map, uint32_t start, uint32_t goal)
{
    uint32_t cost = 0;
    for (uint32_t at = goal; at != start; at = map->cells[at].place.from) {
        const uint32_t from = map->cells[at].place.from;
        const uint32_t distance = cell_distance(map, at, from);
        if (distance != STRAIGHT && distance != DIAGONAL) {
            wrong("a path leaps from cell %" PRIu32 " to %" PRIu32, from, at);
        }
        cost += map->cells[at].terrain * distance;
    }
    return cost;
}

static uint32_t walk_regions(const struct map *map, uint32_t start, uint32_t goal)
{
    uint32_t cost = 0;
    for (uint32_t at = goal; at != start; at = map->regions[at].place.from) {
        cost += region_step(map, map->regions[at].place.from, at);
    }
    return cost;
}

/* ---- Proving the costs -------------------------------------------------------------------- */

/* After a search without estimate for a goal at this distance: the place's cost, at most the
   distance, as what is beyond the goal is not known. */
static uint32_t proven_cost(const struct map *map, const struct place *place, uint32_t distance)
{
    return place->query / 2 == map->query && place->cost < distance ? place->cost : distance;
}

static bool is_closed(const struct map *map, const struct place *place)
{
    return place->query == 2 * map->query + 1;
}

/* A step from a closed place must not undercut the cost of where it leads. */
static void check_step(const struct map *map, const struct place *from, const struct place *to,
                       uint32_t step, uint32_t distance)
{
    if (proven_cost(map, to, distance) > from->cost + step) {
        wrong("a place costs %" PRIu32 ", but can be reached for %" PRIu32, to->cost,
              from->cost + step);
    }
}

static void check_cell_costs(const struct map *map, uint32_t distance)
{
    const int64_t side = map->side;
    const int64_t steps[8] = {1, -1, side, -side, side + 1, side - 1, -side + 1, -side - 1};
    for (size_t at = 0; at < (size_t)map->side * map->side; at++) {
        const struct cell *cell = &map->cells[at];
        for (int i = 0; i < 8 && is_closed(map, &cell->place); i++) {
            const struct cell *next = &map->cells[(int64_t)at + steps[i]];
            if (next->terrain != WALL) {
                check_step(map, &cell->place, &next->place,
                           next->terrain * (uint32_t)(i < 4 ? STRAIGHT : DIAGONAL), distance);
            }
        }
    }
}

static void check_region_costs(const struct map *map, uint32_t distance)
{
    for (uint32_t at = 0; at < map->regions_count; at++) {
        const struct region *region = &map->regions[at];
        for (uint32_t i = 0; i < region->neighbours_count && is_closed(map, &region->place); i++) {
            const uint32_t next = region->neighbours[i];
            check_step(map, &region->place, &map->regions[next].place, region_step(map, at, next),
                       distance);
        }
    }
}

/* ---- The queries -------------------------------------------------------------------------- */

/* A cell that belongs to a region, near the place. */
static uint32_t passable_near(const struct map *map, uint32_t x, uint32_t y)
{
    uint32_t at = y * map->side + x;
    while (map->region_of[at] == NOWHERE) {
        at = at + 1 < map->side * map->side ? at + 1 : 0;
    }
    return at;
}

struct query {
    uint32_t start, goal;
    uint32_t cost;
};

/* Start and goal lie a sixteenth to an eighth of the side apart in each direction. */
static struct query make_query(const struct map *map, uint64_t *random)
{
    const uint32_t side = map->side;
    uint32_t place[2][2];
    for (int axis = 0; axis < 2; axis++) {
        const uint32_t apart = side / 16 + (uint32_t)random_below(random, side / 16);
        const uint32_t low = 1 + (uint32_t)random_below(random, side - 2 - apart);
        const bool turned = random_below(random, 2) == 1;
        place[0][axis] = turned ? low + apart : low;
        place[1][axis] = turned ? low : low + apart;
    }
    return (struct query){.start = passable_near(map, place[0][0], place[0][1]),
                          .goal = passable_near(map, place[1][0], place[1][1])};
}

static uint32_t search(struct map *map, const struct query *query, bool by_cells, bool guided)
{
    return by_cells ? search_cells(map, query->start, query->goal, guided)
                    : search_regions(map, map->region_of[query->start], map->region_of[query->goal],
                                     guided);
}

/* Solves the query and walks its path. */
static void solve(struct map *map, struct query *query, bool by_cells)
{
    query->cost = search(map, query, by_cells, true);
    if (query->cost == NOWHERE) {
        return;
    }
    const uint32_t walked =
        by_cells ? walk_cells(map, query->start, query->goal)
                 : walk_regions(map, map->region_of[query->start], map->region_of[query->goal]);
    if (walked != query->cost) {
        wrong("a path costs %" PRIu32 ", but the search said %" PRIu32, walked, query->cost);
    }
}

int main(int argc, char **argv)
{
    struct map map = {.query = 0};
    map.side = (uint32_t)argument(argc, argv, 1, "side of the map", 32, 16384);
    const uint64_t queries = argument(argc, argv, 2, "queries", 1, 100000);
    arguments_end(argc, 2);
    map.cells = allocate((size_t)map.side * map.side, sizeof *map.cells);
    map.heap_capacity = 1024;
    map.heap = allocate(map.heap_capacity, sizeof *map.heap);
    make_terrain(&map);
    make_regions(&map);
    steady("%" PRIu32 " x %" PRIu32 " cells, %" PRIu32 " regions, %" PRIu64 " queries", map.side,
           map.side, map.regions_count, queries);

    /* One query in four goes by cells: those by regions are much shorter. */
    struct query *asked = allocate(queries, sizeof *asked);
    uint64_t random = random_seeded(3);
    uint64_t digest = 0;
    uint64_t found = 0;
    for (uint64_t i = 0; i < queries; i++) {
        asked[i] = make_query(&map, &random);
        solve(&map, &asked[i], i % 4 == 0);
        found += asked[i].cost != NOWHERE;
        digest_word(&digest, asked[i].cost);
    }
    const uint64_t expanded = map.expanded;
    digest_word(&digest, expanded);

    for (uint64_t i = 0; i < queries && i < QUERIES_CHECKED; i++) {
        const uint32_t cost = search(&map, &asked[i], i % 4 == 0, false);
        if (cost != asked[i].cost) {
            wrong("query %" PRIu64 " costs %" PRIu32 ", but Dijkstra's algorithm finds %" PRIu32, i,
                  asked[i].cost, cost);
        }
        if (i % 4 == 0) {
            check_cell_costs(&map, cost);
        } else {
            check_region_costs(&map, cost);
        }
    }
    if (found * 2 < queries) {
        wrong("only %" PRIu64 " of %" PRIu64 " goals can be reached", found, queries);
    }
    return verified(digest, "%" PRIu64 " of %" PRIu64 " goals reached, %" PRIu64 " places expanded",
                    found, queries, expanded);
}
