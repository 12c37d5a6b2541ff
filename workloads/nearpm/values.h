/*
 * Keys and values of the key-value programs: each operation inserts a key that no other has, with a value
 * of 64 bytes.
 *
 * Always true: a value begins with the number of the operation that inserted it, from which its key and its
 * other bytes follow.
 */
#ifndef PERDURE_NEARPM_VALUES_H
#define PERDURE_NEARPM_VALUES_H

#include "run.h"

enum { VALUE_WORDS = 8, THREAD_SHIFT = 32 };

struct value {
    uint64_t word[VALUE_WORDS];
};

static inline uint64_t number_of(uint64_t thread, uint64_t index)
{
    return thread << THREAD_SHIFT | index;
}

/* A permutation of the numbers. */
static inline uint64_t key_of(uint64_t number)
{
    return mix(mix(work.seed) ^ number);
}

static inline uint64_t value_word(uint64_t number, unsigned word)
{
    return word == 0 ? number : random_at(work.seed, 1, number * VALUE_WORDS + word);
}

static inline void fill_value(struct value *value, uint64_t number)
{
    for (unsigned i = 0; i < VALUE_WORDS; i++) {
        value->word[i] = value_word(number, i);
    }
}

/* The value that the structure has for a key in the thread's part. */
static inline void check_value(const struct value *value, uint64_t key, uint64_t thread)
{
    const uint64_t number = value->word[0];
    if (key_of(number) != key || number >> THREAD_SHIFT != thread) {
        die(STATUS_WRONG, "key %016" PRIx64 " has another's value", key);
    }
    for (unsigned i = 0; i < VALUE_WORDS; i++) {
        if (value->word[i] != value_word(number, i)) {
            die(STATUS_WRONG, "the value of key %016" PRIx64 " is damaged", key);
        }
    }
    found_done(thread, (uint32_t)number);
    found(number);
}

static inline void structure_defaults(void)
{
    work.operations = 10000;
}

static inline void structure_plan(void)
{
}

static inline uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

/* How many items a thread's part may have. */
static inline uint64_t items_of_thread(void)
{
    return share(work.operations, 0);
}

#endif
