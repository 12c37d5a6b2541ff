/*
 * What the programs of workloads/check do: operations on keys, which are the same for the same seed, each
 * between perdure_op_begin and perdure_op_end; recovery; and whether what is there is what has to be.
 *
 * Operation number `i` belongs to thread `i % threads`, and changes a key of that thread alone. It puts the
 * value `i + 1`, erases, or gets. So what is there after any number of each thread's operations can be said
 * without the structure, and is compared with what recovery finds: the operations that were acknowledged must
 * have happened, and of each thread at most the next one. What a thread has read of another's must be there,
 * too. With --recover that is all; else the operations follow that are left. With --dump, the contents are
 * printed as recovery finds them, `key value` by line, in the order of keys, and not judged.
 *
 * Always true: what is compared is in ordinary memory; only acknowledgements are in the pool, in lines of
 * their own, and are made durable after the operation has ended.
 *
 * A program defines what is declared below as the structure's, and may define OPERATIONS_DEFAULT, THREADS,
 * KEYS, the keys 1 to KEYS, SLOTS, BESIDE_BYTES (behind the slots), and OWN_OPERATIONS with plan_operations.
 */
#ifndef PERDURE_CHECK_RUN_H
#define PERDURE_CHECK_RUN_H

#ifndef OPERATIONS_DEFAULT
#define OPERATIONS_DEFAULT 120
#endif
#define OPERATIONS_MAX 1000000
#ifndef THREADS
#define THREADS 1
#endif
#ifndef KEYS
#define KEYS 24
#endif
#ifndef SLOTS
#define SLOTS (2 * KEYS)
#endif
#ifndef BESIDE_BYTES
#define BESIDE_BYTES 0
#endif

#include "check.h"

#if THREADS > 1
#include <pthread.h>
#endif

enum action { PUT, ERASE, GET };

struct operation {
    enum action action;
    uint64_t key, value;
};

/* ---- The structure: what a program defines ---------------------------------------------------- */

/* Makes it, empty, in a new pool of zeros, and flushes what it writes. */
static void structure_make(void);
/* Of a new pool, or one that a cut may have left: mends what an interrupted operation left, durably, claims
   every slot that is reached, checks all that must always hold, and calls `found_item` for each item. */
static void structure_recover(void);
static void structure_put(uint64_t key, uint64_t value);
static void structure_erase(uint64_t key);
/* The value, or 0. */
static uint64_t structure_get(uint64_t key);

/* ---- Operations ------------------------------------------------------------------------------- */

static struct operation *operations;

#ifdef OWN_OPERATIONS
static void plan_operations(void);
#else
/* Half of them put, three of ten erase, the rest get: of threads, from any thread's keys. */
static inline void plan_operations(void)
{
    for (uint64_t i = 0; i < plan.operations; i++) {
        const uint64_t draw = mix(mix(plan.seed + 1) + i), choice = (draw >> 32) % 10;
        const enum action action = choice < 5 ? PUT : choice < 8 ? ERASE : GET;
        const uint64_t keys = (uint64_t)KEYS / plan.threads * plan.threads, key = draw % keys;
        operations[i].action = action;
        operations[i].key = 1 + (action == GET ? key : key - key % plan.threads + i % plan.threads);
        operations[i].value = i + 1;
    }
}
#endif

static inline void apply(uint64_t *contents, const struct operation *operation)
{
    if (operation->action != GET) {
        contents[operation->key] = operation->action == PUT ? operation->value : 0;
    }
}

/* How many of the operations are the thread's. */
static inline uint64_t operations_of(uint64_t thread)
{
    return plan.operations / plan.threads + (thread < plan.operations % plan.threads ? 1 : 0);
}

/* ---- What is there ---------------------------------------------------------------------------- */

/* By key; 0 is nothing. */
static uint64_t *found, *expected;
static uint64_t done[THREADS_MAX];

static inline void found_item(uint64_t key, uint64_t value)
{
    if (key == 0 || key > KEYS || value == 0) {
        die(STATUS_WRONG, "there is a key %" PRIu64 " with the value %" PRIu64 ", which nobody puts", key,
            value);
    }
    if (found[key] != 0) {
        die(STATUS_WRONG, "key %" PRIu64 " is there twice", key);
    }
    found[key] = value;
}

/* The first of the thread's keys of which something else was found than is expected, or 0. */
static inline uint64_t key_that_differs(uint64_t thread)
{
    for (uint64_t key = 1 + thread; key <= KEYS; key += plan.threads) {
        if (found[key] != expected[key]) {
            return key;
        }
    }
    return 0;
}

/* How many of the thread's operations what was found is the result of: those that were acknowledged, or one
   more. */
static inline uint64_t judge(uint64_t thread)
{
    const uint64_t told = pool->acknowledged[thread].done, all = operations_of(thread);
    if (told > all) {
        die(STATUS_WRONG, "of thread %" PRIu64 " %" PRIu64 " operations are acknowledged, but it has %"
            PRIu64, thread, told, all);
    }
    for (uint64_t i = 0; i < told; i++) {
        apply(expected, &operations[i * plan.threads + thread]);
    }
    const uint64_t key = key_that_differs(thread), value = expected[key];
    if (key == 0) {
        return told;
    }
    if (told < all) {
        apply(expected, &operations[told * plan.threads + thread]);
        if (key_that_differs(thread) == 0) {
            return told + 1;
        }
    }
    die(STATUS_WRONG, "key %" PRIu64 " has the value %" PRIu64 ", but %" PRIu64 " after the %" PRIu64
        " operations that were acknowledged, and what differs is not the next one's", key, found[key],
        value, told);
}

