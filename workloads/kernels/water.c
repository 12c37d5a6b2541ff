/*
 * water SIDE STEPS: molecular dynamics of liquid water with rigid molecules.
 *
 * Computes: the motion of SIDE^3 water molecules of three charged atoms each in a periodic cube.
 *
 * Algorithm: the SPC/E model: H. J. C. Berendsen, J. R. Grigera, T. P. Straatsma, J. Physical
 * Chemistry 91 (1987), with potentials shifted to vanish smoothly at a cut-off; velocity Verlet
 * with the bonds held by RATTLE: H. C. Andersen, J. Computational Physics 52 (1983); forces from a
 * list of neighbouring molecules (L. Verlet, Physical Review 159 (1967)) that is built by cells
 * every few steps and keeps the periodic image of each pair.
 *
 * Memory behaviour that it stands for (gromacs): the list is streamed once a step, and leads to
 * molecules in whatever order they lie in; their forces are read, changed and written. Small data
 * beside the list; arithmetic dominates.
 *
 * Check: total energy drifts by less than 0.5 % of the kinetic energy, all bonds have their length,
 * momentum stays zero, and the forces on sampled molecules equal those from all other molecules.
 */
#define KERNEL "water"
#include "kernel.h"
#include <math.h>

/* Units: nm, ps, atomic mass units, kJ/mol, elementary charges. */
enum {
    ATOMS = 3, /* oxygen, hydrogen, hydrogen */
    STEPS_A_LIST = 5,
    IMAGES = 27,
    ITERATIONS_MAX = 200,
};

static const double SPACING = 0.3107;   /* 1 g/cm^3 */
static const double CUT_OFF = 0.6;      /* between atoms */
static const double LIST_RADIUS = 0.84; /* between oxygens: two bonds and a margin more */
static const double TIME_STEP = 0.0005;
static const double BOND_OH = 0.1, BOND_HH = 0.1632980861845; /* 2 * 0.1 sin(109.4712 / 2) */
static const double COULOMB = 138.935458;
static const double C6 = 0.0026171, C12 = 2.6331e-6;
static const double TOLERANCE = 1e-8; /* of a bond's square, relative */

static const double CHARGE[ATOMS] = {-0.8476, 0.4238, 0.4238};
static const double MASS[ATOMS] = {15.9994, 1.008, 1.008};

struct triple {
    double x, y, z;
};

struct molecule {
    struct triple atom[ATOMS];
};

/* The constraint between two atoms. */
struct bond {
    int a, b;
    double square;
};

struct pair_entry {
    uint32_t partner;
    uint32_t image;
};

struct system {
    size_t count;
    double side;
    struct molecule *place, *velocity, *force;
    /* the neighbour list: pairs start[i]..start[i+1]-1 are those of molecule i with later ones */
    uint32_t *start;
    struct pair_entry *pairs;
    size_t pairs_capacity;
    /* molecules by cells, for building the list */
    size_t cells_along;
    uint32_t *first_in_cell, *next_in_cell;
    uint64_t pairs_listed;
};

#define NONE UINT32_MAX

static struct triple difference(struct triple a, struct triple b)
{
    return (struct triple){a.x - b.x, a.y - b.y, a.z - b.z};
}

