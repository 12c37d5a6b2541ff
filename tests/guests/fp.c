/*
 * End-to-end test: floating point, to the bit: rounding modes, exception flags, NaNs.
 *
 *   fp [ROUNDS]      rounds of random operands after the fixed ones, default 20
 *
 * Each operation is one machine instruction, written out, so that no compiler folds or
 * contracts it. Always true: a printed digest covers every result's bits and the flags that
 * this operation alone raised, for all operand pairs in that rounding mode; the first lines
 * print some in full.
 */
#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

/* The rounding modes of the fcsr, by number; C's fenv knows all but the last. */
static const char *const rounding_names[] = {"RNE", "RTZ", "RDN", "RUP", "RMM"};
enum { ROUNDING_MODES = 5 };

static void set_rounding(unsigned mode)
{
    __asm__ volatile("fsrm %0" : : "r"((unsigned long)mode));
}

static unsigned long take_flags(void)
{
    unsigned long flags;
    __asm__ volatile("frflags %0\n\tfsflags zero" : "=r"(flags) : : "memory");
    return flags;
}

/* Operations: the bits of two or three operands to the bits of the result. */
#define BINARY(name, type, move_in, move_out, instruction)                                    \
    static uint64_t name(uint64_t left, uint64_t right, uint64_t unused)                      \
    {                                                                                         \
        type result, first, second;                                                           \
        uint64_t bits;                                                                        \
        (void)unused;                                                                         \
        __asm__ volatile(move_in " %1, %4\n\t" move_in " %2, %5\n\t" instruction              \
                                 " %0, %1, %2\n\t" move_out " %3, %0"                         \
                         : "=&f"(result), "=&f"(first), "=&f"(second), "=r"(bits)             \
                         : "r"(left), "r"(right));                                            \
        return bits;                                                                          \
    }
#define FUSED(name, type, move_in, move_out, instruction)                                     \
    static uint64_t name(uint64_t left, uint64_t right, uint64_t addend)                      \
    {                                                                                         \
        type result, first, second, third;                                                    \
        uint64_t bits;                                                                        \
        __asm__ volatile(move_in " %1, %5\n\t" move_in " %2, %6\n\t" move_in " %3, %7\n\t"    \
                         instruction " %0, %1, %2, %3\n\t" move_out " %4, %0"                 \
                         : "=&f"(result), "=&f"(first), "=&f"(second), "=&f"(third),          \
                           "=r"(bits)                                                         \
                         : "r"(left), "r"(right), "r"(addend));                               \
        return bits;                                                                          \
    }
#define UNARY(name, type, move_in, move_out, instruction)                                     \
    static uint64_t name(uint64_t operand, uint64_t unused_right, uint64_t unused)            \
    {                                                                                         \
        type result, first;                                                                   \
        uint64_t bits;                                                                        \
        (void)unused_right;                                                                   \
        (void)unused;                                                                         \
        __asm__ volatile(move_in " %1, %3\n\t" instruction " %0, %1\n\t" move_out " %2, %0"   \
                         : "=&f"(result), "=&f"(first), "=r"(bits)                            \
                         : "r"(operand));                                                     \
        return bits;                                                                          \
    }
#define TO_INTEGER(name, type, move_in, instruction)                                          \
    static uint64_t name(uint64_t operand, uint64_t unused_right, uint64_t unused)            \
    {                                                                                         \
        type first;                                                                           \
        uint64_t result;                                                                      \
        (void)unused_right;                                                                   \
        (void)unused;                                                                         \
        __asm__ volatile(move_in " %1, %2\n\t" instruction " %0, %1"                          \
                         : "=r"(result), "=&f"(first)                                         \
                         : "r"(operand));                                                     \
        return result;                                                                        \
    }
#define TO_INTEGER_PAIR(name, type, move_in, instruction)                                     \
    static uint64_t name(uint64_t left, uint64_t right, uint64_t unused)                      \
    {                                                                                         \
        type first, second;                                                                   \
        uint64_t result;                                                                      \
        (void)unused;                                                                         \
        __asm__ volatile(move_in " %1, %3\n\t" move_in " %2, %4\n\t" instruction " %0, %1, %2" \
                         : "=r"(result), "=&f"(first), "=&f"(second)                          \
                         : "r"(left), "r"(right));                                            \
        return result;                                                                        \
    }
