/*
 * relativity CELLS STEPS: a gravitational wave in empty space.
 *
 * Computes: Einstein's equations in vacuum, as the evolution of the metric and the extrinsic
 * curvature of space, in a periodic cube of CELLS^3 cells through which a weak plane wave runs
 * along the diagonal.
 *
 * Algorithm: the 3+1 equations of R. Arnowitt, S. Deser, C. W. Misner in J. W. York's form
 * ("Kinematics and dynamics of general relativity", 1979) with unit lapse and no shift; centred
 * differences of second order, leapfrog over three time levels. The linear wave is the test of M.
 * Alcubierre et al., "Toward standard testbeds for numerical relativity", Classical and Quantum
 * Gravity 21 (2004).
 *
 * Memory behaviour that it stands for (cactusADM): 36 grid functions, 12 of them read with 19-point
 * stencils and 24 touched once, 12 of which are written, and thousands of instructions a cell: many
 * streams at once, long time between two touches of a line.
 *
 * Check: the Ricci tensor that the same routine finds of a three-sphere of radius 1, in skewed
 * coordinates, is twice its metric; and the wave has moved as the linear theory says, to the
 * order of the differences, in every component.
 */
#define KERNEL "relativity"
#include "kernel.h"
#include "kernel_math.h"

/* Symmetric tensors have six components: xx xy xz yy yz zz. */
enum { COMPONENTS = 6, LEVELS = 3 };

static const int COMPONENT[3][3] = {{0, 1, 2}, {1, 3, 4}, {2, 4, 5}};

static const double AMPLITUDE = 1e-6;
static const double COURANT = 0.25; /* time step over a cell's side */

struct level {
    double *metric[COMPONENTS];
    double *curvature[COMPONENTS]; /* extrinsic, K */
};

struct space {
    size_t cells, points;
    double spacing; /* the cube's side is 1 */
    struct level before, now, after;
};

/* ---- The Ricci tensor at one point -------------------------------------------------------- */

/* Index displacements to the neighbours along each axis; periodic, so they depend on the place. */
struct stencil {
    ptrdiff_t up[3], down[3];
};

struct geometry {
    double metric[3][3], inverse[3][3];
    double first[3][3][3];     /* [k][i][j]: derivative along k of metric ij */
    double second[3][3][3][3]; /* [k][l][i][j] */
};

static void differentiate(struct geometry *g, double *const metric[COMPONENTS], size_t at,
                          const struct stencil *s, double spacing)
{
    const double half = 0.5 / spacing;
    const double square = 1.0 / (spacing * spacing);
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            const double *f = metric[COMPONENT[i][j]] + at;
            g->metric[i][j] = g->metric[j][i] = f[0];
            for (int k = 0; k < 3; k++) {
                const ptrdiff_t up = s->up[k];
                const ptrdiff_t down = s->down[k];
                g->first[k][i][j] = g->first[k][j][i] = (f[up] - f[down]) * half;
                g->second[k][k][i][j] = g->second[k][k][j][i] =
                    (f[up] - 2.0 * f[0] + f[down]) * square;
                for (int l = k + 1; l < 3; l++) {
                    const double mixed = (f[up + s->up[l]] - f[up + s->down[l]] -
                                          f[down + s->up[l]] + f[down + s->down[l]]) *
                                         (0.25 * square);
                    g->second[k][l][i][j] = g->second[k][l][j][i] = mixed;
                    g->second[l][k][i][j] = g->second[l][k][j][i] = mixed;
                }
            }
        }
    }
}

static void invert(struct geometry *g)
{
    double (*const m)[3] = g->metric;
    double cofactor[3][3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            const int a = (i + 1) % 3;
            const int b = (i + 2) % 3;
            const int c = (j + 1) % 3;
            const int d = (j + 2) % 3;
            cofactor[i][j] = m[a][c] * m[b][d] - m[a][d] * m[b][c];
        }
    }
    const double scale =
        1.0 / (m[0][0] * cofactor[0][0] + m[0][1] * cofactor[0][1] + m[0][2] * cofactor[0][2]);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            g->inverse[i][j] = cofactor[j][i] * scale;
        }
    }
}

/* R_ij = g^kl (d_i d_l g_kj + d_k d_j g_il - d_i d_j g_kl - d_k d_l g_ij) / 2
        + g^kl (Gamma_mil Gamma^m_kj - Gamma_mij Gamma^m_kl). */
