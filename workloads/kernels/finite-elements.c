/*
 * finite-elements COARSE LEVELS: heat conduction in an uneven solid, by finite elements.
 *
 * Computes: the stationary temperature in a unit cube whose conductivity varies from place to
 * place, heated so that the exact solution is known, on a COARSE^3 mesh of trilinear elements and
 * then on LEVELS - 1 meshes with half as many cells more along each side, each starting from the
 * solution of the one before.
 *
 * Algorithm: Galerkin's method with Gauss quadrature on hexahedra (O. C. Zienkiewicz, "The Finite
 * Element Method"); the matrix is assembled element by element into compressed rows; conjugate
 * gradients with symmetric Gauss-Seidel preconditioning (O. Axelsson, BIT 12 (1972)).
 *
 * Memory behaviour that it stands for (dealII): assembly scatters 64 sums of each element into
 * eight rows by searching them; the solver streams over the matrix, 16 bytes an entry, forwards and
 * backwards, with gathers from the vectors; the vectors are written.
 *
 * Check: every solver's residual, computed anew; the error against the exact solution falls as
 * the square of the element size; the matrix is symmetric and its inner rows sum to zero.
 */
#define KERNEL "finite-elements"
#include "kernel.h"
#include "kernel_math.h"

enum {
    CORNERS = 8,
    ROW_ENTRIES = 27, /* at most: a node's neighbours and itself */
    GAUSS_POINTS = 8,
};

static const double REDUCTION = 1e-8;

struct mesh {
    size_t cells; /* along a side */
    size_t nodes; /* along a side, with those on the border */
    size_t inner; /* along a side, without */
    double size;  /* of a cell */
    size_t unknowns;
};

struct entry {
    uint64_t column;
    double value;
};

struct matrix {
    size_t rows;
    size_t *start;
    struct entry *entries; /* of each row, by column */
    size_t *diagonal;      /* where each row's is */
};

/* Shape functions and their gradients at each Gauss point of the unit cube, and its weight. */
struct element {
    double shape[GAUSS_POINTS][CORNERS];
    double gradient[GAUSS_POINTS][CORNERS][3];
    double place[GAUSS_POINTS][3];
};

/* ---- The problem -------------------------------------------------------------------------- */

/* sin(pi x) for x in 0..1, by the wave's values at whole steps; tabulated so that it is cheap. */
struct wave {
    size_t count;
    double *sine, *cosine;
};

static struct wave make_wave(size_t count)
{
    struct wave wave = {.count = count,
                        .sine = allocate(count + 1, sizeof(double)),
                        .cosine = allocate(count + 1, sizeof(double))};
    for (size_t i = 0; i <= count; i++) {
        sine_and_cosine(PI * (double)i / (double)count, &wave.sine[i], &wave.cosine[i]);
    }
    return wave;
}

/* The exact solution u = product of sin(pi x); conductivity k = 1 + x + y z. The heat source is
   -div(k grad u) = 3 pi^2 k u - grad k . grad u. */
static double conductivity(const double at[3])
{
    return 1.0 + at[0] + at[1] * at[2];
}

static double heat_source(const double at[3], const double sine[3], const double cosine[3])
{
    const double u = sine[0] * sine[1] * sine[2];
    const double along =
        PI * (cosine[0] * sine[1] * sine[2] + at[2] * sine[0] * cosine[1] * sine[2] +
              at[1] * sine[0] * sine[1] * cosine[2]);
    return 3.0 * PI * PI * conductivity(at) * u - along;
}

/* ---- Elements ----------------------------------------------------------------------------- */

static struct mesh make_mesh(size_t cells)
{
    struct mesh mesh = {.cells = cells, .nodes = cells + 1, .inner = cells - 1};
    mesh.size = 1.0 / (double)cells;
    mesh.unknowns = mesh.inner * mesh.inner * mesh.inner;
    return mesh;
}

static struct element make_element(void)
{
    struct element e;
    const double offset = 0.5 / sqrt(3.0);
    for (int p = 0; p < GAUSS_POINTS; p++) {
        for (int axis = 0; axis < 3; axis++) {
            e.place[p][axis] = p >> axis & 1 ? 0.5 + offset : 0.5 - offset;
        }
        for (int c = 0; c < CORNERS; c++) {
            double factor[3];
            double slope[3];
            for (int axis = 0; axis < 3; axis++) {
                const double x = e.place[p][axis];
                factor[axis] = c >> axis & 1 ? x : 1.0 - x;
                slope[axis] = c >> axis & 1 ? 1.0 : -1.0;
            }
            e.shape[p][c] = factor[0] * factor[1] * factor[2];
            e.gradient[p][c][0] = slope[0] * factor[1] * factor[2];
            e.gradient[p][c][1] = factor[0] * slope[1] * factor[2];
            e.gradient[p][c][2] = factor[0] * factor[1] * slope[2];
        }
    }
    return e;
}

