/*
 * Transactions over a structure in a pool, with one of several back ends, and the pool's allocator.
 *
 * Back ends: `none` stores in place and promises nothing, `wal` has the redo log of guest/wal.h, `strand`
 * stores in place and ends a strand with each transaction, `hlog` stores in place and has the hardware log
 * it, in a wrap for each transaction (guest/hlog.h). Another one goes into `enum back_end`, GET, SET,
 * `commit`, `wait_for_commits`, and `run_thread` of run.h.
 *
 * The back end is chosen when the program starts, and costs no access anything: a transaction carries its
 * back end as a constant, all code between begin and commit is inlined into a function of one back end
 * (OPERATION), and the compiler makes one copy of it for each. A load of `none` is a load.
 *
 * The allocator hands out blocks of one size. Whether a block is in use is a word of the block itself, and
 * written in the transaction that takes or gives it: what a cut leaves is right if the transaction is whole,
 * and transactions that have nothing else in common do not meet in an allocator's line. Which blocks are
 * free is known in ordinary memory, too, and found anew by recovery.
 *
 * Always true: a word that a transaction may change is read by GET and written by SET. A block that is given
 * back is not taken again before that is committed. Threads take and give blocks of their own lists.
 */
#ifndef PERDURE_STRAND_TRANSACTIONS_H
#define PERDURE_STRAND_TRANSACTIONS_H

#include "../flush/flush.h"
#include "hlog.h"
#include "wal.h"

#define OPERATION static inline __attribute__((always_inline))

enum back_end { NONE, WAL, STRAND, HLOG };
enum {
    THREADS_MAX = 4,
    LINES_MAX = 512,     /* that a transaction may write */
    GIVEN_MAX = 256,     /* blocks that a transaction may give back */
    BLOCKS_AT_ONCE = 16  /* that a thread fetches */
};

static const char *const BACK_ENDS[] = {"none", "wal", "strand", "hlog", NULL};

/* Blocks that a thread may take, in ordinary memory. */
struct blocks {
    uint64_t count, capacity;
    uint32_t *index;
};

struct thread {
    alignas(LINE_BYTES) uint64_t number;
    pthread_t id;
    struct wal wal;
    struct blocks free;
    uint64_t operations; /* in the running transaction so far */
    uint64_t given_count;
    uint32_t given[GIVEN_MAX]; /* by the running transaction */
    unsigned char *there;      /* of each operation: whether recovery found it done */
    bool in_wrap;
};

/* The running transaction of a thread. */
struct transaction {
    enum back_end back_end;
    struct thread *thread;
};

static struct thread threads[THREADS_MAX];
static uint64_t per_strand = 1; /* operations in a transaction */

/* ---- Words ------------------------------------------------------------------------------------ */

/* A wrap is opened by the first word that is written in it. */
OPERATION void set_wrapped(struct thread *thread, void *place, uint64_t value)
{
    if (!thread->in_wrap) {
        thread->in_wrap = true;
        hlog_open();
    }
    hlog_store(place, value);
}

static inline void set_logged(struct thread *thread, void *place, uint64_t value)
{
    if (!wal_store(&thread->wal, place, value)) {
        die(STATUS_WRONG, "a transaction writes more than %d lines", LINES_MAX);
    }
}

/* A word of the pool, a number or a pointer, at `place`, as the transaction sees it. */
#define GET(transaction, place)                                                                     \
    ((transaction).back_end == WAL                                                                  \
         ? (__typeof__(*(place)))wal_load(&(transaction).thread->wal, (place))                      \
         : *(place))

/* Writes it. */
#define SET(transaction, place, value)                                                              \
    do {                                                                                            \
        _Static_assert(sizeof *(place) == sizeof(uint64_t), "a transaction writes whole words");    \
        if ((transaction).back_end == WAL) {                                                        \
            set_logged((transaction).thread, (place), (uint64_t)(value));                           \
        } else if ((transaction).back_end == HLOG) {                                                \
            set_wrapped((transaction).thread, (place), (uint64_t)(value));                          \
        } else {                                                                                    \
            *(place) = (value);                                                                     \
        }                                                                                           \
    } while (0)

/* ---- Blocks ----------------------------------------------------------------------------------- */

/* What every block begins with; a program's block has it as its first member. */
struct block {
    alignas(LINE_BYTES) uint64_t used;
};

static char *blocks_begin;
static uint64_t blocks_all, block_bytes;
/* Blocks that no thread has fetched: those in the list, and all from `blocks_fresh` on. */
static struct blocks blocks_left;
static uint64_t blocks_fresh;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static inline struct block *block_at(uint64_t index)
{
    return (struct block *)(void *)(blocks_begin + index * block_bytes);
}

static inline void push_block(struct blocks *blocks, uint64_t index)
{
    if (blocks->count == blocks->capacity) {
        blocks->capacity = blocks->capacity == 0 ? 1024 : 2 * blocks->capacity;
        blocks->index = realloc(blocks->index, blocks->capacity * sizeof *blocks->index);
        if (blocks->index == NULL) {
            die(STATUS_USAGE, "no memory for a list of %" PRIu64 " blocks", blocks->capacity);
        }
    }
    blocks->index[blocks->count++] = (uint32_t)index;
}

