/*
 * What the programs of workloads/strand share: command line, pool, threads, recovery, and the judgement of
 * what is there.
 *
 * A program lays its structure down, with elements in it and no log, then each thread does its operations,
 * each of which is one transaction; at the end all of the structure is checked. On a pool that was used, it
 * recovers, checks the structure, says how many operations are there, and does those that are missing. So the
 * same command line does after a power cut.
 *
 * Always true: which operations there are, and what each does, follows from the command line; operations of
 * different threads write different words, or words that a lock guards; a structure shows of every single
 * operation whether it was done. So what is there in the end does not depend on who came first, and not on
 * the back end. No operation writes a word that all write, such as a count of elements: strands that have
 * nothing in common in the structure have nothing in common at all.
 *
 * A program defines PROGRAM, its name in quotes, before it includes this file, and the functions that are
 * declared below as the structure's.
 */
#ifndef PERDURE_STRAND_RUN_H
#define PERDURE_STRAND_RUN_H

#include "transactions.h"

enum { OPERATIONS_MAX = 1 << 26, ELEMENTS_MAX = 1 << 24, PER_STRAND_MAX = 64 };

/* As words of a plan. */
struct work {
    uint64_t seed, back_end, threads, elements, operations;
};

/* In the pool, behind the page of flush.h; then come the logs, the structure's table, the blocks. */
struct head {
    struct word_line blocks_made; /* the blocks from here on were free when the pool was made */
    struct word_line root[THREADS_MAX];
};

static struct plan plan;
static struct work work = {.seed = 1, .threads = 1, .elements = 1000, .operations = 1000};
static struct head *head;
static void *table;
static uint64_t no_check, no_sync, in_order, drain;
static uint64_t found_sum, found_count; /* of what the check came across */

/* ---- The structure: what a program defines ---------------------------------------------------- */

/* Refuses a number of elements or operations that it cannot have, before there is a pool. */
static void structure_plan(void);
static size_t structure_table_bytes(void);
static uint64_t structure_blocks(void); /* for everything, without what threads keep for themselves */
static size_t structure_block_bytes(void);
/* Makes it in a pool of zeros, and calls `end_making_step` now and then. */
static void structure_make(struct transaction transaction);
/* How many operations the thread has in all, and doing them: `run_operations`, for all parts in turn. */
static uint64_t structure_operations(uint64_t thread);
OPERATION void structure_run(struct transaction transaction);
/* One operation of the transaction's thread, from its locks to their release. */
OPERATION void structure_operation(struct transaction transaction, uint64_t index);
/* Checks all that must hold at any time, claims each block, and calls `found` for every item and
   `found_done` for each operation that is there. No thread runs. */
static void structure_check(void);

/* The share of thread `number` in what all do together. */
static inline uint64_t share(uint64_t all, uint64_t number)
{
    return all / work.threads + (number < all % work.threads ? 1 : 0);
}

/* The index of an operation among its thread's. */
static inline void found_done(uint64_t thread, uint64_t index)
{
    threads[thread].there[index] = 1;
}

/* Something that the checksum is made of, in any order. */
static inline void found(uint64_t item)
{
    found_sum += mix(item);
    found_count++;
}

/* ---- Locks ------------------------------------------------------------------------------------ */

enum { LOCKS = 1024 };

static struct {
    alignas(LINE_BYTES) pthread_mutex_t mutex;
} locks[LOCKS];

/* A thread alone needs none. */
static inline void lock(uint64_t index)
{
    if (work.threads > 1) {
        pthread_mutex_lock(&locks[index % LOCKS].mutex);
    }
}

static inline void unlock(uint64_t index)
{
    if (work.threads > 1) {
        pthread_mutex_unlock(&locks[index % LOCKS].mutex);
    }
}

/* Two at once, one after the other in an order that all keep. */
static inline void lock_both(uint64_t one, uint64_t other)
{
    const uint64_t a = one % LOCKS, b = other % LOCKS;
    lock(a < b ? a : b);
    if (a != b) {
        lock(a < b ? b : a);
    }
}