static void ricci(const struct geometry *g, double result[COMPONENTS])
{
    double lower[3][3][3]; /* Christoffel symbols, first index down, then up */
    double upper[3][3][3];
    for (int m = 0; m < 3; m++) {
        for (int i = 0; i < 3; i++) {
            for (int j = i; j < 3; j++) {
                lower[m][i][j] = lower[m][j][i] =
                    0.5 * (g->first[i][m][j] + g->first[j][m][i] - g->first[m][i][j]);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            for (int m = 0; m < 3; m++) {
                upper[m][i][j] = upper[m][j][i] = g->inverse[m][0] * lower[0][i][j] +
                                                  g->inverse[m][1] * lower[1][i][j] +
                                                  g->inverse[m][2] * lower[2][i][j];
            }
        }
    }
    double contracted[3] = {0.0, 0.0, 0.0}; /* g^kl Gamma^m_kl */
    for (int m = 0; m < 3; m++) {
        for (int k = 0; k < 3; k++) {
            contracted[m] += g->inverse[k][0] * upper[m][k][0] + g->inverse[k][1] * upper[m][k][1] +
                             g->inverse[k][2] * upper[m][k][2];
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            double sum = -(lower[0][i][j] * contracted[0] + lower[1][i][j] * contracted[1] +
                           lower[2][i][j] * contracted[2]);
            for (int k = 0; k < 3; k++) {
                for (int l = 0; l < 3; l++) {
                    const double linear = g->second[i][l][k][j] + g->second[k][j][i][l] -
                                          g->second[i][j][k][l] - g->second[k][l][i][j];
                    const double product = lower[0][i][l] * upper[0][k][j] +
                                           lower[1][i][l] * upper[1][k][j] +
                                           lower[2][i][l] * upper[2][k][j];
                    sum += g->inverse[k][l] * (0.5 * linear + product);
                }
            }
            result[COMPONENT[i][j]] = sum;
        }
    }
}

/* ---- The evolution ------------------------------------------------------------------------ */

/* One point from `before` and `now` to `after`, over two time steps `span`. */
static void advance_point(struct space *space, size_t at, const struct stencil *s, double span)
{
    struct geometry g;
    double curving[COMPONENTS];
    differentiate(&g, space->now.metric, at, s, space->spacing);
    invert(&g);
    ricci(&g, curving);

    double k[3][3];
    double mixed[3][3]; /* K^k_j */
    double trace = 0.0;
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            k[i][j] = k[j][i] = space->now.curvature[COMPONENT[i][j]][at];
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            mixed[i][j] =
                g.inverse[i][0] * k[0][j] + g.inverse[i][1] * k[1][j] + g.inverse[i][2] * k[2][j];
        }
        trace += mixed[i][i];
    }
    for (int i = 0; i < 3; i++) {
        for (int j = i; j < 3; j++) {
            const int c = COMPONENT[i][j];
            const double square =
                k[i][0] * mixed[0][j] + k[i][1] * mixed[1][j] + k[i][2] * mixed[2][j];
            space->after.metric[c][at] = space->before.metric[c][at] - 2.0 * span * k[i][j];
            space->after.curvature[c][at] = space->before.curvature[c][at] +
                                            span * (curving[c] + trace * k[i][j] - 2.0 * square);
        }
    }
}

/* The stencil along one axis at a coordinate of a periodic grid. */
static void aim(struct stencil *s, int axis, size_t coordinate, size_t cells, size_t stride)
{
    const ptrdiff_t step = (ptrdiff_t)stride;
    const ptrdiff_t turn = (ptrdiff_t)(stride * (cells - 1));
    s->up[axis] = coordinate + 1 < cells ? step : -turn;
    s->down[axis] = coordinate > 0 ? -step : turn;
}

static void step(struct space *space)
{
    const size_t n = space->cells;
    const double span = 2.0 * COURANT * space->spacing;
    struct stencil s;
    size_t at = 0;
    for (size_t z = 0; z < n; z++) {
        aim(&s, 2, z, n, n * n);
        for (size_t y = 0; y < n; y++) {
            aim(&s, 1, y, n, n);
            for (size_t x = 0; x < n; x++, at++) {
                aim(&s, 0, x, n, 1);
                advance_point(space, at, &s, span);
            }
        }
    }
    const struct level oldest = space->before;
    space->before = space->now;
    space->now = space->after;
    space->after = oldest;
}

/* ---- The wave ----------------------------------------------------------------------------- */

/* Polarisation u u - v v, with u = (1,-1,0)/sqrt 2 and v = (1,1,-2)/sqrt 6 across the diagonal. */
static const double POLARISATION[COMPONENTS] = {1.0 / 3, -2.0 / 3, 1.0 / 3,
                                                1.0 / 3, 1.0 / 3,  -2.0 / 3};

static const double FLAT[COMPONENTS] = {1.0, 0.0, 0.0, 1.0, 0.0, 1.0};

/* The wave's angular frequency: its phase at a place is 2 pi (x + y + z) - frequency * time. */
static double frequency(void)
{
    return 2.0 * PI * sqrt(3.0);
}

/* Metric 1 + A sin(phase) e and K = -1/2 dg/dt = A frequency / 2 cos(phase) e along the diagonal,
   by x + y + z in cells. */
struct wave {
    double *sine, *cosine;
};

