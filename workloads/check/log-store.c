/*
 * log-store POOL [OPTION]...: a log-structured store.
 *
 * The log is a row of segments. A record has 32 bytes: its number, of which none comes twice, key, value
 * (0: the key is erased), and a check over them. To put or to erase appends a record and flushes it. A
 * segment's first line says which of the log it is, and the number of its first record, with a check; 0
 * says that it is free. The index is in ordinary memory. When the last free segment is begun, the oldest
 * one is cleaned: what counts of it is appended again, and then it is free.
 *
 * Always true of what is durable: segments have consecutive places; a segment's records have consecutive
 * numbers up to the first that does not fit, and only the last segment has room. Recovery takes them in
 * order, the last record of a key counts. A record that was torn, or is from before the segment was
 * cleaned, does not fit. If no segment is free, a cleaning was cut short, and recovery ends it: what was
 * appended already does not count twice.
 */
#define PROGRAM "log-store"
#define BUGS(BUG)                                                                                            \
    BUG(RECORD_NOT_FLUSHED, MISSING_FLUSH, "a record is not flushed")                                        \
    BUG(HEADER_NOT_FLUSHED, LOG_HEADER_NOT_FLUSHED, "the first line of a new segment is not flushed")        \
    BUG(RECORD_NOT_FENCED, MISSING_FENCE, "the flush of a record is not waited for")                         \
    BUG(SEGMENT_FLUSHED, WRONG_LINE, "the first line of the segment is flushed in place of the record's")    \
    BUG(FREED_BEFORE_COPIED, SEMANTIC, "a segment is free, durably, before its records are appended again")  \
    BUG(CHECK_NOT_COMPARED, TORN_UPDATE, "recovery takes a record by its number, whatever its check")        \
    BUG(NUMBERS_BY_SEGMENT, ABA_AFTER_RECOVERY, "old records fit by number, and are cleared in the caches alone")\
    BUG(CLEANING_FORGOTTEN, LEAK, "a cleaned segment is marked before it is free, and recovery leaves it so")
#define SLOT_BYTES 512
#define SLOTS 4
#define OPERATIONS_DEFAULT 200
#include "run.h"

enum { RECORDS = (SLOT_BYTES - LINE_BYTES) / 32, MARKED = 1 << 30 };

struct record {
    uint64_t number, key, value, check;
};

struct segment {
    alignas(LINE_BYTES) uint64_t place; /* in the log, from 1 on; 0: free */
    uint64_t first; /* number of its first record */
    uint64_t check;
    alignas(LINE_BYTES) struct record record[RECORDS];
};

static_assert(sizeof(struct segment) == SLOT_BYTES, "a segment is a slot");

static struct segment *const segments = (struct segment *)(POOL_ADDRESS + PAGE_BYTES);

/* In ordinary memory. */
static struct segment *now;             /* the last segment */
static unsigned used;                   /* of its records */
static const struct record *latest[KEYS + 1]; /* of each key */

static uint64_t header_check(uint64_t place, uint64_t first)
{
    return mix(mix(place) + first);
}

static uint64_t record_check(const struct record *record)
{
    return mix(mix(mix(record->number) + record->key) + record->value);
}

/* The number of the segment's record that has this index. */
static uint64_t number_of_record(const struct segment *segment, unsigned index)
{
    return planted(NUMBERS_BY_SEGMENT) ? 1 + index : segment->first + index;
}

static struct segment *segment_at(uint64_t place)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (segments[i].place == place) {
            return &segments[i];
        }
    }
    return NULL;
}

static unsigned free_segments(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        count += segments[i].place == 0;
    }
    return count;
}

/* Takes a free segment as the log's next one. The place is stored last: it makes the others count. */
static void begin_segment(uint64_t place, uint64_t first)
{
    now = segment_at(0);
    if (now == NULL) {
        die(STATUS_WRONG, "no segment is free");
    }
    if (planted(NUMBERS_BY_SEGMENT)) {
        memset(now->record, 0, sizeof now->record); /* bug: numbers-by-segment */
    }
    now->first = first;
    now->check = header_check(place, first);
    order_stores();
    now->place = place; /* store: header-not-flushed */
    if (!planted(HEADER_NOT_FLUSHED)) {
        flush(now); /* bug: header-not-flushed */
    }
    fence();
    used = 0;
}

static void structure_make(void)
{
    begin_segment(1, 1);
}

