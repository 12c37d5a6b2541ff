/*
 * linear-programming ROWS COLUMNS: a sparse linear program, by the revised simplex method.
 *
 * Computes: a production plan over many periods: COLUMNS activities with random profits, of which
 * some have upper bounds, use ROWS scarce resources; an activity uses about eight of them, of
 * the same time or shared by all times. The plan that maximises the profit.
 *
 * Algorithm: primal revised simplex with bounded variables: G. B. Dantzig, "Linear Programming and
 * Extensions" (1963); triangular factors of the basis, triangular parts first, as E. Hellerman and
 * D. Rarick, Mathematical Programming 1 (1971), updated in product form (W. Orchard-Hays, "Advanced
 * Linear-Programming Computing Techniques", 1968) and renewed every few dozen iterations; partial
 * pricing.
 *
 * Memory behaviour that it stands for (soplex): pricing streams over parts of a large sparse matrix
 * that is never written, with random reads of the dual values; the factors are read forwards and
 * backwards and grow by appending; work vectors of ROWS numbers are written at scattered places.
 *
 * Check: from the matrix alone: the plan keeps all limits, no reduced cost has the wrong sign,
 * and the profit equals the dual bound.
 */
#define KERNEL "linear-programming"
#include "kernel.h"
#include <math.h>

enum {
    REFACTOR_INTERVAL = 50, /* iterations */
    ENTRIES_MIN = 4,        /* of a column */
    ENTRIES_MAX = 12,
    PERIOD_ROWS = 16,   /* resources of one period; periods overlap */
    LINKING_ROWS = 8,   /* resources that all periods share */
    PRICING_PARTS = 16, /* the columns are priced part by part */
};

static const double DUAL_TOLERANCE = 1e-9;
static const double PIVOT_TOLERANCE = 1e-7;
static const double ZERO_TOLERANCE = 1e-13;
static const double UNBOUNDED = 1e30;

enum status { AT_LOWER, AT_UPPER, BASIC };

struct entry {
    uint32_t row;
    double value;
};

/* Columns columns_count.. are the slacks, one for each row. */
struct program {
    size_t rows, columns;
    size_t *start;
    struct entry *entries;
    double *profit, *upper, *limit;
};

/* One elementary matrix: the identity but for one column. */
struct eta {
    uint32_t row;
    double pivot;
    size_t first, last; /* its other entries */
};

/* A product of elementary matrices, the first to be applied first. */
struct factors {
    struct eta *etas;
    size_t etas_count, etas_capacity;
    struct entry *entries;
    size_t entries_count, entries_capacity;
};

struct simplex {
    const struct program *program;
    uint8_t *status; /* of each column */
    uint32_t *basis; /* the column of each row */
    double *value;   /* of each row's basic variable */
    double *dual;    /* of each row */
    double *work;    /* the entering column, transformed */
    struct factors inverse;
    struct factors upper_factor; /* while the basis is being factored, its last applied first */
    size_t next_column;          /* where pricing goes on */
    uint64_t iterations;
};

/* ---- Columns ------------------------------------------------------------------------------ */

/* The entries of a column; a slack's is `unit`. */
static size_t column_entries(const struct program *p, size_t column, struct entry *unit,
                             const struct entry **entries)
{
    if (column >= p->columns) {
        *unit = (struct entry){(uint32_t)(column - p->columns), 1.0};
        *entries = unit;
        return 1;
    }
    *entries = &p->entries[p->start[column]];
    return p->start[column + 1] - p->start[column];
}

static double profit_of(const struct program *p, size_t column)
{
    return column < p->columns ? p->profit[column] : 0.0;
}

static double upper_of(const struct program *p, size_t column)
{
    return column < p->columns ? p->upper[column] : UNBOUNDED;
}

static double reduced_profit(const struct program *p, const double *dual, size_t column)
{
    struct entry unit;
    const struct entry *entries;
    const size_t count = column_entries(p, column, &unit, &entries);
    double sum = profit_of(p, column);
    for (size_t i = 0; i < count; i++) {
        sum -= dual[entries[i].row] * entries[i].value;
    }
    return sum;
}

/* ---- The inverse in product form ---------------------------------------------------------- */

static void *grown(void *memory, size_t count, size_t *capacity, size_t bytes)
{
    if (count < *capacity) {
        return memory;
    }
    *capacity *= 2;
    void *larger = realloc(memory, *capacity * bytes);
    if (larger == NULL) {
        fprintf(stderr, KERNEL ": no memory for the factors\n");
        exit(2);
    }
    return larger;
}

