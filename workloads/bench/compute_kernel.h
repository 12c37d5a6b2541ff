/*
 * Integer compute in a small footprint (24 KB, so that a 32 KB L1 holds it).
 *
 * Each round sorts 1,024 words (data-dependent branches and swaps), takes the
 * CRC-64 of them (table look-ups, one long dependence chain) and multiplies two
 * 24 x 24 matrices (multiply-add). Always true: every round is checked, by order
 * and sum, by the CRC's residue, and by Freivalds' product with a random vector.
 */
#ifndef PERDURE_COMPUTE_KERNEL_H
#define PERDURE_COMPUTE_KERNEL_H

#include "bench.h"

enum {
    COMPUTE_ROUNDS = 750,
    COMPUTE_WORDS = 1024,
    COMPUTE_MATRIX_ORDER = 24,
};

struct compute_state {
    uint64_t words[COMPUTE_WORDS];
    uint64_t crc_table[256];
    uint64_t left[COMPUTE_MATRIX_ORDER][COMPUTE_MATRIX_ORDER];
    uint64_t right[COMPUTE_MATRIX_ORDER][COMPUTE_MATRIX_ORDER];
    uint64_t product[COMPUTE_MATRIX_ORDER][COMPUTE_MATRIX_ORDER];
};

static inline void compute_sift_down(uint64_t *heap, size_t root, size_t length)
{
    const uint64_t moving = heap[root];
    size_t child;
    while ((child = 2 * root + 1) < length) {
        if (child + 1 < length && heap[child] < heap[child + 1]) {
            child++;
        }
        if (heap[child] <= moving) {
            break;
        }
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moving;
}

static inline void compute_heapsort(uint64_t *words, size_t length)
{
    for (size_t root = length / 2; root-- > 0;) {
        compute_sift_down(words, root, length);
    }
    for (size_t end = length; end-- > 1;) {
        const uint64_t largest = words[0];
        words[0] = words[end];
        words[end] = largest;
        compute_sift_down(words, 0, end);
    }
}

/* CRC-64/XZ's polynomial, reflected. */
static inline void compute_fill_crc_table(uint64_t *table)
{
    for (uint64_t byte = 0; byte < 256; byte++) {
        uint64_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? UINT64_C(0xc96c5795d7870f42) : 0);
        }
        table[byte] = crc;
    }
}

static inline uint64_t compute_crc64(const uint64_t *table, uint64_t crc, const uint64_t *words,
                                     size_t length)
{
    for (size_t i = 0; i < length; i++) {
        uint64_t word = words[i];
        for (int byte = 0; byte < 8; byte++) {
            crc = (crc >> 8) ^ table[(crc ^ word) & 0xff];
            word >>= 8;
        }
    }
    return crc;
}

static inline void compute_multiply(struct compute_state *state)
{
    for (size_t row = 0; row < COMPUTE_MATRIX_ORDER; row++) {
        for (size_t column = 0; column < COMPUTE_MATRIX_ORDER; column++) {
            uint64_t sum = 0;
            for (size_t inner = 0; inner < COMPUTE_MATRIX_ORDER; inner++) {
                sum += state->left[row][inner] * state->right[inner][column];
            }
            state->product[row][column] = sum;
        }
    }
}

/* output = matrix x input, all arithmetic modulo 2^64 */
static inline void compute_apply(uint64_t matrix[][COMPUTE_MATRIX_ORDER], const uint64_t *input,
                                 uint64_t *output)
{
    for (size_t row = 0; row < COMPUTE_MATRIX_ORDER; row++) {
        output[row] = 0;
        for (size_t column = 0; column < COMPUTE_MATRIX_ORDER; column++) {
            output[row] += matrix[row][column] * input[column];
        }
    }
}

/* Freivalds: left x (right x v) must equal product x v for a random v. */
static inline int compute_product_is_right(struct compute_state *state, uint64_t *random)
{
    uint64_t vector[COMPUTE_MATRIX_ORDER];
    uint64_t once[COMPUTE_MATRIX_ORDER];
    uint64_t twice[COMPUTE_MATRIX_ORDER];
    uint64_t direct[COMPUTE_MATRIX_ORDER];
    for (size_t i = 0; i < COMPUTE_MATRIX_ORDER; i++) {
        vector[i] = random_next(random);
    }
    compute_apply(state->right, vector, once);
    compute_apply(state->left, once, twice);
    compute_apply(state->product, vector, direct);
    uint64_t difference = 0;
    for (size_t i = 0; i < COMPUTE_MATRIX_ORDER; i++) {
        difference |= twice[i] ^ direct[i];
    }
    return difference == 0;
}

/* One round; returns what was wrong, or NULL, and folds its result into the checksum. */
static inline const char *compute_round(struct compute_state *state, uint64_t *random,
                                        uint64_t *checksum)
{
    uint64_t sum_before = 0;
    for (size_t i = 0; i < COMPUTE_WORDS; i++) {
        state->words[i] = random_next(random);
        sum_before += state->words[i];
    }
    compute_heapsort(state->words, COMPUTE_WORDS);
    uint64_t sum_after = state->words[0];
    for (size_t i = 1; i < COMPUTE_WORDS; i++) {
        if (state->words[i - 1] > state->words[i]) {
            return "the sorted words are out of order";
        }
        sum_after += state->words[i];
    }
    if (sum_before != sum_after) {
        return "sorting lost or changed a word";
    }

    const uint64_t crc = compute_crc64(state->crc_table, *checksum, state->words, COMPUTE_WORDS);
    if (compute_crc64(state->crc_table, crc, &crc, 1) != 0) {
        return "a CRC continued over itself is not zero";
    }

    for (size_t row = 0; row < COMPUTE_MATRIX_ORDER; row++) {
        for (size_t column = 0; column < COMPUTE_MATRIX_ORDER; column++) {
            state->left[row][column] = random_next(random);
            state->right[row][column] = state->words[row * COMPUTE_MATRIX_ORDER + column];
        }
    }
    compute_multiply(state);
    if (!compute_product_is_right(state, random)) {
        return "a matrix product fails Freivalds' check";
    }
    *checksum = crc ^ mix64(state->product[0][0] ^
                            state->product[COMPUTE_MATRIX_ORDER - 1][COMPUTE_MATRIX_ORDER - 1]);
    return NULL;
}

static inline struct kernel_result compute_kernel(uint64_t seed, unsigned scale_percent)
{
    struct compute_state *state = malloc(sizeof *state);
    if (state == NULL) {
        return kernel_failed("no memory for the working set");
    }
    compute_fill_crc_table(state->crc_table);
    uint64_t random = random_seeded(seed);
    const size_t rounds = scaled(COMPUTE_ROUNDS, scale_percent);
    struct kernel_result result = {.checksum = seed, .fault = NULL};
    for (size_t round = 0; round < rounds && result.fault == NULL; round++) {
        result.fault = compute_round(state, &random, &result.checksum);
    }
    free(state);
    return result;
}

#endif
