/*
 * What the programs of workloads/nearpm share: command line, pool, threads, recovery, and the judgement of
 * what is there.
 *
 * A program has a structure in the heap of libnearpm, and operations on it, each of which is one
 * transaction. The command line says by which mechanism, on the processor or on devices, and who
 * synchronises these; the source is the same. On a pool that was used, it recovers, checks the structure,
 * says how many operations are there, and does those that are missing. So the same command line does after
 * a power cut.
 *
 * Always true: which operations there are, and what each does, follows from the command line; a structure
 * shows of every operation whether it was done; threads write different pages, or pages that the lock
 * guards. So what is there in the end does not depend on who came first, nor on the mechanism.
 *
 * A program defines PROGRAM, its name in quotes, before it includes this file, and the functions that are
 * declared below as the structure's.
 */
#ifndef PERDURE_NEARPM_RUN_H
#define PERDURE_NEARPM_RUN_H

#include "settle.h"
#include "libnearpm/libnearpm.h"

#define OPERATION NP_INLINE

enum { THREADS_MAX = NEARPM_THREADS_MAX, OPERATIONS_MAX = 1 << 24, ELEMENTS_MAX = 1 << 24 };
enum configuration { CPU, NEARPM };
enum synchronisation { DELAYED, SOFTWARE };

static const char *const MECHANISMS[] = {"undo", "redo", "checkpoint", "shadow", NULL};
static const char *const CONFIGURATIONS[] = {"cpu", "nearpm", NULL};
static const char *const SYNCHRONISATIONS[] = {"delayed", "software", NULL};

/* As words of a plan. */
struct work {
    uint64_t seed, mechanism, configuration, synchronisation, threads, operations, elements, log_bytes;
    uint64_t devices, granule_bytes; /* that the pool's parts lie on; 0 for the processor */
};

static struct plan plan;
static struct work work = {.seed = 1, .threads = 1};
static struct np_pool np; /* of all threads, or of the first one if each has its own */
static const char *device_path = "/dev/module/nearpm-0.device";
static uint64_t no_check;
/* Pools of libnearpm in the file, one behind the other: 1, unless structure_plan says one for each thread. */
static uint64_t pools_all = 1;

/* One thread, with what it has to do. */
struct runner {
    alignas(LINE_BYTES) uint64_t number;
    pthread_t id;
    struct np_thread *thread;
    unsigned char *there; /* of each operation: whether recovery found it done */
    uint64_t cycles;
};

static struct runner runners[THREADS_MAX];

/* ---- The structure: what a program defines ---------------------------------------------------- */

/* Its defaults of the command line, and refusing what it cannot have. */
static void structure_defaults(void);
static void structure_plan(void);
/* Declares its blocks; how many pages of the heap there are. Each thread's root is the page of its number. */
static uint64_t structure_pages(void);
/* Lays it down in a heap of zeros, at the homes of what it writes. */
static void structure_make(void);
static uint64_t structure_operations(uint64_t thread);
/* One operation, from its locks to their release, with its commit. */
OPERATION void structure_operation(struct np_transaction transaction, uint64_t index);
/* Checks all that must hold between transactions, claims each block, and calls `found_done` for each
   operation that is there. No thread runs. */
static void structure_check(void);

/* What a program may have beside them, NULL if it has not: what it does before the first operation of this
   run and, in each thread, behind the last. Neither is measured. */
static void (*structure_open)(void);
static void (*structure_close)(struct np_transaction transaction);

/* The share of thread `number` in what all do together. */
static inline uint64_t share(uint64_t all, uint64_t number)
{
    return all / work.threads + (number < all % work.threads ? 1 : 0);
}

static inline void *root_of(uint64_t thread)
{
    return np_home(&np, thread);
}

/* ---- Pools of libnearpm ----------------------------------------------------------------------- */

static inline struct np_pool *pool_at(uint64_t number)
{
    static struct np_pool more[THREADS_MAX - 1];
    return number == 0 ? &np : &more[number - 1];
}

/* Where it is mapped. */
static inline char *base_of(uint64_t number)
{
    char *base = (char *)pool;
    for (uint64_t i = 0; i < number; i++) {
        base += pool_at(i)->bytes;
    }
    return base;
}

