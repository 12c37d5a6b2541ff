/*
 * molecular SIDE STEPS: molecular dynamics of a molten salt.
 *
 * Computes: the motion of SIDE^3 ions of both signs in a periodic cube, under the forces between
 * all pairs within a cut-off.
 *
 * Algorithm: velocity Verlet: W. C. Swope et al., J. Chemical Physics 76 (1982); forces by cell
 * lists: R. W. Hockney, J. W. Eastwood, "Computer Simulation Using Particles" (1981), each pair
 * once; Lennard-Jones and Coulomb potentials, both shifted so that potential and force vanish at
 * the cut-off: S. D. Stoddard, J. Ford, Physical Review A 8 (1973), and the real-space part alone
 * of D. Wolf et al., J. Chemical Physics 110 (1999).
 *
 * Memory behaviour that it stands for (namd): a small working set that caches hold for the most
 * part, read along cells that have been sorted into memory order; forces of both partners are
 * accumulated in place. Bound by arithmetic; a small write set that is rewritten in every step.
 *
 * Check: the total energy has not drifted by more than 0.1 % of the kinetic energy, total momentum
 * is zero to rounding, and the forces on sampled ions equal the sum over all others in the cube.
 */
#define KERNEL "molecular"
#include "kernel.h"
#include <math.h>

static const double SPACING = 1.15; /* of the starting lattice, in Lennard-Jones radii */
static const double CUT_OFF = 2.5;
static const double CHARGE_SQUARE = 2.0; /* in Lennard-Jones energies times radii */
static const double TEMPERATURE = 1.5;
static const double TIME_STEP = 0.002;

enum { CELLS_NEAR = 13 }; /* half of a cell's 26 neighbours */

struct triple {
    double x, y, z;
};

struct ions {
    size_t count;
    double side; /* of the cube */
    struct triple *place, *velocity, *force;
    double *charge;
    uint32_t *number; /* as the ions were numbered at first */
};

struct cells {
    size_t along;    /* a side */
    uint32_t *start; /* first ion of each cell; one more entry than cells */
    uint32_t *cell_of;
};

/* ---- Pairs -------------------------------------------------------------------------------- */

/* Potential and force over distance, zero at the cut-off. */
struct pair_terms {
    double shift_energy, shift_force;     /* of Lennard-Jones at the cut-off */
    double coulomb_energy, coulomb_force; /* the same for unlike charges' size */
};

static struct pair_terms make_pair_terms(void)
{
    const double inverse = 1.0 / CUT_OFF;
    const double sixth = inverse * inverse * inverse * inverse * inverse * inverse;
    return (struct pair_terms){
        .shift_energy = 4.0 * (sixth * sixth - sixth),
        .shift_force = 24.0 * (2.0 * sixth * sixth - sixth) * inverse,
        .coulomb_energy = inverse,
        .coulomb_force = inverse * inverse,
    };
}

/* Energy of a pair at the distance whose square is given, and force over distance. */
static inline double pair(const struct pair_terms *terms, double square, double charges,
                          double *force_over_distance)
{
    const double distance = sqrt(square);
    const double inverse = 1.0 / distance;
    const double inverse_square = inverse * inverse;
    const double sixth = inverse_square * inverse_square * inverse_square;
    const double beyond = distance - CUT_OFF;
    const double force = 24.0 * (2.0 * sixth * sixth - sixth) * inverse - terms->shift_force +
                         charges * (inverse_square - terms->coulomb_force);
    *force_over_distance = force * inverse;
    return 4.0 * (sixth * sixth - sixth) - terms->shift_energy + beyond * terms->shift_force +
           charges * (inverse - terms->coulomb_energy + beyond * terms->coulomb_force);
}

/* ---- Cells -------------------------------------------------------------------------------- */

static size_t cell_at(const struct cells *cells, double side, struct triple place)
{
    const double per_side = (double)cells->along / side;
    size_t x = (size_t)(place.x * per_side);
    size_t y = (size_t)(place.y * per_side);
    size_t z = (size_t)(place.z * per_side);
    x = x < cells->along ? x : cells->along - 1;
    y = y < cells->along ? y : cells->along - 1;
    z = z < cells->along ? z : cells->along - 1;
    return (z * cells->along + y) * cells->along + x;
}