static double dot(struct triple a, struct triple b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static void add_scaled(struct triple *to, double factor, struct triple from)
{
    to->x += factor * from.x;
    to->y += factor * from.y;
    to->z += factor * from.z;
}

/* ---- Forces ------------------------------------------------------------------------------- */

/* Coulomb energy of a pair, shifted, and force over distance. */
static inline double coulomb(double square, double charges, double *force)
{
    const double distance = sqrt(square);
    const double inverse = 1.0 / distance;
    const double edge = 1.0 / CUT_OFF;
    *force = charges * (inverse * inverse - edge * edge) * inverse;
    return charges * (inverse - edge + (distance - CUT_OFF) * edge * edge);
}

/* The same for the dispersion and repulsion of oxygens. */
static inline double lennard_jones(double square, double *force)
{
    const double edge_square = 1.0 / (CUT_OFF * CUT_OFF);
    const double edge_sixth = edge_square * edge_square * edge_square;
    const double edge_force = (12.0 * C12 * edge_sixth - 6.0 * C6) * edge_sixth / CUT_OFF;
    const double distance = sqrt(square);
    const double inverse_square = 1.0 / square;
    const double sixth = inverse_square * inverse_square * inverse_square;
    *force = (12.0 * C12 * sixth - 6.0 * C6) * sixth * inverse_square - edge_force / distance;
    return (C12 * sixth - C6) * sixth - (C12 * edge_sixth - C6) * edge_sixth +
           (distance - CUT_OFF) * edge_force;
}

/* Adds the forces between two molecules, the second displaced by `shift`; returns their energy. */
static inline double add_pair(const struct molecule *restrict one,
                              const struct molecule *restrict two, struct triple shift,
                              struct molecule *restrict force_one,
                              struct molecule *restrict force_two)
{
    double energy = 0.0;
    for (int a = 0; a < ATOMS; a++) {
        const struct triple here = difference(one->atom[a], shift);
        for (int b = 0; b < ATOMS; b++) {
            const struct triple apart = difference(here, two->atom[b]);
            const double square = dot(apart, apart);
            if (square >= CUT_OFF * CUT_OFF) {
                continue;
            }
            double force;
            energy += coulomb(square, COULOMB * CHARGE[a] * CHARGE[b], &force);
            if (a == 0 && b == 0) {
                double more;
                energy += lennard_jones(square, &more);
                force += more;
            }
            add_scaled(&force_one->atom[a], force, apart);
            add_scaled(&force_two->atom[b], -force, apart);
        }
    }
    return energy;
}

static struct triple shift_of(const struct system *s, uint32_t image)
{
    return (struct triple){((double)(image % 3) - 1.0) * s->side,
                           ((double)(image / 3 % 3) - 1.0) * s->side,
                           ((double)(image / 9) - 1.0) * s->side};
}

/* All forces anew, from the list; returns the potential energy. */
static double compute_forces(struct system *s)
{
    memset(s->force, 0, s->count * sizeof *s->force);
    struct triple shifts[IMAGES];
    for (uint32_t image = 0; image < IMAGES; image++) {
        shifts[image] = shift_of(s, image);
    }
    double energy = 0.0;
    for (size_t i = 0; i < s->count; i++) {
        struct molecule sum = {{{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}}};
        for (uint32_t p = s->start[i]; p < s->start[i + 1]; p++) {
            const struct pair_entry entry = s->pairs[p];
            energy += add_pair(&s->place[i], &s->place[entry.partner], shifts[entry.image], &sum,
                               &s->force[entry.partner]);
        }
        for (int a = 0; a < ATOMS; a++) {
            add_scaled(&s->force[i].atom[a], 1.0, sum.atom[a]);
        }
    }
    return energy;
}

/* ---- The neighbour list ------------------------------------------------------------------- */

/* What brings a coordinate back into the cube. */
static double way_back(double coordinate, double side)
{
    if (coordinate < 0.0) {
        return side;
    }
    return coordinate >= side ? -side : 0.0;
}

/* Brings the molecule's oxygen into the cube, and its hydrogens along. */
static void fold(struct molecule *m, double side)
{
    const struct triple oxygen = m->atom[0];
    const struct triple shift = {way_back(oxygen.x, side), way_back(oxygen.y, side),
                                 way_back(oxygen.z, side)};
    for (int a = 0; a < ATOMS; a++) {
        add_scaled(&m->atom[a], 1.0, shift);
    }
}

static size_t cell_coordinate(const struct system *s, double coordinate)
{
    const size_t cell = (size_t)(coordinate / s->side * (double)s->cells_along);
    return cell < s->cells_along ? cell : s->cells_along - 1;
}

static size_t cell_of(const struct system *s, const struct molecule *m)
{
    return (cell_coordinate(s, m->atom[0].z) * s->cells_along + cell_coordinate(s, m->atom[0].y)) *
               s->cells_along +
           cell_coordinate(s, m->atom[0].x);
}

/* Which image of a partner at this distance is nearest along one axis: 0 below, 1 here, 2 above. */
static uint32_t nearest_image(double distance, double side)
{
    if (distance > 0.5 * side) {
        return 2;
    }
    return distance < -0.5 * side ? 0 : 1;
}

static uint32_t nearest_image_of(struct triple apart, double side)
{
    return nearest_image(apart.x, side) + 3 * nearest_image(apart.y, side) +
           9 * nearest_image(apart.z, side);
}

/* The distance along one axis to the nearest image, without its sign. */
static inline double nearest_distance(double distance, double side)
{
    const double plain = fabs(distance);
    return side - plain < plain ? side - plain : plain;
}

/* Lists the pair if its nearest image is near enough. */
static void list_pair(struct system *s, size_t one, uint32_t two, size_t *listed)
{
    const struct triple apart = difference(s->place[one].atom[0], s->place[two].atom[0]);
    const struct triple least = {nearest_distance(apart.x, s->side),
                                 nearest_distance(apart.y, s->side),
                                 nearest_distance(apart.z, s->side)};
    if (dot(least, least) >= LIST_RADIUS * LIST_RADIUS) {
        return;
    }
    const uint32_t image = nearest_image_of(apart, s->side);
    if (*listed == s->pairs_capacity) {
        s->pairs_capacity *= 2;
        s->pairs = realloc(s->pairs, s->pairs_capacity * sizeof *s->pairs);
        if (s->pairs == NULL) {
            fprintf(stderr, KERNEL ": no memory for the neighbour list\n");
            exit(2);
        }
    }
    s->pairs[(*listed)++] = (struct pair_entry){.partner = two, .image = image};
}

static void build_list(struct system *s)
{
    const size_t n = s->cells_along;
    memset(s->first_in_cell, 0xff, n * n * n * sizeof *s->first_in_cell);
    for (size_t i = s->count; i-- > 0;) {
        fold(&s->place[i], s->side);
        const size_t cell = cell_of(s, &s->place[i]);
        s->next_in_cell[i] = s->first_in_cell[cell];
        s->first_in_cell[cell] = (uint32_t)i;
    }
    /* With fewer than three cells a side, all are in one. */
    const size_t reach = n > 1 ? 3 : 1;
    size_t listed = 0;
    for (size_t i = 0; i < s->count; i++) {
        const size_t x = cell_coordinate(s, s->place[i].atom[0].x) + n - reach / 2;
        const size_t y = cell_coordinate(s, s->place[i].atom[0].y) + n - reach / 2;
        const size_t z = cell_coordinate(s, s->place[i].atom[0].z) + n - reach / 2;
        s->start[i] = (uint32_t)listed;
        for (size_t k = 0; k < reach * reach * reach; k++) {
            const size_t cell =
                ((z + k / (reach * reach)) % n * n + (y + k / reach % reach) % n) * n +
                (x + k % reach) % n;
            for (uint32_t j = s->first_in_cell[cell]; j != NONE; j = s->next_in_cell[j]) {
                if (j > i) {
                    list_pair(s, i, j, &listed);
                }
            }
        }
    }
    s->start[s->count] = (uint32_t)listed;
    s->pairs_listed += listed;
}

/* ---- Motion ------------------------------------------------------------------------------- */

static void make_bonds(struct bond bonds[ATOMS])
{
    bonds[0] = (struct bond){0, 1, BOND_OH * BOND_OH};
    bonds[1] = (struct bond){0, 2, BOND_OH * BOND_OH};
    bonds[2] = (struct bond){1, 2, BOND_HH * BOND_HH};
}

/* Moves atoms along the bonds as they were `before` until all bonds have their length. */
static void constrain_places(const struct bond bonds[ATOMS], struct molecule *place,
                             struct molecule *velocity, const struct molecule *before)
{
    for (int iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
        bool done = true;
        for (int k = 0; k < ATOMS; k++) {
            const int a = bonds[k].a;
            const int b = bonds[k].b;
            const struct triple now = difference(place->atom[a], place->atom[b]);
            const double excess = dot(now, now) - bonds[k].square;
            if (fabs(excess) < TOLERANCE * bonds[k].square) {
                continue;
            }
            done = false;
            const struct triple was = difference(before->atom[a], before->atom[b]);
            const double g = excess / (2.0 * (1.0 / MASS[a] + 1.0 / MASS[b]) * dot(now, was));
            add_scaled(&place->atom[a], -g / MASS[a], was);
            add_scaled(&place->atom[b], g / MASS[b], was);
            add_scaled(&velocity->atom[a], -g / (MASS[a] * TIME_STEP), was);
            add_scaled(&velocity->atom[b], g / (MASS[b] * TIME_STEP), was);
        }
        if (done) {
            return;
        }
    }
    wrong("the bonds do not come to their length");
}

/* Takes from the velocities what would change a bond's length. */
static void constrain_velocities(const struct bond bonds[ATOMS], struct molecule *velocity,
                                 const struct molecule *place)
{
    for (int iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
        bool done = true;
        for (int k = 0; k < ATOMS; k++) {
            const int a = bonds[k].a;
            const int b = bonds[k].b;
            const struct triple along = difference(place->atom[a], place->atom[b]);
            const struct triple apart = difference(velocity->atom[a], velocity->atom[b]);
            const double rate = dot(along, apart);
            if (fabs(rate) < TOLERANCE) {
                continue;
            }
            done = false;
            const double g = rate / ((1.0 / MASS[a] + 1.0 / MASS[b]) * bonds[k].square);
            add_scaled(&velocity->atom[a], -g / MASS[a], along);
            add_scaled(&velocity->atom[b], g / MASS[b], along);
        }
        if (done) {
            return;
        }
    }
    wrong("the velocities do not come to rest along the bonds");
}

static void kick(struct molecule *velocity, const struct molecule *force)
{
    for (int a = 0; a < ATOMS; a++) {
        add_scaled(&velocity->atom[a], 0.5 * TIME_STEP / MASS[a], force->atom[a]);
    }
}

/* One time step; returns the potential energy at its end. */
static double step(struct system *s, const struct bond bonds[ATOMS], uint64_t number)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct molecule before = s->place[i];
        kick(&s->velocity[i], &s->force[i]);
        for (int a = 0; a < ATOMS; a++) {
            add_scaled(&s->place[i].atom[a], TIME_STEP, s->velocity[i].atom[a]);
        }
        constrain_places(bonds, &s->place[i], &s->velocity[i], &before);
    }
    if (number % STEPS_A_LIST == 0) {
        build_list(s);
    }
    const double potential = compute_forces(s);
    for (size_t i = 0; i < s->count; i++) {
        kick(&s->velocity[i], &s->force[i]);
        constrain_velocities(bonds, &s->velocity[i], &s->place[i]);
    }
    return potential;
}

