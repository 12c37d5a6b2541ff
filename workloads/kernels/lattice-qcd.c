/*
 * lattice-qcd SIDE TIME ITERATIONS: a quark propagator on a four-dimensional lattice.
 *
 * Computes: the solution x of (m^2 - D^2) x = b, where D is the staggered Dirac operator on a
 * SIDE^3 x TIME lattice (all sides even) with a random SU(3) matrix on every link: the kernel of
 * lattice quantum chromodynamics. The solver stops when the residual has fallen by a factor of
 * 1000, and must get there within ITERATIONS.
 *
 * Algorithm: staggered fermions: J. Kogut, L. Susskind, "Hamiltonian formulation of Wilson's
 * lattice gauge theories", Physical Review D 11 (1975); conjugate gradients: M. R. Hestenes, E.
 * Stiefel, J. Research National Bureau of Standards 49 (1952). As in MILC's code, the staggered
 * phases are multiplied into the links.
 *
 * Memory behaviour that it stands for (milc): 864 bytes a site; each application of D streams over
 * all links once and gathers from eight neighbours, four of them a plane or a volume away; the
 * vectors, a quarter of the data, are written again and again. Little reuse, regular strides.
 *
 * Check: D is anti-Hermitian, and equals at sampled sites what a plain evaluation from coordinates
 * and matrix elements gives; the links are unitary; the residual, computed anew from the
 * solution, is as small as the solver says.
 */
#define KERNEL "lattice-qcd"
#include "kernel.h"
#include <math.h>

enum {
    DIMENSIONS = 4,
    COLOURS = 3,
    LINKS_IN_TABLE = 64, /* distinct random matrices */
};

static const double MASS = 1.0;
static const double REDUCTION = 1e-3;

struct complex_number {
    double re, im;
};

struct vector {
    struct complex_number c[COLOURS];
};

struct matrix {
    struct complex_number e[COLOURS][COLOURS];
};

struct site_links {
    struct matrix forward[DIMENSIONS];
};

struct neighbours {
    uint32_t forward[DIMENSIONS];
    uint32_t backward[DIMENSIONS];
};

struct lattice {
    uint32_t sides[DIMENSIONS];
    size_t sites;
    struct site_links *links;
    struct neighbours *neighbours;
};

/* ---- Building ----------------------------------------------------------------------------- */

static struct complex_number conjugate_product(struct complex_number a, struct complex_number b)
{
    return (struct complex_number){a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}

static void normalise(struct complex_number row[COLOURS])
{
    double square = 0.0;
    for (int i = 0; i < COLOURS; i++) {
        square += row[i].re * row[i].re + row[i].im * row[i].im;
    }
    const double scale = 1.0 / sqrt(square);
    for (int i = 0; i < COLOURS; i++) {
        row[i].re *= scale;
        row[i].im *= scale;
    }
}

/* A random element of SU(3): two orthonormal random rows, the third the conjugate of their cross
   product. */
static struct matrix random_group_element(uint64_t *random)
{
    struct matrix m;
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < COLOURS; i++) {
            m.e[row][i].re = random_unit(random) - 0.5;
            m.e[row][i].im = random_unit(random) - 0.5;
        }
    }
    normalise(m.e[0]);
    struct complex_number overlap = {0.0, 0.0};
    for (int i = 0; i < COLOURS; i++) {
        const struct complex_number part = conjugate_product(m.e[0][i], m.e[1][i]);
        overlap.re += part.re;
        overlap.im += part.im;
    }
    for (int i = 0; i < COLOURS; i++) {
        const struct complex_number a = m.e[0][i];
        m.e[1][i].re -= a.re * overlap.re - a.im * overlap.im;
        m.e[1][i].im -= a.re * overlap.im + a.im * overlap.re;
    }
    normalise(m.e[1]);
    for (int i = 0; i < COLOURS; i++) {
        const struct complex_number a = m.e[0][(i + 1) % COLOURS];
        const struct complex_number b = m.e[1][(i + 2) % COLOURS];
        const struct complex_number c = m.e[0][(i + 2) % COLOURS];
        const struct complex_number d = m.e[1][(i + 1) % COLOURS];
        m.e[2][i].re = (a.re * b.re - a.im * b.im) - (c.re * d.re - c.im * d.im);
        m.e[2][i].im = -((a.re * b.im + a.im * b.re) - (c.re * d.im + c.im * d.re));
    }
    return m;
}

