/*
 * Mesh refinement: adds points to a Delaunay triangulation until no triangle has a small angle.
 * Stands for STAMP's `yada` (Minh, Chung, Kozyrakis and Olukotun, IISWC 2008), which is Ruppert's
 * algorithm ("A Delaunay refinement algorithm for quality 2-dimensional mesh generation", 1995).
 *
 * A shared heap holds the bad triangles: those with an angle below the limit, and those with a
 * boundary edge in whose diametral circle their third corner lies ("encroached"). A thread takes
 * the worst. The new point is the middle of the encroached edge, else the centre of the triangle's
 * circumcircle, unless that would encroach on a boundary edge: then it is the middle of that edge.
 * The triangles whose circumcircle holds the new point, the cavity, are found by spreading from
 * neighbour to neighbour; they give way to a fan of triangles around the point, and the bad ones
 * of these go to the heap.
 *
 * Locks in place of STAMP's transactions: each triangle has an owner. A thread takes the
 * triangles of the cavity and those around it as it meets them, and changes nothing before it owns
 * them all; if one belongs to another thread it gives back all, waits a random while, and starts
 * over. So nothing can wait in a circle, and nothing has to be undone. The heap has one lock.
 *
 * Memory behaviour: pointers followed through small blocks that are scattered over the heap,
 * short bursts of stores to several of them, and much allocation.
 *
 * Arithmetic: points lie on a fine grid of integers, and whether a point is left of a line
 * or in a circle is computed exactly, so that the mesh is Delaunay without exceptions.
 *
 * Checked: all triangles turn the same way and tile the square to the last unit of area;
 * neighbours agree about each other; no corner lies in the circumcircle across an edge; none is
 * bad; all points of the start are there. Which mesh results depends on how threads interleave, so
 * the last line tells only of the start.
 *
 * Our assumption: STAMP reads a mesh made by Shewchuk's Triangle; `633.2` has 1,264 triangles.
 * Ours, of as many, is the Delaunay triangulation of 625 random points (-n; fixed seed) in a
 * square with 16 points on its boundary. -a is the least angle in degrees, -t the threads.
 */
#define PROGRAM "yada"
#include "parallel.h"

#include <math.h>

__extension__ typedef __int128 int128;

enum {
    CORNERS = 3,
    SIDE_SEGMENTS = 4, /* of the boundary, on each side of the square */
    NO_EDGE = -1,
    NO_OWNER = 0 /* else a thread's number plus one */
};

/* The square's side in units of the grid. A power of two small enough that the determinant of
   in_circle fits in 128 bits: differences have 26 bits, their products 53, its terms 107. */
enum { SIDE = 1 << 26 };

struct point {
    int32_t x, y;
};

/* Corners run counter-clockwise. Edge i is opposite corner i; neighbour i lies across it, NULL
   beyond the boundary. Corners never change; all else but the owner is read and written by it
   alone. */
struct triangle {
    uint32_t owner;
    bool alive;
    bool in_cavity;
    struct point corner[CORNERS];
    struct triangle *neighbour[CORNERS];
};

/* The badness of a triangle: 0 if it is good; a larger one is treated first. */
struct task {
    double badness;
    struct triangle *triangle;
};

struct triangle_list {
    struct triangle **items;
    size_t count, room;
};

struct mesh {
    uint64_t points, threads;
    double least_angle;
    double largest_squared_cosine; /* of an angle that is no smaller than that */
    struct point *start;           /* all points that were there at the start */
    size_t start_count;

    /* The heap, a binary one with the worst on top, and the number of threads at work. */
    _Alignas(CACHE_LINE_BYTES) struct spin_lock heap_lock;
    struct task *tasks;
    size_t task_count, task_room;
    uint64_t at_work;

    struct triangle_list *made; /* by thread: all triangles that it ever made */
};

struct worker {
    struct mesh *mesh;
    uint32_t name; /* as an owner */
    uint64_t random;
    struct triangle_list *made;
    struct triangle_list owned, cavity, fan;
};

static void *grown(void *items, size_t *room, size_t item_bytes)
{
    *room = *room == 0 ? 16 : 2 * *room;
    items = realloc(items, *room * item_bytes);
    if (items == NULL) {
        die(STATUS_USAGE, "no memory for %zu items of %zu bytes", *room, item_bytes);
    }
    return items;
}

