/*
 * hydro CELLS STEPS: an explosion in a gas, in three dimensions.
 *
 * Computes: the Euler equations of an ideal gas (gamma = 1.4) in a periodic cube of CELLS^3 cells,
 * with a sphere of high pressure in its middle.
 *
 * Algorithm: dimensional splitting (x y z, then z y x, and so on: G. Strang, SIAM J. Numerical
 * Analysis 5 (1968)); in each line a second-order Godunov scheme, MUSCL-Hancock with minmod-limited
 * slopes (B. van Leer, J. Computational Physics 32 (1979)), and the HLLC Riemann solver (E. F.
 * Toro, M. Spruce, W. Speares, Shock Waves 4 (1994)).
 *
 * Memory behaviour that it stands for (zeusmp): five arrays of conserved quantities, all read and
 * all written in each sweep; lines along y and z are gathered and scattered with strides of a row
 * and a plane, a quarter of a page or many pages long.
 *
 * Check: a shock tube (G. A. Sod, J. Computational Physics 27 (1978)) solved by the same routine
 * has the exact solution's plateaus; mass, momentum and energy of the cube are conserved; density
 * and pressure stay positive; and the explosion keeps its three mirror symmetries.
 */
#define KERNEL "hydro"
#include "kernel.h"
#include <math.h>

enum { QUANTITIES = 5, GHOSTS = 2, CELLS_MAX = 512, LINE_MAX = CELLS_MAX + 2 * GHOSTS };

static const double GAMMA = 1.4;
static const double COURANT = 0.4;
static const double HOT_PRESSURE = 10.0; /* in the sphere; 1 outside */

/* Per volume: mass, momentum along the sweep and along the two other axes, energy. */
struct conserved {
    double mass, along, across_1, across_2, energy;
};

/* The same as density, velocities, pressure. */
struct primitive {
    double density, u, v, w, pressure;
};

struct line {
    struct conserved cell[LINE_MAX];
    struct primitive state[LINE_MAX];
    struct primitive left[LINE_MAX]; /* faces of each cell, half a step on */
    struct primitive right[LINE_MAX];
    struct conserved flux[LINE_MAX]; /* between this cell and the next */
};

struct cube {
    size_t cells;
    double *mass, *momentum[3], *energy;
};

/* ---- One line of cells -------------------------------------------------------------------- */

static inline struct primitive to_primitive(struct conserved c)
{
    const double per_density = 1.0 / c.mass;
    const double u = c.along * per_density;
    const double v = c.across_1 * per_density;
    const double w = c.across_2 * per_density;
    const double kinetic = 0.5 * (c.along * u + c.across_1 * v + c.across_2 * w);
    return (struct primitive){c.mass, u, v, w, (GAMMA - 1.0) * (c.energy - kinetic)};
}

/* The smaller slope, or none at an extremum. */
static inline double minmod(double a, double b)
{
    if (a * b <= 0.0) {
        return 0.0;
    }
    return fabs(a) < fabs(b) ? a : b;
}

/* The values at both faces of cell i, half a step on: the primitive equations, linearised. */
static inline void reconstruct(struct line *line, size_t i, double ratio)
{
    const struct primitive *before = &line->state[i - 1];
    const struct primitive *here = &line->state[i];
    const struct primitive *after = &line->state[i + 1];
#define SLOPE(field) (0.5 * minmod(here->field - before->field, after->field - here->field))
    const struct primitive slope = {SLOPE(density), SLOPE(u), SLOPE(v), SLOPE(w), SLOPE(pressure)};
#undef SLOPE
    const double u = here->u;
    const struct primitive centre = {
        here->density - ratio * (u * slope.density + here->density * slope.u),
        u - ratio * (u * slope.u + slope.pressure / here->density),
        here->v - ratio * u * slope.v,
        here->w - ratio * u * slope.w,
        here->pressure - ratio * (u * slope.pressure + GAMMA * here->pressure * slope.u),
    };
    line->left[i] = (struct primitive){
        centre.density - slope.density,
        centre.u - slope.u,
        centre.v - slope.v,
        centre.w - slope.w,
        centre.pressure - slope.pressure,
    };
    line->right[i] = (struct primitive){
        centre.density + slope.density,
        centre.u + slope.u,
        centre.v + slope.v,
        centre.w + slope.w,
        centre.pressure + slope.pressure,
    };
}

