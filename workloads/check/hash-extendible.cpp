/*
 * hash-extendible POOL [OPTION]...: extendible hashing, with segments of seven entries.
 *
 * The directory leads from the last bits of a hash to segments, as many as its depth says. An entry has 16
 * bytes, a key that makes it count and a value; to put writes the value, then the key, which lies in the
 * same line. A full segment is split into two new ones, and a new directory leads to them, of twice the
 * size if needed; when all of that is durable, one word is stored, which says which of two directories
 * counts, and its depth.
 *
 * Always true of what is durable: the directory that counts leads to every segment from all of the hashes
 * that have its bits; an entry that counts is where its key belongs. Recovery has nothing to mend.
 */
#define PROGRAM "hash-extendible"
#define BUGS(BUG)                                                                                            \
    BUG(ENTRY_NOT_FLUSHED, MISSING_FLUSH, "an entry is not flushed")                                         \
    BUG(SEGMENT_NOT_FLUSHED, MISSING_FLUSH, "one of the two segments of a split is not flushed")             \
    BUG(DIRECTORY_NOT_FENCED, MISSING_FENCE, "the word may be durable before the directory")                 \
    BUG(FIRST_LINE_OF_SEGMENT, WRONG_LINE, "of new segments only the first line is flushed")                 \
    BUG(KEY_BEFORE_VALUE, TORN_UPDATE, "the key, which makes an entry count, is written before the value")   \
    BUG(WORD_IN_HALVES, TORN_UPDATE, "which directory counts, and its depth, are stored apart")              \
    BUG(DIRECTORY_IN_PLACE, NON_ATOMIC_CHANGE, "a split without doubling changes the directory in place")    \
    BUG(SEGMENT_REUSED, WRONG_ORDER, "a split's own segment is given back first, and taken for a new one")
#define SLOT_BYTES 128
#define SLOTS 40
#define BESIDE_BYTES (2 * 32 * 8)
#define KEYS 64
#define OPERATIONS_DEFAULT 200
#include "run.h"

namespace {

constexpr unsigned DEPTH_MAX = 5, DIRECTORY_MAX = BESIDE_BYTES / 16, ENTRIES = 7;

struct Entry {
    uint64_t key; // 0: does not count
    uint64_t value;
};

struct Segment {
    alignas(LINE_BYTES) uint64_t depth; // how many bits of the hash all its keys share
    uint64_t bits;
    Entry entry[ENTRIES];
};

static_assert(sizeof(Segment) == SLOT_BYTES, "a segment is a slot");

using Directory = Segment *[DIRECTORY_MAX];

// The word: the depth of the directory that counts, and below it which of the two that is.
uint64_t &word()
{
    return pool->root[0].word;
}

Directory &directory(uint64_t number)
{
    return static_cast<Directory *>(beside_slots())[number];
}

uint64_t depth_now()
{
    return word() >> 32;
}

uint64_t bits_of(uint64_t key, uint64_t depth)
{
    return mix(key) & ((UINT64_C(1) << depth) - 1);
}

Segment *segment_of(uint64_t key)
{
    return directory(word() & 1)[bits_of(key, depth_now())];
}

// An entry of the segment with this key, or NULL; with 0, one that does not count.
Entry *find(Segment *segment, uint64_t key)
{
    for (Entry &entry : segment->entry) {
        if (entry.key == key) {
            return &entry;
        }
    }
    return nullptr;
}

void store_word(uint64_t number, uint64_t depth)
{
    if (planted(WORD_IN_HALVES)) {
        auto *halves = reinterpret_cast<volatile uint32_t *>(&word());
        halves[1] = static_cast<uint32_t>(depth); // bug: word-in-halves
        halves[0] = static_cast<uint32_t>(number); // store: word-in-halves
    } else {
        word() = depth << 32 | number;
    }
    persist(&word());
}

// A new segment with those entries of another that belong to it.
Segment *half_of(const Segment &full, uint64_t bits)
{
    auto *segment = static_cast<Segment *>(take_slot());
    memset(static_cast<void *>(segment), 0, sizeof *segment);
    segment->depth = full.depth + 1;
    segment->bits = bits;
    unsigned count = 0;
    for (const Entry &entry : full.entry) {
        if (bits_of(entry.key, segment->depth) == bits) {
            segment->entry[count++] = entry; // store: segment-not-flushed, first-line-of-segment
        }
    }
    if (planted(FIRST_LINE_OF_SEGMENT)) {
        flush(segment); // bug: first-line-of-segment
    } else if (!planted(SEGMENT_NOT_FLUSHED) || bits == full.bits) {
        flush_range(segment, sizeof *segment); // bug: segment-not-flushed
    }
    return segment;
}

void split(Segment *full)
{
    const Segment content = *full;
    const uint64_t depth = content.depth, bits = content.bits, old_depth = depth_now();
    const uint64_t new_depth = depth == old_depth ? depth + 1 : old_depth;
    const bool in_place = planted(DIRECTORY_IN_PLACE) && new_depth == old_depth;
    const uint64_t number = in_place ? word() & 1 : ~word() & 1;
    if (new_depth > DEPTH_MAX) {
        die(STATUS_USAGE, "the directory has no room for more than %u segments", DIRECTORY_MAX);
    }
    if (planted(SEGMENT_REUSED)) {
        give_slot(full); // bug: segment-reused
    }
    Segment *const low = half_of(content, bits);
    Segment *const high = half_of(content, bits | UINT64_C(1) << depth);
    fence();
    const Directory &from = directory(word() & 1);
    Directory &to = directory(number);
    for (uint64_t i = 0; i < UINT64_C(1) << new_depth; i++) {
        Segment *const old = from[i & ((UINT64_C(1) << old_depth) - 1)];
        // store: directory-not-fenced
        to[i] = old != full ? old : (i >> depth & 1) != 0 ? high : low; // bug: directory-in-place
    }
    flush_range(&to[0], sizeof to[0] << new_depth);
    if (!planted(DIRECTORY_NOT_FENCED)) {
        fence(); // bug: directory-not-fenced
    }
    store_word(number, new_depth);
    if (!planted(SEGMENT_REUSED)) {
        give_slot(full);
    }
}

} // namespace