static void list_append(struct triangle_list *list, struct triangle *triangle)
{
    if (list->count == list->room) {
        list->items = grown(list->items, &list->room, sizeof(struct triangle *));
    }
    list->items[list->count++] = triangle;
}

/* ---- Geometry ----------------------------------------------------------------------------- */

static bool same_point(struct point a, struct point b)
{
    return a.x == b.x && a.y == b.y;
}

/* Twice the area of the triangle: positive if it runs counter-clockwise. */
static int64_t turn(struct point a, struct point b, struct point c)
{
    return ((int64_t)b.x - a.x) * ((int64_t)c.y - a.y) -
           ((int64_t)b.y - a.y) * ((int64_t)c.x - a.x);
}

/* The scalar product of the ways from p to a and b: negative if p is in their diametral circle. */
static int64_t scalar(struct point p, struct point a, struct point b)
{
    return ((int64_t)a.x - p.x) * ((int64_t)b.x - p.x) +
           ((int64_t)a.y - p.y) * ((int64_t)b.y - p.y);
}

static int64_t squared_distance(struct point a, struct point b)
{
    return scalar(a, b, b);
}

/* Whether p lies inside, and not on, the triangle's circumcircle. */
static bool in_circle(const struct triangle *triangle, struct point p)
{
    const struct point *corner = triangle->corner;
    const int128 a = (int128)squared_distance(p, corner[0]) * turn(p, corner[1], corner[2]);
    const int128 b = (int128)squared_distance(p, corner[1]) * turn(p, corner[2], corner[0]);
    const int128 c = (int128)squared_distance(p, corner[2]) * turn(p, corner[0], corner[1]);
    return a + b + c > 0;
}

static struct point edge_start(const struct triangle *triangle, int edge)
{
    return triangle->corner[(edge + 1) % CORNERS];
}

static struct point edge_end(const struct triangle *triangle, int edge)
{
    return triangle->corner[(edge + 2) % CORNERS];
}

/* Boundary edges run along an axis, so that the middle lies on them exactly. */
static struct point edge_middle(const struct triangle *triangle, int edge)
{
    const struct point a = edge_start(triangle, edge);
    const struct point b = edge_end(triangle, edge);
    const struct point middle = {a.x + (b.x - a.x) / 2, a.y + (b.y - a.y) / 2};
    if (same_point(middle, a) || same_point(middle, b)) {
        die(STATUS_WRONG, "an edge at (%" PRId32 ", %" PRId32 ") is too short to be split", a.x,
            a.y);
    }
    return middle;
}

/* The boundary edge of a triangle that its own third corner encroaches upon, or NO_EDGE. */
static int encroached_edge(const struct triangle *triangle)
{
    for (int edge = 0; edge < CORNERS; edge++) {
        if (triangle->neighbour[edge] == NULL &&
            scalar(triangle->corner[edge], edge_start(triangle, edge),
                   edge_end(triangle, edge)) < 0) {
            return edge;
        }
    }
    return NO_EDGE;
}

/* The squared cosine of a triangle's smallest angle, which is opposite the shortest edge. */
static double squared_cosine(const struct triangle *triangle)
{
    double square[CORNERS];
    int shortest = 0;
    for (int edge = 0; edge < CORNERS; edge++) {
        square[edge] =
            (double)squared_distance(edge_start(triangle, edge), edge_end(triangle, edge));
        shortest = square[edge] < square[shortest] ? edge : shortest;
    }
    const double b = square[(shortest + 1) % CORNERS];
    const double c = square[(shortest + 2) % CORNERS];
    const double twice_scalar = b + c - square[shortest];
    return twice_scalar * twice_scalar / (4 * b * c);
}

static double badness(const struct mesh *mesh, const struct triangle *triangle)
{
    if (encroached_edge(triangle) != NO_EDGE) {
        return 2;
    }
    const double cosine = squared_cosine(triangle);
    return cosine > mesh->largest_squared_cosine ? cosine : 0;
}

/* The centre of a triangle's circumcircle, rounded to the grid; if that lies outside the square,
   the point where the way there from the triangle's middle leaves it. Both lie in the circle. */
