/*
 * tatp POOL [OPTION]...: TATP's update-location transactions, which change a subscriber's location.
 *
 * Our assumptions: a subscriber is a line, found by its number; each thread has subscribers of its own, on
 * pages of their own; a line says which operation changed it last, and how many have.
 *
 * Always true: a subscriber's location is that of the last operation on it, and all before that are done.
 */
#define PROGRAM "tatp"
#include "run.h"

struct subscriber {
    alignas(LINE_BYTES) uint64_t number;
    uint64_t bits;
    uint64_t vlr_location;
    uint64_t last;    /* the operation of the thread that changed it last, counted from 1 */
    uint64_t changes; /* how many have */
    uint64_t call_forwarding[3];
};

enum { SUBSCRIBERS_OF_PAGE = PAGE_BYTES / sizeof(struct subscriber) };

static uint64_t pages_of_thread;

static void structure_defaults(void)
{
    work.operations = 30000;
    work.elements = 100000;
}

static void structure_plan(void)
{
    if (work.elements < work.threads) {
        die(STATUS_USAGE, "--elements is %" PRIu64 ", but every thread needs one", work.elements);
    }
}

static uint64_t structure_pages(void)
{
    pages_of_thread = (share(work.elements, 0) + SUBSCRIBERS_OF_PAGE - 1) / SUBSCRIBERS_OF_PAGE;
    return work.threads * (1 + pages_of_thread);
}

static struct subscriber *subscriber_of(uint64_t thread, uint64_t number)
{
    struct subscriber *first = (void *)np_home(&np, work.threads + thread * pages_of_thread);
    return &first[number];
}

static uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

/* ---- What follows from the command line ------------------------------------------------------- */

static uint64_t location_of(uint64_t thread, uint64_t number, uint64_t last)
{
    return random_at(work.seed, 1, thread << 48 | number) + last;
}

static uint64_t bits_of(uint64_t thread, uint64_t number)
{
    return random_at(work.seed, 2, thread << 48 | number);
}

/* The subscriber that the operation changes. */
static uint64_t subscriber_changed(uint64_t thread, uint64_t index)
{
    return random_at(work.seed, 3, thread << 48 | index) % share(work.elements, thread);
}

static void structure_make(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t number = 0; number < share(work.elements, thread); number++) {
            struct subscriber *subscriber = subscriber_of(thread, number);
            subscriber->number = number;
            subscriber->bits = bits_of(thread, number);
            subscriber->vlr_location = location_of(thread, number, 0);
        }
    }
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t thread = transaction.thread->number, number = subscriber_changed(thread, index);
    struct subscriber *subscriber = NP_WRITE(transaction, subscriber_of(thread, number));
    subscriber->vlr_location = location_of(thread, number, index + 1);
    subscriber->last = index + 1;
    subscriber->changes++;
    np_commit(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void check_subscriber(uint64_t thread, uint64_t number, uint64_t changes)
{
    const struct subscriber *found_there = LOOK(subscriber_of(thread, number));
    if (found_there->number != number || found_there->bits != bits_of(thread, number) ||
        found_there->vlr_location != location_of(thread, number, found_there->last) ||
        found_there->changes != changes) {
        die(STATUS_WRONG, "subscriber %" PRIu64 " of thread %" PRIu64 " is damaged", number, thread);
    }
    found(found_there->vlr_location);
}

static void check_thread(uint64_t thread)
{
    uint64_t *changes = ordinary(share(work.elements, thread), sizeof *changes);
    for (uint64_t index = 0; index < structure_operations(thread); index++) {
        const uint64_t number = subscriber_changed(thread, index);
        if (index < LOOK(subscriber_of(thread, number))->last) {
            found_done(thread, index);
            changes[number]++;
        }
    }
    for (uint64_t number = 0; number < share(work.elements, thread); number++) {
        check_subscriber(thread, number, changes[number]);
    }
    free(changes);
}

static void structure_check(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        check_thread(thread);
    }
}