static inline uint64_t blocks_in(const struct np_pool *in, unsigned class)
{
    return in->classes[class].blocks * in->options.threads;
}

/* ---- What the check comes across -------------------------------------------------------------- */

static uint64_t found_sum, found_count;
static unsigned char *claimed_blocks[THREADS_MAX][NP_CLASSES_MAX]; /* of each pool */

/* Reading in a pool without a transaction. */
static inline struct np_transaction looking(uint64_t number)
{
    return (struct np_transaction){work.mechanism, pool_at(number)->threads[0]};
}

#define LOOK_IN(number, object) NP_READ(looking(number), (object))
#define LOOK(object) LOOK_IN(0, object)

/* Something that the checksum is made of, in any order. */
static inline void found(uint64_t item)
{
    found_sum += mix(item);
    found_count++;
}

static inline void found_done(uint64_t thread, uint64_t index)
{
    if (thread >= work.threads || index >= structure_operations(thread)) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is none", index, thread);
    }
    if (runners[thread].there[index] != 0) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is there twice", index, thread);
    }
    runners[thread].there[index] = 1;
}

/* A pointer of the pool, which must be to a block that is in use and that nothing has led to before. */
static inline void *claim_block_in(uint64_t pool_number, unsigned class, const void *home)
{
    const struct np_pool *in = pool_at(pool_number);
    const uint64_t number = np_block_number(in, class, home);
    if (number == UINT64_MAX) {
        die(STATUS_WRONG, "a pointer is %p, which is no block", home);
    }
    if (np_is_used(in, class, number) != 1) {
        die(STATUS_WRONG, "a pointer leads to block %" PRIu64 ", which is not in use", number);
    }
    if (claimed_blocks[pool_number][class][number] != 0) {
        die(STATUS_WRONG, "two pointers lead to block %" PRIu64, number);
    }
    claimed_blocks[pool_number][class][number] = 1;
    return np_block_at(in, class, number);
}

static inline void *claim_block(unsigned class, const void *home)
{
    return claim_block_in(0, class, home);
}

/* Nothing is in use that nothing leads to. */
static inline void check_blocks(uint64_t pool_number, unsigned class)
{
    const struct np_pool *in = pool_at(pool_number);
    for (uint64_t number = 0; number < blocks_in(in, class); number++) {
        const uint64_t used = np_is_used(in, class, number);
        if (used > 1 || (used == 1 && claimed_blocks[pool_number][class][number] == 0)) {
            die(STATUS_WRONG, "block %" PRIu64 " is in use, and nothing leads to it", number);
        }
    }
}

static inline void check_structure(void)
{
    for (uint64_t i = 0; i < work.threads; i++) {
        free(runners[i].there);
        runners[i].there = ordinary(structure_operations(i), 1);
    }
    for (uint64_t i = 0; i < pools_all; i++) {
        for (unsigned class = 0; class < np.class_count; class++) {
            free(claimed_blocks[i][class]);
            claimed_blocks[i][class] = ordinary(blocks_in(pool_at(i), class), 1);
        }
    }
    found_sum = found_count = 0;
    structure_check();
    for (uint64_t i = 0; i < pools_all; i++) {
        for (unsigned class = 0; class < np.class_count; class++) {
            check_blocks(i, class);
        }
    }
}

/* How many of the thread's operations are there, which must be its first ones; what was acknowledged must be
   among them, and no more than can be under way beyond it. */
static inline uint64_t judge_operations(uint64_t thread)
{
    const uint64_t all = structure_operations(thread), interval = plan.acknowledge_interval;
    const uint64_t told = pool->acknowledged[thread].word;
    const unsigned char *there = runners[thread].there;
    uint64_t count = 0;
    while (count < all && there[count] != 0) {
        count++;
    }
    for (uint64_t index = count; index < all; index++) {
        if (there[index] != 0) {
            die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing, but a later one, %"
                PRIu64 ", is there", count, thread, index);
        }
    }
    if (told > count) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing, but %" PRIu64
            " were acknowledged", count, thread, told);
    }
    if (interval != 0 && count > told + interval) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is there, but only %" PRIu64
            " were acknowledged", count - 1, thread, told);
    }
    return count;
}

