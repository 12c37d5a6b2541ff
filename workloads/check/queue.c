/*
 * queue POOL [OPTION]...: a bounded queue, a ring whose entries say themselves that they are there.
 *
 * An entry has 16 bytes, a value and then a number, and counts if the number is that of its place in the
 * queue: the first element ever has the number 1, and no number comes twice. To enqueue writes the value,
 * then the number, which lies in the same line; there is no tail. To dequeue stores the head, the number of
 * elements that are gone. The key of an element is which of all it is, and comes with its value.
 *
 * Always true of what is durable: from the head on, entries with consecutive numbers are the queue. A value
 * is not older than its number, as stores to one line become durable in their order. An entry is written
 * again only when the head is durably past it.
 */
#define PROGRAM "queue"
#define BUGS(BUG)                                                                                            \
    BUG(ENTRY_NOT_FLUSHED, MISSING_FLUSH, "an entry is not flushed")                                         \
    BUG(HEAD_NOT_FLUSHED, MISSING_FLUSH, "the head is not flushed, and entries before it are written again") \
    BUG(HEAD_NOT_FENCED, MISSING_FENCE, "the flush of the head is not waited for")                           \
    BUG(NEXT_LINE_FLUSHED, WRONG_LINE, "the line of the entry behind the new one is flushed")                \
    BUG(NUMBER_FIRST, TORN_UPDATE, "the number, by which an entry counts, is written before the value")      \
    BUG(NUMBERS_BEGIN_ANEW, ABA_AFTER_RECOVERY, "recovery of an empty queue begins again at number 1")
#define OWN_OPERATIONS
#define KEYS plan.operations
#define SLOTS 8
#include "run.h"

enum { ENTRIES = SLOTS * SLOT_BYTES / 16, KEY_SHIFT = 32 };

struct entry {
    uint64_t value; /* with the key above it */
    uint64_t number;
};

static struct entry *const ring = (struct entry *)(POOL_ADDRESS + PAGE_BYTES);
static uint64_t tail; /* in ordinary memory: the number of the last element */

/* How many elements are gone. */
static uint64_t *head(void)
{
    return &pool->root[0].word;
}

static struct entry *entry_of(uint64_t number)
{
    return &ring[(number - 1) % ENTRIES];
}

/* Enqueues and dequeues by chance, as far as there is room. One of eight operations looks at the head. */
static void plan_operations(void)
{
    uint64_t first = 1, last = 0;
    for (uint64_t i = 0; i < plan.operations; i++) {
        const uint64_t draw = mix(mix(plan.seed + 1) + i) >> 32;
        const bool grows = last + 1 == first || (last + 1 - first < ENTRIES && draw % 16 < 8);
        operations[i].value = i + 1;
        if (draw % 8 == 7 && last >= first) {
            operations[i].action = GET;
            operations[i].key = first;
        } else if (grows) {
            operations[i].action = PUT;
            operations[i].key = ++last;
        } else {
            operations[i].action = ERASE;
            operations[i].key = first++;
        }
    }
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void structure_put(uint64_t key, uint64_t value)
{
    struct entry *entry = entry_of(tail + 1);
    if (planted(NUMBER_FIRST)) {
        entry->number = tail + 1; /* bug: number-first */
        order_stores();
        entry->value = key << KEY_SHIFT | value; /* store: number-first */
    } else {
        entry->value = key << KEY_SHIFT | value;
        order_stores();
        entry->number = tail + 1; /* store: entry-not-flushed, next-line-flushed */
    }
    if (planted(NEXT_LINE_FLUSHED)) {
        flush(entry_of(tail + 2)); /* bug: next-line-flushed */
    } else if (!planted(ENTRY_NOT_FLUSHED)) {
        flush(entry); /* bug: entry-not-flushed */
    }
    fence();
    tail++;
}

static void structure_erase(uint64_t key)
{
    if (*head() == tail || entry_of(*head() + 1)->value >> KEY_SHIFT != key) {
        die(STATUS_WRONG, "element %" PRIu64 " is not at the head of the queue", key);
    }
    *head() += 1; /* store: head-not-flushed, head-not-fenced */
    if (!planted(HEAD_NOT_FLUSHED)) {
        flush(head()); /* bug: head-not-flushed */
    }
    if (!planted(HEAD_NOT_FENCED)) {
        fence(); /* bug: head-not-fenced */
    }
}

static uint64_t structure_get(uint64_t key)
{
    const uint64_t value = *head() == tail ? 0 : entry_of(*head() + 1)->value;
    return value >> KEY_SHIFT == key ? value & UINT32_MAX : 0;
}

static void structure_recover(void)
{
    if (planted(NUMBERS_BEGIN_ANEW) && entry_of(*head() + 1)->number != *head() + 1) {
        *head() = 0; /* bug: numbers-begin-anew */
        persist(head());
    }
    uint64_t last_key = 0;
    for (tail = *head(); tail - *head() < ENTRIES && entry_of(tail + 1)->number == tail + 1; tail++) {
        const uint64_t value = entry_of(tail + 1)->value, key = value >> KEY_SHIFT;
        if (tail != *head() && key != last_key + 1) {
            die(STATUS_WRONG, "element %" PRIu64 " is behind %" PRIu64, key, last_key);
        }
        last_key = key;
        found_item(key, value & UINT32_MAX);
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