static void append_entry(struct factors *f, size_t row, double value)
{
    f->entries = grown(f->entries, f->entries_count, &f->entries_capacity, sizeof *f->entries);
    f->entries[f->entries_count++] = (struct entry){(uint32_t)row, value};
}

/* Ends the elementary matrix whose other entries were appended from `first` on. */
static void append_eta(struct factors *f, size_t row, double pivot, size_t first)
{
    if (pivot == 1.0 && first == f->entries_count) {
        return; /* the identity */
    }
    f->etas = grown(f->etas, f->etas_count, &f->etas_capacity, sizeof *f->etas);
    f->etas[f->etas_count++] = (struct eta){(uint32_t)row, pivot, first, f->entries_count};
}

static void clear_factors(struct factors *f)
{
    f->etas_count = f->entries_count = 0;
}

static struct factors allocate_factors(void)
{
    struct factors f = {.etas_capacity = 1024, .entries_capacity = 1024};
    f.etas = allocate(f.etas_capacity, sizeof *f.etas);
    f.entries = allocate(f.entries_capacity, sizeof *f.entries);
    return f;
}

/* vector = inverse * vector */
static void transform_forward(const struct factors *f, double *vector)
{
    for (size_t k = 0; k < f->etas_count; k++) {
        const struct eta *eta = &f->etas[k];
        const double at_row = vector[eta->row];
        if (at_row == 0.0) {
            continue;
        }
        vector[eta->row] = at_row * eta->pivot;
        for (size_t i = eta->first; i < eta->last; i++) {
            vector[f->entries[i].row] += at_row * f->entries[i].value;
        }
    }
}

/* vector = vector * inverse */
static void transform_backward(const struct factors *f, double *vector)
{
    for (size_t k = f->etas_count; k-- > 0;) {
        const struct eta *eta = &f->etas[k];
        double sum = vector[eta->row] * eta->pivot;
        for (size_t i = eta->first; i < eta->last; i++) {
            sum += vector[f->entries[i].row] * f->entries[i].value;
        }
        vector[eta->row] = sum;
    }
}

static void load_column(const struct program *p, size_t column, double *vector)
{
    struct entry unit;
    const struct entry *entries;
    const size_t count = column_entries(p, column, &unit, &entries);
    memset(vector, 0, p->rows * sizeof *vector);
    for (size_t i = 0; i < count; i++) {
        vector[entries[i].row] = entries[i].value;
    }
}

/* ---- Factorisation ------------------------------------------------------------------------ */

/* The basis's columns by rows, and how much of each row and column is left to be ordered. */
struct ordering {
    uint32_t *row_start, *row_columns;
    uint32_t *row_left, *column_left;
    bool *row_done, *column_done; /* ordered */
    bool *row_pivoted;            /* factored */
    uint32_t *queue;
    uint32_t *first_columns, *first_rows; /* pivots that make no fill, in order */
    size_t first_count;
    uint32_t *last_columns, *last_rows; /* the same, to be taken from the end */
    size_t last_count;
};

static struct ordering allocate_ordering(size_t rows)
{
    return (struct ordering){
        .row_start = allocate(rows + 1, sizeof(uint32_t)),
        .row_columns = allocate(rows * (ENTRIES_MAX + 1), sizeof(uint32_t)),
        .row_left = allocate(rows, sizeof(uint32_t)),
        .column_left = allocate(rows, sizeof(uint32_t)),
        .row_done = allocate(rows, sizeof(bool)),
        .column_done = allocate(rows, sizeof(bool)),
        .row_pivoted = allocate(rows, sizeof(bool)),
        .queue = allocate(2 * rows + 1, sizeof(uint32_t)),
        .first_columns = allocate(rows, sizeof(uint32_t)),
        .first_rows = allocate(rows, sizeof(uint32_t)),
        .last_columns = allocate(rows, sizeof(uint32_t)),
        .last_rows = allocate(rows, sizeof(uint32_t)),
    };
}