/* Counts the ions of each cell, and leaves the first index of each. */
static void count_cells(struct cells *cells, const struct ions *ions)
{
    const size_t count = cells->along * cells->along * cells->along;
    memset(cells->start, 0, (count + 1) * sizeof *cells->start);
    for (size_t i = 0; i < ions->count; i++) {
        cells->cell_of[i] = (uint32_t)cell_at(cells, ions->side, ions->place[i]);
        cells->start[cells->cell_of[i] + 1]++;
    }
    for (size_t c = 0; c < count; c++) {
        cells->start[c + 1] += cells->start[c];
    }
}

/* Sorts the ions into the order of their cells, from one set of arrays to the other. */
static void sort_into_cells(struct cells *cells, struct ions *ions, struct ions *other)
{
    count_cells(cells, ions);
    for (size_t i = 0; i < ions->count; i++) {
        const uint32_t to = cells->start[cells->cell_of[i]]++;
        other->place[to] = ions->place[i];
        other->velocity[to] = ions->velocity[i];
        other->force[to] = ions->force[i];
        other->charge[to] = ions->charge[i];
        other->number[to] = ions->number[i];
    }
    const size_t count = cells->along * cells->along * cells->along;
    memmove(cells->start + 1, cells->start, count * sizeof *cells->start);
    cells->start[0] = 0;
    const struct ions was = *ions;
    *ions = *other;
    *other = was;
}

/* ---- Forces ------------------------------------------------------------------------------- */

/* Adds the forces between the ion and ions first..last-1, which are displaced by `shift`; returns
   their energy. */
static double add_forces(struct ions *ions, const struct pair_terms *terms, size_t ion,
                         size_t first, size_t last, struct triple shift)
{
    const double cut_off_square = CUT_OFF * CUT_OFF;
    const struct triple here = {ions->place[ion].x - shift.x, ions->place[ion].y - shift.y,
                                ions->place[ion].z - shift.z};
    const double charge = ions->charge[ion];
    struct triple sum = {0.0, 0.0, 0.0};
    double energy = 0.0;
    for (size_t j = first; j < last; j++) {
        const double dx = here.x - ions->place[j].x;
        const double dy = here.y - ions->place[j].y;
        const double dz = here.z - ions->place[j].z;
        const double square = dx * dx + dy * dy + dz * dz;
        if (square >= cut_off_square) {
            continue;
        }
        double force;
        energy += pair(terms, square, charge * ions->charge[j], &force);
        sum.x += force * dx;
        sum.y += force * dy;
        sum.z += force * dz;
        ions->force[j].x -= force * dx;
        ions->force[j].y -= force * dy;
        ions->force[j].z -= force * dz;
    }
    ions->force[ion].x += sum.x;
    ions->force[ion].y += sum.y;
    ions->force[ion].z += sum.z;
    return energy;
}

/* The neighbour of a cell along one axis, and the displacement if that is across the border. */
static size_t wrapped(size_t coordinate, int step, size_t along, double side, double *shift)
{
    *shift = 0.0;
    if (step < 0 && coordinate == 0) {
        *shift = -side;
        return along - 1;
    }
    if (step > 0 && coordinate + 1 == along) {
        *shift = side;
        return 0;
    }
    return step < 0 ? coordinate - 1 : coordinate + (size_t)step;
}

/* All forces anew; returns the potential energy. The ions must lie in cell order. */
static double compute_forces(struct ions *ions, const struct cells *cells,
                             const struct pair_terms *terms)
{
    static const int8_t NEAR[CELLS_NEAR][3] = {
        {1, 0, 0},  {-1, 1, 0}, {0, 1, 0}, {1, 1, 0},  {-1, -1, 1}, {0, -1, 1}, {1, -1, 1},
        {-1, 0, 1}, {0, 0, 1},  {1, 0, 1}, {-1, 1, 1}, {0, 1, 1},   {1, 1, 1},
    };
    memset(ions->force, 0, ions->count * sizeof *ions->force);
    double energy = 0.0;
    const size_t n = cells->along;
    for (size_t cell = 0; cell < n * n * n; cell++) {
        const size_t x = cell % n;
        const size_t y = cell / n % n;
        const size_t z = cell / (n * n);
        const size_t end = cells->start[cell + 1];
        for (size_t i = cells->start[cell]; i < end; i++) {
            energy += add_forces(ions, terms, i, i + 1, end, (struct triple){0.0, 0.0, 0.0});
        }
        for (int k = 0; k < CELLS_NEAR; k++) {
            struct triple shift;
            const size_t near_x = wrapped(x, NEAR[k][0], n, ions->side, &shift.x);
            const size_t near_y = wrapped(y, NEAR[k][1], n, ions->side, &shift.y);
            const size_t near_z = wrapped(z, NEAR[k][2], n, ions->side, &shift.z);
            const size_t near = (near_z * n + near_y) * n + near_x;
            for (size_t i = cells->start[cell]; i < end; i++) {
                energy +=
                    add_forces(ions, terms, i, cells->start[near], cells->start[near + 1], shift);
            }
        }
    }
    return energy;
}