/* The flux of one side of the fan: that of the state itself, or of the star state behind its wave
   of the given speed. */
static inline struct conserved side_flux(const struct primitive *p, double speed, double contact,
                                         bool star)
{
    const double flow = p->density * p->u;
    const double energy =
        p->pressure / (GAMMA - 1.0) + 0.5 * p->density * (p->u * p->u + p->v * p->v + p->w * p->w);
    struct conserved flux = {flow, flow * p->u + p->pressure, flow * p->v, flow * p->w,
                             (energy + p->pressure) * p->u};
    if (star) {
        const double approach = p->density * (speed - p->u);
        const double behind = approach / (speed - contact);
        const double behind_energy =
            behind * (energy / p->density + (contact - p->u) * (contact + p->pressure / approach));
        flux.mass += speed * (behind - p->density);
        flux.along += speed * (behind * contact - flow);
        flux.across_1 += speed * (behind - p->density) * p->v;
        flux.across_2 += speed * (behind - p->density) * p->w;
        flux.energy += speed * (behind_energy - energy);
    }
    return flux;
}

static inline struct conserved riemann_flux(const struct primitive *l, const struct primitive *r)
{
    const double sound_l = sqrt(GAMMA * l->pressure / l->density);
    const double sound_r = sqrt(GAMMA * r->pressure / r->density);
    const double slowest = l->u - sound_l < r->u - sound_r ? l->u - sound_l : r->u - sound_r;
    const double fastest = l->u + sound_l > r->u + sound_r ? l->u + sound_l : r->u + sound_r;
    const double flow_l = l->density * (slowest - l->u);
    const double flow_r = r->density * (fastest - r->u);
    const double contact =
        (r->pressure - l->pressure + l->u * flow_l - r->u * flow_r) / (flow_l - flow_r);
    return contact >= 0.0 ? side_flux(l, slowest, contact, slowest < 0.0)
                          : side_flux(r, fastest, contact, fastest > 0.0);
}

/* Advances cells GHOSTS..GHOSTS+count-1 of the line, whose ghosts are filled; `ratio` is the time
   step over a cell's side. */
static void advance_line(struct line *line, size_t count, double ratio)
{
    const size_t all = count + 2 * GHOSTS;
    for (size_t i = 0; i < all; i++) {
        line->state[i] = to_primitive(line->cell[i]);
    }
    for (size_t i = 1; i + 1 < all; i++) {
        reconstruct(line, i, ratio);
    }
    for (size_t i = 1; i < GHOSTS + count; i++) {
        line->flux[i] = riemann_flux(&line->right[i], &line->left[i + 1]);
    }
    for (size_t i = GHOSTS; i < GHOSTS + count; i++) {
        const struct conserved *in = &line->flux[i - 1];
        const struct conserved *out = &line->flux[i];
        struct conserved *cell = &line->cell[i];
        cell->mass -= ratio * (out->mass - in->mass);
        cell->along -= ratio * (out->along - in->along);
        cell->across_1 -= ratio * (out->across_1 - in->across_1);
        cell->across_2 -= ratio * (out->across_2 - in->across_2);
        cell->energy -= ratio * (out->energy - in->energy);
    }
}

/* ---- The cube ----------------------------------------------------------------------------- */

/* A cell's distance from the middle in half cells, squared. */
static int64_t half_distance_square(size_t cells, size_t x, size_t y, size_t z)
{
    const int64_t dx = 2 * (int64_t)x + 1 - (int64_t)cells;
    const int64_t dy = 2 * (int64_t)y + 1 - (int64_t)cells;
    const int64_t dz = 2 * (int64_t)z + 1 - (int64_t)cells;
    return dx * dx + dy * dy + dz * dz;
}