static inline void unlock_both(uint64_t one, uint64_t other)
{
    unlock(one);
    if (one % LOCKS != other % LOCKS) {
        unlock(other);
    }
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* Tells the outside world, which survives, that `done` operations of the thread are done. */
OPERATION void acknowledge_operations(struct transaction transaction, uint64_t done)
{
    const uint64_t number = transaction.thread->number, interval = plan.acknowledge_interval;
    if (interval == 0 || (done % interval != 0 && done != structure_operations(number))) {
        return;
    }
    end_transaction(transaction);
    wait_for_commits(transaction.back_end);
    if (transaction.back_end == STRAND || transaction.back_end == HLOG) {
        SET(transaction, &pool->acknowledged[number].word, done);
        end_transaction(transaction);
        wait_for_commits(transaction.back_end);
    } else {
        tell(number, done);
    }
}

/* The thread's operations from `from` on to `to`, without those that recovery found. Of these, too, the
   outside world is told, if a cut came between the operation and that. */
OPERATION void run_operations(struct transaction transaction, uint64_t from, uint64_t to)
{
    const unsigned char *there = transaction.thread->there;
    for (uint64_t index = from; index < to; index++) {
        const bool found = there != NULL && there[index] != 0;
        if (!found) {
            structure_operation(transaction, index);
        }
        if (!found || index >= pool->acknowledged[transaction.thread->number].word) {
            acknowledge_operations(transaction, index + 1);
        }
    }
}

OPERATION void run_with(enum back_end back_end, struct thread *thread)
{
    const struct transaction transaction = {back_end, thread};
    structure_run(transaction);
    end_transaction(transaction);
    if (no_sync == 0) {
        wait_for_commits(back_end);
    }
}

static void *run_thread(void *context)
{
    switch (work.back_end) {
    case NONE:
        run_with(NONE, context);
        break;
    case WAL:
        run_with(WAL, context);
        break;
    case STRAND:
        run_with(STRAND, context);
        break;
    default:
        run_with(HLOG, context);
    }
    return NULL;
}

static inline void run_threads(void)
{
    for (uint64_t i = 1; i < work.threads; i++) {
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0) {
            die(STATUS_USAGE, "cannot start thread %" PRIu64, i);
        }
    }
    run_thread(&threads[0]);
    for (uint64_t i = 1; i < work.threads; i++) {
        pthread_join(threads[i].id, NULL);
    }
}

/* ---- The pool --------------------------------------------------------------------------------- */

static size_t logs_bytes(void)
{
    return work.back_end == WAL ? work.threads * wal_bytes(LINES_MAX) : 0;
}

/* The thread's strand so far is a whole. */
static void end_strand(void)
{
    if (work.back_end == STRAND) {
        perdure_new_strand();
    }
}

/* A part of the making is done, on which none before it depends. */
static inline void end_making_step(void)
{
    end_strand();
}

static void end_making(void)
{
    end_strand();
    wait_for_commits(work.back_end);
}

static void make(void)
{
    structure_make((struct transaction){NONE, &threads[0]});
    head->blocks_made.word = blocks_fresh;
    end_making();
}

static inline void lay_out(void)
{
    const size_t lines = (structure_table_bytes() + LINE_BYTES - 1) / LINE_BYTES;
    head = beside_slots();
    table = (char *)(head + 1) + logs_bytes();
    blocks_begin = (char *)table + lines * LINE_BYTES;
    block_bytes = structure_block_bytes();
    /* A thread that makes, and one that runs, keep some. */
    blocks_all = structure_blocks() + 2 * work.threads * BLOCKS_AT_ONCE;
}

static struct perdure_primitive logs_primitive;

/* Does again what logs hold of transactions that were committed. */
static inline void recover_logs(size_t bytes)
{
    logs_primitive = *primitive;
    if (!fencing) {
        logs_primitive.fence = perdure_no_fence;
    }
    for (uint64_t i = 0; i < work.threads && work.back_end == WAL; i++) {
        char *log = (char *)(head + 1) + i * wal_bytes(LINES_MAX);
        if (!wal_open(&threads[i].wal, log, LINES_MAX, pool, bytes, &logs_primitive)) {
            die(STATUS_USAGE, "no memory for a log");
        }
        if (!wal_recover(&threads[i].wal)) {
            die(STATUS_WRONG, "the log of thread %" PRIu64 " is damaged", i);
        }
    }
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* What is there of a thread's operations. */
struct judgement {
    uint64_t all, there, first_missing, end; /* behind the last that is there */
};

static inline struct judgement judge(const struct thread *thread)
{
    struct judgement found = {.all = structure_operations(thread->number)};
    found.first_missing = found.all;
    for (uint64_t index = found.all; index-- > 0;) {
        if (thread->there[index] == 0) {
            found.first_missing = index;
            continue;
        }
        found.there++;
        found.end = found.end == 0 ? index + 1 : found.end;
    }
    return found;
}

/* That what was acknowledged is there, and no more than can be under way beyond it; and unless strands may
   be committed in any order, nothing behind something that is missing. */
static inline void check_judgement(uint64_t thread, const struct judgement *found)
{
    const uint64_t told = pool->acknowledged[thread].word, interval = plan.acknowledge_interval;
    if (told > found->first_missing) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing, but %" PRIu64
            " were acknowledged", found->first_missing, thread, told);
    }
    if (interval != 0 && found->end > told + interval) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is there, but only %" PRIu64
            " were acknowledged", found->end - 1, thread, told);
    }
    if (found->end > found->first_missing && (work.back_end != STRAND || in_order != 0)) {
        die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing, but a later one, %"
            PRIu64 ", is there", found->first_missing, thread, found->end - 1);
    }
}