static double kinetic_energy(const struct system *s)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->count; i++) {
        for (int a = 0; a < ATOMS; a++) {
            sum += 0.5 * MASS[a] * dot(s->velocity[i].atom[a], s->velocity[i].atom[a]);
        }
    }
    return sum;
}

/* ---- Building and checking ---------------------------------------------------------------- */

static struct triple random_direction(uint64_t *random)
{
    for (;;) {
        const struct triple v = {random_unit(random) - 0.5, random_unit(random) - 0.5,
                                 random_unit(random) - 0.5};
        const double square = dot(v, v);
        if (square > 0.01 && square < 0.25) {
            const double scale = 1.0 / sqrt(square);
            return (struct triple){v.x * scale, v.y * scale, v.z * scale};
        }
    }
}

/* Molecules on a lattice, each turned at random, moving without turning. */
static void make_molecules(struct system *s, size_t along)
{
    uint64_t random = random_seeded(1);
    const double half_hh = 0.5 * BOND_HH;
    const double height = sqrt(BOND_OH * BOND_OH - half_hh * half_hh);
    struct triple momentum = {0.0, 0.0, 0.0};
    for (size_t i = 0; i < s->count; i++) {
        const struct triple axis = random_direction(&random);
        struct triple across = random_direction(&random);
        while (fabs(dot(axis, across)) > 0.9) {
            across = random_direction(&random);
        }
        add_scaled(&across, -dot(axis, across), axis);
        const double scale = half_hh / sqrt(dot(across, across));
        struct molecule *m = &s->place[i];
        m->atom[0] = (struct triple){SPACING * ((double)(i % along) + 0.5),
                                     SPACING * ((double)(i / along % along) + 0.5),
                                     SPACING * ((double)(i / (along * along)) + 0.5)};
        m->atom[1] = m->atom[2] = m->atom[0];
        add_scaled(&m->atom[1], height, axis);
        add_scaled(&m->atom[2], height, axis);
        add_scaled(&m->atom[1], scale, across);
        add_scaled(&m->atom[2], -scale, across);
        const struct triple v = random_direction(&random);
        for (int a = 0; a < ATOMS; a++) {
            s->velocity[i].atom[a] = (struct triple){0.6 * v.x, 0.6 * v.y, 0.6 * v.z};
        }
        add_scaled(&momentum, 0.6, v);
    }
    for (size_t i = 0; i < s->count; i++) {
        for (int a = 0; a < ATOMS; a++) {
            add_scaled(&s->velocity[i].atom[a], -1.0 / (double)s->count, momentum);
        }
    }
}

