/*
 * kmeans [-m CLUSTERS] [-n CLUSTERS] [-t THRESHOLD] [-p THREADS] [-N POINTS] [-D DIMENSIONS]
 *        [-C CENTRES]
 *
 * Computes: a partition of points into clusters round their means, once for each number of clusters
 * from -n to -m. The points lie about -C random centres, as those of STAMP's input
 * "random-n65536-d32-c16" do, and each dimension is scaled to mean 0 and deviation 1.
 *
 * Algorithm: that of STAMP's kmeans (Minh et al., IISWC 2008): Lloyd's iteration from points chosen
 * at random. Threads take three points at a time; a point is assigned to the nearest centre and
 * added to that cluster's sum in a critical section. A round in which at most THRESHOLD of the
 * points change their cluster is the last, and so is round 500. As there, the points are scaled by
 * one thread, one dimension after the other, when all threads have started: the stores of a
 * dimension go to every second line of all points, far more than a second-level cache holds.
 *
 * Locks: one spin lock for each cluster's sum. The next points are taken with an atomic addition.
 *
 * Always true: coordinates are whole multiples of 1/4096 in a float, and the sums are integers, so
 * they do not depend on the order of additions. With them the centres, the assignments and the
 * number of rounds are the same for every interleaving.
 *
 * Check: each round adds every point once and does not increase the sum of squared distances; at
 * the end, sums and counts are those of the assignment, and no point has a nearer centre than its
 * own, by distances computed again in double precision.
 */
#define PROGRAM "kmeans"
#include "parallel.h"

#include <math.h>

/* A contracted multiply-add rounds once instead of twice: another result. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum {
    POINTS_AT_A_TIME = 3,
    ROUNDS_MAX = 500,
    CLUSTERS_MAX = 4096,
    DIMENSIONS_MAX = 1024,
    STEPS_PER_UNIT = 4096, /* of a coordinate */
    COORDINATE_MAX = 7,    /* deviations from the mean; what lies farther out is moved here */
};

static const double DISTANCE_STEPS = 1 << 20; /* a unit of squared distance, in the sum of them */
static const float NOISE = 0.1F;              /* of a point about its centre, in its cube's edges */
static const double ROUNDING = 1e-4;          /* relative, and generous: of sums of floats */

/* The sum of a cluster's points, in steps, on cache lines of its own; `sum` has an item for each
   dimension. */
struct cluster_sum {
    struct spin_lock lock;
    uint64_t count;
    int64_t sum[];
};

struct problem {
    uint64_t points, dimensions, threads, clusters;
    double threshold;
    double *raw;          /* the points before they are scaled */
    float *coordinates;   /* of point p from p * dimensions on */
    uint32_t *membership; /* the cluster of a point; `clusters` before the first round */
    float *centres;
    unsigned char *sums; /* cluster_sum number c at c * sum_bytes */
    size_t sum_bytes;

    pthread_barrier_t barrier;
    uint64_t next_point;    /* the first that no thread has taken in this round */
    uint64_t changed;       /* points that went to another cluster in this round */
    int64_t distance;       /* sum of squared distances to nearest centres, in this round */
    int64_t least_distance; /* the same in the round before */
    uint64_t rounds;
    bool is_last;
};

static struct cluster_sum *cluster_sum(const struct problem *problem, uint64_t cluster)
{
    return (struct cluster_sum *)(void *)(problem->sums + cluster * problem->sum_bytes);
}

/* ---- Points ------------------------------------------------------------------------------- */