static void structure_make(void)
{
    for (uint64_t bits = 0; bits < 2; bits++) {
        auto *segment = reinterpret_cast<Segment *>(slots) + bits;
        segment->depth = 1;
        segment->bits = bits;
        directory(0)[bits] = segment;
        flush(segment);
        flush(&directory(0)[bits]);
    }
    fence();
    store_word(0, 1);
}

static void structure_put(uint64_t key, uint64_t value)
{
    Entry *entry = find(segment_of(key), key);
    if (entry != nullptr) {
        entry->value = value;
        persist(entry);
        return;
    }
    while ((entry = find(segment_of(key), 0)) == nullptr) {
        split(segment_of(key));
    }
    if (planted(KEY_BEFORE_VALUE)) {
        entry->key = key; // bug: key-before-value
        order_stores();
        entry->value = value; // store: key-before-value
    } else {
        entry->value = value;
        order_stores();
        entry->key = key; // store: entry-not-flushed
    }
    if (!planted(ENTRY_NOT_FLUSHED)) {
        flush(entry); // bug: entry-not-flushed
    }
    fence();
}

static void structure_erase(uint64_t key)
{
    Entry *entry = find(segment_of(key), key);
    if (entry != nullptr) {
        entry->key = 0;
        persist(entry);
    }
}

static uint64_t structure_get(uint64_t key)
{
    const Entry *entry = find(segment_of(key), key);
    return entry == nullptr ? 0 : entry->value;
}

// A segment, at the first place of the directory that leads to it.
static void recover_segment(const Segment *segment)
{
    for (const Entry &entry : segment->entry) {
        if (entry.key == 0) {
            continue;
        }
        if (bits_of(entry.key, segment->depth) != segment->bits) {
            die(STATUS_WRONG, "key %" PRIu64 " is in another's segment", entry.key);
        }
        found_item(entry.key, entry.value);
    }
}

static void structure_recover(void)
{
    const Directory &now = directory(word() & 1);
    if (depth_now() == 0 || depth_now() > DEPTH_MAX) {
        die(STATUS_WRONG, "the directory has the depth %" PRIu64, depth_now());
    }
    for (uint64_t i = 0; i < UINT64_C(1) << depth_now(); i++) {
        const uintptr_t distance = reinterpret_cast<uintptr_t>(now[i]) - reinterpret_cast<uintptr_t>(slots);
        const uint64_t index = distance / sizeof(Segment);
        const bool is_new = index >= slots_all || claimed[index] == 0;
        const Segment *segment = is_new ? static_cast<Segment *>(claim(now[i])) : now[i];
        if (segment->depth > depth_now() || segment->bits != (i & ((UINT64_C(1) << segment->depth) - 1))) {
            die(STATUS_WRONG, "place %" PRIu64 " of the directory leads to a segment of others", i);
        }
        if (is_new) {
            recover_segment(segment);
        }
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
