/*
 * fdtd CELLS STEPS: electromagnetic waves in a closed metal box, in the time domain.
 *
 * Computes: Maxwell's equations in a cube of CELLS^3 cells with perfectly conducting walls. The box
 * starts in one of its resonances and swings for STEPS time steps.
 *
 * Algorithm: finite differences in the time domain on the staggered grid of K. S. Yee,
 * "Numerical solution of initial boundary value problems involving Maxwell's equations in
 * isotropic media", IEEE Trans. Antennas and Propagation 14 (1966), leapfrog in time.
 *
 * Memory behaviour that it stands for (GemsFDTD): six field arrays, each streamed, and three of
 * them written, in each half step, with neighbours a row and a plane away: long unit-stride runs,
 * no reuse between half steps, two thirds of the data written in every step.
 *
 * Check: the resonance is an exact solution of the difference equations, with the frequency that
 * their dispersion relation gives (A. Taflove, "Computational Electrodynamics"), so every field
 * component must have its closed form at every sampled cell; and the scheme's energy, E(n) E(n) +
 * H(n-1/2) H(n+1/2), must not have changed.
 */
#define KERNEL "fdtd"
#include "kernel.h"
#include "kernel_math.h"

/* Half waves along the three axes of the resonance. */
enum { WAVES_X = 1, WAVES_Y = 2, WAVES_Z = 3 };

/* Time step over the cells' side; the light's speed is 1, and the scheme is stable below
   1 / sqrt(3). */
static const double COURANT = 0.5;

/* Field components: a grid of (cells + 1)^3 points each, some of them unused. Ex(i,j,k) is at
   (i+1/2, j, k), Hx(i,j,k) at (i, j+1/2, k+1/2), and so on around. */
struct box {
    size_t cells, row, plane, points;
    double *ex, *ey, *ez, *hx, *hy, *hz;
};

/* ---- The resonance ------------------------------------------------------------------------ */

/* Along one axis: the wave at whole and at half points, and the discrete wave number. */
struct profile {
    double *sine_whole, *cosine_whole, *sine_half, *cosine_half;
    double wave_number; /* 2 sin(k/2), the symbol of the central difference */
};

/* Amplitudes of a field with no divergence: K . E = 0, and H = K x E / Omega. */
struct resonance {
    struct profile axis[3];
    double electric[3];
    double magnetic[3];
    double frequency; /* radians a step */
};

static struct profile make_profile(size_t cells, int waves)
{
    struct profile profile = {
        .sine_whole = allocate(cells + 1, sizeof(double)),
        .cosine_whole = allocate(cells + 1, sizeof(double)),
        .sine_half = allocate(cells + 1, sizeof(double)),
        .cosine_half = allocate(cells + 1, sizeof(double)),
    };
    const double k = PI * waves / (double)cells;
    for (size_t i = 0; i <= cells; i++) {
        sine_and_cosine(k * (double)i, &profile.sine_whole[i], &profile.cosine_whole[i]);
        sine_and_cosine(k * ((double)i + 0.5), &profile.sine_half[i], &profile.cosine_half[i]);
    }
    double unused;
    sine_and_cosine(0.5 * k, &profile.wave_number, &unused);
    profile.wave_number *= 2.0;
    return profile;
}

/* The angle in 0..pi/2 of the sine, by Newton's method. */
static double arc_sine(double value)
{
    double angle = value;
    for (int i = 0; i < 20; i++) {
        double sine;
        double cosine;
        sine_and_cosine(angle, &sine, &cosine);
        angle -= (sine - value) / cosine;
    }
    return angle;
}

static struct resonance make_resonance(size_t cells)
{
    struct resonance r = {
        .axis = {make_profile(cells, WAVES_X), make_profile(cells, WAVES_Y),
                 make_profile(cells, WAVES_Z)},
    };
    const double kx = r.axis[0].wave_number;
    const double ky = r.axis[1].wave_number;
    const double kz = r.axis[2].wave_number;
    const double k = sqrt(kx * kx + ky * ky + kz * kz);
    /* (1, 1, *) made orthogonal to K */
    r.electric[0] = 1.0;
    r.electric[1] = 1.0;
    r.electric[2] = -(kx + ky) / kz;
    r.frequency = 2.0 * arc_sine(0.5 * COURANT * k);
    r.magnetic[0] = (ky * r.electric[2] - kz * r.electric[1]) / k;
    r.magnetic[1] = (kz * r.electric[0] - kx * r.electric[2]) / k;
    r.magnetic[2] = (kx * r.electric[1] - ky * r.electric[0]) / k;
    return r;
}

