/*
 * Records that operations write, some of them again and again: a key, and a value that says who wrote it.
 *
 * Each thread has records of its own. A value begins with two words, the number of its record and that of the
 * operation that wrote it, from which its other bytes follow. Operations are counted from 1 here; 0 has laid
 * the record down with the structure.
 *
 * A program defines VALUE_BYTES before it includes this file, and the functions that are declared below.
 *
 * Always true: a record has the value of the last operation on it, and all operations of its thread before
 * that one are done.
 */
#ifndef PERDURE_NEARPM_RECORDS_H
#define PERDURE_NEARPM_RECORDS_H

#include "run.h"

enum { THREAD_SHIFT = 32, VALUE_WORDS = (VALUE_BYTES + sizeof(uint64_t) - 1) / sizeof(uint64_t) };

/* A value, but for its other bytes. */
struct written {
    uint64_t record; /* thread << THREAD_SHIFT | number */
    uint64_t operation;
};

/* How many records the thread has, and which of them an operation writes; `index` is counted from 0. */
static uint64_t records_of(uint64_t thread);
static uint64_t record_written(uint64_t thread, uint64_t index);

static inline uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

/* What the operation writes. */
static inline struct written write_of(uint64_t thread, uint64_t index)
{
    return (struct written){thread << THREAD_SHIFT | record_written(thread, index), index + 1};
}

static inline void fill_value(char *value, struct written written)
{
    uint64_t words[VALUE_WORDS] = {written.record, written.operation};
    const uint64_t series = mix(written.record) + written.operation;
    for (unsigned i = 2; i < VALUE_WORDS; i++) {
        words[i] = random_at(work.seed, 1, series * VALUE_WORDS + i);
    }
    memcpy(value, words, VALUE_BYTES);
}

/* Who wrote a value, which must be whole. */
static inline struct written read_value(const char *value)
{
    struct written written;
    char expected[VALUE_BYTES];
    memcpy(&written, value, sizeof written);
    fill_value(expected, written);
    if (memcmp(value, expected, VALUE_BYTES) != 0) {
        die(STATUS_WRONG, "the value of record %" PRIx64 " is damaged", written.record);
    }
    return written;
}

/* ---- What is there ---------------------------------------------------------------------------- */

/* Of each record of each thread: 1 more than the operation that wrote it, or 0. */
static uint64_t *records_there[THREADS_MAX];

static inline void begin_records(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        free(records_there[thread]);
        records_there[thread] = ordinary(records_of(thread), sizeof *records_there[thread]);
    }
}

/* A record that the structure has in the thread's part. */
static inline void found_record(uint64_t thread, struct written written)
{
    const uint64_t number = (uint32_t)written.record, index = written.operation - 1;
    if (written.record >> THREAD_SHIFT != thread || thread >= work.threads || number >= records_of(thread)) {
        die(STATUS_WRONG, "record %" PRIx64 " is none of thread %" PRIu64, written.record, thread);
    }
    if (records_there[thread][number] != 0) {
        die(STATUS_WRONG, "record %" PRIx64 " is there twice", written.record);
    }
    if (written.operation != 0 &&
        (index >= structure_operations(thread) || record_written(thread, index) != number)) {
        die(STATUS_WRONG, "record %" PRIx64 " has the value of an operation that does not write it",
            written.record);
    }
    records_there[thread][number] = written.operation + 1;
    found(mix(written.record) + written.operation);
}

/* All have been found: which operations are done. */
static inline void end_records(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t index = 0; index < structure_operations(thread); index++) {
            if (records_there[thread][record_written(thread, index)] > index + 1) {
                found_done(thread, index);
            }
        }
    }
}

#endif
