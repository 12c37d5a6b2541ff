/*
 * Operations on structures that hold elements: insertions and deletions in turn.
 *
 * Elements have numbers in the order of their insertion; those below --elements are there before the first
 * operation. Element e belongs to thread e modulo --threads. A thread's even operations insert its next
 * element, its odd ones delete one of those that were there before, each once, in an order that looks random.
 * So the size stays as it is, and what is there says of every operation whether it was done.
 *
 * A program defines the functions that are declared below as the structure's.
 */
#ifndef PERDURE_STRAND_ELEMENTS_H
#define PERDURE_STRAND_ELEMENTS_H

#include "run.h"

/* A prime above every number of elements: it leads to all of them, in an order that looks random. */
#define VICTIM_STEP UINT64_C(2654435761)

enum purpose { KEYS, VALUES, ENDS };

/* In a transaction of their own, from locks to their release. */
OPERATION void structure_insert(struct transaction transaction, uint64_t element);
OPERATION void structure_erase(struct transaction transaction, uint64_t element);

static uint64_t key_series;

/* The key of an element; no two elements have the same one. */
static inline uint64_t key_of(uint64_t element)
{
    return mix(key_series + element);
}

static inline uint64_t value_of(uint64_t element)
{
    return random_at(work.seed, VALUES, element);
}

/* More than the highest number of an element. */
static inline uint64_t elements_all(void)
{
    return work.elements + work.operations / 2 + 3 * work.threads;
}

static uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

static void structure_plan(void)
{
    key_series = random_at(work.seed, KEYS, 0);
    for (uint64_t i = 0; i < work.threads; i++) {
        if (structure_operations(i) / 2 > share(work.elements, i)) {
            die(STATUS_USAGE, "--operations deletes more than the --elements that are there");
        }
    }
}

/* The element that the thread's n-th insertion inserts, and its n-th deletion deletes. */
static inline uint64_t inserted(uint64_t thread, uint64_t n)
{
    return (share(work.elements, thread) + n) * work.threads + thread;
}

static inline uint64_t erased(uint64_t thread, uint64_t n)
{
    return n * VICTIM_STEP % share(work.elements, thread) * work.threads + thread;
}

OPERATION void structure_operation(struct transaction transaction, uint64_t index)
{
    if (index % 2 == 0) {
        structure_insert(transaction, inserted(transaction.thread->number, index / 2));
    } else {
        structure_erase(transaction, erased(transaction.thread->number, index / 2));
    }
}

OPERATION void structure_run(struct transaction transaction)
{
    run_operations(transaction, 0, structure_operations(transaction.thread->number));
}

/* The elements that are there before the first operation. */
static inline void insert_first_elements(struct transaction transaction)
{
    for (uint64_t element = 0; element < work.elements; element++) {
        structure_insert(transaction, element);
        end_making_step();
    }
}

/* ---- Checking --------------------------------------------------------------------------------- */

static unsigned char *elements_found;

static inline void begin_elements_check(void)
{
    free(elements_found);
    elements_found = ordinary(elements_all(), 1);
}

/* The structure holds the element, once. */
static inline void found_element(uint64_t element)
{
    const uint64_t thread = element % work.threads, place = element / work.threads;
    const uint64_t first = share(work.elements, thread);
    if (place >= first + (structure_operations(thread) + 1) / 2) {
        die(STATUS_WRONG, "there is an element %" PRIu64 ", which nobody inserts", element);
    }
    if (elements_found[element] != 0) {
        die(STATUS_WRONG, "element %" PRIu64 " is there twice", element);
    }
    elements_found[element] = 1;
    found(element);
    if (place >= first) {
        found_done(thread, 2 * (place - first));
    }
}

/* When all have been found: which deletions were done, and nothing else is missing. */
static inline void end_elements_check(void)
{
    for (uint64_t i = 0; i < work.threads; i++) {
        for (uint64_t n = 0; n < structure_operations(i) / 2; n++) {
            unsigned char *erasure = &elements_found[erased(i, n)];
            if (*erasure == 0) {
                found_done(i, 2 * n + 1);
                *erasure = 1;
            }
        }
    }
    for (uint64_t element = 0; element < work.elements; element++) {
        if (elements_found[element] == 0) {
            die(STATUS_WRONG, "element %" PRIu64 " is missing, which nobody deletes", element);
        }
    }
}

#endif
