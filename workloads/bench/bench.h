/*
 * What the benchmark kernels and their programs share: the random numbers, the
 * result type, the arguments and the one line that a program prints.
 *
 * Always true: a kernel owns all its memory, depends on its seed and scale alone
 * (so its checksum is the same on every machine and with every compiler), and
 * checks its own result before it returns. Nothing here reads a clock.
 */
#ifndef PERDURE_BENCH_H
#define PERDURE_BENCH_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCALE_PERCENT_DEFAULT = 100, SCALE_PERCENT_MAX = 10000 };

/* What a kernel computed, and, if its own check failed, what was wrong. */
struct kernel_result {
    uint64_t checksum;
    const char *fault; /* NULL if the result verified */
};

/* Work, and for every kernel but `compute` the footprint, grow linearly with the scale. */
typedef struct kernel_result kernel_function(uint64_t seed, unsigned scale_percent);

/* The finaliser of SplitMix64: a bijection of 64-bit words that scatters them well. */
static inline uint64_t mix64(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* xorshift64: three shifts a number, so that the generator does not drown the kernel. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t word = *state;
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    return *state = word;
}

/* A starting state for random_next: never zero, and unrelated for neighbouring seeds. */
static inline uint64_t random_seeded(uint64_t seed)
{
    return mix64(seed + UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

/* Maps a random word to 0..bound-1 without a division; uses the word's high half. */
static inline uint64_t random_below(uint64_t word, uint64_t bound)
{
    return ((word >> 32) * bound) >> 32;
}

static inline size_t scaled(size_t full, unsigned scale_percent)
{
    const size_t part = full * scale_percent / 100;
    return part > 0 ? part : 1;
}

static inline struct kernel_result kernel_failed(const char *fault)
{
    return (struct kernel_result){.checksum = 0, .fault = fault};
}

/* Reads a decimal argument in minimum..maximum; on anything else says so and ends the program. */
static inline unsigned argument_number(const char *program, const char *what, const char *text,
                                       unsigned long minimum, unsigned long maximum)
{
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number < minimum || number > maximum) {
        fprintf(stderr, "%s: %s is \"%s\", but must be a whole number from %lu to %lu\n", program,
                what, text, minimum, maximum);
        exit(2);
    }
    return (unsigned)number;
}

/* Prints the result's one line; returns whether it verified. */
static inline int report(const char *name, struct kernel_result result)
{
    if (result.fault != NULL) {
        printf("%s: WRONG: %s\n", name, result.fault);
        return 0;
    }
    printf("%s: checksum %016" PRIx64 ", verified\n", name, result.checksum);
    return 1;
}

/* The whole of a single-kernel program: `NAME [SCALE_PERCENT]`. */
static inline int kernel_main(int argc, char **argv, const char *name, kernel_function *kernel)
{
    unsigned scale_percent = SCALE_PERCENT_DEFAULT;
    if (argc > 2) {
        fprintf(stderr, "usage: %s [SCALE_PERCENT]\n", name);
        return 2;
    }
    if (argc == 2) {
        scale_percent = argument_number(name, "SCALE_PERCENT", argv[1], 1, SCALE_PERCENT_MAX);
    }
    return report(name, kernel(0, scale_percent)) ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
