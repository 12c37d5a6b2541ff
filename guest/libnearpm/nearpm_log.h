/*
 * Logs of libnearpm: where their entries lie, what one looks like, and which of them count.
 *
 * A log area is whole pages of a pool. Where the pool is dealt out to several devices, granule by granule,
 * each device has a log of its own in the area, on the granules that are its own: its pieces. A log has two
 * halves, and transaction T the half T % 2, so that the next one may run while one is being deleted. The
 * processor's own logs, of the twin that needs no device, are those of one device whose granule is a half.
 *
 * Format, words of eight bytes, little end first. The first line of a log's first piece: "NPMLOG01", the
 * number of the last transaction that has ended, zeros. An entry begins with a line {kind | magic << 32,
 * transaction, target as an offset from the pool's base, size, check of these four words and the data,
 * zeros}; the data follow, padded to whole lines. It lies within one piece; what does not fit into the rest
 * of one begins with the next. A torn entry fails its check.
 *
 * Always true of what is durable: of a transaction that has not ended, all entries are valid whose targets
 * may have changed, they lie one behind the other from the half's beginning, and behind them lies none of
 * it.
 */
#ifndef PERDURE_NEARPM_LOG_H
#define PERDURE_NEARPM_LOG_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "nearpm.h"

enum {
    NP_LINE_BYTES = 64,
    NP_PAGE_BYTES = NEARPM_PAGE_BYTES,
    NP_HEADER_BYTES = NP_LINE_BYTES, /* of a log, and of an entry */
    NP_STATUS_WRONG = 1,             /* what the pool holds cannot be */
    NP_STATUS_REFUSED = 2            /* what was asked for cannot be had */
};

#define NP_LOG_MAGIC UINT64_C(0x3130474f4c4d504e) /* "NPMLOG01" */
#define NP_ENTRY_MAGIC UINT64_C(0x454d504e) /* "NPME" */

/* Devices take either kind in a redo log, which lies apart from the others. */
enum np_kind { NP_ENTRY_UNDO = 1, NP_ENTRY_CHECKPOINT = 2, NP_ENTRY_REDO = NP_ENTRY_UNDO };

/* A word of the pool, whatever is kept there. */
typedef uint64_t __attribute__((may_alias)) np_word;

/* Ends the program and says why. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void np_end(int status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    flockfile(stderr);
    fprintf(stderr, "libnearpm: %s", status == NP_STATUS_WRONG ? "WRONG: " : "");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(values);
    exit(status);
}

/* Ordinary memory, zeroed. */
static inline void *np_ordinary(size_t count, size_t bytes)
{
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    if (memory == NULL) {
        np_end(NP_STATUS_REFUSED, "no memory for %zu items of %zu bytes", count, bytes);
    }
    return memory;
}

static inline uint64_t np_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline uint64_t np_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t np_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- Where pieces lie ------------------------------------------------------------------------- */

/* How an area of a pool is dealt out. */
struct np_deal {
    unsigned devices;
    uint64_t granule_bytes;
    uint64_t offset; /* of the pool's base from where granules are counted */
    char *base;
};

/* The device that has an address. */
static inline unsigned np_device_of(const struct np_deal *deal, const void *address)
{
    const uint64_t at = deal->offset + (uint64_t)((const char *)address - deal->base);
    return (unsigned)(at / deal->granule_bytes % deal->devices);
}

/* How many bytes from the address on, up to `bytes`, are of one granule. */
static inline uint64_t np_within_granule(const struct np_deal *deal, const void *address, uint64_t bytes)
{
    const uint64_t at = deal->offset + (uint64_t)((const char *)address - deal->base);
    return np_least(deal->granule_bytes - at % deal->granule_bytes, bytes);
}

/* Some of a device's pieces of an area, from the first byte to the last, as if they lay side by side. */
struct np_tape {
    const struct np_deal *deal;
    char *start; /* of the area */
    uint64_t bytes;
    unsigned device;
    uint64_t piece, pieces_end;
    char *at, *piece_end; /* the place in the piece */
};

/* The number of the device's pieces. */
static inline uint64_t np_pieces(const struct np_tape *tape)
{
    const struct np_deal *deal = tape->deal;
    const uint64_t from = deal->offset + (uint64_t)(tape->start - deal->base);
    const uint64_t first = from / deal->granule_bytes;
    const uint64_t last = (from + tape->bytes - 1) / deal->granule_bytes;
    const uint64_t own = first + (tape->device + deal->devices - first % deal->devices) % deal->devices;
    return own > last ? 0 : (last - own) / deal->devices + 1;
}

/* Goes to the beginning of a piece; false behind the last. */
static inline bool np_go_to_piece(struct np_tape *tape, uint64_t piece)
{
    const struct np_deal *deal = tape->deal;
    const uint64_t from = deal->offset + (uint64_t)(tape->start - deal->base);
    const uint64_t first = from / deal->granule_bytes;
    const uint64_t own = first + (tape->device + deal->devices - first % deal->devices) % deal->devices;
    const uint64_t granule = (own + piece * deal->devices) * deal->granule_bytes;
    tape->piece = piece;
    if (piece >= tape->pieces_end) {
        tape->at = tape->piece_end = NULL;
        return false;
    }
    tape->at = tape->start + (np_most(granule, from) - from);
    tape->piece_end = tape->start + np_least(granule + deal->granule_bytes - from, tape->bytes);
    return true;
}