static struct system make_system(size_t along)
{
    struct system s = {.count = along * along * along, .side = SPACING * (double)along};
    s.place = allocate(s.count, sizeof *s.place);
    s.velocity = allocate(s.count, sizeof *s.velocity);
    s.force = allocate(s.count, sizeof *s.force);
    s.start = allocate(s.count + 1, sizeof *s.start);
    s.pairs_capacity = 64 * s.count;
    s.pairs = allocate(s.pairs_capacity, sizeof *s.pairs);
    const size_t cells = (size_t)(s.side / LIST_RADIUS);
    s.cells_along = cells < 3 ? 1 : cells;
    s.first_in_cell = allocate(s.cells_along * s.cells_along * s.cells_along, sizeof(uint32_t));
    s.next_in_cell = allocate(s.count, sizeof(uint32_t));
    make_molecules(&s, along);
    return s;
}

/* The molecule's forces against the sum over all others. */
static void check_forces(const struct system *s, size_t i)
{
    struct molecule sum = {{{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}}};
    struct molecule unused = sum;
    for (size_t j = 0; j < s->count; j++) {
        const struct triple apart = difference(s->place[i].atom[0], s->place[j].atom[0]);
        const uint32_t image = nearest_image_of(apart, s->side);
        if (j != i) {
            add_pair(&s->place[i], &s->place[j], shift_of(s, image), &sum, &unused);
        }
    }
    for (int a = 0; a < ATOMS; a++) {
        const struct triple off = difference(sum.atom[a], s->force[i].atom[a]);
        if (!(dot(off, off) < 1e-16 * (1e4 + dot(sum.atom[a], sum.atom[a])))) {
            wrong("the force on molecule %zu is off by %g", i, sqrt(dot(off, off)));
        }
    }
}

