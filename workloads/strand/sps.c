/*
 * sps POOL [OPTION]...: SPS of the SPMS paper, random swaps of entries in an array.
 *
 * Our assumptions (the paper and Kiln, which it cites, say no more than that): an entry is 16 bytes, its
 * value and the number of the swap that brought it there; a swap is one transaction. Entry e belongs to
 * thread e modulo --threads, which swaps it with entries of its own, so that threads meet in lines, four
 * entries each, and need no lock.
 *
 * Always true: the values are those of the beginning, each at the place where the swaps that are there
 * brought it, and a swap is there at both its places or at neither.
 */
#define PROGRAM "sps"
#include "run.h"

enum purpose { PLACES };

struct entry {
    uint64_t value;
    uint64_t swap; /* of the entry's thread; 0 before the first */
};

static struct entry *entry_at(uint64_t place)
{
    return (struct entry *)table + place;
}

static void structure_plan(void)
{
    if (work.elements < 2 * work.threads) {
        die(STATUS_USAGE, "--elements leaves a thread without two entries");
    }
}

static size_t structure_table_bytes(void)
{
    return work.elements * sizeof(struct entry);
}

static uint64_t structure_blocks(void)
{
    return 0;
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct block);
}

static uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

static void structure_make(struct transaction transaction)
{
    for (uint64_t place = 0; place < work.elements; place++) {
        SET(transaction, &entry_at(place)->value, place);
        if (place % 64 == 63) {
            end_making_step();
        }
    }
}

struct swap {
    uint64_t one, other; /* two places of the thread's */
};

static struct swap swap_at(uint64_t thread, uint64_t index)
{
    const uint64_t random = random_at(work.seed, PLACES + thread, index);
    const uint64_t own = share(work.elements, thread), one = (uint32_t)random % own;
    const uint64_t other = (one + 1 + (random >> 32) % (own - 1)) % own;
    return (struct swap){one * work.threads + thread, other * work.threads + thread};
}

OPERATION void structure_operation(struct transaction transaction, uint64_t index)
{
    const struct swap swap = swap_at(transaction.thread->number, index);
    struct entry *one = entry_at(swap.one), *other = entry_at(swap.other);
    const uint64_t value = GET(transaction, &one->value);
    SET(transaction, &one->value, GET(transaction, &other->value));
    SET(transaction, &one->swap, index + 1);
    SET(transaction, &other->value, value);
    SET(transaction, &other->swap, index + 1);
    commit(transaction);
}

OPERATION void structure_run(struct transaction transaction)
{
    run_operations(transaction, 0, structure_operations(transaction.thread->number));
}

/* A swap is there if its entries have its number or a later one's. Does those of a thread that are there
   in ordinary memory. */
static void do_again(uint64_t thread, struct entry *model)
{
    for (uint64_t index = 0; index < structure_operations(thread); index++) {
        const struct swap swap = swap_at(thread, index);
        const bool is_there = entry_at(swap.one)->swap > index;
        if (is_there != (entry_at(swap.other)->swap > index)) {
            die(STATUS_WRONG, "swap %" PRIu64 " of thread %" PRIu64 " is there at one of its places alone",
                index, thread);
        }
        if (is_there) {
            const uint64_t value = model[swap.one].value;
            model[swap.one] = (struct entry){model[swap.other].value, index + 1};
            model[swap.other] = (struct entry){value, index + 1};
            found_done(thread, index);
        }
    }
}

static void structure_check(void)
{
    struct entry *model = ordinary(work.elements, sizeof *model);
    for (uint64_t place = 0; place < work.elements; place++) {
        model[place].value = place;
    }
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        do_again(thread, model);
    }
    for (uint64_t place = 0; place < work.elements; place++) {
        const struct entry *entry = entry_at(place);
        if (entry->value != model[place].value || entry->swap != model[place].swap) {
            die(STATUS_WRONG, "entry %" PRIu64 " has the value %" PRIu64 " of swap %" PRIu64 ", not %"
                PRIu64 " of %" PRIu64, place, entry->value, entry->swap, model[place].value,
                model[place].swap);
        }
        found(mix(place) + entry->value);
    }
    free(model);
}