static size_t site_at(const struct lattice *lattice, const uint32_t at[DIMENSIONS])
{
    size_t site = 0;
    for (int d = DIMENSIONS; d-- > 0;) {
        site = site * lattice->sides[d] + at[d];
    }
    return site;
}

/* The staggered phase of the link in direction d: the parity of the coordinates before d. */
static double staggered_phase(const uint32_t at[DIMENSIONS], int d)
{
    uint32_t sum = 0;
    for (int before = 0; before < d; before++) {
        sum += at[before];
    }
    return sum % 2 == 0 ? 1.0 : -1.0;
}

static struct lattice make_lattice(uint32_t side, uint32_t time)
{
    struct lattice lattice = {.sides = {side, side, side, time}};
    lattice.sites = (size_t)side * side * side * time;
    lattice.links = allocate(lattice.sites, sizeof *lattice.links);
    lattice.neighbours = allocate(lattice.sites, sizeof *lattice.neighbours);
    uint64_t random = random_seeded(1);
    struct matrix table[LINKS_IN_TABLE];
    for (int i = 0; i < LINKS_IN_TABLE; i++) {
        table[i] = random_group_element(&random);
    }
    uint32_t at[DIMENSIONS] = {0};
    for (size_t site = 0; site < lattice.sites; site++) {
        for (int d = 0; d < DIMENSIONS; d++) {
            struct matrix *link = &lattice.links[site].forward[d];
            *link = table[random_next(&random) >> 32 & (LINKS_IN_TABLE - 1)];
            if (staggered_phase(at, d) < 0.0) {
                for (int i = 0; i < COLOURS * COLOURS; i++) {
                    struct complex_number *element = &link->e[i / COLOURS][i % COLOURS];
                    *element = (struct complex_number){-element->re, -element->im};
                }
            }
            const uint32_t here = at[d];
            at[d] = here + 1 < lattice.sides[d] ? here + 1 : 0;
            lattice.neighbours[site].forward[d] = (uint32_t)site_at(&lattice, at);
            at[d] = here > 0 ? here - 1 : lattice.sides[d] - 1;
            lattice.neighbours[site].backward[d] = (uint32_t)site_at(&lattice, at);
            at[d] = here;
        }
        for (int d = 0; d < DIMENSIONS && ++at[d] == lattice.sides[d]; d++) {
            at[d] = 0;
        }
    }
    return lattice;
}

/* ---- The Dirac operator ------------------------------------------------------------------- */

/* sum += m v */
static inline void add_product(struct vector *sum, const struct matrix *m, const struct vector *v)
{
    for (int row = 0; row < COLOURS; row++) {
        const struct complex_number *e = m->e[row];
        sum->c[row].re += e[0].re * v->c[0].re - e[0].im * v->c[0].im + e[1].re * v->c[1].re -
                          e[1].im * v->c[1].im + e[2].re * v->c[2].re - e[2].im * v->c[2].im;
        sum->c[row].im += e[0].re * v->c[0].im + e[0].im * v->c[0].re + e[1].re * v->c[1].im +
                          e[1].im * v->c[1].re + e[2].re * v->c[2].im + e[2].im * v->c[2].re;
    }
}

/* sum -= (adjoint of m) v */
static inline void subtract_adjoint_product(struct vector *sum, const struct matrix *m,
                                            const struct vector *v)
{
    for (int row = 0; row < COLOURS; row++) {
        const struct complex_number a = m->e[0][row];
        const struct complex_number b = m->e[1][row];
        const struct complex_number c = m->e[2][row];
        sum->c[row].re -= a.re * v->c[0].re + a.im * v->c[0].im + b.re * v->c[1].re +
                          b.im * v->c[1].im + c.re * v->c[2].re + c.im * v->c[2].im;
        sum->c[row].im -= a.re * v->c[0].im - a.im * v->c[0].re + b.re * v->c[1].im -
                          b.im * v->c[1].re + c.re * v->c[2].im - c.im * v->c[2].re;
    }
}