/* The sine and cosine of pi x at the element's two Gauss points along one axis. */
static void wave_at(const struct wave *wave, const struct mesh *mesh, size_t cell, double within,
                    double *sine, double *cosine)
{
    /* The addition theorem from the cell's corner; the small angle by its series. */
    const size_t step = wave->count / mesh->cells;
    const double angle = PI * within * mesh->size;
    const double square = angle * angle;
    const double s = angle * (1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0)));
    const double c = 1.0 - square / 2.0 * (1.0 - square / 12.0 * (1.0 - square / 30.0));
    const double s0 = wave->sine[cell * step];
    const double c0 = wave->cosine[cell * step];
    *sine = s0 * c + c0 * s;
    *cosine = c0 * c - s0 * s;
}

/* Stiffness and load of one element. */
static void integrate(const struct element *e, const struct mesh *mesh, const struct wave *wave,
                      const size_t cell[3], double stiffness[CORNERS][CORNERS],
                      double load[CORNERS])
{
    memset(stiffness, 0, sizeof(double[CORNERS][CORNERS]));
    memset(load, 0, sizeof(double[CORNERS]));
    const double h = mesh->size;
    for (int p = 0; p < GAUSS_POINTS; p++) {
        double at[3];
        double sine[3];
        double cosine[3];
        for (int axis = 0; axis < 3; axis++) {
            at[axis] = ((double)cell[axis] + e->place[p][axis]) * h;
            wave_at(wave, mesh, cell[axis], e->place[p][axis], &sine[axis], &cosine[axis]);
        }
        const double weight = h / GAUSS_POINTS * conductivity(at);
        const double source = h * h * h / GAUSS_POINTS * heat_source(at, sine, cosine);
        for (int a = 0; a < CORNERS; a++) {
            const double *ga = e->gradient[p][a];
            load[a] += source * e->shape[p][a];
            for (int b = a; b < CORNERS; b++) {
                const double *gb = e->gradient[p][b];
                stiffness[a][b] += weight * (ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2]);
            }
        }
    }
    for (int a = 0; a < CORNERS; a++) {
        for (int b = 0; b < a; b++) {
            stiffness[a][b] = stiffness[b][a];
        }
    }
}

/* ---- The matrix --------------------------------------------------------------------------- */

/* Empty rows, with an entry for each pair of inner nodes that share an element. */
static struct matrix make_matrix(const struct mesh *mesh)
{
    const size_t n = mesh->inner;
    struct matrix m = {.rows = mesh->unknowns};
    m.start = allocate(m.rows + 1, sizeof *m.start);
    m.entries = allocate(m.rows * ROW_ENTRIES, sizeof *m.entries);
    m.diagonal = allocate(m.rows, sizeof *m.diagonal);
    size_t at = 0;
    for (size_t row = 0; row < m.rows; row++) {
        const size_t x = row % n;
        const size_t y = row / n % n;
        const size_t z = row / (n * n);
        m.start[row] = at;
        for (size_t near_z = z > 0 ? z - 1 : 0; near_z <= z + 1 && near_z < n; near_z++) {
            for (size_t near_y = y > 0 ? y - 1 : 0; near_y <= y + 1 && near_y < n; near_y++) {
                for (size_t near_x = x > 0 ? x - 1 : 0; near_x <= x + 1 && near_x < n; near_x++) {
                    const size_t column = (near_z * n + near_y) * n + near_x;
                    if (column == row) {
                        m.diagonal[row] = at;
                    }
                    m.entries[at++] = (struct entry){column, 0.0};
                }
            }
        }
    }
    m.start[m.rows] = at;
    return m;
}

static void free_matrix(struct matrix *m)
{
    free(m->start);
    free(m->entries);
    free(m->diagonal);
}

/* The place of a column in a row, by bisection. */
static size_t find_entry(const struct matrix *m, size_t row, size_t column)
{
    size_t low = m->start[row];
    size_t high = m->start[row + 1] - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (m->entries[middle].column < column) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The unknown of a cell's corner; the number of unknowns if it lies on the border. */
static size_t unknown_of(const struct mesh *mesh, const size_t cell[3], int corner)
{
    size_t at[3];
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = cell[axis] + (size_t)(corner >> axis & 1);
        if (at[axis] == 0 || at[axis] == mesh->cells) {
            return mesh->unknowns;
        }
    }
    return ((at[2] - 1) * mesh->inner + at[1] - 1) * mesh->inner + at[0] - 1;
}