#define FROM_INTEGER(name, type, move_out, instruction)                                       \
    static uint64_t name(uint64_t operand, uint64_t unused_right, uint64_t unused)            \
    {                                                                                         \
        type result;                                                                          \
        uint64_t bits;                                                                        \
        (void)unused_right;                                                                   \
        (void)unused;                                                                         \
        __asm__ volatile(instruction " %0, %2\n\t" move_out " %1, %0"                         \
                         : "=&f"(result), "=r"(bits)                                          \
                         : "r"(operand));                                                     \
        return bits;                                                                          \
    }

#define BOTH(shape, name)                                                                     \
    shape(name##_d, double, "fmv.d.x", "fmv.x.d", #name ".d")                                 \
    shape(name##_s, float, "fmv.w.x", "fmv.x.w", #name ".s")
BOTH(BINARY, fadd)
BOTH(BINARY, fsub)
BOTH(BINARY, fmul)
BOTH(BINARY, fdiv)
BOTH(BINARY, fmin)
BOTH(BINARY, fmax)
BOTH(BINARY, fsgnj)
BOTH(BINARY, fsgnjn)
BOTH(BINARY, fsgnjx)
BOTH(UNARY, fsqrt)
BOTH(FUSED, fmadd)
BOTH(FUSED, fmsub)
BOTH(FUSED, fnmadd)
BOTH(FUSED, fnmsub)
UNARY(narrow, double, "fmv.d.x", "fmv.x.w", "fcvt.s.d")
UNARY(widen, double, "fmv.w.x", "fmv.x.d", "fcvt.d.s")
#define BOTH_TO_INTEGER(shape, name, mnemonic)                                                \
    shape(name##_d, double, "fmv.d.x", mnemonic ".d")                                         \
    shape(name##_s, float, "fmv.w.x", mnemonic ".s")
BOTH_TO_INTEGER(TO_INTEGER, to_w, "fcvt.w")
BOTH_TO_INTEGER(TO_INTEGER, to_wu, "fcvt.wu")
BOTH_TO_INTEGER(TO_INTEGER, to_l, "fcvt.l")
BOTH_TO_INTEGER(TO_INTEGER, to_lu, "fcvt.lu")
BOTH_TO_INTEGER(TO_INTEGER, fclass, "fclass")
BOTH_TO_INTEGER(TO_INTEGER_PAIR, feq, "feq")
BOTH_TO_INTEGER(TO_INTEGER_PAIR, flt, "flt")
BOTH_TO_INTEGER(TO_INTEGER_PAIR, fle, "fle")
#define BOTH_FROM_INTEGER(name, suffix)                                                       \
    FROM_INTEGER(name##_d, double, "fmv.x.d", "fcvt.d." suffix)                               \
    FROM_INTEGER(name##_s, float, "fmv.x.w", "fcvt.s." suffix)
BOTH_FROM_INTEGER(from_w, "w")
BOTH_FROM_INTEGER(from_wu, "wu")
BOTH_FROM_INTEGER(from_l, "l")
BOTH_FROM_INTEGER(from_lu, "lu")

typedef uint64_t operation_function(uint64_t, uint64_t, uint64_t);

enum operands { DOUBLES, FLOATS, INTEGERS };

static const struct operation {
    const char *name;
    operation_function *run;
    enum operands operands;
} operations[] = {
#define ROW(name) {#name "_d", name##_d, DOUBLES}, {#name "_s", name##_s, FLOATS}
    ROW(fadd),   ROW(fsub),    ROW(fmul),    ROW(fdiv),   ROW(fsqrt),  ROW(fmadd),
    ROW(fmsub),  ROW(fnmadd),  ROW(fnmsub),  ROW(fmin),   ROW(fmax),   ROW(fsgnj),
    ROW(fsgnjn), ROW(fsgnjx),  ROW(feq),     ROW(flt),    ROW(fle),    ROW(fclass),
    ROW(to_w),   ROW(to_wu),   ROW(to_l),    ROW(to_lu),  {"narrow", narrow, DOUBLES},
    {"widen", widen, FLOATS},
#define INTEGER_ROW(name) {#name "_d", name##_d, INTEGERS}, {#name "_s", name##_s, INTEGERS}
    INTEGER_ROW(from_w), INTEGER_ROW(from_wu), INTEGER_ROW(from_l), INTEGER_ROW(from_lu),
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Operands at which results or flags change: zeros, subnormals, ties, limits, NaNs. */
static const uint64_t corner_doubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800fffffffffffff,
    0x0010000000000000, 0x3cb0000000000000, 0x3fdfffffffffffff, 0x3fe0000000000000,
    0x3ff0000000000000, 0xbff0000000000001, 0x3ff8000000000000, 0x4004000000000000,
    0x41dfffffffc00000, 0xc1e0000000200000, 0x41f0000000000000, 0x43dfffffffffffff,
    0xc3e0000000000000, 0x43f0000000000000, 0x7fefffffffffffff, 0x7ff0000000000000,
    0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0xfff8000000000123,
};
static const uint64_t corner_floats[] = {
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x33800000,
    0x3effffff, 0x3f000000, 0x3f800000, 0xbf800001, 0x3fc00000, 0x40200000,
    0x4effffff, 0xcf000000, 0x4f800000, 0x5effffff, 0xdf000000, 0x5f800000,
    0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc00123,
};
enum { CORNERS = sizeof corner_doubles / sizeof corner_doubles[0] };
_Static_assert(CORNERS == sizeof corner_floats / sizeof corner_floats[0], "as many of each");

static uint64_t random_state;

static uint64_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t corner(enum operands operands, unsigned index)
{
    switch (operands) {
    case DOUBLES:
        return corner_doubles[index];
    case FLOATS:
        return corner_floats[index];
    default: /* integers: the doubles' bits, shifted to end at different magnitudes */
        return corner_doubles[index] >> (index * 5 % 64);
    }
}

/* Random bits, but with exponents near one another, so that results are not all trivial. */
static uint64_t random_operand(enum operands operands)
{
    const uint64_t word = random_word();
    switch (operands) {
    case DOUBLES:
        return (word & 0x800fffffffffffff) | (0x3c0 + (word >> 52) % 128) << 52;
    case FLOATS:
        return (word & 0x807fffff) | (0x60 + (word >> 23) % 64) << 23;
    default:
        return word >> word % 64;
    }
}

struct outcome {
    uint64_t bits;
    unsigned long flags;
};

static struct outcome perform(const struct operation *operation, uint64_t left, uint64_t right,
                              uint64_t addend)
{
    struct outcome outcome;
    take_flags();
    outcome.bits = operation->run(left, right, addend);
    outcome.flags = take_flags();
    return outcome;
}

static uint64_t add_outcome(uint64_t digest, struct outcome outcome)
{
    return digest_add_word(digest_add_word(digest, outcome.bits), outcome.flags);
}

/* All corner pairs, then random operands, of one operation in one rounding mode. */
static uint64_t digest_of(const struct operation *operation, int rounds)
{
    uint64_t digest = DIGEST_EMPTY;
    random_state = UINT64_C(0x9e3779b97f4a7c15); /* the same operands in each rounding mode */
    for (unsigned left = 0; left < CORNERS; left++) {
        for (unsigned right = 0; right < CORNERS; right++) {
            digest = add_outcome(digest, perform(operation, corner(operation->operands, left),
                                                 corner(operation->operands, right),
                                                 corner(operation->operands,
                                                        (left + right * 5) % CORNERS)));
        }
    }
    for (int i = 0; i < rounds; i++) {
        const uint64_t left = random_operand(operation->operands);
        const uint64_t right = random_operand(operation->operands);
        digest = add_outcome(digest,
                             perform(operation, left, right, random_operand(operation->operands)));
    }
    return digest;
}

/* One third, its square root and a large sum in full, in each rounding mode. */
static void print_examples(unsigned mode)
{
    const struct outcome third = perform(&operations[6], 0x3ff0000000000000, 0x4008000000000000, 0);
    const struct outcome root = perform(&operations[8], 0x4000000000000000, 0, 0);
    const struct outcome sum = perform(&operations[0], 0x7fefffffffffffff, 0x7fefffffffffffff, 0);
    const struct outcome tie = perform(&operations[1], 0x3f800000, 0x33800000, 0);
    printf("%s: 1/3 %016" PRIx64 " %02lx, sqrt 2 %016" PRIx64 " %02lx, overflow %016" PRIx64
           " %02lx, tie %016" PRIx64 " %02lx\n",
           rounding_names[mode], third.bits, third.flags, root.bits, root.flags, sum.bits,
           sum.flags, tie.bits, tie.flags);
}

/* A single in a register is boxed in ones; what is not boxed reads as the canonical NaN. */
static void test_boxing(void)
{
    double boxed, unboxed, result;
    uint64_t boxed_bits, result_bits;
    __asm__ volatile("fmv.w.x %0, %1" : "=f"(boxed) : "r"(UINT64_C(0x3f800000)));
    __asm__ volatile("fmv.x.d %0, %1" : "=r"(boxed_bits) : "f"(boxed));
    __asm__ volatile("fmv.d.x %0, %1" : "=f"(unboxed) : "r"(UINT64_C(0x000000003f800000)));
    __asm__ volatile("fadd.s %0, %1, %2" : "=f"(result) : "f"(boxed), "f"(unboxed));
    __asm__ volatile("fmv.x.d %0, %1" : "=r"(result_bits) : "f"(result));
    printf("boxing: 1 is %016" PRIx64 ", 1 + unboxed is %016" PRIx64 "\n", boxed_bits, result_bits);
}

/* The C library's view of the same state, and its functions on top of the hardware. */
static void test_fenv(void)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    volatile double half = 2.5;
    volatile double zero = 0.0;
    volatile double quotient;
    printf("fenv:");
    for (unsigned i = 0; i < 4; i++) {
        fesetround(modes[i]);
        printf(" %g", nearbyint(half));
    }
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    quotient = 1.0 / zero;
    const int divided = fetestexcept(FE_ALL_EXCEPT);
    feclearexcept(FE_ALL_EXCEPT);
    quotient = zero / zero;
    const int invalid = fetestexcept(FE_ALL_EXCEPT);
    (void)quotient;
    fenv_t saved;
    feholdexcept(&saved);
    feraiseexcept(FE_OVERFLOW);
    feupdateenv(&saved);
    printf(", divided %02x, invalid %02x, merged %02x\n", (unsigned)divided, (unsigned)invalid,
           (unsigned)fetestexcept(FE_ALL_EXCEPT));
    feclearexcept(FE_ALL_EXCEPT);
    printf("text: %.17g %.3f %a %g %g\n", 0.1 + half, 2.0 / 3.0 * half, half / 3.0,
           strtod("1e-310", NULL), strtod("123456789012345678901234567890", NULL));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    if (argc > 2 || rounds < 0) {
        fprintf(stderr, "usage: fp [ROUNDS]\n");
        return 2;
    }
    for (unsigned mode = 0; mode < ROUNDING_MODES; mode++) {
        set_rounding(mode);
        print_examples(mode);
        set_rounding(0);
    }
    for (unsigned i = 0; i < OPERATIONS; i++) {
        printf("%-9s", operations[i].name);
        for (unsigned mode = 0; mode < ROUNDING_MODES; mode++) {
            set_rounding(mode);
            const uint64_t digest = digest_of(&operations[i], rounds);
            set_rounding(0);
            printf(" %016" PRIx64, digest);
        }
        printf("\n");
    }
    test_boxing();
    test_fenv();
    printf("fp: done\n");
    return EXIT_SUCCESS;
}