/* Scales dimension `dimension` to mean 0 and deviation 1, on the grid of coordinates. */
static void normalise(struct problem *problem, uint64_t dimension)
{
    const double *raw = problem->raw;
    const double points = (double)problem->points;
    double sum = 0;
    double squares = 0;
    for (uint64_t p = 0; p < problem->points; p++) {
        sum += raw[p * problem->dimensions + dimension];
    }
    const double mean = sum / points;
    for (uint64_t p = 0; p < problem->points; p++) {
        const double offset = raw[p * problem->dimensions + dimension] - mean;
        squares += offset * offset;
    }
    const double deviation = sqrt(squares / points);
    for (uint64_t p = 0; p < problem->points; p++) {
        const uint64_t at = p * problem->dimensions + dimension;
        double scaled = deviation > 0 ? (raw[at] - mean) / deviation : 0;
        if (scaled > COORDINATE_MAX) {
            scaled = COORDINATE_MAX;
        } else if (scaled < -COORDINATE_MAX) {
            scaled = -COORDINATE_MAX;
        }
        const int64_t steps = (int64_t)(scaled * STEPS_PER_UNIT);
        problem->coordinates[at] = (float)steps / STEPS_PER_UNIT;
    }
}

/* Points about `centre_count` random centres in the unit cube. */
static void make_points(struct problem *problem, uint64_t centre_count)
{
    const uint64_t dimensions = problem->dimensions;
    double *centres = allocate(centre_count * dimensions, sizeof *centres);
    uint64_t random = random_seeded(1);
    for (uint64_t i = 0; i < centre_count * dimensions; i++) {
        centres[i] = random_unit(&random);
    }
    for (uint64_t p = 0; p < problem->points; p++) {
        const double *centre = centres + random_below(&random, centre_count) * dimensions;
        for (uint64_t d = 0; d < dimensions; d++) {
            /* Six uniform numbers: nearly normal, of deviation the square root of a half. */
            double noise = -3;
            for (int i = 0; i < 6; i++) {
                noise += random_unit(&random);
            }
            problem->raw[p * dimensions + d] = centre[d] + NOISE * noise;
        }
    }
    free(centres);
}

/* ---- Rounds ------------------------------------------------------------------------------- */

static float squared_distance(const float *a, const float *b, uint64_t dimensions)
{
    float sum = 0;
    for (uint64_t d = 0; d < dimensions; d++) {
        const float difference = a[d] - b[d];
        sum += difference * difference;
    }
    return sum;
}

/* The nearest centre, the first if several are equally near; its distance in `*distance`. */
static uint32_t nearest_centre(const struct problem *problem, const float *point, float *distance)
{
    const uint64_t dimensions = problem->dimensions;
    uint32_t nearest = 0;
    float least = squared_distance(point, problem->centres, dimensions);
    for (uint32_t c = 1; c < problem->clusters; c++) {
        const float candidate =
            squared_distance(point, problem->centres + c * dimensions, dimensions);
        if (candidate < least) {
            least = candidate;
            nearest = c;
        }
    }
    *distance = least;
    return nearest;
}

static void add_to_cluster(const struct problem *problem, uint32_t cluster, const float *point)
{
    struct cluster_sum *sum = cluster_sum(problem, cluster);
    spin_lock_take(&sum->lock);
    sum->count++;
    for (uint64_t d = 0; d < problem->dimensions; d++) {
        sum->sum[d] += (int64_t)(point[d] * STEPS_PER_UNIT);
    }
    spin_lock_release(&sum->lock);
}

/* A thread's part of a round. */
static void assign_points(struct problem *problem)
{
    uint64_t changed = 0;
    int64_t distance_sum = 0;
    for (;;) {
        const uint64_t first =
            __atomic_fetch_add(&problem->next_point, POINTS_AT_A_TIME, __ATOMIC_RELAXED);
        if (first >= problem->points) {
            break;
        }
        for (uint64_t p = first; p < first + POINTS_AT_A_TIME && p < problem->points; p++) {
            const float *point = problem->coordinates + p * problem->dimensions;
            float distance;
            const uint32_t cluster = nearest_centre(problem, point, &distance);
            changed += cluster != problem->membership[p];
            distance_sum += (int64_t)(distance * DISTANCE_STEPS);
            problem->membership[p] = cluster;
            add_to_cluster(problem, cluster, point);
        }
    }
    __atomic_fetch_add(&problem->changed, changed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&problem->distance, distance_sum, __ATOMIC_RELAXED);
}

/* What one thread does between rounds: judges the round, and, unless it is the last, moves the
   centres to the means and empties the sums. */