static void assemble(const struct mesh *mesh, const struct element *e, const struct wave *wave,
                     struct matrix *m, double *load)
{
    memset(load, 0, mesh->unknowns * sizeof *load);
    double part[CORNERS][CORNERS];
    double part_load[CORNERS];
    for (size_t i = 0; i < mesh->cells * mesh->cells * mesh->cells; i++) {
        const size_t cell[3] = {i % mesh->cells, i / mesh->cells % mesh->cells,
                                i / (mesh->cells * mesh->cells)};
        integrate(e, mesh, wave, cell, part, part_load);
        size_t unknown[CORNERS];
        for (int c = 0; c < CORNERS; c++) {
            unknown[c] = unknown_of(mesh, cell, c);
        }
        for (int a = 0; a < CORNERS; a++) {
            if (unknown[a] == mesh->unknowns) {
                continue;
            }
            load[unknown[a]] += part_load[a];
            for (int b = 0; b < CORNERS; b++) {
                if (unknown[b] != mesh->unknowns) {
                    m->entries[find_entry(m, unknown[a], unknown[b])].value += part[a][b];
                }
            }
        }
    }
}

/* ---- The solver --------------------------------------------------------------------------- */

static void multiply(const struct matrix *m, double *restrict to, const double *restrict from)
{
    for (size_t row = 0; row < m->rows; row++) {
        double sum = 0.0;
        for (size_t i = m->start[row]; i < m->start[row + 1]; i++) {
            sum += m->entries[i].value * from[m->entries[i].column];
        }
        to[row] = sum;
    }
}

/* to = (D + U)^-1 D (D + L)^-1 from: one symmetric Gauss-Seidel sweep from zero. */
static void precondition(const struct matrix *m, double *restrict to, const double *restrict from)
{
    for (size_t row = 0; row < m->rows; row++) {
        double sum = from[row];
        for (size_t i = m->start[row]; i < m->diagonal[row]; i++) {
            sum -= m->entries[i].value * to[m->entries[i].column];
        }
        to[row] = sum / m->entries[m->diagonal[row]].value;
    }
    for (size_t row = m->rows; row-- > 0;) {
        double sum = 0.0;
        for (size_t i = m->diagonal[row] + 1; i < m->start[row + 1]; i++) {
            sum += m->entries[i].value * to[m->entries[i].column];
        }
        to[row] -= sum / m->entries[m->diagonal[row]].value;
    }
}

