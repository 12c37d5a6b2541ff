/*
 * quantum QUBITS NUMBER BASE: Shor's algorithm on a simulated quantum register.
 *
 * Computes: the period of BASE^x modulo NUMBER, and from it a factor of NUMBER. The register of
 * QUBITS holds every x at once; the function's value is measured, which leaves the x of one
 * value, a comb with the period; the quantum Fourier transform turns the comb into peaks; a
 * continued fraction reads the period from a peak.
 *
 * Algorithm: P. W. Shor, "Polynomial-time algorithms for prime factorization and discrete
 * logarithms on a quantum computer", SIAM J. Computing 26 (1997); the transform gate by gate, as D.
 * Coppersmith, "An approximate Fourier transform useful in quantum factoring", IBM Research
 * Report RC 19642 (1994). The state is a dense vector of 2^QUBITS complex amplitudes.
 *
 * Memory behaviour that it stands for (libquantum): every gate streams over the whole state, or
 * regular parts of it, and writes what it reads: long sequential runs, no reuse in any cache,
 * hardly any arithmetic.
 *
 * Check: the norm is 1 after all gates; the probabilities of the peaks, and of places between them,
 * are those of the transform of a comb in closed form; the measured period is that found by
 * stepping through the powers; and the factor divides.
 */
#define KERNEL "quantum"
#include "kernel.h"
#include "kernel_math.h"

enum { QUBITS_MAX = 28 };

struct amplitude {
    double re, im;
};

struct state {
    unsigned qubits;
    size_t count; /* 2 to the power of qubits */
    struct amplitude *amplitudes;
    uint64_t gates;
};

/* The rotation by pi / 2^k for each k, from the half-angle formulas: square roots alone. */
struct rotations {
    struct amplitude by[QUBITS_MAX + 1];
};

static struct rotations make_rotations(void)
{
    struct rotations rotations;
    rotations.by[0] = (struct amplitude){-1.0, 0.0};
    rotations.by[1] = (struct amplitude){0.0, 1.0};
    for (unsigned k = 2; k <= QUBITS_MAX; k++) {
        const double re = sqrt((1.0 + rotations.by[k - 1].re) * 0.5);
        rotations.by[k] = (struct amplitude){re, rotations.by[k - 1].im / (2.0 * re)};
    }
    return rotations;
}

/* ---- Gates -------------------------------------------------------------------------------- */

static void hadamard(struct state *state, unsigned qubit)
{
    const size_t stride = (size_t)1 << qubit;
    const double half = 0x1.6a09e667f3bcdp-1; /* square root of 1/2 */
    for (size_t block = 0; block < state->count; block += 2 * stride) {
        struct amplitude *zero = &state->amplitudes[block];
        struct amplitude *one = zero + stride;
        for (size_t i = 0; i < stride; i++) {
            const struct amplitude a = zero[i];
            const struct amplitude b = one[i];
            zero[i] = (struct amplitude){(a.re + b.re) * half, (a.im + b.im) * half};
            one[i] = (struct amplitude){(a.re - b.re) * half, (a.im - b.im) * half};
        }
    }
    state->gates++;
}

/* Rotates the phase of the states in which both qubits are set; `high` above `low`. */
static void controlled_phase(struct state *state, unsigned high, unsigned low,
                             struct amplitude rotation)
{
    const size_t high_stride = (size_t)1 << high;
    const size_t low_stride = (size_t)1 << low;
    for (size_t outer = high_stride; outer < state->count; outer += 2 * high_stride) {
        for (size_t inner = low_stride; inner < high_stride; inner += 2 * low_stride) {
            struct amplitude *both = &state->amplitudes[outer + inner];
            for (size_t i = 0; i < low_stride; i++) {
                const struct amplitude a = both[i];
                both[i] = (struct amplitude){a.re * rotation.re - a.im * rotation.im,
                                             a.re * rotation.im + a.im * rotation.re};
            }
        }
    }
    state->gates++;
}

/* Leaves the amplitude of y at the place whose bits are y's in reverse. */
static void fourier_transform(struct state *state, const struct rotations *rotations)
{
    for (unsigned high = state->qubits; high-- > 0;) {
        hadamard(state, high);
        for (unsigned low = high; low-- > 0;) {
            controlled_phase(state, high, low, rotations->by[high - low]);
        }
    }
}

/* ---- The function, its period, the comb --------------------------------------------------- */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t modulus)
{
    uint64_t power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) {
            power = power * base % modulus;
        }
        base = base * base % modulus;
    }
    return power;
}

/* The smallest positive exponent whose power is 1; the kernel's check alone uses it. */
static uint64_t period_by_stepping(uint64_t base, uint64_t modulus)
{
    uint64_t period = 1;
    for (uint64_t power = base; power != 1; power = power * base % modulus) {
        period++;
    }
    return period;
}

/* Superposes all x whose power is the measured value; returns how many those are. */
static uint64_t measure_value(struct state *state, uint64_t base, uint64_t modulus)
{
    const uint64_t measured = power_modulo(base, state->count / 3, modulus);
    uint64_t found = 0;
    uint64_t power = 1;
    for (size_t x = 0; x < state->count; x++) {
        const bool kept = power == measured;
        state->amplitudes[x] = (struct amplitude){kept ? 1.0 : 0.0, 0.0};
        found += kept;
        power = power * base % modulus;
    }
    return found;
}

static void normalise(struct state *state, uint64_t found)
{
    const double scale = 1.0 / sqrt((double)found);
    for (size_t x = 0; x < state->count; x++) {
        state->amplitudes[x].re *= scale;
    }
}