static struct cube make_cube(size_t cells)
{
    const size_t points = cells * cells * cells;
    struct cube cube = {.cells = cells,
                        .mass = allocate(points, sizeof(double)),
                        .energy = allocate(points, sizeof(double))};
    for (int axis = 0; axis < 3; axis++) {
        cube.momentum[axis] = allocate(points, sizeof(double));
    }
    const int64_t radius = 2 * (int64_t)cells / 5; /* in half cells, so a fifth of the side */
    size_t at = 0;
    for (size_t z = 0; z < cells; z++) {
        for (size_t y = 0; y < cells; y++) {
            for (size_t x = 0; x < cells; x++, at++) {
                const bool hot = half_distance_square(cells, x, y, z) < radius * radius;
                cube.mass[at] = 1.0;
                cube.energy[at] = (hot ? HOT_PRESSURE : 1.0) / (GAMMA - 1.0);
                cube.momentum[0][at] = 0.0;
                cube.momentum[1][at] = 0.0;
                cube.momentum[2][at] = 0.0;
            }
        }
    }
    return cube;
}

/* Advances all lines along an axis. */
static void sweep(struct cube *cube, struct line *line, int axis, double ratio)
{
    const size_t n = cube->cells;
    const size_t strides[3] = {1, n, n * n};
    const size_t stride = strides[axis];
    const size_t inner = strides[axis == 0 ? 1 : 0];
    const size_t outer = strides[axis == 2 ? 1 : 2];
    double *const along = cube->momentum[axis];
    double *const across_1 = cube->momentum[(axis + 1) % 3];
    double *const across_2 = cube->momentum[(axis + 2) % 3];
    for (size_t b = 0; b < n; b++) {
        for (size_t a = 0; a < n; a++) {
            const size_t start = b * outer + a * inner;
            for (size_t i = 0; i < n; i++) {
                const size_t at = start + i * stride;
                line->cell[GHOSTS + i] = (struct conserved){cube->mass[at], along[at], across_1[at],
                                                            across_2[at], cube->energy[at]};
            }
            for (size_t g = 0; g < GHOSTS; g++) {
                line->cell[g] = line->cell[n + g];
                line->cell[GHOSTS + n + g] = line->cell[GHOSTS + g];
            }
            advance_line(line, n, ratio);
            for (size_t i = 0; i < n; i++) {
                const size_t at = start + i * stride;
                const struct conserved *cell = &line->cell[GHOSTS + i];
                cube->mass[at] = cell->mass;
                along[at] = cell->along;
                across_1[at] = cell->across_1;
                across_2[at] = cell->across_2;
                cube->energy[at] = cell->energy;
            }
        }
    }
}

/* ---- The check ---------------------------------------------------------------------------- */

/* Sod's shock tube at time 0.2: density, velocity and pressure between the waves. */
static void check_shock_tube(struct line *line)
{
    enum { TUBE = 120, STEPS = 60 };
    for (size_t i = 0; i < TUBE + 2 * GHOSTS; i++) {
        const bool left = i < GHOSTS + TUBE / 2;
        line->cell[i] = (struct conserved){.mass = left ? 1.0 : 0.125,
                                           .energy = (left ? 1.0 : 0.1) / (GAMMA - 1.0)};
    }
    for (int step = 0; step < STEPS; step++) {
        advance_line(line, TUBE, 0.2 * TUBE / STEPS); /* nothing gets to the ghosts */
    }
    /* Toro, "Riemann Solvers and Numerical Methods for Fluid Dynamics", table 4.2, test 1. */
    const struct {
        double place, density;
    } plateaus[2] = {{0.60, 0.42632}, {0.77, 0.26557}};
    for (int i = 0; i < 2; i++) {
        const size_t at = GHOSTS + (size_t)(plateaus[i].place * TUBE);
        const struct primitive p = to_primitive(line->cell[at]);
        if (!(fabs(p.density - plateaus[i].density) < 0.01 && fabs(p.u - 0.92745) < 0.01 &&
              fabs(p.pressure - 0.30313) < 0.005)) {
            wrong("the shock tube has density %g, velocity %g, pressure %g at %g", p.density, p.u,
                  p.pressure, plateaus[i].place);
        }
    }
}