static double dot(size_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Improves the solution until the residual is small beside the load; returns the iterations. */
static uint64_t solve(const struct matrix *m, double *solution, const double *load)
{
    const size_t n = m->rows;
    double *residual = allocate(n, sizeof *residual);
    double *direction = allocate(n, sizeof *direction);
    double *image = allocate(n, sizeof *image);
    double *corrected = allocate(n, sizeof *corrected);
    const double goal = REDUCTION * REDUCTION * dot(n, load, load);
    uint64_t iterations = 0;
    multiply(m, image, solution);
    for (size_t i = 0; i < n; i++) {
        residual[i] = load[i] - image[i];
    }
    precondition(m, corrected, residual);
    memcpy(direction, corrected, n * sizeof *direction);
    double product = dot(n, residual, corrected);
    while (dot(n, residual, residual) > goal) {
        if (iterations++ > 1000) {
            wrong("the solver does not converge");
        }
        multiply(m, image, direction);
        const double step = product / dot(n, direction, image);
        for (size_t i = 0; i < n; i++) {
            solution[i] += step * direction[i];
            residual[i] -= step * image[i];
        }
        precondition(m, corrected, residual);
        const double next = dot(n, residual, corrected);
        for (size_t i = 0; i < n; i++) {
            direction[i] = corrected[i] + next / product * direction[i];
        }
        product = next;
    }
    free(residual);
    free(direction);
    free(image);
    free(corrected);
    return iterations;
}

/* ---- From mesh to mesh -------------------------------------------------------------------- */

static double node_value(const struct mesh *mesh, const double *values, const size_t at[3])
{
    for (int axis = 0; axis < 3; axis++) {
        if (at[axis] == 0 || at[axis] >= mesh->cells) {
            return 0.0;
        }
    }
    return values[((at[2] - 1) * mesh->inner + at[1] - 1) * mesh->inner + at[0] - 1];
}

/* The coarse solution at the fine mesh's inner nodes, by its shape functions. */
static void interpolate(const struct mesh *coarse, const double *values, const struct mesh *fine,
                        double *result)
{
    for (size_t i = 0; i < fine->unknowns; i++) {
        const size_t at[3] = {i % fine->inner + 1, i / fine->inner % fine->inner + 1,
                              i / (fine->inner * fine->inner) + 1};
        size_t cell[3];
        double within[3];
        for (int axis = 0; axis < 3; axis++) {
            const size_t scaled = at[axis] * coarse->cells;
            cell[axis] = scaled / fine->cells;
            within[axis] = (double)(scaled % fine->cells) / (double)fine->cells;
        }
        double sum = 0.0;
        for (int c = 0; c < CORNERS; c++) {
            double weight = 1.0;
            size_t corner[3];
            for (int axis = 0; axis < 3; axis++) {
                const int up = c >> axis & 1;
                corner[axis] = cell[axis] + (size_t)up;
                weight *= up ? within[axis] : 1.0 - within[axis];
            }
            sum += weight * node_value(coarse, values, corner);
        }
        result[i] = sum;
    }
}

/* ---- The check ---------------------------------------------------------------------------- */

static double largest_error(const struct mesh *mesh, const struct wave *wave, const double *values)
{
    const size_t step = wave->count / mesh->cells;
    double largest = 0.0;
    for (size_t i = 0; i < mesh->unknowns; i++) {
        const size_t x = i % mesh->inner + 1;
        const size_t y = i / mesh->inner % mesh->inner + 1;
        const size_t z = i / (mesh->inner * mesh->inner) + 1;
        const double exact = wave->sine[x * step] * wave->sine[y * step] * wave->sine[z * step];
        const double error = fabs(values[i] - exact);
        largest = error > largest ? error : largest;
    }
    return largest;
}

static void check_matrix(const struct mesh *mesh, const struct matrix *m)
{
    const size_t n = mesh->inner;
    for (size_t row = 0; row < m->rows; row += m->rows / 50 + 1) {
        double sum = 0.0;
        for (size_t i = m->start[row]; i < m->start[row + 1]; i++) {
            const double mirrored = m->entries[find_entry(m, m->entries[i].column, row)].value;
            if (!(fabs(m->entries[i].value - mirrored) < 1e-14)) {
                wrong("row %zu of the matrix is not symmetric", row);
            }
            sum += m->entries[i].value;
        }
        const size_t x = row % n;
        const size_t y = row / n % n;
        const size_t z = row / (n * n);
        const bool far_inside = x > 0 && y > 0 && z > 0 && x + 1 < n && y + 1 < n && z + 1 < n;
        if (far_inside && !(fabs(sum) < 1e-12)) {
            wrong("row %zu of the matrix sums to %g", row, sum);
        }
    }
}

static void check_residual(const struct matrix *m, const double *solution, const double *load)
{
    double *image = allocate(m->rows, sizeof *image);
    multiply(m, image, solution);
    for (size_t i = 0; i < m->rows; i++) {
        image[i] -= load[i];
    }
    const double residual = sqrt(dot(m->rows, image, image) / dot(m->rows, load, load));
    if (!(residual < 10.0 * REDUCTION)) {
        wrong("the solution's residual is %g", residual);
    }
    free(image);
}

int main(int argc, char **argv)
{
    const size_t coarse_cells =
        argument(argc, argv, 1, "cells along a side of the first mesh", 4, 500);
    const uint64_t levels = argument(argc, argv, 2, "meshes", 1, 10);
    arguments_end(argc, 2);
    if (levels > 1 && coarse_cells % ((size_t)1 << (levels - 1)) != 0) {
        fprintf(stderr, KERNEL ": the cells must be a multiple of 2 to the power of meshes - 1\n");
        return 2;
    }

    const struct element element = make_element();
    struct mesh mesh = make_mesh(coarse_cells);
    double *solution = allocate_zeroed(mesh.unknowns, sizeof *solution);
    steady("%zu^3 cells, %" PRIu64 " meshes", coarse_cells, levels);
    uint64_t digest = 0;
    uint64_t iterations = 0;
    double error = 0.0;
    for (uint64_t level = 0; level < levels; level++) {
        const struct wave wave = make_wave(mesh.cells);
        struct matrix matrix = make_matrix(&mesh);
        double *load = allocate(mesh.unknowns, sizeof *load);
        assemble(&mesh, &element, &wave, &matrix, load);
        iterations += solve(&matrix, solution, load);

        check_residual(&matrix, solution, load);
        check_matrix(&mesh, &matrix);
        error = largest_error(&mesh, &wave, solution);
        /* Its constant for this problem, where the elements are small enough. */
        if (!(error > 1.6 * mesh.size * mesh.size && error < 1.75 * mesh.size * mesh.size)) {
            wrong("the error is %g on %zu^3 cells", error, mesh.cells);
        }
        for (size_t i = 0; i < mesh.unknowns; i += 3) {
            digest_double(&digest, solution[i]);
        }
        free_matrix(&matrix);
        free(load);
        free(wave.sine);
        free(wave.cosine);
        if (level + 1 < levels) {
            const struct mesh finer = make_mesh(mesh.cells + mesh.cells / 2);
            double *start = allocate(finer.unknowns, sizeof *start);
            interpolate(&mesh, solution, &finer, start);
            free(solution);
            solution = start;
            mesh = finer;
        }
    }
    return verified(digest, "error %.3e after %" PRIu64 " iterations", error, iterations);
}