/* ---- Reading the result ------------------------------------------------------------------- */

/* The low `bits` bits of the index in reverse: ever larger neighbours change places. */
static size_t reversed(size_t index, unsigned bits)
{
    uint32_t word = (uint32_t)index;
    word = (word & UINT32_C(0x55555555)) << 1 | (word >> 1 & UINT32_C(0x55555555));
    word = (word & UINT32_C(0x33333333)) << 2 | (word >> 2 & UINT32_C(0x33333333));
    word = (word & UINT32_C(0x0f0f0f0f)) << 4 | (word >> 4 & UINT32_C(0x0f0f0f0f));
    word = (word & UINT32_C(0x00ff00ff)) << 8 | (word >> 8 & UINT32_C(0x00ff00ff));
    word = word << 16 | word >> 16;
    return word >> (32 - bits);
}

static double probability(const struct state *state, size_t y)
{
    const struct amplitude a = state->amplitudes[reversed(y, state->qubits)];
    return a.re * a.re + a.im * a.im;
}

/* The sine of pi k / count, squared. */
static double sine_square(uint64_t k, uint64_t count)
{
    double sine;
    double cosine;
    sine_and_cosine(PI * (double)(k % count) / (double)count, &sine, &cosine);
    return sine * sine;
}

/* The transform of a comb: sin^2(pi y r m / n) / (n m sin^2(pi y r / n)) for m teeth r apart. */
static double comb_probability(uint64_t y, uint64_t period, uint64_t teeth, uint64_t count)
{
    const double below = sine_square(y * period, count);
    if (y * period % count == 0) {
        return (double)teeth / (double)count;
    }
    return sine_square(y * period % count * teeth, count) / (below * (double)teeth * (double)count);
}

static void check_probability(const struct state *state, uint64_t y, uint64_t period,
                              uint64_t teeth)
{
    const double exact = comb_probability(y, period, teeth, state->count);
    if (!(fabs(probability(state, y) - exact) < 1e-9)) {
        wrong("%" PRIu64 " has the probability %.12f, but must have %.12f", y,
              probability(state, y), exact);
    }
}

/* The denominator of the last convergent of y / count whose denominator is below the limit. */
static uint64_t denominator_of(uint64_t y, uint64_t count, uint64_t limit)
{
    uint64_t before = 0;
    uint64_t last = 1;
    uint64_t numerator = count;
    uint64_t divisor = y;
    while (divisor != 0) {
        const uint64_t next = numerator / divisor * last + before;
        if (next >= limit) {
            break;
        }
        const uint64_t rest = numerator % divisor;
        numerator = divisor;
        divisor = rest;
        before = last;
        last = next;
    }
    return last;
}

/* The period that the peaks tell: the least common multiple of the denominators of all of them. */
static uint64_t period_from_peaks(const struct state *state, uint64_t modulus, double threshold)
{
    uint64_t period = 1;
    for (size_t y = 1; y < state->count; y++) {
        if (probability(state, y) >= threshold) {
            const uint64_t denominator = denominator_of(y, state->count, modulus);
            period = period / greatest_common_divisor(period, denominator) * denominator;
        }
    }
    return period;
}

int main(int argc, char **argv)
{
    struct state state = {.gates = 0};
    state.qubits = (unsigned)argument(argc, argv, 1, "qubits", 4, QUBITS_MAX);
    const uint64_t number = argument(argc, argv, 2, "number to factor", 6, 16383);
    const uint64_t base = argument(argc, argv, 3, "base", 2, number - 1);
    arguments_end(argc, 3);
    state.count = (size_t)1 << state.qubits;
    if (number * number > state.count || greatest_common_divisor(base, number) != 1) {
        fprintf(stderr, KERNEL ": the number's square must be below 2^qubits, and the base must "
                               "have no factor in common with it\n");
        return 2;
    }
    state.amplitudes = allocate(state.count, sizeof *state.amplitudes);
    const struct rotations rotations = make_rotations();
    const uint64_t teeth = measure_value(&state, base, number);
    normalise(&state, teeth);
    steady("%u qubits, %" PRIu64 "^x modulo %" PRIu64, state.qubits, base, number);
    fourier_transform(&state, &rotations);

    double norm = 0.0;
    uint64_t digest = 0;
    for (size_t i = 0; i < state.count; i++) {
        const struct amplitude a = state.amplitudes[i];
        norm += a.re * a.re + a.im * a.im;
        digest_double(&digest, a.re);
        digest_double(&digest, a.im);
    }
    if (!(fabs(norm - 1.0) < 1e-9)) {
        wrong("the norm is %.15g", norm);
    }
    const uint64_t period = period_by_stepping(base, number);
    for (uint64_t k = 0; k < period; k++) {
        const uint64_t peak = (k * state.count + period / 2) / period % state.count;
        check_probability(&state, peak, period, teeth);
        check_probability(&state, (peak + 1) % state.count, period, teeth);
    }
    const uint64_t found = period_from_peaks(&state, number, 0.3 / (double)period);
    if (found != period) {
        wrong("the peaks tell the period %" PRIu64 ", but it is %" PRIu64, found, period);
    }
    const uint64_t root = power_modulo(base, period / 2, number);
    const uint64_t factor = greatest_common_divisor(root + 1, number);
    if (period % 2 != 0 || factor == 1 || factor == number || number % factor != 0) {
        wrong("period %" PRIu64 " gives no factor of %" PRIu64, period, number);
    }
    return verified(digest, "%" PRIu64 " = %" PRIu64 " * %" PRIu64 " by %" PRIu64 " gates", number,
                    factor, number / factor, state.gates);
}
