/*
 * The operations of the structures that hold keys or values: how many, which ones, in which order; and
 * whether a structure's contents are those after some of them.
 *
 * First a stream inserts its elements, then it erases and searches. Elements have numbers in the order
 * of their insertion, and the n-th erasure takes a certain one of those that the first part inserted, so
 * that what a structure holds after any number of operations can be said without having done them.
 *
 * Always true: a program that ends has done every operation, and every search had the right answer.
 * BST_P has several streams, a thread for each; element n of stream t is element n * streams + t of all.
 *
 * A program defines the functions that are declared below as the structure's; before it includes this
 * file, VICTIM_STEP as 1 if it erases in the order of insertion, TABLE_SEARCH_PERCENT as 0 if table II
 * has no searches for it, and THREADS_DEFAULT if it has streams.
 */
#ifndef PERDURE_OPERATIONS_H
#define PERDURE_OPERATIONS_H

#include "flush.h"

#ifndef VICTIM_STEP
/* A prime above every number of elements: it leads to all of them, in an order that looks random. */
#define VICTIM_STEP UINT64_C(2654435761)
#endif
#ifndef TABLE_SEARCH_PERCENT
/* Of table II's deletions and searches. */
#define TABLE_SEARCH_PERCENT 60
#endif

enum mixture { TABLE, READ_LIGHT, READ_BALANCED, READ_HEAVY };
enum purpose { KEYS, SEARCHES };

static const char *const SIZES[] = {"tiny", "small", "medium", "large", NULL};
static const char *const MIXTURES[] = {"table", "10:90", "50:50", "90:10", NULL};
/* Table II: elements inserted; then deletions and searches together, two to three. */
static const uint64_t INSERTS[] = {460, 7370, 29490, 131070};
static const uint64_t OPERATIONS[] = {1000, 10000, 10000, 10000};
static const uint64_t SEARCH_PERCENT[] = {TABLE_SEARCH_PERCENT, 10, 50, 90};

enum { UNSET = 1 << 30, OPERATIONS_MAX = 1 << 24 };

/* As words of a plan: what all streams do together. */
struct work {
    uint64_t seed, mixture, inserts, operations, streams;
};

static struct plan plan;
static struct work work;
static uint64_t key_series;

/* ---- The structure: what a program defines ---------------------------------------------------- */

/* Makes it, empty, in a new pool of zeros. The caller makes it durable. */
static void structure_make(void);
/* Of a new pool, or one that a cut may have left: mends what an interrupted operation left, claims every
   slot that is reached, checks all that must always hold, and calls `found_element` for each element. */
static void structure_recover(void);
static void structure_insert(uint64_t element);
static void structure_erase(uint64_t element);
static bool structure_find(uint64_t element);

/* The key of an element; no two elements have the same one. */
static inline uint64_t key_of(uint64_t element)
{
    return mix(key_series + element);
}

/* ---- Which operation is which ----------------------------------------------------------------- */

/* The share of `stream` in what all do together. */
static inline uint64_t share(uint64_t all, uint64_t stream)
{
    return all / work.streams + (stream < all % work.streams ? 1 : 0);
}

static inline uint64_t first_inserts(uint64_t stream)
{
    return share(work.inserts, stream);
}

static inline uint64_t operations_of(uint64_t stream)
{
    return first_inserts(stream) + share(work.operations, stream);
}

/* How many of each kind are among a stream's first operations. */
struct counts {
    uint64_t inserts, erases, searches;
};

static inline struct counts counts_after(uint64_t stream, uint64_t operations)
{
    const uint64_t first = first_inserts(stream);
    if (operations <= first) {
        return (struct counts){.inserts = operations};
    }
    const uint64_t mixed = operations - first;
    const uint64_t searches = mixed * SEARCH_PERCENT[work.mixture] / 100;
    const uint64_t writes = mixed - searches;
    /* Table II only deletes after the first part; the mixtures keep the size as it is. */
    const uint64_t later = work.mixture == TABLE ? 0 : (writes + 1) / 2;
    return (struct counts){first + later, writes - later, searches};
}

/* Which of the stream's first elements its n-th erasure takes. */
static inline uint64_t victim(uint64_t stream, uint64_t erasure)
{
    return erasure * VICTIM_STEP % first_inserts(stream);
}

/* The inverse of VICTIM_STEP modulo `modulus`, by Euclid's algorithm. */
static inline uint64_t victim_step_inverse(uint64_t modulus)
{
    int64_t a = (int64_t)modulus, b = (int64_t)(VICTIM_STEP % modulus), at_a = 0, at_b = 1;
    while (b > 1) {
        const int64_t quotient = a / b, rest = a % b, next = at_a - quotient * at_b;
        a = b;
        b = rest;
        at_a = at_b;
        at_b = next;
    }
    return (uint64_t)(at_b < 0 ? at_b + (int64_t)modulus : at_b);
}

/* ---- Doing them ------------------------------------------------------------------------------- */

/* A stream, and how much of it is done. */
struct stream {
    pthread_t thread;
    uint64_t number, done;
};