static void count_basis(struct ordering *o, const struct program *p, const uint32_t *basis)
{
    struct entry unit;
    const struct entry *entries;
    memset(o->row_left, 0, p->rows * sizeof *o->row_left);
    memset(o->row_done, 0, p->rows * sizeof *o->row_done);
    memset(o->column_done, 0, p->rows * sizeof *o->column_done);
    for (size_t k = 0; k < p->rows; k++) {
        o->column_left[k] = (uint32_t)column_entries(p, basis[k], &unit, &entries);
        for (size_t i = 0; i < o->column_left[k]; i++) {
            o->row_left[entries[i].row]++;
        }
    }
    o->row_start[0] = 0;
    for (size_t r = 0; r < p->rows; r++) {
        o->row_start[r + 1] = o->row_start[r] + o->row_left[r];
    }
    for (size_t k = 0; k < p->rows; k++) {
        column_entries(p, basis[k], &unit, &entries);
        for (size_t i = 0; i < o->column_left[k]; i++) {
            o->row_columns[o->row_start[entries[i].row]++] = (uint32_t)k;
        }
    }
    for (size_t r = p->rows; r-- > 0;) {
        o->row_start[r + 1] = o->row_start[r];
    }
    o->row_start[0] = 0;
    o->first_count = o->last_count = 0;
}

/* Takes the pivot out of what is left. Rows and columns that have one entry left then join the
   queue: columns as themselves, rows behind the number of rows. */
static size_t take_pivot(struct ordering *o, const struct program *p, const uint32_t *basis,
                         size_t k, size_t row, size_t queued)
{
    struct entry unit;
    const struct entry *entries;
    const size_t count = column_entries(p, basis[k], &unit, &entries);
    o->column_done[k] = o->row_done[row] = true;
    for (size_t i = 0; i < count; i++) {
        const uint32_t other = entries[i].row;
        if (!o->row_done[other] && --o->row_left[other] == 1) {
            o->queue[queued++] = (uint32_t)(p->rows + other);
        }
    }
    for (uint32_t i = o->row_start[row]; i < o->row_start[row + 1]; i++) {
        const uint32_t other = o->row_columns[i];
        if (!o->column_done[other] && --o->column_left[other] == 1) {
            o->queue[queued++] = other;
        }
    }
    return queued;
}

/* Orders the triangular parts of the basis: pivots that are alone in their row first, those alone
   in their column last. What is left is the bump. */
static void order_triangles(struct ordering *o, const struct program *p, const uint32_t *basis)
{
    struct entry unit;
    const struct entry *entries;
    size_t queued = 0;
    for (size_t k = 0; k < p->rows; k++) {
        if (o->column_left[k] == 1) {
            o->queue[queued++] = (uint32_t)k;
        }
    }
    for (size_t r = 0; r < p->rows; r++) {
        if (o->row_left[r] == 1) {
            o->queue[queued++] = (uint32_t)(p->rows + r);
        }
    }
    for (size_t head = 0; head < queued; head++) {
        const uint32_t item = o->queue[head];
        if (item < p->rows) {
            const size_t count = column_entries(p, basis[item], &unit, &entries);
            size_t i = 0;
            while (i < count && o->row_done[entries[i].row]) {
                i++;
            }
            if (o->column_done[item] || i == count) {
                continue;
            }
            o->last_columns[o->last_count] = item;
            o->last_rows[o->last_count++] = entries[i].row;
            queued = take_pivot(o, p, basis, item, entries[i].row, queued);
        } else {
            const uint32_t row = item - (uint32_t)p->rows;
            uint32_t i = o->row_start[row];
            while (i < o->row_start[row + 1] && o->column_done[o->row_columns[i]]) {
                i++;
            }
            if (o->row_done[row] || i == o->row_start[row + 1]) {
                continue;
            }
            o->first_columns[o->first_count] = o->row_columns[i];
            o->first_rows[o->first_count++] = row;
            queued = take_pivot(o, p, basis, o->row_columns[i], row, queued);
        }
    }
}

/* Adds the column of the old basis, which lower factors have transformed, as the pivot of the row:
   what it has in rows without a pivot goes to the lower factor, the rest to the upper one. The new
   basis has the column there. */
static void place_column(struct simplex *s, struct ordering *o, const uint32_t *old, size_t k,
                         size_t row)
{
    const double pivot = 1.0 / s->work[row];
    const size_t first_lower = s->inverse.entries_count;
    const size_t first_upper = s->upper_factor.entries_count;
    for (size_t i = 0; i < s->program->rows; i++) {
        if (i == row || fabs(s->work[i]) <= ZERO_TOLERANCE) {
            continue;
        }
        if (o->row_pivoted[i]) {
            append_entry(&s->upper_factor, i, -s->work[i] * pivot);
        } else {
            append_entry(&s->inverse, i, -s->work[i] * pivot);
        }
    }
    append_eta(&s->inverse, row, 1.0, first_lower);
    append_eta(&s->upper_factor, row, pivot, first_upper);
    o->row_pivoted[row] = true;
    s->basis[row] = old[k];
}