static inline void check_structure(void)
{
    for (uint64_t i = 0; i < work.threads; i++) {
        free(threads[i].there);
        threads[i].there = ordinary(structure_operations(i), 1);
    }
    found_sum = 0;
    found_count = 0;
    begin_blocks_check();
    structure_check();
    end_blocks_check();
}

/* Checks what a cut left, and says what is there. */
static inline void check_recovered(void)
{
    uint64_t all = 0, there = 0, early = 0;
    check_structure();
    for (uint64_t i = 0; i < work.threads; i++) {
        const struct judgement found = judge(&threads[i]);
        check_judgement(i, &found);
        all += found.all;
        there += found.there;
        early += found.end > found.first_missing ? found.there - found.first_missing : 0;
    }
    printf("%s: recovered: %" PRIu64 " of %" PRIu64 " operations, %" PRIu64
           " of them behind a missing one\n", PROGRAM, there, all, early);
}

/* Checks that all is done. */
static inline void check_end(void)
{
    check_structure();
    for (uint64_t i = 0; i < work.threads; i++) {
        const struct judgement found = judge(&threads[i]);
        if (found.there != found.all) {
            die(STATUS_WRONG, "operation %" PRIu64 " of thread %" PRIu64 " is missing at the end",
                found.first_missing, i);
        }
    }
    printf("%s: %" PRIu64 " items, checksum %016" PRIx64 "\n", PROGRAM, found_count, found_sum);
}

/* ---- The program ------------------------------------------------------------------------------ */

static inline void read_work(int argc, char **argv)
{
    const struct option options[] = {
        {"back-end", "what makes an operation a transaction (none)", 0, BACK_ENDS, &work.back_end},
        {"threads", "each with operations of its own, up to 4 (1)", THREADS_MAX, NULL, &work.threads},
        {"elements", "that the structure begins with (1000)", ELEMENTS_MAX, NULL, &work.elements},
        {"operations", "of all threads together (1000)", OPERATIONS_MAX, NULL, &work.operations},
        {"seed", "of keys and choices (1)", UINT32_MAX, NULL, &work.seed},
        {"no-check", "at the end", 0, NO_CHOICES, &no_check},
        {"no-sync", "do not wait at the end until all strands are committed", 0, NO_CHOICES, &no_sync},
        {"per-strand", "operations that a transaction has, up to 64 (1)", PER_STRAND_MAX, NULL, &per_strand},
        {"drain", "at the end, write all that the caches have of the pool", 0, NO_CHOICES, &drain},
        {"in-order", "of strands, too, none may be there behind a missing one", 0, NO_CHOICES,
         &in_order},
    };
    primitive_name = "clwb";
    parse_options(argc, argv, &plan.acknowledge_interval, options, sizeof options / sizeof *options);
    memcpy(plan.words, &work, sizeof work);
    if (recover_only) {
        read_plan(&plan);
        memcpy(&work, plan.words, sizeof work);
    }
    if (work.threads == 0) {
        die(STATUS_USAGE, "--threads is 0, but must be 1 to %d", THREADS_MAX);
    }
    /* Logs need locks that are kept until the end of the transaction. */
    if (per_strand > 1 && work.threads > 1 && (work.back_end == WAL || work.back_end == HLOG)) {
        die(STATUS_USAGE, "--per-strand with the back end %s is for one thread",
            BACK_ENDS[work.back_end]);
    }
    structure_plan();
}

int main(int argc, char **argv)
{
    read_work(argc, argv);
    look_at_file();
    for (uint64_t i = 0; i < THREADS_MAX; i++) {
        threads[i].number = i;
    }
    for (uint64_t i = 0; i < LOCKS; i++) {
        pthread_mutex_init(&locks[i].mutex, NULL);
    }
    lay_out();
    const size_t bytes = (size_t)(blocks_begin - (char *)beside_slots()) + blocks_all * block_bytes;
    open_pool(&plan, 0, bytes, make);
    end_making();
    if (make_only) {
        return EXIT_SUCCESS;
    }
    recover_logs(PAGE_BYTES + bytes);
    if (pool->used.word != 0 || recover_only) {
        check_recovered();
        find_free_blocks();
    } else {
        blocks_fresh = head->blocks_made.word;
    }
    if (recover_only) {
        return EXIT_SUCCESS;
    }
    begin_use();
    end_making();
    run_threads();
    if (drain != 0) {
        synchronise(PAGE_BYTES + bytes);
    }
    if (no_check == 0) {
        check_end();
    }
    return EXIT_SUCCESS;
}

#endif