static inline void search(const struct stream *stream, uint64_t inverse, uint64_t erases)
{
    const uint64_t first = first_inserts(stream->number);
    const uint64_t which = random_at(work.seed, SEARCHES + stream->number, stream->done) % first;
    const bool expected = which * inverse % first >= erases;
    if (structure_find(which * work.streams + stream->number) != expected) {
        die(STATUS_WRONG, "element %" PRIu64 " of stream %" PRIu64 " was %s", which, stream->number,
            expected ? "not found" : "found after it was erased");
    }
}

static void *run_stream(void *context)
{
    struct stream *stream = context;
    const uint64_t number = stream->number, interval = plan.acknowledge_interval;
    const uint64_t first = first_inserts(number), last = operations_of(number);
    for (; stream->done < first; acknowledge(interval, number, ++stream->done, last)) {
        structure_insert(stream->done * work.streams + number);
    }
    const uint64_t inverse = victim_step_inverse(first);
    struct counts before = counts_after(number, stream->done);
    for (; stream->done < last; acknowledge(interval, number, ++stream->done, last)) {
        const struct counts after = counts_after(number, stream->done + 1);
        if (after.inserts != before.inserts) {
            structure_insert(before.inserts * work.streams + number);
        } else if (after.erases != before.erases) {
            structure_erase(victim(number, before.erases) * work.streams + number);
        } else {
            search(stream, inverse, before.erases);
        }
        before = after;
    }
    return NULL;
}

static inline void run_streams(struct stream *streams)
{
    for (uint64_t i = 1; i < work.streams; i++) {
        if (pthread_create(&streams[i].thread, NULL, run_stream, &streams[i]) != 0) {
            die(STATUS_USAGE, "cannot start thread %" PRIu64, i);
        }
    }
    run_stream(&streams[0]);
    for (uint64_t i = 1; i < work.streams; i++) {
        pthread_join(streams[i].thread, NULL);
    }
}

/* ---- Checking contents ------------------------------------------------------------------------ */

static unsigned char *found;
static uint64_t found_count, elements_max;

/* The structure holds the element, once. */
static inline void found_element(uint64_t element)
{
    if (element >= elements_max) {
        die(STATUS_WRONG, "there is an element %" PRIu64 ", which nobody inserts", element);
    }
    if (found[element] != 0) {
        die(STATUS_WRONG, "element %" PRIu64 " is there twice", element);
    }
    found[element] = 1;
    found_count++;
}

/* The same of a node of a search tree: its key is its element's and lies in first..last, with room for
   what is below it on each side. */
static inline void found_in_order(uint64_t element, uint64_t key, uint64_t first, uint64_t last,
                                  const void *left, const void *right)
{
    found_element(element);
    if (key != key_of(element)) {
        die(STATUS_WRONG, "element %" PRIu64 " has another's key", element);
    }
    if (key < first || key > last || (key == first && left != NULL) ||
        (key == last && right != NULL)) {
        die(STATUS_WRONG, "element %" PRIu64 " is out of order", element);
    }
}

static inline bool is_found(uint64_t stream, uint64_t element)
{
    return found[element * work.streams + stream] != 0;
}

/* How many insertions and erasures of the stream the contents show. The first erasure takes element 0,
   so that without it no erasure was done, unless there is nothing at all. */
static inline struct counts counts_found(uint64_t stream)
{
    const uint64_t first = first_inserts(stream);
    struct counts counts = {0};
    for (uint64_t element = counts_after(stream, operations_of(stream)).inserts; element-- > 0;) {
        if (is_found(stream, element)) {
            counts.inserts = element + 1;
            break;
        }
    }
    if (counts.inserts > 0 && !is_found(stream, 0)) {
        counts.inserts = counts.inserts < first ? first : counts.inserts;
        while (counts.erases < first && !is_found(stream, victim(stream, counts.erases))) {
            counts.erases++;
        }
    }
    return counts;
}

/* How many operations of the stream the contents are those of. */
static inline uint64_t check_stream(uint64_t stream)
{
    const uint64_t first = first_inserts(stream), inverse = victim_step_inverse(first);
    const uint64_t last = operations_of(stream), told = pool->acknowledged[stream].word;
    const struct counts counts = counts_found(stream);
    for (uint64_t element = 0; element < counts_after(stream, last).inserts; element++) {
        const bool erased = element < first && element * inverse % first < counts.erases;
        if (is_found(stream, element) != (element < counts.inserts && !erased)) {
            die(STATUS_WRONG,
                "element %" PRIu64 " of stream %" PRIu64 " is %s, after %" PRIu64
                " insertions and %" PRIu64 " erasures",
                element, stream, is_found(stream, element) ? "there" : "missing", counts.inserts,
                counts.erases);
        }
    }
    uint64_t from = UINT64_MAX, to = 0;
    for (uint64_t done = 0; done <= last; done++) {
        const struct counts after = counts_after(stream, done);
        if (after.inserts == counts.inserts && after.erases == counts.erases) {
            from = from == UINT64_MAX ? done : from;
            to = done;
        }
    }
    if (from == UINT64_MAX) {
        die(STATUS_WRONG, "stream %" PRIu64 " never has %" PRIu64 " insertions and %" PRIu64
            " erasures", stream, counts.inserts, counts.erases);
    }
    if (to < told) {
        die(STATUS_WRONG, "of stream %" PRIu64 " at most %" PRIu64 " operations are there, but %" PRIu64
            " were acknowledged", stream, to, told);
    }
    const uint64_t interval = plan.acknowledge_interval;
    if (told > last || (interval != 0 && from > told + interval)) {
        die(STATUS_WRONG, "of stream %" PRIu64 " at least %" PRIu64 " operations are there, but only %"
            PRIu64 " were acknowledged", stream, from, told);
    }
    return from > told ? from : told;
}