/* The fields at one grid point; `swing_e` and `swing_h` are their factors at the time. */
struct fields {
    double ex, ey, ez, hx, hy, hz;
};

static struct fields exact_at(const struct resonance *r, size_t x, size_t y, size_t z,
                              double swing_e, double swing_h)
{
    const struct profile *a = &r->axis[0];
    const struct profile *b = &r->axis[1];
    const struct profile *c = &r->axis[2];
    return (struct fields){
        .ex = swing_e * r->electric[0] * a->cosine_half[x] * b->sine_whole[y] * c->sine_whole[z],
        .ey = swing_e * r->electric[1] * a->sine_whole[x] * b->cosine_half[y] * c->sine_whole[z],
        .ez = swing_e * r->electric[2] * a->sine_whole[x] * b->sine_whole[y] * c->cosine_half[z],
        .hx = swing_h * r->magnetic[0] * a->sine_whole[x] * b->cosine_half[y] * c->cosine_half[z],
        .hy = swing_h * r->magnetic[1] * a->cosine_half[x] * b->sine_whole[y] * c->cosine_half[z],
        .hz = swing_h * r->magnetic[2] * a->cosine_half[x] * b->cosine_half[y] * c->sine_whole[z],
    };
}

/* E swings as cos(omega n), H half a step later as -sin(omega (n + 1/2)). */
static void swings(const struct resonance *r, double step, double *swing_e, double *swing_h)
{
    double unused;
    sine_and_cosine(r->frequency * step, &unused, swing_e);
    sine_and_cosine(r->frequency * (step + 0.5), swing_h, &unused);
    *swing_h = -*swing_h;
}

/* ---- The scheme --------------------------------------------------------------------------- */

static struct box make_box(const struct resonance *resonance, size_t cells)
{
    struct box box = {.cells = cells, .row = cells + 1, .plane = (cells + 1) * (cells + 1)};
    box.points = box.plane * (cells + 1);
    double **components[6] = {&box.ex, &box.ey, &box.ez, &box.hx, &box.hy, &box.hz};
    for (int i = 0; i < 6; i++) {
        *components[i] = allocate(box.points, sizeof(double));
    }
    double swing_e;
    double swing_h;
    swings(resonance, 0.0, &swing_e, &swing_h);
    for (size_t z = 0; z <= cells; z++) {
        for (size_t y = 0; y <= cells; y++) {
            for (size_t x = 0; x <= cells; x++) {
                const size_t at = z * box.plane + y * box.row + x;
                const struct fields f = exact_at(resonance, x, y, z, swing_e, swing_h);
                box.ex[at] = f.ex;
                box.ey[at] = f.ey;
                box.ez[at] = f.ez;
                box.hx[at] = f.hx;
                box.hy[at] = f.hy;
                box.hz[at] = f.hz;
            }
        }
    }
    return box;
}

/* E of all inner points, one step on; on the walls its tangential components stay zero. */
static void advance_electric(struct box *box)
{
    const size_t n = box->cells;
    const size_t row = box->row;
    const size_t plane = box->plane;
    double *restrict ex = box->ex;
    double *restrict ey = box->ey;
    double *restrict ez = box->ez;
    const double *restrict hx = box->hx;
    const double *restrict hy = box->hy;
    const double *restrict hz = box->hz;
    for (size_t z = 0; z < n; z++) {
        for (size_t y = 0; y < n; y++) {
            const size_t at = z * plane + y * row;
            if (y > 0 && z > 0) {
                for (size_t i = at; i < at + n; i++) {
                    ex[i] += COURANT * ((hz[i] - hz[i - row]) - (hy[i] - hy[i - plane]));
                }
            }
            if (z > 0) {
                for (size_t i = at + 1; i < at + n; i++) {
                    ey[i] += COURANT * ((hx[i] - hx[i - plane]) - (hz[i] - hz[i - 1]));
                }
            }
            if (y > 0) {
                for (size_t i = at + 1; i < at + n; i++) {
                    ez[i] += COURANT * ((hy[i] - hy[i - 1]) - (hx[i] - hx[i - row]));
                }
            }
        }
    }
}

/* H of all points, one step on. */
static void advance_magnetic(struct box *box)
{
    const size_t n = box->cells;
    const size_t row = box->row;
    const size_t plane = box->plane;
    const double *restrict ex = box->ex;
    const double *restrict ey = box->ey;
    const double *restrict ez = box->ez;
    double *restrict hx = box->hx;
    double *restrict hy = box->hy;
    double *restrict hz = box->hz;
    for (size_t z = 0; z < n; z++) {
        for (size_t y = 0; y < n; y++) {
            const size_t at = z * plane + y * row;
            for (size_t i = at; i < at + n; i++) {
                hx[i] -= COURANT * ((ez[i + row] - ez[i]) - (ey[i + plane] - ey[i]));
                hy[i] -= COURANT * ((ex[i + plane] - ex[i]) - (ez[i + 1] - ez[i]));
                hz[i] -= COURANT * ((ey[i + 1] - ey[i]) - (ex[i + row] - ex[i]));
            }
        }
    }
}