/* to = D from */
static void dirac(const struct lattice *lattice, struct vector *restrict to,
                  const struct vector *restrict from)
{
    for (size_t site = 0; site < lattice->sites; site++) {
        const struct neighbours *near = &lattice->neighbours[site];
        struct vector sum = {{{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}};
        for (int d = 0; d < DIMENSIONS; d++) {
            const size_t ahead = near->forward[d];
            const size_t behind = near->backward[d];
            add_product(&sum, &lattice->links[site].forward[d], &from[ahead]);
            subtract_adjoint_product(&sum, &lattice->links[behind].forward[d], &from[behind]);
        }
        for (int i = 0; i < COLOURS; i++) {
            to[site].c[i] = (struct complex_number){0.5 * sum.c[i].re, 0.5 * sum.c[i].im};
        }
    }
}

/* The scalar product's real and imaginary part. */
static struct complex_number dot(const struct lattice *lattice, const struct vector *a,
                                 const struct vector *b)
{
    struct complex_number sum = {0.0, 0.0};
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            const struct complex_number part = conjugate_product(a[site].c[i], b[site].c[i]);
            sum.re += part.re;
            sum.im += part.im;
        }
    }
    return sum;
}

static double norm_square(const struct lattice *lattice, const struct vector *a)
{
    double sum = 0.0;
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            sum += a[site].c[i].re * a[site].c[i].re + a[site].c[i].im * a[site].c[i].im;
        }
    }
    return sum;
}

/* to += factor * from */
static void add_scaled(const struct lattice *lattice, struct vector *restrict to, double factor,
                       const struct vector *restrict from)
{
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            to[site].c[i].re += factor * from[site].c[i].re;
            to[site].c[i].im += factor * from[site].c[i].im;
        }
    }
}

/* to = from + factor * to */
static void scale_and_add(const struct lattice *lattice, struct vector *restrict to, double factor,
                          const struct vector *restrict from)
{
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            to[site].c[i].re = from[site].c[i].re + factor * to[site].c[i].re;
            to[site].c[i].im = from[site].c[i].im + factor * to[site].c[i].im;
        }
    }
}

/* to = (m^2 - D^2) from; `half_way` is left as D from. */
static void apply(const struct lattice *lattice, struct vector *restrict to,
                  const struct vector *restrict from, struct vector *restrict half_way)
{
    dirac(lattice, half_way, from);
    dirac(lattice, to, half_way);
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            to[site].c[i].re = MASS * MASS * from[site].c[i].re - to[site].c[i].re;
            to[site].c[i].im = MASS * MASS * from[site].c[i].im - to[site].c[i].im;
        }
    }
}

/* ---- The solver --------------------------------------------------------------------------- */

struct solution {
    uint64_t iterations;
    double residual_square;
};

/* Solves (m^2 - D^2) x = b from x = 0; `residual` must hold b. */
static struct solution conjugate_gradients(const struct lattice *lattice, struct vector *x,
                                           struct vector *residual, struct vector *direction,
                                           struct vector *image, struct vector *half_way,
                                           uint64_t iterations_max)
{
    double square = norm_square(lattice, residual);
    const double goal = square * REDUCTION * REDUCTION;
    struct solution solution = {.iterations = 0};
    while (square > goal && solution.iterations < iterations_max) {
        apply(lattice, image, direction, half_way);
        const double step = square / dot(lattice, direction, image).re;
        add_scaled(lattice, x, step, direction);
        add_scaled(lattice, residual, -step, image);
        const double next = norm_square(lattice, residual);
        scale_and_add(lattice, direction, next / square, residual);
        square = next;
        solution.iterations++;
    }
    if (square > goal) {
        wrong("the residual is still %g of %g", square, goal);
    }
    solution.residual_square = square;
    return solution;
}

/* ---- The check ---------------------------------------------------------------------------- */

static void check_unitary(const struct matrix *m)
{
    for (int a = 0; a < COLOURS; a++) {
        for (int b = 0; b < COLOURS; b++) {
            struct complex_number sum = {a == b ? -1.0 : 0.0, 0.0};
            for (int i = 0; i < COLOURS; i++) {
                const struct complex_number part = conjugate_product(m->e[a][i], m->e[b][i]);
                sum.re += part.re;
                sum.im += part.im;
            }
            if (!(fabs(sum.re) + fabs(sum.im) < 1e-12)) {
                wrong("a link is not unitary");
            }
        }
    }
}