/* Appends the upper factor to the inverse, its last matrix first. */
static void append_upper_factor(struct simplex *s)
{
    for (size_t k = s->upper_factor.etas_count; k-- > 0;) {
        const struct eta *eta = &s->upper_factor.etas[k];
        const size_t first = s->inverse.entries_count;
        for (size_t i = eta->first; i < eta->last; i++) {
            append_entry(&s->inverse, s->upper_factor.entries[i].row,
                         s->upper_factor.entries[i].value);
        }
        append_eta(&s->inverse, eta->row, eta->pivot, first);
    }
}

/* The bump's columns, in their order; each gets the row that few others need, among large pivots.
 */
static void factor_bump(struct simplex *s, struct ordering *o, const uint32_t *old)
{
    const size_t rows = s->program->rows;
    for (size_t k = 0; k < rows; k++) {
        if (o->column_done[k]) {
            continue;
        }
        load_column(s->program, old[k], s->work);
        transform_forward(&s->inverse, s->work);
        double largest = 0.0;
        for (size_t r = 0; r < rows; r++) {
            if (!o->row_done[r] && fabs(s->work[r]) > largest) {
                largest = fabs(s->work[r]);
            }
        }
        if (largest < PIVOT_TOLERANCE) {
            wrong("the basis is singular");
        }
        size_t best = rows;
        for (size_t r = 0; r < rows; r++) {
            if (!o->row_done[r] && fabs(s->work[r]) >= 0.05 * largest &&
                (best == rows || o->row_left[r] < o->row_left[best])) {
                best = r;
            }
        }
        o->row_done[best] = true;
        place_column(s, o, old, k, best);
    }
}

/* Factors the basis anew, and computes the basic variables from the limits. */
static void refactor(struct simplex *s, struct ordering *o, uint32_t *old)
{
    const struct program *p = s->program;
    memcpy(old, s->basis, p->rows * sizeof *old);
    clear_factors(&s->inverse);
    clear_factors(&s->upper_factor);
    memset(o->row_pivoted, 0, p->rows * sizeof *o->row_pivoted);
    count_basis(o, p, old);
    order_triangles(o, p, old);
    for (size_t i = 0; i < o->first_count; i++) {
        load_column(p, old[o->first_columns[i]], s->work);
        transform_forward(&s->inverse, s->work);
        place_column(s, o, old, o->first_columns[i], o->first_rows[i]);
    }
    factor_bump(s, o, old);
    for (size_t i = o->last_count; i-- > 0;) {
        load_column(p, old[o->last_columns[i]], s->work);
        transform_forward(&s->inverse, s->work);
        place_column(s, o, old, o->last_columns[i], o->last_rows[i]);
    }
    append_upper_factor(s);
    memcpy(s->value, p->limit, p->rows * sizeof *s->value);
    for (size_t j = 0; j < p->columns; j++) {
        if (s->status[j] == AT_UPPER) {
            for (size_t i = p->start[j]; i < p->start[j + 1]; i++) {
                s->value[p->entries[i].row] -= p->entries[i].value * p->upper[j];
            }
        }
    }
    transform_forward(&s->inverse, s->value);
}

/* ---- Iterations --------------------------------------------------------------------------- */

/* How much the objective gains for each unit that the column moves off its bound; zero if basic. */
static double gain(const struct simplex *s, size_t column)
{
    if (s->status[column] == BASIC) {
        return 0.0;
    }
    const double profit = reduced_profit(s->program, s->dual, column);
    return s->status[column] == AT_LOWER ? profit : -profit;
}

/* The best column of the next part that has a good one; the number of all columns if none has. */
static size_t price(struct simplex *s)
{
    const size_t all = s->program->columns + s->program->rows;
    const size_t part = all / PRICING_PARTS + 1;
    size_t at = s->next_column;
    for (size_t seen = 0; seen < all;) {
        size_t best = all;
        double best_gain = DUAL_TOLERANCE;
        for (size_t i = 0; i < part && seen < all; i++, seen++) {
            const double gained = gain(s, at);
            if (gained > best_gain) {
                best_gain = gained;
                best = at;
            }
            at = at + 1 < all ? at + 1 : 0;
        }
        s->next_column = at;
        if (best < all) {
            return best;
        }
    }
    return all;
}

