/*
 * What YCSB's clients ask for when all requests are writes: updates of records that are there from the
 * beginning, some far more often than others.
 *
 * YCSB's defaults: a key is "user" and the hash of the record's number; a value has ten fields of 100 bytes,
 * which are side by side here; records are drawn by Zipf's law with exponent 0.99, and the popular ones are
 * scattered. 1,000 records and 10,000 requests are those of the NearPM paper's artifact.
 *
 * Our assumptions: each client has records of its own, by which what is there in the end does not depend on
 * who came first; the law is exact, where YCSB approximates it.
 */
#ifndef PERDURE_NEARPM_YCSB_H
#define PERDURE_NEARPM_YCSB_H

#define VALUE_BYTES 1000
#include <math.h>

#include "records.h"

/* A key, whose text ends with a zero. */
struct key {
    char text[sizeof "user" + 20];
};

static inline uint64_t records_of(uint64_t thread)
{
    return share(work.elements, thread);
}

static inline struct key key_of(uint64_t record)
{
    const uint64_t number = (uint32_t)record * work.threads + (record >> THREAD_SHIFT);
    struct key key;
    snprintf(key.text, sizeof key.text, "user%" PRIu64, random_at(work.seed, 2, number));
    return key;
}

/* ---- Zipf's law ------------------------------------------------------------------------------- */

/* Of each rank: the weights up to and with it. */
static double *weights;

/* rank to the power of -0.99, out of roots and products that are the same with every compiler. */
static inline double weight_of(double rank)
{
    double root = rank, power = 1, fraction = 0.01;
    for (unsigned bit = 0; bit < 32; bit++) {
        root = sqrt(root);
        fraction *= 2;
        if (fraction >= 1) {
            fraction -= 1;
            power *= root;
        }
    }
    return power / rank;
}

static inline void weigh_records(void)
{
    double sum = 0;
    weights = ordinary(records_of(0), sizeof *weights);
    for (uint64_t i = 0; i < records_of(0); i++) {
        sum += weight_of((double)(i + 1));
        weights[i] = sum;
    }
}

/* One of `count` ranks, which are counted from 0. */
static inline uint64_t rank_at(uint64_t random, uint64_t count)
{
    const double drawn = (double)(random >> 11) * 0x1p-53 * weights[count - 1];
    uint64_t first = 0, last = count - 1;
    while (first < last) {
        const uint64_t middle = (first + last) / 2;
        if (weights[middle] > drawn) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

static inline uint64_t record_written(uint64_t thread, uint64_t index)
{
    const uint64_t count = records_of(thread);
    const uint64_t rank = rank_at(random_at(work.seed, 3, thread << THREAD_SHIFT | index), count);
    return random_at(work.seed, 4, rank) % count;
}

/* The structure's records have been found: none is missing. */
static inline void check_all_records(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t number = 0; number < records_of(thread); number++) {
            if (records_there[thread][number] == 0) {
                die(STATUS_WRONG, "record %" PRIu64 " of thread %" PRIu64 " is missing", number, thread);
            }
        }
    }
    end_records();
}

#endif