static void fill_level(struct level *level, size_t cells, double time)
{
    struct wave wave = {.sine = allocate(cells, sizeof(double)),
                        .cosine = allocate(cells, sizeof(double))};
    for (size_t i = 0; i < cells; i++) {
        sine_and_cosine(2.0 * PI * (double)i / (double)cells - frequency() * time, &wave.sine[i],
                        &wave.cosine[i]);
    }
    for (int c = 0; c < COMPONENTS; c++) {
        const double high = AMPLITUDE * POLARISATION[c];
        double *metric = level->metric[c];
        double *curvature = level->curvature[c];
        for (size_t z = 0; z < cells; z++) {
            for (size_t y = 0; y < cells; y++) {
                size_t phase = (y + z) % cells;
                for (size_t x = 0; x < cells; x++) {
                    *metric++ = FLAT[c] + high * wave.sine[phase];
                    *curvature++ = 0.5 * frequency() * high * wave.cosine[phase];
                    phase = phase + 1 < cells ? phase + 1 : 0;
                }
            }
        }
    }
    free(wave.sine);
    free(wave.cosine);
}

static void allocate_level(struct level *level, size_t points)
{
    for (int c = 0; c < COMPONENTS; c++) {
        level->metric[c] = allocate(points, sizeof(double));
        level->curvature[c] = allocate(points, sizeof(double));
    }
}

/* ---- The check ---------------------------------------------------------------------------- */

static void check_sphere(void)
{
    enum { SIDE = 3, POINTS = SIDE * SIDE * SIDE, MIDDLE = POINTS / 2 };
    const double spacing = 0.01;
    /* Coordinates y = skew x + shift; the metric is 4 / (1 + y^2)^2 dy^2. */
    const double skew[3][3] = {{1.0, 0.3, -0.2}, {0.1, 0.9, 0.4}, {-0.3, 0.2, 1.1}};
    const double shift[3] = {0.2, -0.3, 0.1};
    double values[COMPONENTS][POINTS];
    double *metric[COMPONENTS];
    for (int c = 0; c < COMPONENTS; c++) {
        metric[c] = values[c];
    }
    for (int p = 0; p < POINTS; p++) {
        const double x[3] = {spacing * (p % SIDE - 1), spacing * (p / SIDE % SIDE - 1),
                             spacing * (p / (SIDE * SIDE) - 1)};
        double square = 0.0;
        for (int i = 0; i < 3; i++) {
            const double y = shift[i] + skew[i][0] * x[0] + skew[i][1] * x[1] + skew[i][2] * x[2];
            square += y * y;
        }
        const double conformal = 4.0 / ((1.0 + square) * (1.0 + square));
        for (int i = 0; i < 3; i++) {
            for (int j = i; j < 3; j++) {
                values[COMPONENT[i][j]][p] =
                    conformal *
                    (skew[0][i] * skew[0][j] + skew[1][i] * skew[1][j] + skew[2][i] * skew[2][j]);
            }
        }
    }
    const struct stencil s = {.up = {1, SIDE, SIDE * SIDE}, .down = {-1, -SIDE, -SIDE * SIDE}};
    struct geometry g;
    double curving[COMPONENTS];
    differentiate(&g, metric, MIDDLE, &s, spacing);
    invert(&g);
    ricci(&g, curving);
    for (int c = 0; c < COMPONENTS; c++) {
        if (!(fabs(curving[c] - 2.0 * values[c][MIDDLE]) < 5e-3)) {
            wrong("component %d of the sphere's Ricci tensor is %g, but must be %g", c, curving[c],
                  2.0 * values[c][MIDDLE]);
        }
    }
}

/* Compares the wave with the linear theory's at the time; `exact` is overwritten with it. */
static void check_wave(const struct space *space, struct level *exact, double time)
{
    fill_level(exact, space->cells, time);
    const double angle = 2.0 * PI * space->spacing; /* a cell's */
    const double tolerance = 0.25 * angle * angle * (1.0 + frequency() * time) * AMPLITUDE;
    for (int c = 0; c < COMPONENTS; c++) {
        for (size_t i = 0; i < space->points; i += 7) {
            const double metric = space->now.metric[c][i] - exact->metric[c][i];
            const double curvature = space->now.curvature[c][i] - exact->curvature[c][i];
            if (!(fabs(metric) < tolerance && fabs(curvature) < frequency() * tolerance)) {
                wrong("component %d at point %zu is off by %g, its curvature by %g", c, i, metric,
                      curvature);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const size_t cells = argument(argc, argv, 1, "cells along a side", 8, 512);
    const uint64_t steps = argument(argc, argv, 2, "steps", 1, 100000);
    arguments_end(argc, 2);

    check_sphere();
    struct space space = {.cells = cells, .points = cells * cells * cells};
    space.spacing = 1.0 / (double)cells;
    allocate_level(&space.before, space.points);
    allocate_level(&space.now, space.points);
    allocate_level(&space.after, space.points);
    const double time_step = COURANT * space.spacing;
    fill_level(&space.before, cells, -time_step);
    fill_level(&space.now, cells, 0.0);
    steady("%zu^3 cells, %" PRIu64 " steps", cells, steps);
    for (uint64_t i = 0; i < steps; i++) {
        step(&space);
    }

    check_wave(&space, &space.after, (double)steps * time_step);
    uint64_t digest = 0;
    for (int c = 0; c < COMPONENTS; c++) {
        for (size_t i = 0; i < space.points; i += 11) {
            digest_double(&digest, space.now.metric[c][i]);
            digest_double(&digest, space.now.curvature[c][i]);
        }
    }
    return verified(digest, "time %.6f", (double)steps * time_step);
}
