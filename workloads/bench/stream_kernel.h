/*
 * Streaming updates over two arrays of 32 MB each.
 *
 * Passes alternate between a[i] += k * b[i] and b[i] += k * a[i], in order, so that
 * every line of both arrays is read and every line of one is rewritten. Always
 * true: each pass is linear in an element's two initial values, so after any number
 * of passes every element has a closed form, against which all of them are checked.
 */
#ifndef PERDURE_STREAM_KERNEL_H
#define PERDURE_STREAM_KERNEL_H

#include "bench.h"

enum {
    STREAM_ELEMENTS = 4 * 1024 * 1024, /* 32 MB of 64-bit words */
    STREAM_PASSES = 5,
};

#define STREAM_INITIAL_STEP_A UINT64_C(0x9e3779b97f4a7c15)
#define STREAM_INITIAL_STEP_B UINT64_C(0xd1b54a32d192ed03)

static inline uint64_t stream_factor(uint64_t seed, unsigned pass)
{
    return mix64(seed * STREAM_PASSES + pass + 1);
}

static inline void stream_update(uint64_t *restrict target, const uint64_t *restrict source,
                                 size_t elements, uint64_t factor)
{
    for (size_t i = 0; i < elements; i++) {
        target[i] += factor * source[i];
    }
}

/* All passes over a pair of arrays; of one element each, this yields the closed form's terms. */
static inline void stream_passes(uint64_t *a, uint64_t *b, size_t elements, uint64_t seed)
{
    for (unsigned pass = 0; pass < STREAM_PASSES; pass++) {
        if (pass % 2 == 0) {
            stream_update(a, b, elements, stream_factor(seed, pass));
        } else {
            stream_update(b, a, elements, stream_factor(seed, pass));
        }
    }
}

static inline void stream_fill(uint64_t *array, size_t elements, uint64_t first, uint64_t step)
{
    for (size_t i = 0; i < elements; i++) {
        array[i] = first + i * step;
    }
}

/* Checks every element against its closed form; returns what was wrong, or NULL. */
static inline const char *stream_verify(const uint64_t *a, const uint64_t *b, size_t elements,
                                        uint64_t seed, uint64_t *checksum)
{
    uint64_t a_of_a = 1, b_of_a = 0; /* what an initial (1, 0) becomes */
    uint64_t a_of_b = 0, b_of_b = 1; /* what an initial (0, 1) becomes */
    stream_passes(&a_of_a, &b_of_a, 1, seed);
    stream_passes(&a_of_b, &b_of_b, 1, seed);
    uint64_t expected_a = a_of_a * seed + a_of_b * ~seed;
    uint64_t expected_b = b_of_a * seed + b_of_b * ~seed;
    const uint64_t step_a = a_of_a * STREAM_INITIAL_STEP_A + a_of_b * STREAM_INITIAL_STEP_B;
    const uint64_t step_b = b_of_a * STREAM_INITIAL_STEP_A + b_of_b * STREAM_INITIAL_STEP_B;
    uint64_t difference = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < elements; i++) {
        difference |= (a[i] ^ expected_a) | (b[i] ^ expected_b);
        sum += a[i] ^ b[i];
        expected_a += step_a;
        expected_b += step_b;
    }
    *checksum = mix64(sum);
    return difference == 0 ? NULL : "an element differs from its closed form";
}

static inline struct kernel_result stream_kernel(uint64_t seed, unsigned scale_percent)
{
    const size_t elements = scaled(STREAM_ELEMENTS, scale_percent);
    uint64_t *a = malloc(elements * sizeof *a);
    uint64_t *b = malloc(elements * sizeof *b);
    struct kernel_result result = kernel_failed("no memory for the arrays");
    if (a != NULL && b != NULL) {
        stream_fill(a, elements, seed, STREAM_INITIAL_STEP_A);
        stream_fill(b, elements, ~seed, STREAM_INITIAL_STEP_B);
        stream_passes(a, b, elements, seed);
        result.fault = stream_verify(a, b, elements, seed, &result.checksum);
    }
    free(a);
    free(b);
    return result;
}

#endif