static inline void check_recovered(void)
{
    uint64_t all = 0, there = 0;
    check_structure();
    for (uint64_t i = 0; i < work.threads; i++) {
        all += structure_operations(i);
        there += judge_operations(i);
    }
    printf("%s: recovered: %" PRIu64 " of %" PRIu64 " operations\n", PROGRAM, there, all);
}

static inline void check_end(void)
{
    check_structure();
    for (uint64_t i = 0; i < work.threads; i++) {
        const uint64_t there = judge_operations(i);
        if (there != structure_operations(i)) {
            die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing at the end", there, i);
        }
    }
    printf("%s: %" PRIu64 " items, checksum %016" PRIx64 "\n", PROGRAM, found_count, found_sum);
}

/* ---- Operations ------------------------------------------------------------------------------- */

static pthread_mutex_t lock_of_all = PTHREAD_MUTEX_INITIALIZER;

/* For operations that write what others write: what they read of each other can no longer be undone. */
static inline void lock(void)
{
    if (work.threads > 1) {
        pthread_mutex_lock(&lock_of_all);
    }
}

OPERATION void unlock(struct np_transaction transaction)
{
    if (work.threads > 1) {
        np_durable(transaction);
        pthread_mutex_unlock(&lock_of_all);
    }
}

OPERATION void acknowledge_operations(struct np_transaction transaction, uint64_t thread, uint64_t done)
{
    const uint64_t interval = plan.acknowledge_interval;
    if (interval != 0 && (done % interval == 0 || done == structure_operations(thread))) {
        np_durable(transaction);
        tell(thread, done);
    }
}

/* Does what recovery did not find. Of that, too, the outside world is told, if a cut came in between. */
OPERATION void run_operations(enum np_mechanism mechanism, struct runner *runner)
{
    const struct np_transaction transaction = {mechanism, runner->thread};
    const uint64_t all = structure_operations(runner->number), begin = np_cycles();
    for (uint64_t index = 0; index < all; index++) {
        const bool is_there = runner->there != NULL && runner->there[index] != 0;
        if (!is_there) {
            structure_operation(transaction, index);
        }
        if (!is_there || index >= pool->acknowledged[runner->number].word) {
            acknowledge_operations(transaction, runner->number, index + 1);
        }
    }
    np_durable(transaction);
    runner->cycles = np_cycles() - begin;
    if (structure_close != NULL) {
        structure_close(transaction);
    }
}

static void *run_thread(void *context)
{
    struct runner *runner = context;
    const unsigned number = (unsigned)runner->number;
    runner->thread = pools_all == 1 ? np_begin_thread(&np, number) : np_begin_thread(pool_at(number), 0);
    switch (work.mechanism) {
    case NP_UNDO:
        run_operations(NP_UNDO, runner);
        break;
    case NP_REDO:
        run_operations(NP_REDO, runner);
        break;
    case NP_CHECKPOINT:
        run_operations(NP_CHECKPOINT, runner);
        break;
    default:
        run_operations(NP_SHADOW, runner);
    }
    np_end_thread(runner->thread);
    return NULL;
}

static inline void run_threads(void)
{
    for (uint64_t i = 1; i < work.threads; i++) {
        if (pthread_create(&runners[i].id, NULL, run_thread, &runners[i]) != 0) {
            die(STATUS_USAGE, "cannot start thread %" PRIu64, i);
        }
    }
    run_thread(&runners[0]);
    for (uint64_t i = 1; i < work.threads; i++) {
        pthread_join(runners[i].id, NULL);
    }
}

/* Of all threads together; the longest of them takes what elapses. */
static inline void say_cycles(void)
{
    uint64_t consistency = 0, copy = 0, wait = 0, total = 0, elapsed = 0;
    for (uint64_t i = 0; i < work.threads; i++) {
        consistency += runners[i].thread->consistency_cycles;
        copy += runners[i].thread->copy_cycles;
        wait += runners[i].thread->wait_cycles;
        total += runners[i].cycles;
        elapsed = np_most(elapsed, runners[i].cycles);
    }
    printf("consistency_cycles %" PRIu64 "\ncopy_cycles %" PRIu64 "\nwait_cycles %" PRIu64
           "\ntotal_cycles %" PRIu64 "\nelapsed_cycles %" PRIu64 "\ndevices %" PRIu64 "\n",
           consistency, copy, wait, total, elapsed, work.devices);
}