/* ---- Motion ------------------------------------------------------------------------------- */

static double folded(double coordinate, double side)
{
    if (coordinate < 0.0) {
        return coordinate + side;
    }
    return coordinate >= side ? coordinate - side : coordinate;
}

/* Half a kick and a drift; the mass is 1. */
static void kick_and_drift(struct ions *ions)
{
    const double half = 0.5 * TIME_STEP;
    for (size_t i = 0; i < ions->count; i++) {
        struct triple *v = &ions->velocity[i];
        struct triple *p = &ions->place[i];
        v->x += half * ions->force[i].x;
        v->y += half * ions->force[i].y;
        v->z += half * ions->force[i].z;
        p->x = folded(p->x + TIME_STEP * v->x, ions->side);
        p->y = folded(p->y + TIME_STEP * v->y, ions->side);
        p->z = folded(p->z + TIME_STEP * v->z, ions->side);
    }
}

static void kick(struct ions *ions)
{
    const double half = 0.5 * TIME_STEP;
    for (size_t i = 0; i < ions->count; i++) {
        ions->velocity[i].x += half * ions->force[i].x;
        ions->velocity[i].y += half * ions->force[i].y;
        ions->velocity[i].z += half * ions->force[i].z;
    }
}

static double kinetic_energy(const struct ions *ions)
{
    double sum = 0.0;
    for (size_t i = 0; i < ions->count; i++) {
        const struct triple v = ions->velocity[i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z;
    }
    return 0.5 * sum;
}

/* ---- Building and checking ---------------------------------------------------------------- */

static struct ions allocate_ions(size_t count, double side)
{
    return (struct ions){
        .count = count,
        .side = side,
        .place = allocate(count, sizeof(struct triple)),
        .velocity = allocate(count, sizeof(struct triple)),
        .force = allocate(count, sizeof(struct triple)),
        .charge = allocate(count, sizeof(double)),
        .number = allocate(count, sizeof(uint32_t)),
    };
}

/* Rock salt with small displacements and random velocities that add up to zero. */
static void make_ions(struct ions *ions, size_t along)
{
    uint64_t random = random_seeded(1);
    const double speed = sqrt(12.0 * TEMPERATURE); /* so that a component's variance fits */
    struct triple sum = {0.0, 0.0, 0.0};
    for (size_t i = 0; i < ions->count; i++) {
        const size_t x = i % along;
        const size_t y = i / along % along;
        const size_t z = i / (along * along);
        ions->place[i].x = SPACING * ((double)x + 0.4 + 0.2 * random_unit(&random));
        ions->place[i].y = SPACING * ((double)y + 0.4 + 0.2 * random_unit(&random));
        ions->place[i].z = SPACING * ((double)z + 0.4 + 0.2 * random_unit(&random));
        ions->velocity[i].x = speed * (random_unit(&random) - 0.5);
        ions->velocity[i].y = speed * (random_unit(&random) - 0.5);
        ions->velocity[i].z = speed * (random_unit(&random) - 0.5);
        sum.x += ions->velocity[i].x;
        sum.y += ions->velocity[i].y;
        sum.z += ions->velocity[i].z;
        ions->charge[i] = (x + y + z) % 2 == 0 ? sqrt(CHARGE_SQUARE) : -sqrt(CHARGE_SQUARE);
        ions->number[i] = (uint32_t)i;
    }
    const double share = 1.0 / (double)ions->count;
    for (size_t i = 0; i < ions->count; i++) {
        ions->velocity[i].x -= sum.x * share;
        ions->velocity[i].y -= sum.y * share;
        ions->velocity[i].z -= sum.z * share;
    }
}

/* The distance along one axis to the nearest image. */
static double nearest_image(double distance, double side)
{
    if (distance > 0.5 * side) {
        return distance - side;
    }
    return distance < -0.5 * side ? distance + side : distance;
}

static void check_force(const struct ions *ions, const struct pair_terms *terms, size_t ion)
{
    struct triple sum = {0.0, 0.0, 0.0};
    for (size_t j = 0; j < ions->count; j++) {
        const double dx = nearest_image(ions->place[ion].x - ions->place[j].x, ions->side);
        const double dy = nearest_image(ions->place[ion].y - ions->place[j].y, ions->side);
        const double dz = nearest_image(ions->place[ion].z - ions->place[j].z, ions->side);
        const double square = dx * dx + dy * dy + dz * dz;
        if (j != ion && square < CUT_OFF * CUT_OFF) {
            double force;
            pair(terms, square, ions->charge[ion] * ions->charge[j], &force);
            sum.x += force * dx;
            sum.y += force * dy;
            sum.z += force * dz;
        }
    }
    const struct triple got = ions->force[ion];
    if (!(fabs(got.x - sum.x) + fabs(got.y - sum.y) + fabs(got.z - sum.z) < 1e-8)) {
        wrong("the force on ion %zu is %g %g %g, but must be %g %g %g", ion, got.x, got.y, got.z,
              sum.x, sum.y, sum.z);
    }
}

static void check_momentum(const struct ions *ions)
{
    struct triple sum = {0.0, 0.0, 0.0};
    for (size_t i = 0; i < ions->count; i++) {
        sum.x += ions->velocity[i].x;
        sum.y += ions->velocity[i].y;
        sum.z += ions->velocity[i].z;
    }
    if (!(fabs(sum.x) + fabs(sum.y) + fabs(sum.z) < 1e-9 * (double)ions->count)) {
        wrong("the total momentum is %g %g %g", sum.x, sum.y, sum.z);
    }
}

int main(int argc, char **argv)
{
    const size_t along = argument(argc, argv, 1, "ions along a side", 8, 256);
    const uint64_t steps = argument(argc, argv, 2, "steps", 1, 1000000);
    arguments_end(argc, 2);
    if (along % 2 != 0) {
        fprintf(stderr, KERNEL ": the side must be even, so that the signs alternate\n");
        return 2;
    }

    const double side = SPACING * (double)along;
    struct ions ions = allocate_ions(along * along * along, side);
    struct ions other = allocate_ions(ions.count, side);
    make_ions(&ions, along);
    struct cells cells = {.along = (size_t)(side / CUT_OFF)};
    cells.start = allocate(cells.along * cells.along * cells.along + 1, sizeof *cells.start);
    cells.cell_of = allocate(ions.count, sizeof *cells.cell_of);
    const struct pair_terms terms = make_pair_terms();
    sort_into_cells(&cells, &ions, &other);
    double potential = compute_forces(&ions, &cells, &terms);
    const double energy = potential + kinetic_energy(&ions);
    steady("%zu ions, %zu^3 cells, %" PRIu64 " steps", ions.count, cells.along, steps);
    for (uint64_t i = 0; i < steps; i++) {
        kick_and_drift(&ions);
        sort_into_cells(&cells, &ions, &other);
        potential = compute_forces(&ions, &cells, &terms);
        kick(&ions);
    }

    const double kinetic = kinetic_energy(&ions);
    const double drift = potential + kinetic - energy;
    if (!(fabs(drift) < 1e-3 * kinetic)) {
        wrong("the energy %g has drifted by %g", energy, drift);
    }
    check_momentum(&ions);
    for (size_t i = 0; i < ions.count; i += ions.count / 10 + 1) {
        check_force(&ions, &terms, i);
    }
    uint64_t digest = 0;
    for (size_t i = 0; i < ions.count; i++) {
        digest_word(&digest, ions.number[i]);
        digest_double(&digest, ions.place[i].x);
        digest_double(&digest, ions.velocity[i].y);
    }
    return verified(digest, "energy %.6f, drift %.1e", energy / (double)ions.count,
                    drift / (double)ions.count);
}