/* D at one site, from coordinates and matrix elements alone, against what `dirac` computed. */
static void check_dirac_at(const struct lattice *lattice, const struct vector *image,
                           const struct vector *from, size_t site)
{
    uint32_t at[DIMENSIONS];
    size_t rest = site;
    for (int d = 0; d < DIMENSIONS; d++) {
        at[d] = (uint32_t)(rest % lattice->sides[d]);
        rest /= lattice->sides[d];
    }
    for (int row = 0; row < COLOURS; row++) {
        double re = 0.0;
        double im = 0.0;
        for (int d = 0; d < DIMENSIONS; d++) {
            const uint32_t here = at[d];
            at[d] = (here + 1) % lattice->sides[d];
            const struct vector *ahead = &from[site_at(lattice, at)];
            at[d] = (here + lattice->sides[d] - 1) % lattice->sides[d];
            const size_t behind_site = site_at(lattice, at);
            at[d] = here;
            for (int i = 0; i < COLOURS; i++) {
                const struct complex_number u = lattice->links[site].forward[d].e[row][i];
                const struct complex_number w = lattice->links[behind_site].forward[d].e[i][row];
                const struct complex_number v = ahead->c[i];
                const struct complex_number back = from[behind_site].c[i];
                re += u.re * v.re - u.im * v.im - (w.re * back.re + w.im * back.im);
                im += u.re * v.im + u.im * v.re - (w.re * back.im - w.im * back.re);
            }
        }
        const struct complex_number got = image[site].c[row];
        if (!(fabs(got.re - 0.5 * re) + fabs(got.im - 0.5 * im) < 1e-11)) {
            wrong("the Dirac operator is wrong at site %zu", site);
        }
    }
}

static void check(const struct lattice *lattice, const struct vector *x, const struct vector *b,
                  struct vector *image, struct vector *half_way)
{
    apply(lattice, image, x, half_way);
    add_scaled(lattice, image, -1.0, b);
    const double residual = sqrt(norm_square(lattice, image) / norm_square(lattice, b));
    if (!(residual < 2.0 * REDUCTION)) {
        wrong("the solution's residual is %g", residual);
    }
    /* half_way is D x. <b, D x> must be minus the conjugate of <x, D b>. */
    const size_t stride = lattice->sites / 61 + 1;
    for (size_t site = 0; site < lattice->sites; site += stride) {
        check_dirac_at(lattice, half_way, x, site);
        check_unitary(&lattice->links[site].forward[site % DIMENSIONS]);
    }
    const struct complex_number one = dot(lattice, b, half_way);
    dirac(lattice, image, b);
    const struct complex_number two = dot(lattice, x, image);
    const double scale = norm_square(lattice, b);
    if (!(fabs(one.re + two.re) + fabs(one.im - two.im) < 1e-10 * scale)) {
        wrong("the Dirac operator is not anti-Hermitian");
    }
}

int main(int argc, char **argv)
{
    const uint32_t side = (uint32_t)argument(argc, argv, 1, "sites along a side", 2, 64);
    const uint32_t time = (uint32_t)argument(argc, argv, 2, "sites along time", 2, 256);
    const uint64_t iterations = argument(argc, argv, 3, "most iterations", 1, 100000);
    arguments_end(argc, 3);
    if (side % 2 != 0 || time % 2 != 0) {
        fprintf(stderr, KERNEL ": the sides must be even\n");
        return 2;
    }

    struct lattice lattice = make_lattice(side, time);
    struct vector *b = allocate(lattice.sites, sizeof *b);
    struct vector *x = allocate(lattice.sites, sizeof *x);
    struct vector *residual = allocate(lattice.sites, sizeof *residual);
    struct vector *direction = allocate(lattice.sites, sizeof *direction);
    struct vector *image = allocate(lattice.sites, sizeof *image);
    struct vector *half_way = allocate(lattice.sites, sizeof *half_way);
    uint64_t random = random_seeded(2);
    for (size_t site = 0; site < lattice.sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            b[site].c[i].re = random_unit(&random) - 0.5;
            b[site].c[i].im = random_unit(&random) - 0.5;
            x[site].c[i] = (struct complex_number){0.0, 0.0};
        }
        residual[site] = b[site];
        direction[site] = b[site];
    }
    steady("%" PRIu32 "^3 x %" PRIu32 " sites", side, time);
    const struct solution solution =
        conjugate_gradients(&lattice, x, residual, direction, image, half_way, iterations);

    check(&lattice, x, b, image, half_way);
    uint64_t digest = solution.iterations;
    for (size_t site = 0; site < lattice.sites; site++) {
        digest_double(&digest, x[site].c[0].re);
    }
    return verified(digest, "%" PRIu64 " iterations", solution.iterations);
}