/* ---- The check ---------------------------------------------------------------------------- */

/* What E(n) E(n) + H(n-1/2) H(n+1/2) is over the cells inside; H is given at n + 1/2, and what it
   was before follows from E. */
static double energy(const struct box *box)
{
    const size_t n = box->cells;
    const size_t row = box->row;
    const size_t plane = box->plane;
    double sum = 0.0;
    for (size_t z = 0; z < n; z++) {
        for (size_t y = 0; y < n; y++) {
            const size_t at = z * plane + y * row;
            for (size_t i = at; i < at + n; i++) {
                const double *ex = box->ex;
                const double *ey = box->ey;
                const double *ez = box->ez;
                const double curl_x = (ez[i + row] - ez[i]) - (ey[i + plane] - ey[i]);
                const double curl_y = (ex[i + plane] - ex[i]) - (ez[i + 1] - ez[i]);
                const double curl_z = (ey[i + 1] - ey[i]) - (ex[i + row] - ex[i]);
                sum += ex[i] * ex[i] + ey[i] * ey[i] + ez[i] * ez[i];
                sum += box->hx[i] * (box->hx[i] + COURANT * curl_x);
                sum += box->hy[i] * (box->hy[i] + COURANT * curl_y);
                sum += box->hz[i] * (box->hz[i] + COURANT * curl_z);
            }
        }
    }
    return sum;
}

/* The energy of the resonance: each component's mean square is the amplitude's over eight, and
   sum of E(n) E(n) and H(n-1/2) H(n+1/2) swings not at all: cos^2 + sin sin = cos^2(omega / 2). */
static double exact_energy(const struct resonance *r, size_t cells)
{
    double square = 0.0;
    for (int i = 0; i < 3; i++) {
        square += r->electric[i] * r->electric[i];
    }
    double sine;
    double cosine;
    sine_and_cosine(0.5 * r->frequency, &sine, &cosine);
    return cosine * cosine * square * (double)cells * (double)cells * (double)cells / 8.0;
}

static void check_component(const char *name, double got, double exact)
{
    if (!(fabs(got - exact) < 1e-9)) {
        wrong("%s is %.12g, but must be %.12g", name, got, exact);
    }
}

static void check_fields(const struct box *box, const struct resonance *resonance, uint64_t steps)
{
    double swing_e;
    double swing_h;
    swings(resonance, (double)steps, &swing_e, &swing_h);
    const size_t n = box->cells;
    const size_t stride = n / 10 + 1;
    for (size_t z = 1; z < n; z += stride) {
        for (size_t y = 1; y < n; y += stride) {
            for (size_t x = 1; x < n; x += stride) {
                const size_t at = z * box->plane + y * box->row + x;
                const struct fields f = exact_at(resonance, x, y, z, swing_e, swing_h);
                check_component("Ex", box->ex[at], f.ex);
                check_component("Ey", box->ey[at], f.ey);
                check_component("Ez", box->ez[at], f.ez);
                check_component("Hx", box->hx[at], f.hx);
                check_component("Hy", box->hy[at], f.hy);
                check_component("Hz", box->hz[at], f.hz);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const size_t cells = argument(argc, argv, 1, "cells along a side", 8, 1024);
    const uint64_t steps = argument(argc, argv, 2, "steps", 1, 1000000);
    arguments_end(argc, 2);

    const struct resonance resonance = make_resonance(cells);
    struct box box = make_box(&resonance, cells);
    steady("%zu^3 cells, %" PRIu64 " steps", cells, steps);
    for (uint64_t i = 0; i < steps; i++) {
        advance_electric(&box);
        advance_magnetic(&box);
    }

    check_fields(&box, &resonance, steps);
    const double end = energy(&box);
    const double start = exact_energy(&resonance, cells);
    if (!(fabs(end - start) < 1e-9 * start)) {
        wrong("the energy is %.12g, but was %.12g", end, start);
    }
    uint64_t digest = 0;
    for (size_t i = 0; i < box.points; i += 3) {
        digest_double(&digest, box.ex[i]);
        digest_double(&digest, box.hz[i]);
    }
    return verified(digest, "energy %.9g", end);
}