/* ---- The program ------------------------------------------------------------------------------ */

static inline void read_work(int argc, char **argv)
{
    const struct option options[] = {
        {"mechanism", "that makes an operation a transaction (undo)", 0, MECHANISMS, &work.mechanism},
        {"configuration", "who does the mechanism's work (cpu)", 0, CONFIGURATIONS, &work.configuration},
        {"sync", "how devices are synchronised (delayed)", 0, SYNCHRONISATIONS, &work.synchronisation},
        {"threads", "each with operations of its own, up to 16 (1)", THREADS_MAX, NULL, &work.threads},
        {"operations", "of all threads together", OPERATIONS_MAX, NULL, &work.operations},
        {"elements", "that the structure begins with, if it has any", ELEMENTS_MAX, NULL, &work.elements},
        {"log-bytes", "that a transaction may log on a device (0: enough)", UINT32_MAX, NULL, &work.log_bytes},
        {"seed", "of keys and choices (1)", UINT32_MAX, NULL, &work.seed},
        {"no-check", "at the end", 0, NO_CHOICES, &no_check},
    };
    primitive_name = "clwb";
    structure_defaults();
    parse_options(argc, argv, &plan.acknowledge_interval, options, sizeof options / sizeof *options);
    if (recover_only) {
        read_plan(&plan);
        memcpy(&work, plan.words, sizeof work);
    }
    if (work.threads == 0) {
        die(STATUS_USAGE, "--threads is 0, but must be 1 to %d", THREADS_MAX);
    }
    structure_plan();
}

static void make(void)
{
    for (uint64_t i = 0; i < pools_all; i++) {
        np_make(pool_at(i), base_of(i));
    }
    structure_make();
}

/* Where everything is; on devices that are as they were when the pool was made. */
static inline void lay_out(void)
{
    struct np_options options = {
        .mechanism = work.mechanism,
        .on_devices = work.configuration == NEARPM,
        .software_sync = work.synchronisation == SOFTWARE,
        .threads = (unsigned)(work.threads / pools_all),
        .log_bytes = work.log_bytes,
        .heap_pages = structure_pages(),
        .device_path = device_path,
        .primitive = primitive,
    };
    for (unsigned i = 0; i < pools_all; i++) {
        options.pool_id = options.first_tag = i;
        np_lay_out(pool_at(i), &options, i == 0 ? PAGE_BYTES : 0);
    }
    const uint64_t devices = options.on_devices ? np.deal.devices : 0;
    const uint64_t granule_bytes = options.on_devices ? np.deal.granule_bytes : 0;
    if (recover_only && (devices != work.devices || granule_bytes != work.granule_bytes)) {
        die(STATUS_USAGE, "%s was made on other devices", pool_path);
    }
    work.devices = devices;
    work.granule_bytes = granule_bytes;
    memcpy(plan.words, &work, sizeof work);
}

int main(int argc, char **argv)
{
    read_work(argc, argv);
    choose_primitive();
    for (uint64_t i = 0; i < THREADS_MAX; i++) {
        runners[i].number = i;
    }
    lay_out();
    look_at_file();
    settle_file();
    open_pool(&plan, 0, (uint64_t)(base_of(pools_all) - base_of(0)) - PAGE_BYTES, make);
    if (make_only) {
        return EXIT_SUCCESS;
    }
    for (uint64_t i = 0; i < pools_all; i++) {
        np_open(pool_at(i), base_of(i));
    }
    if (pool->used.word != 0 || recover_only) {
        check_recovered();
    }
    if (recover_only) {
        return EXIT_SUCCESS;
    }
    for (uint64_t i = 0; i < pools_all; i++) {
        np_find_blocks(pool_at(i));
    }
    begin_use();
    if (structure_open != NULL) {
        structure_open();
    }
    run_threads();
    say_cycles();
    if (no_check == 0) {
        check_end();
    }
    return EXIT_SUCCESS;
}

#endif