static void check_bonds_and_momentum(const struct system *s, const struct bond bonds[ATOMS])
{
    struct triple momentum = {0.0, 0.0, 0.0};
    for (size_t i = 0; i < s->count; i++) {
        for (int k = 0; k < ATOMS; k++) {
            const struct triple along =
                difference(s->place[i].atom[bonds[k].a], s->place[i].atom[bonds[k].b]);
            if (!(fabs(dot(along, along) - bonds[k].square) < 2.0 * TOLERANCE * bonds[k].square)) {
                wrong("bond %d of molecule %zu has length %g", k, i, sqrt(dot(along, along)));
            }
        }
        for (int a = 0; a < ATOMS; a++) {
            add_scaled(&momentum, MASS[a], s->velocity[i].atom[a]);
        }
    }
    if (!(dot(momentum, momentum) < 1e-12 * (double)s->count)) {
        wrong("the total momentum is %g", sqrt(dot(momentum, momentum)));
    }
}

int main(int argc, char **argv)
{
    const size_t along = argument(argc, argv, 1, "molecules along a side", 6, 100);
    const uint64_t steps = argument(argc, argv, 2, "steps", 1, 1000000);
    arguments_end(argc, 2);

    struct bond bonds[ATOMS];
    make_bonds(bonds);
    struct system s = make_system(along);
    build_list(&s);
    double potential = compute_forces(&s);
    const double energy = potential + kinetic_energy(&s);
    steady("%zu molecules, %" PRIu64 " pairs, %" PRIu64 " steps", s.count, s.pairs_listed, steps);
    for (uint64_t i = 1; i <= steps; i++) {
        potential = step(&s, bonds, i);
    }

    const double kinetic = kinetic_energy(&s);
    const double drift = potential + kinetic - energy;
    if (!(fabs(drift) < 5e-3 * kinetic)) {
        wrong("the energy %g has drifted by %g", energy, drift);
    }
    check_bonds_and_momentum(&s, bonds);
    for (size_t i = 0; i < s.count; i += s.count / 6 + 1) {
        check_forces(&s, i);
    }
    uint64_t digest = s.pairs_listed;
    for (size_t i = 0; i < s.count; i++) {
        digest_double(&digest, s.place[i].atom[0].x);
        digest_double(&digest, s.velocity[i].atom[2].z);
    }
    return verified(digest, "energy %.6f kJ/mol, drift %.1e", energy / (double)s.count,
                    drift / (double)s.count);
}