static void end_round(struct problem *problem)
{
    uint64_t count = 0;
    for (uint64_t c = 0; c < problem->clusters; c++) {
        count += cluster_sum(problem, c)->count;
    }
    if (count != problem->points) {
        die(STATUS_WRONG, "round %" PRIu64 " added %" PRIu64 " points, not %" PRIu64,
            problem->rounds, count, problem->points);
    }
    if (problem->rounds > 0 &&
        (double)problem->distance > (double)problem->least_distance * (1 + ROUNDING)) {
        die(STATUS_WRONG, "round %" PRIu64 " increased the squared distances", problem->rounds);
    }
    problem->least_distance = problem->distance;
    problem->rounds++;
    problem->is_last = problem->rounds == ROUNDS_MAX ||
                       (double)problem->changed <= problem->threshold * (double)problem->points;
    if (problem->is_last) {
        return;
    }
    for (uint64_t c = 0; c < problem->clusters; c++) {
        struct cluster_sum *sum = cluster_sum(problem, c);
        const double steps = (double)sum->count * STEPS_PER_UNIT;
        float *centre = problem->centres + c * problem->dimensions;
        for (uint64_t d = 0; d < problem->dimensions; d++) {
            if (sum->count > 0) { /* an empty cluster stays where it is */
                centre[d] = (float)((double)sum->sum[d] / steps);
            }
            sum->sum[d] = 0;
        }
        sum->count = 0;
    }
    problem->next_point = 0;
    problem->changed = 0;
    problem->distance = 0;
}

/* Everything as it is before the first round: points scaled, centres at random ones, no point
   assigned. */
static void prepare(struct problem *problem)
{
    const uint64_t dimensions = problem->dimensions;
    const uint64_t clusters = problem->clusters;
    uint64_t random = random_seeded(2 + clusters);
    for (uint64_t d = 0; d < dimensions; d++) {
        normalise(problem, d);
    }
    memset(problem->sums, 0, clusters * problem->sum_bytes);
    for (uint64_t c = 0; c < clusters; c++) {
        const uint64_t point = random_below(&random, problem->points);
        memcpy(problem->centres + c * dimensions, problem->coordinates + point * dimensions,
               dimensions * sizeof *problem->centres);
    }
    for (uint64_t p = 0; p < problem->points; p++) {
        problem->membership[p] = (uint32_t)clusters;
    }
    problem->next_point = 0;
    problem->changed = 0;
    problem->distance = 0;
    problem->rounds = 0;
}

static void cluster_points(unsigned thread, void *context)
{
    struct problem *problem = context;
    if (thread == 0) {
        prepare(problem);
    }
    barrier_wait(&problem->barrier);
    do {
        assign_points(problem);
        barrier_wait(&problem->barrier);
        if (thread == 0) {
            end_round(problem);
        }
        barrier_wait(&problem->barrier);
    } while (!problem->is_last);
}

/* ---- The whole and its check -------------------------------------------------------------- */

static double exact_distance(const struct problem *problem, uint64_t point, uint64_t centre)
{
    const float *a = problem->coordinates + point * problem->dimensions;
    const float *b = problem->centres + centre * problem->dimensions;
    double sum = 0;
    for (uint64_t d = 0; d < problem->dimensions; d++) {
        const double difference = (double)a[d] - (double)b[d];
        sum += difference * difference;
    }
    return sum;
}

static void check_nearest(const struct problem *problem, uint64_t point)
{
    const uint64_t own = problem->membership[point];
    if (own >= problem->clusters) {
        die(STATUS_WRONG, "point %" PRIu64 " is in no cluster", point);
    }
    const double distance = exact_distance(problem, point, own);
    for (uint64_t c = 0; c < problem->clusters; c++) {
        if (distance > exact_distance(problem, point, c) * (1 + ROUNDING) + ROUNDING) {
            die(STATUS_WRONG, "point %" PRIu64 " is in cluster %" PRIu64 ", but nearer to %" PRIu64,
                point, own, c);
        }
    }
}