static void compute_duals(struct simplex *s)
{
    for (size_t r = 0; r < s->program->rows; r++) {
        s->dual[r] = profit_of(s->program, s->basis[r]);
    }
    transform_backward(&s->inverse, s->dual);
}

/* Lets the column into the basis, or over to its other bound. */
static void enter(struct simplex *s, size_t column)
{
    const struct program *p = s->program;
    const double direction = s->status[column] == AT_LOWER ? 1.0 : -1.0;
    load_column(p, column, s->work);
    transform_forward(&s->inverse, s->work);

    /* Basic variables fall by direction * work for each unit. Of equal limits the largest pivot
     * wins. */
    double most = upper_of(p, column);
    size_t leaving = p->rows;
    for (size_t r = 0; r < p->rows; r++) {
        const double fall = direction * s->work[r];
        double room;
        if (fall > PIVOT_TOLERANCE) {
            room = s->value[r] / fall;
        } else if (fall < -PIVOT_TOLERANCE) {
            const double upper = upper_of(p, s->basis[r]);
            if (upper >= UNBOUNDED) {
                continue;
            }
            room = (upper - s->value[r]) / -fall;
        } else {
            continue;
        }
        room = room > 0.0 ? room : 0.0;
        if (room < most ||
            (room == most && leaving < p->rows && fabs(fall) > fabs(s->work[leaving]))) {
            most = room;
            leaving = r;
        }
    }
    if (most >= UNBOUNDED) {
        wrong("the program has no bound");
    }
    for (size_t r = 0; r < p->rows; r++) {
        if (s->work[r] != 0.0) {
            s->value[r] -= direction * most * s->work[r];
        }
    }
    if (leaving == p->rows) {
        s->status[column] = s->status[column] == AT_LOWER ? AT_UPPER : AT_LOWER;
        return;
    }
    const double start = s->status[column] == AT_LOWER ? 0.0 : p->upper[column];
    s->status[s->basis[leaving]] = direction * s->work[leaving] > 0.0 ? AT_LOWER : AT_UPPER;
    s->status[column] = BASIC;
    s->basis[leaving] = (uint32_t)column;
    s->value[leaving] = start + direction * most;
    const size_t first = s->inverse.entries_count;
    const double pivot = 1.0 / s->work[leaving];
    for (size_t r = 0; r < p->rows; r++) {
        if (r != leaving && fabs(s->work[r]) > ZERO_TOLERANCE) {
            append_entry(&s->inverse, r, -s->work[r] * pivot);
        }
    }
    append_eta(&s->inverse, leaving, pivot, first);
}

/* ---- Building and checking ---------------------------------------------------------------- */

static struct program make_program(size_t rows, size_t columns)
{
    struct program p = {.rows = rows, .columns = columns};
    p.start = allocate(columns + 1, sizeof *p.start);
    p.entries = allocate(columns * ENTRIES_MAX, sizeof *p.entries);
    p.profit = allocate(columns, sizeof *p.profit);
    p.upper = allocate(columns, sizeof *p.upper);
    p.limit = allocate(rows, sizeof *p.limit);
    uint64_t random = random_seeded(1);
    const size_t period = PERIOD_ROWS;
    size_t at = 0;
    for (size_t j = 0; j < columns; j++) {
        p.start[j] = at;
        const size_t first = LINKING_ROWS + j * (rows - LINKING_ROWS - period + 1) / columns;
        const size_t count =
            ENTRIES_MIN + (size_t)random_below(&random, ENTRIES_MAX - ENTRIES_MIN + 1);
        double sum = 0.0;
        for (size_t i = 0; i < count; i++) {
            const bool shared = i == 0 && random_below(&random, 4) == 0;
            const size_t row = shared ? random_below(&random, LINKING_ROWS)
                                      : first + random_below(&random, period);
            size_t k = p.start[j];
            while (k < at && p.entries[k].row != row) {
                k++;
            }
            if (k < at) {
                continue; /* a row occurs once */
            }
            const double value = 0.1 + random_unit(&random);
            p.entries[at++] = (struct entry){(uint32_t)row, value};
            sum += value;
        }
        p.profit[j] = sum * (0.7 + 0.6 * random_unit(&random));
        p.upper[j] = random_below(&random, 2) ? 0.5 + 4.0 * random_unit(&random) : UNBOUNDED;
    }
    p.start[columns] = at;
    for (size_t r = 0; r < rows; r++) {
        p.limit[r] =
            (4.0 + 8.0 * random_unit(&random)) * (r < LINKING_ROWS ? (double)rows / 16 : 1.0);
    }
    return p;
}