/* Appends a record, durably. */
static void append(uint64_t key, uint64_t value)
{
    if (used == RECORDS) {
        begin_segment(now->place + 1, now->first + RECORDS);
    }
    struct record *record = &now->record[used];
    record->number = number_of_record(now, used++);
    record->key = key;
    record->value = value; /* store: check-not-compared */
    record->check = record_check(record); /* store: record-not-flushed, record-not-fenced, segment-flushed */
    if (planted(SEGMENT_FLUSHED)) {
        flush(now); /* bug: segment-flushed */
    } else if (!planted(RECORD_NOT_FLUSHED)) {
        flush(record); /* bug: record-not-flushed */
    }
    if (!planted(RECORD_NOT_FENCED)) {
        fence(); /* bug: record-not-fenced */
    }
    latest[key] = record;
}

/* Appends the oldest segment's records that count again. Erasures need not be kept: nothing is older. */
static void clean(void)
{
    uint64_t place = now->place;
    while (place > 1 && segment_at(place - 1) != NULL) {
        place--;
    }
    struct segment *oldest = segment_at(place);
    if (planted(FREED_BEFORE_COPIED)) {
        oldest->place = 0; /* bug: freed-before-copied */
        persist(oldest);
    }
    for (unsigned i = 0; i < RECORDS; i++) {
        const struct record *record = &oldest->record[i];
        if (latest[record->key] == record && record->value != 0) {
            append(record->key, record->value);
        } else if (latest[record->key] == record) {
            latest[record->key] = NULL;
        }
    }
    if (planted(CLEANING_FORGOTTEN)) {
        oldest->place |= MARKED; /* store: cleaning-forgotten */
        persist(oldest);
    }
    oldest->place = 0;
    persist(oldest);
}

static void add(uint64_t key, uint64_t value)
{
    while (used == RECORDS && free_segments() == 1) {
        begin_segment(now->place + 1, now->first + RECORDS);
        clean();
    }
    append(key, value);
}

static void structure_put(uint64_t key, uint64_t value)
{
    add(key, value);
}

static void structure_erase(uint64_t key)
{
    if (latest[key] != NULL && latest[key]->value != 0) {
        add(key, 0);
    }
}

static uint64_t structure_get(uint64_t key)
{
    return latest[key] == NULL ? 0 : latest[key]->value;
}

/* ---- Recovery --------------------------------------------------------------------------------- */

/* A segment that is not of the log is free, whatever a cut has left of its first line. */
static void free_what_does_not_fit(void)
{
    for (struct segment *segment = segments; segment < segments + SLOTS; segment++) {
        if (segment->place != 0 && segment->check != header_check(segment->place, segment->first) &&
            !planted(CLEANING_FORGOTTEN)) {
            segment->place = 0; /* bug: cleaning-forgotten */
            persist(segment);
        }
    }
}

/* Takes the segment's records into the index, up to the first that does not fit. */
static void take_records(struct segment *segment)
{
    now = segment;
    for (used = 0; used < RECORDS; used++) {
        const struct record *record = &segment->record[used];
        if (record->number != number_of_record(segment, used) || record->key == 0 || record->key > KEYS ||
            (record->check != record_check(record) && !planted(CHECK_NOT_COMPARED))) {
            return; /* bug: check-not-compared */
        }
        latest[record->key] = record;
    }
}

static void structure_recover(void)
{
    free_what_does_not_fit();
    uint64_t least = UINT64_MAX, in_log = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        const uint64_t place = segments[i].place;
        least = place != 0 && place < least ? place : least;
    }
    uint64_t next = least;
    for (struct segment *segment; (segment = segment_at(next)) != NULL; next++, in_log++) {
        if (next != least && (used < RECORDS || segment->first != now->first + RECORDS)) {
            die(STATUS_WRONG, "record %" PRIu64 " is missing, but a segment behind it is begun",
                now->first + used);
        }
        take_records(segment);
    }
    if (in_log == 0 || in_log + free_segments() != SLOTS) {
        die(STATUS_WRONG, "%" PRIu64 " segments are of the log and %u free, but there are %d", in_log,
            free_segments(), SLOTS);
    }
    if (free_segments() == 0) {
        clean();
    }
    for (uint64_t key = 1; key <= KEYS; key++) {
        if (structure_get(key) != 0) {
            found_item(key, structure_get(key));
        }
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
