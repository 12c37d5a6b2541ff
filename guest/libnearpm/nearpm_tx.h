/*
 * Transactions of libnearpm over the heap of a pool, by one of four mechanisms, each on the processor, with
 * flushes and fences, or on NearPM's devices, which copy, log and delete while the processor goes on.
 *
 * A transaction begins by itself. A program reads through np_read and changes through np_write, by the
 * addresses that pointers in the pool have; NP_READ and NP_WRITE do so for an object by its type. What they
 * answer is good until the next np_write to one of its lines, or the commit. What is named at once lies
 * within a page.
 *
 * The allocator hands out blocks of the classes that the program declared (np_declare_blocks), each thread
 * its own. A block begins with a word that says whether it is in use, which the transaction writes that
 * takes the block or gives it: what is allocated or freed is so with the transaction or not at all. Which
 * blocks are free is known in ordinary memory, too, and found anew when a pool is opened.
 *
 * np_commit ends the transaction. np_durable waits until all that the thread has committed is safe: it comes
 * before somebody is told, through whatever, and before a lock is given up under which another thread's
 * transaction may name the same page.
 *
 * Always true: after recovery, of every transaction all is there or nothing, and of a thread's transactions
 * none behind one that is missing; what came before np_durable is there.
 */
#ifndef PERDURE_NEARPM_TX_H
#define PERDURE_NEARPM_TX_H

#include "nearpm_copies.h"

#define NP_INLINE static inline __attribute__((always_inline))

/* ---- Reading and writing ---------------------------------------------------------------------- */

/* Where the transaction finds the bytes whose home is there. */
NP_INLINE const void *np_read(struct np_transaction transaction, const void *home, uint64_t bytes)
{
    switch (transaction.mechanism) {
    case NP_REDO:
        return np_read_redo(transaction.thread, (const char *)home, bytes);
    case NP_SHADOW: {
        const struct np_pool *pool = transaction.thread->pool;
        const uint64_t at = (uint64_t)((const char *)home - pool->heap);
        return np_seen_page(pool, at / NP_PAGE_BYTES) + at % NP_PAGE_BYTES;
    }
    default:
        return home;
    }
}

/* For all that a mechanism does apart from its commit. */
static inline char *np_write_by(enum np_mechanism mechanism, struct np_thread *thread, void *home,
                                uint64_t bytes)
{
    switch (mechanism) {
    case NP_UNDO:
        return np_write_undo(thread, (char *)home, bytes);
    case NP_REDO:
        return np_write_redo(thread, (char *)home, bytes);
    case NP_CHECKPOINT:
        return np_write_checkpoint(thread, (char *)home, bytes);
    default:
        return np_write_shadow(thread, (char *)home, bytes);
    }
}

/* Where the transaction writes the bytes whose home is there; all others of its lines are there, too. */
NP_INLINE void *np_write(struct np_transaction transaction, void *home, uint64_t bytes)
{
    const uint64_t begin = np_cycles();
    char *place = np_write_by(transaction.mechanism, transaction.thread, home, bytes);
    transaction.thread->consistency_cycles += np_cycles() - begin;
    return place;
}

/* An object as the transaction sees it, and the same to be changed. */
#define NP_READ(transaction, object)                                                                \
    ((const __typeof__(*(object)) *)np_read((transaction), (object), sizeof *(object)))
#define NP_WRITE(transaction, object)                                                               \
    ((__typeof__(*(object)) *)np_write((transaction), (object), sizeof *(object)))

/* ---- Blocks ----------------------------------------------------------------------------------- */

static inline char *np_block_at(const struct np_pool *pool, unsigned class, uint64_t number)
{
    const struct np_class *of = &pool->classes[class];
    const uint64_t page = of->first_page + number / of->per_page;
    return np_home(pool, page) + number % of->per_page * of->block_bytes;
}

/* The block's number in its class; UINT64_MAX if no block begins there. */
static inline uint64_t np_block_number(const struct np_pool *pool, unsigned class, const void *home)
{
    const struct np_class *of = &pool->classes[class];
    const uint64_t at = (uint64_t)((const char *)home - np_home(pool, of->first_page));
    const uint64_t page = at / NP_PAGE_BYTES, in_page = at % NP_PAGE_BYTES;
    const bool is_one = (const char *)home >= np_home(pool, of->first_page) &&
                        page < of->pages * pool->options.threads && in_page % of->block_bytes == 0 &&
                        in_page / of->block_bytes < of->per_page;
    return is_one ? page * of->per_page + in_page / of->block_bytes : UINT64_MAX;
}