/* Checks all contents, by which the streams know how much of them is done. */
static inline void check_streams(struct stream *streams)
{
    uint64_t done = 0, all = 0;
    for (uint64_t i = 0; i < work.streams; i++) {
        streams[i].done = check_stream(i);
        if (plan.acknowledge_interval != 0) {
            tell(i, streams[i].done);
        }
        done += streams[i].done;
        all += operations_of(i);
    }
    printf("%s: recovered: %" PRIu64 " of %" PRIu64 " operations, %" PRIu64 " elements\n", PROGRAM,
           done, all, found_count);
}

/* ---- The program ------------------------------------------------------------------------------ */

static inline void read_work(int argc, char **argv)
{
    uint64_t size = 0;
    work = (struct work){.seed = 1, .inserts = UNSET, .operations = UNSET, .streams = 1};
    const struct option options[] = {
        {"size", "table II's counts (tiny)", 0, SIZES, &size},
        {"mix", "searches to insertions and deletions, after the first insertions (table)", 0, MIXTURES,
         &work.mixture},
        {"inserts", "first insertions, instead of the size's", OPERATIONS_MAX, NULL, &work.inserts},
        {"operations", "operations after them, instead of the size's", OPERATIONS_MAX, NULL,
         &work.operations},
        {"seed", "of keys and choices (1)", UINT32_MAX, NULL, &work.seed},
#ifdef THREADS_DEFAULT
        {"threads", "each with its own elements", STREAMS_MAX, NULL, &work.streams},
#endif
    };
#ifdef THREADS_DEFAULT
    work.streams = THREADS_DEFAULT;
#endif
    parse_options(argc, argv, &plan.acknowledge_interval, options,
                  sizeof options / sizeof *options);
    work.inserts = work.inserts == UNSET ? INSERTS[size] : work.inserts;
    if (work.operations == UNSET) {
        const bool without = work.mixture == TABLE && TABLE_SEARCH_PERCENT == 0;
        work.operations = without ? OPERATIONS[size] * 2 / 5 : OPERATIONS[size];
    }
}

/* Whether every stream can do its share. */
static inline void check_work(void)
{
    if (work.streams == 0 || work.inserts < work.streams) {
        die(STATUS_USAGE, "every thread needs an element to begin with");
    }
    for (uint64_t i = 0; i < work.streams; i++) {
        if (counts_after(i, operations_of(i)).erases >= first_inserts(i)) {
            die(STATUS_USAGE, "--operations erases more than the first insertions leave");
        }
    }
}

/* Reads the command line, opens the pool, recovers the structure, and does the operations that are left.
   `slots_spare`: slots beside one for each element; `more_bytes`: of elements, the bytes beside all slots. */
static inline int run(int argc, char **argv, uint64_t slots_spare, size_t (*more_bytes)(uint64_t))
{
    static struct stream streams[STREAMS_MAX];
    read_work(argc, argv);
    memcpy(plan.words, &work, sizeof work);
    if (recover_only) {
        read_plan(&plan);
        memcpy(&work, plan.words, sizeof work);
    }
    check_work();
    for (uint64_t i = 0; i < work.streams; i++) {
        const uint64_t elements = counts_after(i, operations_of(i)).inserts * work.streams;
        streams[i].number = i;
        elements_max = elements > elements_max ? elements : elements_max;
    }
    key_series = random_at(work.seed, KEYS, 0);
    const uint64_t slot_count = elements_max + slots_spare;
    open_pool(&plan, slot_count, more_bytes == NULL ? 0 : more_bytes(elements_max), structure_make);
    if (make_only) {
        return EXIT_SUCCESS;
    }
    found = ordinary(elements_max, 1);
    begin_check(slot_count);
    structure_recover();
    if (pool->used.word != 0 || recover_only) {
        check_streams(streams);
    }
    free(found);
    if (recover_only) {
        return EXIT_SUCCESS;
    }
    find_free_slots();
    begin_use();
    run_streams(streams);
    printf("%s: %" PRIu64 " insertions, %" PRIu64 " operations after them\n", PROGRAM, work.inserts,
           work.operations);
    return EXIT_SUCCESS;
}

#endif