/* All of the device's pieces. */
static inline struct np_tape np_tape_of(const struct np_deal *deal, char *start, uint64_t bytes,
                                        unsigned device)
{
    struct np_tape tape = {.deal = deal, .start = start, .bytes = bytes, .device = device};
    tape.pieces_end = np_pieces(&tape);
    np_go_to_piece(&tape, 0);
    return tape;
}

/* The half of a device's log that a transaction has. */
static inline struct np_tape np_half_of(const struct np_deal *deal, char *start, uint64_t bytes,
                                        unsigned device, uint64_t transaction)
{
    struct np_tape tape = np_tape_of(deal, start, bytes, device);
    const uint64_t middle = (tape.pieces_end + 1) / 2;
    if (tape.pieces_end < 2) {
        np_end(NP_STATUS_REFUSED, "a log area of %" PRIu64 " bytes has not two granules on each of %u devices",
               bytes, deal->devices);
    }
    if (transaction % 2 == 0) {
        tape.pieces_end = middle;
        tape.at += NP_HEADER_BYTES;
    } else {
        np_go_to_piece(&tape, middle);
    }
    return tape;
}

/* The place for so many bytes, which are whole lines and fit into a granule; NULL if the tape is full. */
static inline char *np_take(struct np_tape *tape, uint64_t bytes)
{
    while (tape->at != NULL && (uint64_t)(tape->piece_end - tape->at) < bytes) {
        np_go_to_piece(tape, tape->piece + 1);
    }
    char *place = tape->at;
    tape->at = place == NULL ? NULL : place + bytes;
    return place;
}

/* ---- Entries ---------------------------------------------------------------------------------- */

struct np_entry {
    uint64_t kind, transaction, target, size, check, zeros[3];
    np_word data[];
};

/* A check that is being made: word i goes into lane i % 4, so that a processor works on four at once. */
enum { NP_LANES = 4 };
struct np_check {
    uint64_t lane[NP_LANES];
};

static inline struct np_check np_begin_check(void)
{
    const uint64_t begin = UINT64_C(0x9e3779b97f4a7c15);
    return (struct np_check){{begin, begin, begin, begin}};
}

static inline uint64_t np_mix(uint64_t check, uint64_t word)
{
    check = (check ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    return check ^ check >> 29;
}

/* What came before were whole rounds of the lanes. */
static inline void np_check_words(struct np_check *check, const np_word *words, uint64_t count)
{
    uint64_t i = 0;
    for (; i + NP_LANES <= count; i += NP_LANES) {
        for (uint64_t lane = 0; lane < NP_LANES; lane++) {
            check->lane[lane] = np_mix(check->lane[lane], words[i + lane]);
        }
    }
    for (; i < count; i++) {
        check->lane[i % NP_LANES] = np_mix(check->lane[i % NP_LANES], words[i]);
    }
}

static inline uint64_t np_end_check(const struct np_check *check)
{
    uint64_t all = check->lane[0];
    for (unsigned lane = 1; lane < NP_LANES; lane++) {
        all = np_mix(all, check->lane[lane]);
    }
    return all;
}

/* Data are padded with zeros to a word. */
static inline uint64_t np_entry_check(const struct np_entry *entry)
{
    const uint64_t words = entry->size / sizeof(uint64_t), rest = entry->size % sizeof(uint64_t);
    struct np_check check = np_begin_check();
    np_check_words(&check, &entry->kind, NP_LANES);
    np_check_words(&check, entry->data, words);
    if (rest != 0) {
        np_word last = 0;
        memcpy(&last, &entry->data[words], rest);
        check.lane[words % NP_LANES] = np_mix(check.lane[words % NP_LANES], last);
    }
    return np_end_check(&check);
}

/* What an entry with so many bytes of data takes. */
static inline uint64_t np_entry_bytes(uint64_t size)
{
    return NP_HEADER_BYTES + np_round_up(size, NP_LINE_BYTES);
}

static inline uint64_t np_entry_kind(enum np_kind kind)
{
    return kind | NP_ENTRY_MAGIC << 32;
}

/* Whether an entry of the kind and transaction is at a place with so much room. */
static inline bool np_is_entry(const struct np_entry *entry, uint64_t room, enum np_kind kind,
                               uint64_t transaction)
{
    return room > NP_HEADER_BYTES && entry->kind == np_entry_kind(kind) && entry->transaction == transaction &&
           entry->size != 0 && entry->size <= room && np_entry_bytes(entry->size) <= room &&
           entry->check == np_entry_check(entry);
}

/* The transaction's next entry on the tape, or NULL. */
static inline const struct np_entry *np_next_entry(struct np_tape *tape, enum np_kind kind,
                                                   uint64_t transaction)
{
    bool at_beginning = false;
    while (tape->at != NULL) {
        const struct np_entry *entry = (const struct np_entry *)(void *)tape->at;
        if (np_is_entry(entry, (uint64_t)(tape->piece_end - tape->at), kind, transaction)) {
            tape->at += np_entry_bytes(entry->size);
            return entry;
        }
        /* It may not have fitted in here. */
        if (at_beginning || !np_go_to_piece(tape, tape->piece + 1)) {
            return NULL;
        }
        at_beginning = true;
    }
    return NULL;
}

#endif