static void check_conservation(const struct cube *cube, double energy_before)
{
    const size_t points = cube->cells * cube->cells * cube->cells;
    struct conserved sum = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (size_t i = 0; i < points; i++) {
        const struct conserved c = {cube->mass[i], cube->momentum[0][i], cube->momentum[1][i],
                                    cube->momentum[2][i], cube->energy[i]};
        const struct primitive p = to_primitive(c);
        if (!(p.density > 0.0 && p.pressure > 0.0)) {
            wrong("cell %zu has density %g and pressure %g", i, p.density, p.pressure);
        }
        sum.mass += c.mass;
        sum.along += c.along;
        sum.across_1 += c.across_1;
        sum.across_2 += c.across_2;
        sum.energy += c.energy;
    }
    const double tolerance = 1e-9 * (double)points;
    if (!(fabs(sum.mass - (double)points) < tolerance && fabs(sum.along) < tolerance &&
          fabs(sum.across_1) < tolerance && fabs(sum.across_2) < tolerance &&
          fabs(sum.energy - energy_before) < tolerance)) {
        wrong("mass, momentum or energy is not conserved");
    }
}

static void check_mirrored(const double *values, size_t here, size_t mirror, double sign,
                           const char *what)
{
    if (!(fabs(values[here] - sign * values[mirror]) < 1e-9)) {
        wrong("the %s of cell %zu is not mirrored in cell %zu", what, here, mirror);
    }
}

static void check_symmetry(const struct cube *cube)
{
    const size_t n = cube->cells;
    for (size_t i = 0; i < n * n * n; i += 37) {
        const size_t x = i % n;
        const size_t y = i / n % n;
        const size_t z = i / (n * n);
        const size_t mirrors[3] = {i - x + (n - 1 - x), i - y * n + (n - 1 - y) * n,
                                   i - z * n * n + (n - 1 - z) * n * n};
        for (int axis = 0; axis < 3; axis++) {
            check_mirrored(cube->mass, i, mirrors[axis], 1.0, "mass");
            check_mirrored(cube->energy, i, mirrors[axis], 1.0, "energy");
            for (int k = 0; k < 3; k++) {
                check_mirrored(cube->momentum[k], i, mirrors[axis], k == axis ? -1.0 : 1.0,
                               "momentum");
            }
        }
    }
}

int main(int argc, char **argv)
{
    const size_t cells = argument(argc, argv, 1, "cells along a side", 8, CELLS_MAX);
    const uint64_t steps = argument(argc, argv, 2, "steps", 1, 100000);
    arguments_end(argc, 2);

    struct line *line = allocate(1, sizeof *line);
    struct cube cube = make_cube(cells);
    double energy = 0.0;
    for (size_t i = 0; i < cells * cells * cells; i++) {
        energy += cube.energy[i];
    }
    /* The fastest wave there can be: sound in the hot sphere, and the gas that it drives. */
    const double ratio = COURANT / (2.0 * sqrt(GAMMA * HOT_PRESSURE));
    steady("%zu^3 cells, %" PRIu64 " steps", cells, steps);
    for (uint64_t step = 0; step < steps; step++) {
        for (int i = 0; i < 3; i++) {
            sweep(&cube, line, step % 2 == 0 ? i : 2 - i, ratio);
        }
    }

    check_conservation(&cube, energy);
    check_symmetry(&cube);
    uint64_t digest = 0;
    for (size_t i = 0; i < cells * cells * cells; i += 5) {
        digest_double(&digest, cube.mass[i]);
    }
    check_shock_tube(line);
    return verified(digest, "energy %.9g", energy);
}
