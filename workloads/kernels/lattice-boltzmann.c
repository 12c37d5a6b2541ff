/*
 * lattice-boltzmann NX NY NZ STEPS: flow around a sphere, by the lattice Boltzmann method.
 *
 * Computes: an incompressible fluid in a periodic box, driven along x by a body force, around a
 * solid sphere in the middle. Each cell holds 19 particle densities; a step relaxes them towards
 * their local equilibrium and moves each to the neighbour that it flies to.
 *
 * Algorithm: D3Q19 with the single-relaxation-time (BGK) collision: Y. H. Qian, D. d'Humieres,
 * P. Lallemand, "Lattice BGK models for Navier-Stokes equation", Europhysics Letters 17 (1992).
 * Walls by full-way bounce-back; the force by the shift of the equilibrium velocity of X. Shan and
 * H. Chen, Physical Review E 47 (1993).
 *
 * Memory behaviour that it stands for (lbm): two grids, 304 bytes a cell in all, streamed once a
 * step; every read is sequential, the writes go to 19 places of the other grid in neighbouring rows
 * and planes. Every line of the target is written in every step: the largest write set for its
 * instructions of all the kernels.
 *
 * Check: mass is conserved to rounding; the flow keeps the mirror symmetry of the box in y and in
 * z, which any wrong direction, weight or neighbour breaks; the fluid moves along x, slower than
 * sound.
 */
#define KERNEL "lattice-boltzmann"
#include "kernel.h"
#include <math.h>

enum { DIRECTIONS = 19 };

/* X(direction, its opposite, x, y, z, weight): directions of particles, and of an equilibrium's
   share. */
#define FOR_EACH_DIRECTION(X)                                                                      \
    X(0, 0, 0, 0, 0, 1.0 / 3)                                                                      \
    X(1, 2, 1, 0, 0, 1.0 / 18)                                                                     \
    X(2, 1, -1, 0, 0, 1.0 / 18)                                                                    \
    X(3, 4, 0, 1, 0, 1.0 / 18)                                                                     \
    X(4, 3, 0, -1, 0, 1.0 / 18)                                                                    \
    X(5, 6, 0, 0, 1, 1.0 / 18)                                                                     \
    X(6, 5, 0, 0, -1, 1.0 / 18)                                                                    \
    X(7, 8, 1, 1, 0, 1.0 / 36)                                                                     \
    X(8, 7, -1, -1, 0, 1.0 / 36)                                                                   \
    X(9, 10, 1, -1, 0, 1.0 / 36)                                                                   \
    X(10, 9, -1, 1, 0, 1.0 / 36)                                                                   \
    X(11, 12, 1, 0, 1, 1.0 / 36)                                                                   \
    X(12, 11, -1, 0, -1, 1.0 / 36)                                                                 \
    X(13, 14, 1, 0, -1, 1.0 / 36)                                                                  \
    X(14, 13, -1, 0, 1, 1.0 / 36)                                                                  \
    X(15, 16, 0, 1, 1, 1.0 / 36)                                                                   \
    X(16, 15, 0, -1, -1, 1.0 / 36)                                                                 \
    X(17, 18, 0, 1, -1, 1.0 / 36)                                                                  \
    X(18, 17, 0, -1, 1, 1.0 / 36)

static const double RELAXATION = 1.25;   /* 1 / tau; viscosity (tau - 1/2) / 3 = 0.1 */
static const double ACCELERATION = 1e-5; /* along x, in lattice units */

struct cell {
    double density[DIRECTIONS];
};

struct box {
    size_t nx, ny, nz;
    struct cell *now, *next;
    uint8_t *solid;
};

static size_t cell_index(const struct box *box, size_t x, size_t y, size_t z)
{
    return (z * box->ny + y) * box->nx + x;
}