/* Takes each point out of its cluster's sum again, which must leave nothing. */
static void check_sums(const struct problem *problem)
{
    for (uint64_t p = 0; p < problem->points; p++) {
        struct cluster_sum *sum = cluster_sum(problem, problem->membership[p]);
        sum->count--;
        for (uint64_t d = 0; d < problem->dimensions; d++) {
            sum->sum[d] -=
                (int64_t)(problem->coordinates[p * problem->dimensions + d] * STEPS_PER_UNIT);
        }
    }
    for (uint64_t c = 0; c < problem->clusters; c++) {
        const struct cluster_sum *sum = cluster_sum(problem, c);
        bool is_empty = sum->count == 0;
        for (uint64_t d = 0; d < problem->dimensions; d++) {
            is_empty &= sum->sum[d] == 0;
        }
        if (!is_empty) {
            die(STATUS_WRONG, "the sum of cluster %" PRIu64 " is not that of its points", c);
        }
    }
}

static void digest_result(const struct problem *problem, uint64_t *digest)
{
    for (uint64_t p = 0; p < problem->points; p++) {
        digest_word(digest, problem->membership[p]);
    }
    for (uint64_t c = 0; c < problem->clusters; c++) {
        const struct cluster_sum *sum = cluster_sum(problem, c);
        digest_word(digest, sum->count);
        for (uint64_t d = 0; d < problem->dimensions; d++) {
            digest_word(digest, (uint64_t)sum->sum[d]);
        }
    }
    digest_word(digest, problem->rounds);
}

int main(int argc, char **argv)
{
    struct problem problem = {
        .points = 65536, .dimensions = 32, .threads = THREADS_DEFAULT, .threshold = 0.00001};
    uint64_t clusters_max = 40;
    uint64_t clusters_min = 40;
    uint64_t centres = 16;
    const struct parameter parameters[] = {
        option_whole('m', "most clusters", 1, CLUSTERS_MAX, &clusters_max),
        option_whole('n', "fewest clusters", 1, CLUSTERS_MAX, &clusters_min),
        option_real('t', "share of the points that may change in the last round", 0, 1,
                    &problem.threshold),
        option_threads('p', &problem.threads),
        option_whole('N', "points", 1, 1 << 24, &problem.points),
        option_whole('D', "dimensions", 1, DIMENSIONS_MAX, &problem.dimensions),
        option_whole('C', "centres that points lie about", 1, CLUSTERS_MAX, &centres),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    if (clusters_min > clusters_max) {
        die(STATUS_USAGE, "-n (fewest clusters) is more than -m (most clusters)");
    }

    const size_t sum_bytes = sizeof(struct cluster_sum) + problem.dimensions * sizeof(int64_t);
    problem.sum_bytes = (sum_bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    problem.sums = allocate(clusters_max, problem.sum_bytes);
    problem.coordinates =
        allocate(problem.points * problem.dimensions, sizeof *problem.coordinates);
    problem.raw = allocate(problem.points * problem.dimensions, sizeof *problem.raw);
    problem.membership = allocate(problem.points, sizeof *problem.membership);
    problem.centres = allocate(clusters_max * problem.dimensions, sizeof *problem.centres);
    make_points(&problem, centres);
    barrier_init(&problem.barrier, (unsigned)problem.threads);
    ready("%" PRIu64 " points of %" PRIu64 " dimensions", problem.points, problem.dimensions);

    uint64_t digest = DIGEST_START;
    for (uint64_t clusters = clusters_min; clusters <= clusters_max; clusters++) {
        problem.clusters = clusters;
        run_threads((unsigned)problem.threads, cluster_points, &problem);
        for (uint64_t p = 0; p < problem.points; p++) {
            check_nearest(&problem, p);
        }
        digest_result(&problem, &digest);
        check_sums(&problem);
    }
    return verified(digest,
                    "%" PRIu64 " points of %" PRIu64 " dimensions in %" PRIu64
                    " clusters after %" PRIu64 " rounds",
                    problem.points, problem.dimensions, clusters_max, problem.rounds);
}