static struct point centre(const struct triangle *triangle)
{
    const struct point *corner = triangle->corner;
    const int64_t bx = (int64_t)corner[1].x - corner[0].x;
    const int64_t by = (int64_t)corner[1].y - corner[0].y;
    const int64_t cx = (int64_t)corner[2].x - corner[0].x;
    const int64_t cy = (int64_t)corner[2].y - corner[0].y;
    const int64_t b = bx * bx + by * by;
    const int64_t c = cx * cx + cy * cy;
    const double divisor = 2.0 * (double)(bx * cy - by * cx);
    const double x = corner[0].x + (double)((int128)cy * b - (int128)by * c) / divisor;
    const double y = corner[0].y + (double)((int128)bx * c - (int128)cx * b) / divisor;
    if (x >= 0 && x <= SIDE && y >= 0 && y <= SIDE) {
        return (struct point){(int32_t)(x + 0.5), (int32_t)(y + 0.5)};
    }
    const double middle_x = ((double)corner[0].x + corner[1].x + corner[2].x) / 3;
    const double middle_y = ((double)corner[0].y + corner[1].y + corner[2].y) / 3;
    const double part_x = x < 0      ? middle_x / (middle_x - x)
                          : x > SIDE ? (SIDE - middle_x) / (x - middle_x)
                                     : 1;
    const double part_y = y < 0      ? middle_y / (middle_y - y)
                          : y > SIDE ? (SIDE - middle_y) / (y - middle_y)
                                     : 1;
    if (part_x <= part_y) {
        return (struct point){x < 0 ? 0 : SIDE,
                              (int32_t)(middle_y + part_x * (y - middle_y) + 0.5)};
    }
    return (struct point){(int32_t)(middle_x + part_y * (x - middle_x) + 0.5), y < 0 ? 0 : SIDE};
}

/* ---- The heap ----------------------------------------------------------------------------- */