/* A sphere of a fifth of the shortest side, centred between the two middle cells of every side. */
static bool inside_sphere(const struct box *box, size_t x, size_t y, size_t z)
{
    size_t side = box->nx < box->ny ? box->nx : box->ny;
    side = side < box->nz ? side : box->nz;
    /* twice the distances, so that they are whole */
    const int64_t dx = 2 * (int64_t)x + 1 - (int64_t)box->nx;
    const int64_t dy = 2 * (int64_t)y + 1 - (int64_t)box->ny;
    const int64_t dz = 2 * (int64_t)z + 1 - (int64_t)box->nz;
    const int64_t diameter = 2 * (int64_t)side / 5;
    return dx * dx + dy * dy + dz * dz < diameter * diameter;
}

static struct box make_box(size_t nx, size_t ny, size_t nz)
{
    struct box box = {.nx = nx, .ny = ny, .nz = nz};
    const size_t cells = nx * ny * nz;
    box.now = allocate(cells, sizeof *box.now);
    box.next = allocate(cells, sizeof *box.next);
    box.solid = allocate(cells, 1);
    for (size_t z = 0; z < nz; z++) {
        for (size_t y = 0; y < ny; y++) {
            for (size_t x = 0; x < nx; x++) {
                const size_t at = cell_index(&box, x, y, z);
                box.solid[at] = inside_sphere(&box, x, y, z);
#define SET(i, opposite, cx, cy, cz, weight) box.now[at].density[i] = weight;
                FOR_EACH_DIRECTION(SET)
#undef SET
            }
        }
    }
    return box;
}

/* One time step: collide in `now`, fly to `next`, exchange the two. */
static void step(struct box *box)
{
    const size_t nx = box->nx;
    const size_t plane = box->nx * box->ny;
    for (size_t z = 0; z < box->nz; z++) {
        /* Planes and rows by displacement -1, 0, +1, with the box's period. */
        const size_t planes[3] = {(z > 0 ? z - 1 : box->nz - 1) * plane, z * plane,
                                  (z + 1 < box->nz ? z + 1 : 0) * plane};
        for (size_t y = 0; y < box->ny; y++) {
            const size_t rows[3] = {(y > 0 ? y - 1 : box->ny - 1) * nx, y * nx,
                                    (y + 1 < box->ny ? y + 1 : 0) * nx};
            for (size_t x = 0; x < nx; x++) {
                const size_t columns[3] = {x > 0 ? x - 1 : nx - 1, x, x + 1 < nx ? x + 1 : 0};
                const size_t at = planes[1] + rows[1] + x;
                const double *restrict from = box->now[at].density;
                struct cell *restrict next = box->next;
#define TARGET(cx, cy, cz) planes[1 + (cz)] + rows[1 + (cy)] + columns[1 + (cx)]
                if (box->solid[at]) {
#define BOUNCE(i, opposite, cx, cy, cz, weight)                                                    \
    next[TARGET(cx, cy, cz)].density[i] = from[opposite];
                    FOR_EACH_DIRECTION(BOUNCE)
#undef BOUNCE
                    continue;
                }
                double mass = 0.0;
                double ux = 0.0;
                double uy = 0.0;
                double uz = 0.0;
#define SUM(i, opposite, cx, cy, cz, weight)                                                       \
    mass += from[i];                                                                               \
    ux += (cx) == 0 ? 0.0 : (cx) * from[i];                                                        \
    uy += (cy) == 0 ? 0.0 : (cy) * from[i];                                                        \
    uz += (cz) == 0 ? 0.0 : (cz) * from[i];
                FOR_EACH_DIRECTION(SUM)
#undef SUM
                const double per_mass = 1.0 / mass;
                ux = ux * per_mass + ACCELERATION / RELAXATION;
                uy *= per_mass;
                uz *= per_mass;
                const double base = 1.0 - 1.5 * (ux * ux + uy * uy + uz * uz);
#define COLLIDE(i, opposite, cx, cy, cz, weight)                                                   \
    {                                                                                              \
        const double along = (cx) * ux + (cy) * uy + (cz) * uz;                                    \
        const double equilibrium = (weight) * mass * (base + 3.0 * along + 4.5 * along * along);   \
        next[TARGET(cx, cy, cz)].density[i] = from[i] + RELAXATION * (equilibrium - from[i]);      \
    }
                FOR_EACH_DIRECTION(COLLIDE)
#undef COLLIDE
#undef TARGET
            }
        }
    }
    struct cell *const old = box->now;
    box->now = box->next;
    box->next = old;
}