/* Lines that were of nobody: the transaction need not keep what is in them. */
static inline void np_name_fresh(struct np_thread *thread, char *home, uint64_t bytes)
{
    struct np_page *page = np_named_page(thread, np_page_number(thread->pool, home));
    const uint64_t lines = np_lines_of(home, bytes);
    page->written |= lines;
    page->held |= lines;
    if (page->copy != NULL) {
        memset(page->copy + (uintptr_t)home % NP_PAGE_BYTES, 0, bytes);
    }
}

/* How many blocks of the class the thread may still take. */
NP_INLINE uint64_t np_blocks_left(struct np_transaction transaction, unsigned class)
{
    return transaction.thread->free_blocks[class].count;
}

/* A block of the class, as yet with any bytes: the program writes each that it will read. */
static inline void *np_allocate(struct np_transaction transaction, unsigned class)
{
    const uint64_t begin = np_cycles();
    struct np_thread *thread = transaction.thread;
    struct np_list *list = &thread->free_blocks[class];
    const uint64_t bytes = thread->pool->classes[class].block_bytes;
    if (list->count == 0) {
        np_end(NP_STATUS_REFUSED, "thread %u has no block of %" PRIu64 " bytes left", thread->number, bytes);
    }
    char *block = np_block_at(thread->pool, class, list->number[--list->count]);
    *(np_word *)(void *)np_write_by(transaction.mechanism, thread, block, NP_LINE_BYTES) = 1;
    if (bytes > NP_LINE_BYTES) {
        np_name_fresh(thread, block + NP_LINE_BYTES, bytes - NP_LINE_BYTES);
    }
    thread->consistency_cycles += np_cycles() - begin;
    return block;
}

/* Gives a block of the thread's own back; it is not taken again before this is committed. */
static inline void np_free(struct np_transaction transaction, unsigned class, void *block)
{
    const uint64_t begin = np_cycles();
    struct np_thread *thread = transaction.thread;
    const struct np_class *of = &thread->pool->classes[class];
    const uint64_t number = np_block_number(thread->pool, class, block);
    if (number == UINT64_MAX || number / of->blocks != thread->number) {
        np_end(NP_STATUS_WRONG, "%p is no block of thread %u", block, thread->number);
    }
    if (thread->given_count == NP_GIVEN_MAX) {
        np_end(NP_STATUS_REFUSED, "a transaction gives back more than %d blocks", NP_GIVEN_MAX);
    }
    *(np_word *)(void *)np_write_by(transaction.mechanism, thread, block, NP_LINE_BYTES) = 0;
    thread->given[thread->given_count].class = class;
    thread->given[thread->given_count++].number = (uint32_t)number;
    thread->consistency_cycles += np_cycles() - begin;
}

/* ---- Commit ----------------------------------------------------------------------------------- */

/* Ends the transaction. One that wrote nothing costs nothing. */
static inline void np_commit(struct np_transaction transaction)
{
    const uint64_t begin = np_cycles();
    struct np_thread *thread = transaction.thread;
    if (thread->page_count == 0) {
        return;
    }
    if (transaction.mechanism == NP_REDO) {
        np_commit_redo(thread);
    } else if (transaction.mechanism == NP_SHADOW) {
        np_commit_shadow(thread);
    } else {
        np_commit_in_place(thread);
    }
    while (thread->given_count > 0) {
        thread->given_count--;
        np_push(&thread->free_blocks[thread->given[thread->given_count].class],
                thread->given[thread->given_count].number);
    }
    thread->transaction++;
    thread->page_count = 0;
    thread->has_tapes = false;
    thread->consistency_cycles += np_cycles() - begin;
}

/* Waits until the power cannot undo what the thread has committed. */
static inline void np_durable(struct np_transaction transaction)
{
    const uint64_t begin = np_cycles();
    struct np_thread *thread = transaction.thread;
    const struct np_options *options = &thread->pool->options;
    /* What needs the devices no more when np_commit returns is durable by then. */
    if (options->on_devices && !options->software_sync && transaction.mechanism != NP_SHADOW &&
        NP_MISTAKE != NP_TOLD_TOO_EARLY) {
        np_await_taken(thread);
    }
    thread->consistency_cycles += np_cycles() - begin;
}

#endif