/* Adds a triangle if it is bad. The caller owns it, or runs alone. */
static void heap_add(struct mesh *mesh, struct triangle *triangle)
{
    const struct task task = {badness(mesh, triangle), triangle};
    if (task.badness == 0) {
        return;
    }
    spin_lock_take(&mesh->heap_lock);
    if (mesh->task_count == mesh->task_room) {
        mesh->tasks = grown(mesh->tasks, &mesh->task_room, sizeof *mesh->tasks);
    }
    size_t at = mesh->task_count++;
    while (at > 0 && mesh->tasks[(at - 1) / 2].badness < task.badness) {
        mesh->tasks[at] = mesh->tasks[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    mesh->tasks[at] = task;
    spin_lock_release(&mesh->heap_lock);
}

/* Takes the worst triangle off the heap; the heap's lock is held. */
static struct triangle *heap_pop(struct mesh *mesh)
{
    struct triangle *worst = mesh->tasks[0].triangle;
    const struct task last = mesh->tasks[--mesh->task_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < mesh->task_count &&
            mesh->tasks[child + 1].badness > mesh->tasks[child].badness) {
            child++;
        }
        if (child >= mesh->task_count || mesh->tasks[child].badness <= last.badness) {
            break;
        }
        mesh->tasks[at] = mesh->tasks[child];
        at = child;
    }
    mesh->tasks[at] = last;
    return worst;
}

/* The next triangle to treat, or NULL when there is none and no thread is left to make one. */
static struct triangle *next_task(struct mesh *mesh)
{
    unsigned spins = 0;
    for (;;) {
        struct triangle *triangle = NULL;
        spin_lock_take(&mesh->heap_lock);
        if (mesh->task_count > 0) {
            triangle = heap_pop(mesh);
            mesh->at_work++;
        }
        const bool finished = triangle == NULL && mesh->at_work == 0;
        spin_lock_release(&mesh->heap_lock);
        if (triangle != NULL || finished) {
            return triangle;
        }
        spin_wait(&spins);
    }
}

static void task_done(struct mesh *mesh)
{
    spin_lock_take(&mesh->heap_lock);
    mesh->at_work--;
    spin_lock_release(&mesh->heap_lock);
}

/* ---- Cavities ----------------------------------------------------------------------------- */

/* Makes a triangle the worker's, unless it is another's; returns whether it is the worker's. */
static bool own(struct worker *worker, struct triangle *triangle)
{
    /* Nobody else writes this worker's name. */
    if (__atomic_load_n(&triangle->owner, __ATOMIC_RELAXED) == worker->name) {
        return true;
    }
    uint32_t owner = NO_OWNER;
    if (!__atomic_compare_exchange_n(&triangle->owner, &owner, worker->name, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return false;
    }
    list_append(&worker->owned, triangle);
    return true;
}

static void give_back(struct worker *worker)
{
    while (worker->owned.count > 0) {
        struct triangle *triangle = worker->owned.items[--worker->owned.count];
        __atomic_store_n(&triangle->owner, NO_OWNER, __ATOMIC_RELEASE);
    }
}

static void cavity_add(struct worker *worker, struct triangle *triangle)
{
    triangle->in_cavity = true;
    list_append(&worker->cavity, triangle);
}

static void cavity_clear(struct worker *worker)
{
    while (worker->cavity.count > 0) {
        worker->cavity.items[--worker->cavity.count]->in_cavity = false;
    }
}

/* Finds the cavity of a point that lies in the circumcircle of `first`, and makes it and the
   triangles around it the worker's; returns whether that went well. */
static bool cavity_grow(struct worker *worker, struct triangle *first, struct point point)
{
    cavity_clear(worker);
    if (!in_circle(first, point)) {
        die(STATUS_WRONG, "a new point (%" PRId32 ", %" PRId32 ") is not in its circle", point.x,
            point.y);
    }
    cavity_add(worker, first);
    for (size_t i = 0; i < worker->cavity.count; i++) {
        const struct triangle *triangle = worker->cavity.items[i];
        for (int edge = 0; edge < CORNERS; edge++) {
            struct triangle *neighbour = triangle->neighbour[edge];
            if (neighbour == NULL) {
                continue;
            }
            if (!own(worker, neighbour)) {
                return false;
            }
            if (!neighbour->in_cavity && in_circle(neighbour, point)) {
                cavity_add(worker, neighbour);
            }
        }
    }
    return true;
}

/* A triangle of the cavity with a boundary edge that the point encroaches upon, and the edge; NULL
   if there is none. */
static struct triangle *cavity_encroached(const struct worker *worker, struct point point,
                                          int *found)
{
    for (size_t i = 0; i < worker->cavity.count; i++) {
        struct triangle *triangle = worker->cavity.items[i];
        for (int edge = 0; edge < CORNERS; edge++) {
            const struct point a = edge_start(triangle, edge);
            const struct point b = edge_end(triangle, edge);
            if (triangle->neighbour[edge] == NULL &&
                (scalar(point, a, b) < 0 || turn(a, b, point) <= 0)) {
                *found = edge;
                return triangle;
            }
        }
    }
    return NULL;
}

/* A new triangle, which belongs to `owner`: nobody can use it before its neighbours are set. */
static struct triangle *new_triangle(struct triangle_list *made, uint32_t owner, struct point a,
                                     struct point b, struct point c)
{
    struct triangle *triangle = malloc(sizeof *triangle);
    if (triangle == NULL) {
        die(STATUS_USAGE, "no memory for a triangle");
    }
    *triangle = (struct triangle){owner, true, false, {a, b, c}, {NULL, NULL, NULL}};
    list_append(made, triangle);
    return triangle;
}

/* Replaces the cavity by a fan of triangles from its rim to the point. The boundary edge that the
   point lies on, if any, is split. The fan's triangles have the point as corner 2. */
static void cavity_fill(struct worker *worker, struct point point)
{
    worker->fan.count = 0;
    for (size_t i = 0; i < worker->cavity.count; i++) {
        struct triangle *triangle = worker->cavity.items[i];
        for (int edge = 0; edge < CORNERS; edge++) {
            struct triangle *outer = triangle->neighbour[edge];
            if (outer != NULL && outer->in_cavity) {
                continue;
            }
            const struct point a = edge_start(triangle, edge);
            const struct point b = edge_end(triangle, edge);
            const int64_t side = turn(a, b, point);
            if (side == 0 && outer == NULL && scalar(point, a, b) < 0) {
                continue;
            }
            if (side <= 0) {
                die(STATUS_WRONG, "a cavity does not see its point (%" PRId32 ", %" PRId32 ")",
                    point.x, point.y);
            }
            struct triangle *made = new_triangle(worker->made, worker->name, a, b, point);
            list_append(&worker->owned, made);
            made->neighbour[2] = outer;
            for (int back = 0; outer != NULL && back < CORNERS; back++) {
                if (outer->neighbour[back] == triangle) {
                    outer->neighbour[back] = made;
                }
            }
            list_append(&worker->fan, made);
        }
        triangle->alive = false;
    }
    /* Two of the fan are neighbours if one's rim edge ends where the other's starts. */
    for (size_t i = 0; i < worker->fan.count; i++) {
        struct triangle *before = worker->fan.items[i];
        for (size_t j = 0; j < worker->fan.count; j++) {
            struct triangle *after = worker->fan.items[j];
            if (same_point(before->corner[1], after->corner[0])) {
                before->neighbour[0] = after;
                after->neighbour[1] = before;
            }
        }
    }
    cavity_clear(worker);
}

/* ---- Refinement --------------------------------------------------------------------------- */

/* Treats a bad triangle; returns false, with nothing changed, if another thread is in the way. What
   the worker then owns is to be given back in either case. */
static bool refine(struct worker *worker, struct triangle *triangle)
{
    if (!own(worker, triangle)) {
        return false;
    }
    if (!triangle->alive) {
        return true;
    }
    struct triangle *first = triangle;
    struct point point;
    int edge = encroached_edge(triangle);
    if (edge == NO_EDGE) {
        point = centre(triangle);
        if (!cavity_grow(worker, triangle, point)) {
            return false;
        }
        first = cavity_encroached(worker, point, &edge);
    }
    if (first != NULL) {
        point = edge_middle(first, edge);
        if (!cavity_grow(worker, first, point)) {
            return false;
        }
    }
    cavity_fill(worker, point);
    for (size_t i = 0; i < worker->fan.count; i++) {
        heap_add(worker->mesh, worker->fan.items[i]);
    }
    if (triangle->alive) {
        heap_add(worker->mesh, triangle);
    }
    return true;
}

/* Waits for a random while that doubles with each attempt, up to a limit. */
static void back_off(struct worker *worker, unsigned attempts)
{
    enum { LONGEST_EXPONENT = 12 };
    const unsigned exponent = attempts < LONGEST_EXPONENT ? attempts : LONGEST_EXPONENT;
    unsigned spins = 0;
    for (uint64_t left = random_below(&worker->random, UINT64_C(1) << exponent); left > 0; left--) {
        /* Keeps the compiler from leaving out the loop. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        spin_wait(&spins);
    }
}

static void worker_end(struct worker *worker)
{
    free(worker->owned.items);
    free(worker->cavity.items);
    free(worker->fan.items);
}

static void run_worker(unsigned thread, void *context)
{
    struct mesh *mesh = context;
    struct worker worker = {.mesh = mesh,
                            .name = thread + 1,
                            .random = random_seeded(thread + 1),
                            .made = &mesh->made[thread]};
    struct triangle *triangle;
    while ((triangle = next_task(mesh)) != NULL) {
        unsigned attempts = 0;
        for (;;) {
            const bool is_done = refine(&worker, triangle);
            cavity_clear(&worker);
            give_back(&worker);
            if (is_done) {
                break;
            }
            back_off(&worker, ++attempts);
        }
        task_done(mesh);
    }
    worker_end(&worker);
}

/* ---- Set-up ------------------------------------------------------------------------------- */

/* A triangle that a point of the square lies in or on, by walking towards it. */
static struct triangle *locate(struct triangle *triangle, struct point point)
{
    for (int edge = 0; edge < CORNERS; edge++) {
        if (triangle->neighbour[edge] != NULL &&
            turn(edge_start(triangle, edge), edge_end(triangle, edge), point) < 0) {
            triangle = triangle->neighbour[edge];
            edge = -1;
        }
    }
    return triangle;
}

/* Adds a point to the mesh of the start, unless it is there already. */
static void add_start_point(struct worker *worker, struct point point)
{
    struct mesh *mesh = worker->mesh;
    struct triangle *newest = worker->made->items[worker->made->count - 1];
    struct triangle *around = locate(newest, point);
    for (int corner = 0; corner < CORNERS; corner++) {
        if (same_point(around->corner[corner], point)) {
            return;
        }
    }
    if (!own(worker, around) || !cavity_grow(worker, around, point)) {
        die(STATUS_WRONG, "a triangle is owned before the threads start");
    }
    cavity_fill(worker, point);
    give_back(worker);
    mesh->start[mesh->start_count++] = point;
}

/* Makes the Delaunay triangulation of the start, and a heap of its bad triangles. */
static void make_mesh(struct mesh *mesh)
{
    const struct point corners[] = {{0, 0}, {SIDE, 0}, {SIDE, SIDE}, {0, SIDE}};
    struct worker worker = {.mesh = mesh, .name = 1, .made = &mesh->made[0]};
    uint64_t random = random_seeded(0);
    mesh->start = allocate(mesh->points + 4 * SIDE_SEGMENTS, sizeof *mesh->start);
    memcpy(mesh->start, corners, sizeof corners);
    mesh->start_count = 4;
    struct triangle *below =
        new_triangle(worker.made, NO_OWNER, corners[0], corners[1], corners[2]);
    struct triangle *above =
        new_triangle(worker.made, NO_OWNER, corners[0], corners[2], corners[3]);
    below->neighbour[1] = above;
    above->neighbour[2] = below;
    for (int32_t i = 1; i < SIDE_SEGMENTS; i++) {
        const int32_t at = SIDE / SIDE_SEGMENTS * i;
        add_start_point(&worker, (struct point){at, 0});
        add_start_point(&worker, (struct point){SIDE, at});
        add_start_point(&worker, (struct point){at, SIDE});
        add_start_point(&worker, (struct point){0, at});
    }
    while (mesh->start_count < mesh->points + 4 * SIDE_SEGMENTS) {
        const int32_t x = (int32_t)random_below(&random, SIDE - 1) + 1;
        const int32_t y = (int32_t)random_below(&random, SIDE - 1) + 1;
        add_start_point(&worker, (struct point){x, y});
    }
    for (size_t i = 0; i < worker.made->count; i++) {
        if (worker.made->items[i]->alive) {
            heap_add(mesh, worker.made->items[i]);
        }
    }
    worker_end(&worker);
}

static size_t count_alive(const struct mesh *mesh)
{
    size_t count = 0;
    for (uint64_t thread = 0; thread < mesh->threads; thread++) {
        for (size_t i = 0; i < mesh->made[thread].count; i++) {
            count += mesh->made[thread].items[i]->alive ? 1 : 0;
        }
    }
    return count;
}

/* ---- Check -------------------------------------------------------------------------------- */

static int compare_points(const void *left, const void *right)
{
    const struct point *a = left;
    const struct point *b = right;
    if (a->x != b->x) {
        return a->x < b->x ? -1 : 1;
    }
    return a->y < b->y ? -1 : a->y > b->y;
}

/* Whether an edge lies on a side of the square, which is to its left. */
static bool on_boundary(struct point a, struct point b)
{
    return (a.y == 0 && b.y == 0 && a.x < b.x) || (a.x == SIDE && b.x == SIDE && a.y < b.y) ||
           (a.y == SIDE && b.y == SIDE && a.x > b.x) || (a.x == 0 && b.x == 0 && a.y > b.y);
}

/* Checks one triangle and its three edges. */
static void check_triangle(const struct mesh *mesh, const struct triangle *triangle)
{
    const struct point *corner = triangle->corner;
    if (turn(corner[0], corner[1], corner[2]) <= 0) {
        die(STATUS_WRONG, "a triangle at (%" PRId32 ", %" PRId32 ") is turned over", corner[0].x,
            corner[0].y);
    }
    if (badness(mesh, triangle) != 0) {
        die(STATUS_WRONG, "a triangle at (%" PRId32 ", %" PRId32 ") is still bad", corner[0].x,
            corner[0].y);
    }
    for (int edge = 0; edge < CORNERS; edge++) {
        const struct point a = edge_start(triangle, edge);
        const struct point b = edge_end(triangle, edge);
        const struct triangle *neighbour = triangle->neighbour[edge];
        if (neighbour == NULL) {
            if (!on_boundary(a, b)) {
                die(STATUS_WRONG, "an edge at (%" PRId32 ", %" PRId32 ") has one side", a.x, a.y);
            }
            continue;
        }
        int back = 0;
        while (back < CORNERS && neighbour->neighbour[back] != triangle) {
            back++;
        }
        if (!neighbour->alive || back == CORNERS || !same_point(edge_start(neighbour, back), b) ||
            !same_point(edge_end(neighbour, back), a)) {
            die(STATUS_WRONG, "neighbours at (%" PRId32 ", %" PRId32 ") do not fit", a.x, a.y);
        }
        if (in_circle(triangle, neighbour->corner[back])) {
            die(STATUS_WRONG, "the edge at (%" PRId32 ", %" PRId32 ") is not Delaunay", a.x, a.y);
        }
    }
}

/* Checks the whole mesh. */
static void check_mesh(const struct mesh *mesh)
{
    const size_t triangles = count_alive(mesh);
    struct point *points = allocate(CORNERS * triangles, sizeof *points);
    size_t corners = 0;
    size_t boundary_edges = 0;
    int64_t twice_area = 0;
    for (uint64_t thread = 0; thread < mesh->threads; thread++) {
        for (size_t i = 0; i < mesh->made[thread].count; i++) {
            const struct triangle *triangle = mesh->made[thread].items[i];
            if (!triangle->alive) {
                continue;
            }
            check_triangle(mesh, triangle);
            twice_area += turn(triangle->corner[0], triangle->corner[1], triangle->corner[2]);
            for (int corner = 0; corner < CORNERS; corner++) {
                points[corners++] = triangle->corner[corner];
                boundary_edges += triangle->neighbour[corner] == NULL ? 1 : 0;
            }
        }
    }
    if (twice_area != 2 * (int64_t)SIDE * SIDE) {
        die(STATUS_WRONG, "the triangles' area is not the square's");
    }
    qsort(points, corners, sizeof *points, compare_points);
    size_t distinct = 0;
    for (size_t i = 0; i < corners; i++) {
        if (i == 0 || !same_point(points[i], points[i - 1])) {
            points[distinct++] = points[i];
        }
    }
    /* Euler's formula for a disk in one piece. */
    if (triangles + boundary_edges + 2 != 2 * distinct) {
        die(STATUS_WRONG, "%zu triangles, %zu boundary edges and %zu points are not one mesh",
            triangles, boundary_edges, distinct);
    }
    for (size_t i = 0; i < mesh->start_count; i++) {
        if (bsearch(&mesh->start[i], points, distinct, sizeof *points, compare_points) == NULL) {
            die(STATUS_WRONG, "point (%" PRId32 ", %" PRId32 ") of the start is missing",
                mesh->start[i].x, mesh->start[i].y);
        }
    }
    free(points);
}

int main(int argc, char **argv)
{
    static struct mesh mesh = {
        .points = 625, .threads = THREADS_DEFAULT, .least_angle = 20};
    const struct parameter parameters[] = {
        /* Ruppert proves that the algorithm ends up to 20.7 degrees; it does well beyond. */
        option_real('a', "least angle in degrees", 0, 28, &mesh.least_angle),
        option_whole('n', "points inside the square at the start", 0, 1 << 20, &mesh.points),
        option_threads('t', &mesh.threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    const double cosine = cos(mesh.least_angle * (acos(-1) / 180));
    mesh.largest_squared_cosine = cosine * cosine;

    mesh.made = allocate_zeroed(mesh.threads, sizeof *mesh.made);
    make_mesh(&mesh);
    const size_t triangles = count_alive(&mesh);
    uint64_t digest = DIGEST_START;
    for (size_t i = 0; i < mesh.start_count; i++) {
        digest_word(&digest, (uint64_t)mesh.start[i].x << 32 | (uint64_t)mesh.start[i].y);
    }
    ready("%zu triangles of %zu points, %zu of them bad", triangles, mesh.start_count,
          mesh.task_count);
    run_threads((unsigned)mesh.threads, run_worker, &mesh);

    check_mesh(&mesh);
    for (uint64_t thread = 0; thread < mesh.threads; thread++) {
        for (size_t i = 0; i < mesh.made[thread].count; i++) {
            free(mesh.made[thread].items[i]);
        }
        free(mesh.made[thread].items);
    }
    return verified(digest,
                    "%zu triangles of %zu points refined: no angle below %g degrees, Delaunay, "
                    "area conserved",
                    triangles, mesh.start_count, mesh.least_angle);
}