static struct simplex make_simplex(const struct program *p)
{
    const size_t all = p->columns + p->rows;
    struct simplex s = {
        .program = p,
        .status = allocate(all, 1),
        .basis = allocate(p->rows, sizeof(uint32_t)),
        .value = allocate(p->rows, sizeof(double)),
        .dual = allocate(p->rows, sizeof(double)),
        .work = allocate(p->rows, sizeof(double)),
        .inverse = allocate_factors(),
        .upper_factor = allocate_factors(),
    };
    memset(s.status, AT_LOWER, all);
    for (size_t r = 0; r < p->rows; r++) {
        s.basis[r] = (uint32_t)(p->columns + r);
        s.status[p->columns + r] = BASIC;
        s.value[r] = p->limit[r];
    }
    return s;
}

/* Returns the profit of the plan, after it was proved to be feasible and optimal. */
static double check(const struct simplex *s)
{
    const struct program *p = s->program;
    const double tolerance = 1e-6;
    double *activity = allocate_zeroed(p->columns, sizeof *activity);
    double *used = allocate_zeroed(p->rows, sizeof *used);
    for (size_t j = 0; j < p->columns; j++) {
        activity[j] = s->status[j] == AT_UPPER ? p->upper[j] : 0.0;
    }
    for (size_t r = 0; r < p->rows; r++) {
        if (s->basis[r] < p->columns) {
            activity[s->basis[r]] = s->value[r];
        }
    }
    double primal = 0.0;
    double dual = 0.0;
    for (size_t j = 0; j < p->columns; j++) {
        if (!(activity[j] >= -tolerance && activity[j] <= p->upper[j] + tolerance)) {
            wrong("activity %zu is %g, outside its bounds", j, activity[j]);
        }
        primal += p->profit[j] * activity[j];
        for (size_t i = p->start[j]; i < p->start[j + 1]; i++) {
            used[p->entries[i].row] += p->entries[i].value * activity[j];
        }
        const double profit = reduced_profit(p, s->dual, j);
        if (profit > tolerance) { /* what is worth more than it costs must be bounded */
            if (p->upper[j] >= UNBOUNDED) {
                wrong("activity %zu has the reduced profit %g", j, profit);
            }
            dual += profit * p->upper[j];
        }
    }
    for (size_t r = 0; r < p->rows; r++) {
        if (!(used[r] <= p->limit[r] + tolerance)) {
            wrong("resource %zu is used %g times of %g", r, used[r], p->limit[r]);
        }
        if (!(s->dual[r] >= -tolerance)) {
            wrong("resource %zu has the price %g", r, s->dual[r]);
        }
        dual += s->dual[r] * p->limit[r];
    }
    if (!(fabs(dual - primal) < tolerance * fabs(primal))) {
        wrong("the plan earns %.9g, but the dual bound is %.9g", primal, dual);
    }
    free(activity);
    free(used);
    return primal;
}

int main(int argc, char **argv)
{
    const size_t rows = argument(argc, argv, 1, "rows", LINKING_ROWS + PERIOD_ROWS, 1000000);
    const size_t columns = argument(argc, argv, 2, "columns", 8, 100000000);
    arguments_end(argc, 2);

    const struct program program = make_program(rows, columns);
    struct simplex simplex = make_simplex(&program);
    struct ordering ordering = allocate_ordering(rows);
    uint32_t *old = allocate(rows, sizeof *old);
    steady("%zu rows, %zu columns, %zu entries", rows, columns, program.start[columns]);

    for (;;) {
        if (simplex.iterations % REFACTOR_INTERVAL == 0) {
            refactor(&simplex, &ordering, old);
        }
        compute_duals(&simplex);
        const size_t column = price(&simplex);
        if (column == columns + rows) {
            break;
        }
        enter(&simplex, column);
        simplex.iterations++;
    }

    refactor(&simplex, &ordering, old);
    compute_duals(&simplex);
    const double profit = check(&simplex);
    uint64_t digest = simplex.iterations;
    digest_double(&digest, profit);
    return verified(digest, "profit %.6f after %" PRIu64 " iterations", profit, simplex.iterations);
}