/* What a thread has read was put by an operation that must have happened. */
static inline void judge_readings(void)
{
    for (uint64_t reader = 0; reader < plan.threads; reader++) {
        for (uint64_t writer = 0; writer < plan.threads; writer++) {
            const uint64_t value = pool->acknowledged[reader].seen[writer];
            if (value != 0 && done[writer] <= (value - 1) / plan.threads) {
                die(STATUS_WRONG, "thread %" PRIu64 " has read the value %" PRIu64 " of thread %" PRIu64
                    ", which is not there any more", reader, value, writer);
            }
        }
    }
}

static inline void check_contents(void)
{
    uint64_t all = 0;
    for (uint64_t thread = 0; thread < plan.threads; thread++) {
        done[thread] = judge(thread);
        all += done[thread];
    }
    judge_readings();
    printf("%s: recovered: %" PRIu64 " of %" PRIu64 " operations\n", PROGRAM, all, plan.operations);
}

static inline void dump_contents(void)
{
    for (uint64_t key = 1; key <= KEYS; key++) {
        if (found[key] != 0) {
            printf("%" PRIu64 " %" PRIu64 "\n", key, found[key]);
        }
    }
}

/* ---- Doing operations ------------------------------------------------------------------------- */

/* Tells the outside world, which survives: whoever was told may rely on it. */
static inline void acknowledge(uint64_t thread, const struct operation *operation, uint64_t read)
{
    struct acknowledgement *told = &pool->acknowledged[thread];
    const uint64_t writer = (operation->key - 1) % plan.threads;
    if (operation->action == GET && read > told->seen[writer]) {
        told->seen[writer] = read;
    }
    order_stores();
    told->done = ++done[thread];
    persist(told);
}

/* What recovery has found is done: the operation behind it may only begin when the pool says so. */
static inline void acknowledge_found(void)
{
    for (uint64_t thread = 0; thread < plan.threads; thread++) {
        pool->acknowledged[thread].done = done[thread];
        flush(&pool->acknowledged[thread]);
    }
    fence();
}

/* Keys of its own, a thread must find as it left them. */
static inline void check_reading(uint64_t thread, uint64_t key, uint64_t value)
{
    if ((key - 1) % plan.threads == thread && value != expected[key]) {
        die(STATUS_WRONG, "key %" PRIu64 " is read as %" PRIu64 ", but is %" PRIu64, key, value,
            expected[key]);
    }
}

static inline void run_operations(uint64_t thread)
{
    const uint64_t all = operations_of(thread);
    while (done[thread] < all) {
        const uint64_t number = done[thread] * plan.threads + thread;
        const struct operation *operation = &operations[number];
        uint64_t read = 0;
        perdure_op_begin(number);
        if (operation->action == PUT) {
            structure_put(operation->key, operation->value);
        } else if (operation->action == ERASE) {
            structure_erase(operation->key);
        } else {
            read = structure_get(operation->key);
        }
        perdure_op_end();
        if (operation->action == GET) {
            check_reading(thread, operation->key, read);
        }
        apply(expected, operation);
        acknowledge(thread, operation, read);
    }
}

#if THREADS > 1
static inline void *run_thread(void *context)
{
    run_operations((uint64_t)(uintptr_t)context);
    return NULL;
}

static inline void run_threads(void)
{
    pthread_t threads[THREADS_MAX];
    for (uint64_t i = 1; i < plan.threads; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, (void *)(uintptr_t)i) != 0) {
            die(STATUS_USAGE, "cannot start thread %" PRIu64, i);
        }
    }
    run_operations(0);
    for (uint64_t i = 1; i < plan.threads; i++) {
        pthread_join(threads[i], NULL);
    }
}
#else
static inline void run_threads(void)
{
    run_operations(0);
}
#endif

/* ---- The program ------------------------------------------------------------------------------ */

static inline int run(int argc, char **argv)
{
    plan.operations = OPERATIONS_DEFAULT;
    plan.seed = 1;
    plan.threads = THREADS;
    parse_options(argc, argv);
    choose_primitive();
    the_bug = (enum bug)plan.bug;
    if (mode != OPERATE) {
        reopen_pool();
        the_bug = (enum bug)plan.bug;
    }
    slots_all = SLOTS;
    if (mode == OPERATE) {
        const size_t bytes = slots_all * sizeof(struct slot) + BESIDE_BYTES;
        open_pool(PAGE_BYTES + (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, structure_make);
    }
    operations = (struct operation *)ordinary(plan.operations, sizeof *operations);
    plan_operations();
    found = (uint64_t *)ordinary(KEYS + 1, sizeof *found);
    expected = (uint64_t *)ordinary(KEYS + 1, sizeof *expected);
    claimed = (unsigned char *)ordinary(slots_all, 1);
    structure_recover();
    if (mode == DUMP) {
        dump_contents();
        return EXIT_SUCCESS;
    }
    check_contents();
    if (mode == RECOVER) {
        return EXIT_SUCCESS;
    }
    acknowledge_found();
    find_free_slots();
    run_threads();
    printf("%s: %" PRIu64 " operations\n", PROGRAM, plan.operations);
    return EXIT_SUCCESS;
}

#endif