static void fetch_blocks(struct blocks *blocks)
{
    pthread_mutex_lock(&blocks_lock);
    uint64_t fresh = blocks_all - blocks_fresh < BLOCKS_AT_ONCE ? blocks_all - blocks_fresh : BLOCKS_AT_ONCE;
    while (blocks_left.count > 0 && blocks->count < BLOCKS_AT_ONCE) {
        push_block(blocks, blocks_left.index[--blocks_left.count]);
    }
    if (blocks->count == 0) {
        /* The first of them is taken first. */
        for (blocks_fresh += fresh; blocks->count < fresh;) {
            push_block(blocks, blocks_fresh - 1 - blocks->count);
        }
    }
    pthread_mutex_unlock(&blocks_lock);
    if (blocks->count == 0) {
        die(STATUS_USAGE, "all %" PRIu64 " blocks are taken", blocks_all);
    }
}

/* A block, of which the program writes every word that it will read. */
OPERATION void *take_block(struct transaction transaction)
{
    struct blocks *blocks = &transaction.thread->free;
    if (blocks->count == 0) {
        fetch_blocks(blocks);
    }
    struct block *block = block_at(blocks->index[--blocks->count]);
    SET(transaction, &block->used, 1);
    return block;
}

OPERATION void give_block(struct transaction transaction, void *given)
{
    struct thread *thread = transaction.thread;
    struct block *block = given;
    if (thread->given_count == GIVEN_MAX) {
        die(STATUS_WRONG, "a transaction gives back more than %d blocks", GIVEN_MAX);
    }
    SET(transaction, &block->used, 0);
    thread->given[thread->given_count++] = (uint32_t)(((char *)given - blocks_begin) / (ptrdiff_t)block_bytes);
}

/* ---- Transactions ----------------------------------------------------------------------------- */

/* Ends the transaction, whatever is in it. */
OPERATION void end_transaction(struct transaction transaction)
{
    struct thread *thread = transaction.thread;
    thread->operations = 0;
    if (transaction.back_end == WAL) {
        wal_commit(&thread->wal);
    } else if (transaction.back_end == STRAND) {
        perdure_new_strand();
    } else if (transaction.back_end == HLOG && thread->in_wrap) {
        hlog_close();
        thread->in_wrap = false;
    }
    while (thread->given_count > 0) {
        push_block(&thread->free, thread->given[--thread->given_count]);
    }
}

/* Ends an operation, and with the last of so many the transaction. Whoever holds locks for it gives them up
   afterwards. */
OPERATION void commit(struct transaction transaction)
{
    if (++transaction.thread->operations >= per_strand) {
        end_transaction(transaction);
    }
}

/* What tells others that the thread's transactions so far are done must wait for this. */
OPERATION void wait_for_commits(enum back_end back_end)
{
    if (back_end == STRAND) {
        perdure_strand_sync();
    }
}

/* ---- Checking blocks -------------------------------------------------------------------------- */

static unsigned char *blocks_claimed;

static inline void begin_blocks_check(void)
{
    free(blocks_claimed);
    blocks_claimed = ordinary(blocks_all, 1);
}

/* A pointer of the pool, which must be to a block that is in use and that nothing has led to before. */
static inline void *claim_block(const void *pointer)
{
    const uint64_t distance = (uint64_t)((uintptr_t)pointer - (uintptr_t)blocks_begin);
    const uint64_t index = distance / block_bytes;
    if ((uintptr_t)pointer < (uintptr_t)blocks_begin || index >= blocks_all ||
        distance % block_bytes != 0) {
        die(STATUS_WRONG, "a pointer is %p, which is no block", pointer);
    }
    if (block_at(index)->used != 1) {
        die(STATUS_WRONG, "a pointer leads to block %" PRIu64 ", which is not in use", index);
    }
    if (blocks_claimed[index] != 0) {
        die(STATUS_WRONG, "two pointers lead to block %" PRIu64, index);
    }
    blocks_claimed[index] = 1;
    return block_at(index);
}

/* Nothing is in use that nothing leads to. */
static inline void end_blocks_check(void)
{
    for (uint64_t index = 0; index < blocks_all; index++) {
        const uint64_t used = block_at(index)->used;
        if (used > 1 || (used == 1 && blocks_claimed[index] == 0)) {
            die(STATUS_WRONG, "block %" PRIu64 " is in use, and nothing leads to it", index);
        }
    }
}

/* Of a pool that was used: which blocks are free. */
static inline void find_free_blocks(void)
{
    blocks_fresh = blocks_all;
    while (blocks_fresh > 0 && block_at(blocks_fresh - 1)->used == 0) {
        blocks_fresh--;
    }
    for (uint64_t index = blocks_fresh; index-- > 0;) {
        if (block_at(index)->used == 0) {
            push_block(&blocks_left, index);
        }
    }
}

#endif
