/*
 * What the kernels share: random numbers, memory, arguments, the digest of a result,
 * and the lines that a kernel prints.
 *
 * Always true: a kernel is one thread, reads no file and no clock, and depends on its
 * arguments alone. It prints one line when its data stand ready and its steady phase
 * begins (so that an instruction counter can see where that is), and one at its end: what
 * it computed and a digest of it, or what its own check found wrong, with status 1. Since
 * the programs are compiled without contraction of floating-point operations, and use no
 * function of libm but the exactly rounded square root, the digest is the same to the bit on
 * every machine, with every compiler and every C library.
 *
 * A program defines KERNEL, its name in quotes, before it includes this file.
 */
#ifndef PERDURE_KERNEL_H
#define PERDURE_KERNEL_H

#ifndef KERNEL
#error "define KERNEL, the program's name, before kernel.h is included"
#endif

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE_BYTES = 64 };

/* Says what is wrong with the result, and ends the program with status 1. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void wrong(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("%s: WRONG: ", KERNEL);
    vprintf(format, values);
    printf("\n");
    va_end(values);
    exit(EXIT_FAILURE);
}

/* The line that opens the steady phase; it leaves the program at once. */
__attribute__((format(printf, 1, 2))) static inline void steady(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("%s: ", KERNEL);
    vprintf(format, values);
    printf("\n");
    va_end(values);
    fflush(stdout);
}

/* ---- Arguments and memory ----------------------------------------------------------------- */

/* Argument number `index` as a decimal number in minimum..maximum. On anything else, a missing
   argument included, it says what the arguments are and ends the program with status 2. */
static inline uint64_t argument(int argc, char **argv, int index, const char *what,
                                uint64_t minimum, uint64_t maximum)
{
    const char *text = index < argc ? argv[index] : "";
    char *end;
    const uint64_t number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number < minimum || number > maximum) {
        fprintf(stderr,
                "%s: argument %d (%s) is \"%s\", but must be a whole number from %" PRIu64
                " to %" PRIu64 "\n",
                KERNEL, index, what, text, minimum, maximum);
        exit(2);
    }
    return number;
}

/* Refuses arguments beyond the last one. */
static inline void arguments_end(int argc, int count)
{
    if (argc > count + 1) {
        fprintf(stderr, "%s: takes %d arguments, not %d\n", KERNEL, count, argc - 1);
        exit(2);
    }
}

/* Memory for `count` items that starts on a cache line; its content is arbitrary. */
static inline void *allocate(size_t count, size_t item_bytes)
{
    const size_t bytes =
        (count * item_bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    void *memory = aligned_alloc(CACHE_LINE_BYTES, bytes > 0 ? bytes : CACHE_LINE_BYTES);
    if (memory == NULL) {
        fprintf(stderr, "%s: no memory for %zu bytes\n", KERNEL, bytes);
        exit(2);
    }
    return memory;
}

/* The same, all zero. */
static inline void *allocate_zeroed(size_t count, size_t item_bytes)
{
    void *memory = calloc(count > 0 ? count : 1, item_bytes);
    if (memory == NULL) {
        fprintf(stderr, "%s: no memory for %zu items of %zu bytes\n", KERNEL, count, item_bytes);
        exit(2);
    }
    return memory;
}

/* ---- Random numbers ----------------------------------------------------------------------- */

/* The finaliser of SplitMix64: a bijection of 64-bit words that scatters them well. */
static inline uint64_t mix64(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* A starting state for random_next: never zero, and unrelated for neighbouring seeds. */
static inline uint64_t random_seeded(uint64_t seed)
{
    return mix64(seed + UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

/* xorshift64*: Marsaglia's xorshift with Vigna's multiplier. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t word = *state;
    word ^= word >> 12;
    word ^= word << 25;
    word ^= word >> 27;
    *state = word;
    return word * UINT64_C(0x2545f4914f6cdd1d);
}

/* Uniform in 0..bound-1; bound at most 2^32. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return ((random_next(state) >> 32) * bound) >> 32;
}

/* Uniform in [0, 1), 53 random bits. */
static inline double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1.0p-53;
}

/* ---- The digest of a result --------------------------------------------------------------- */

static inline void digest_word(uint64_t *digest, uint64_t word)
{
    *digest = mix64(*digest ^ word) + UINT64_C(0x9e3779b97f4a7c15);
}

/* Takes in every bit of a number. */
static inline void digest_double(uint64_t *digest, double number)
{
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    digest_word(digest, word);
}

/* The last line of a kernel whose result was right; returns the program's status. */
__attribute__((format(printf, 2, 3))) static inline int verified(uint64_t digest,
                                                                 const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("%s: ", KERNEL);
    vprintf(format, values);
    printf("; digest %016" PRIx64 ", verified\n", digest);
    va_end(values);
    return EXIT_SUCCESS;
}

#endif