struct moments {
    double mass;
    double x, y, z; /* momentum */
};

static struct moments moments_of(const struct cell *cell)
{
    struct moments sum = {0.0, 0.0, 0.0, 0.0};
#define SUM(i, opposite, cx, cy, cz, weight)                                                       \
    sum.mass += cell->density[i];                                                                  \
    sum.x += (cx) * cell->density[i];                                                              \
    sum.y += (cy) * cell->density[i];                                                              \
    sum.z += (cz) * cell->density[i];
    FOR_EACH_DIRECTION(SUM)
#undef SUM
    return sum;
}

/* The cell's flow must be its mirror image's in y and in z. */
static void check_symmetry(const struct box *box, size_t x, size_t y, size_t z)
{
    const double tolerance = 1e-12;
    const struct moments here = moments_of(&box->now[cell_index(box, x, y, z)]);
    const struct moments in_y = moments_of(&box->now[cell_index(box, x, box->ny - 1 - y, z)]);
    const struct moments in_z = moments_of(&box->now[cell_index(box, x, y, box->nz - 1 - z)]);
    if (fabs(here.x - in_y.x) > tolerance || fabs(here.y + in_y.y) > tolerance ||
        fabs(here.z - in_y.z) > tolerance || fabs(here.mass - in_y.mass) > tolerance) {
        wrong("the flow at %zu %zu %zu is not mirrored in y", x, y, z);
    }
    if (fabs(here.x - in_z.x) > tolerance || fabs(here.y - in_z.y) > tolerance ||
        fabs(here.z + in_z.z) > tolerance || fabs(here.mass - in_z.mass) > tolerance) {
        wrong("the flow at %zu %zu %zu is not mirrored in z", x, y, z);
    }
}

int main(int argc, char **argv)
{
    const size_t nx = argument(argc, argv, 1, "cells along x", 4, 1024);
    const size_t ny = argument(argc, argv, 2, "cells along y", 4, 1024);
    const size_t nz = argument(argc, argv, 3, "cells along z", 4, 1024);
    const uint64_t steps = argument(argc, argv, 4, "steps", 1, 1000000);
    arguments_end(argc, 4);

    struct box box = make_box(nx, ny, nz);
    steady("%zu x %zu x %zu cells, %" PRIu64 " steps", nx, ny, nz, steps);
    for (uint64_t i = 0; i < steps; i++) {
        step(&box);
    }

    uint64_t digest = 0;
    double mass = 0.0;
    double momentum = 0.0;
    double fastest = 0.0;
    for (size_t z = 0; z < nz; z++) {
        for (size_t y = 0; y < ny; y++) {
            for (size_t x = 0; x < nx; x++) {
                const size_t at = cell_index(&box, x, y, z);
                const struct moments cell = moments_of(&box.now[at]);
                mass += cell.mass;
                if (!box.solid[at]) {
                    momentum += cell.x;
                    fastest = fabs(cell.x) > fastest ? fabs(cell.x) : fastest;
                }
                if (at % 7 == 0) {
                    check_symmetry(&box, x, y, z);
                }
                digest_double(&digest, cell.x);
            }
        }
    }
    const double cells = (double)(nx * ny * nz);
    if (!(fabs(mass - cells) < 1e-10 * cells)) {
        wrong("the mass is %.12g, but was %.12g", mass, cells);
    }
    if (!(momentum > 0.0 && fastest < 0.3)) {
        wrong("the fluid has momentum %g and speeds up to %g", momentum, fastest);
    }
    return verified(digest, "mean speed %.9f", momentum / cells);
}
