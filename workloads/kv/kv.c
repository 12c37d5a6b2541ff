/*
 * A small key-value store in plain memory, and the script that exercises it.
 *
 * There is no file, no fsync and no recovery code here: the store is an ordinary C
 * program whose data would be gone after a power cut, or worse, half there. Run on a
 * machine that protects its memory, it survives.
 *
 *   kv [OPERATIONS [SEED]]
 *
 * Always true between two operations:
 *  - every live record is reachable from its key, and its checksum fits its bytes;
 *  - the digest, kept up to date by each change, equals the one taken over all records;
 *  - money is moved between accounts, never made or lost.
 * All three are checked at every progress line. Lost or mixed memory breaks them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPERATIONS_DEFAULT = 12000,
    PROGRESS_LINES = 10,
    ACCOUNTS = 500,
    OPENING_BALANCE = 1000,
    SERIES = 2000, /* different series of measurements that the script writes */
    VALUE_WORDS_MAX = 128,
    SLOTS = 8192, /* a power of two, well above ACCOUNTS + SERIES */
    ARENA_BYTES = 2 * 1024 * 1024,
    KEY_BYTES = 24,
};

/* ---- The store: a hash table of pointers into an append-only arena ---- */

struct record {
    uint64_t checksum; /* of the key and the value */
    uint64_t value_words;
    char key[KEY_BYTES];
    uint64_t value[VALUE_WORDS_MAX]; /* only value_words of them are in the arena */
};

struct store {
    struct record *slots[SLOTS]; /* NULL: never used; &removed: deleted */
    size_t records;
    uint64_t digest; /* sum of the live records' checksums */
    char *arena;
    size_t arena_used;
    unsigned compactions;
};

static struct record removed;
static struct store store;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("kv: CORRUPT: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    exit(EXIT_FAILURE);
}

static char *new_arena(void)
{
    char *arena = malloc(ARENA_BYTES);
    if (arena == NULL) {
        fprintf(stderr, "kv: no memory for an arena of %d bytes\n", ARENA_BYTES);
        exit(2);
    }
    return arena;
}

static size_t record_bytes(uint64_t value_words)
{
    return offsetof(struct record, value) + value_words * sizeof(uint64_t);
}

/* FNV-1a */
static uint64_t hash_key(const char *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *key != '\0'; key++) {
        hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t record_checksum(const struct record *record)
{
    uint64_t checksum = hash_key(record->key) ^ record->value_words;
    for (uint64_t i = 0; i < record->value_words; i++) {
        checksum = (checksum ^ record->value[i]) * UINT64_C(0x9e3779b97f4a7c15);
        checksum ^= checksum >> 32;
    }
    return checksum;
}

/* The slot that points to the key's record, or the free one where it would go. */
static struct record **find_slot(const char *key)
{
    struct record **reusable = NULL;
    for (uint64_t at = hash_key(key);; at++) {
        struct record **slot = &store.slots[at % SLOTS];
        if (*slot == NULL) {
            return reusable != NULL ? reusable : slot;
        }
        if (*slot == &removed) {
            reusable = reusable != NULL ? reusable : slot;
        } else if (strcmp((*slot)->key, key) == 0) {
            return slot;
        }
    }
}

static int is_record(const struct record *record)
{
    return record != NULL && record != &removed;
}

/* Copies the live records to a fresh arena and drops the old one, with what was overwritten. */
static void compact(void)
{
    char *old_arena = store.arena;
    store.arena = new_arena();
    store.arena_used = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        if (is_record(store.slots[i])) {
            const size_t bytes = record_bytes(store.slots[i]->value_words);
            store.slots[i] = memcpy(store.arena + store.arena_used, store.slots[i], bytes);
            store.arena_used += bytes;
        }
    }
    store.compactions++;
    free(old_arena);
}

static void put(const char *key, const uint64_t *value, uint64_t value_words)
{
    const size_t bytes = record_bytes(value_words);
    if (store.arena_used + bytes > ARENA_BYTES) {
        compact();
        if (store.arena_used + bytes > ARENA_BYTES) {
            fprintf(stderr, "kv: the store is full: %zu records\n", store.records);
            exit(2);
        }
    }
    struct record *record = (struct record *)(void *)(store.arena + store.arena_used);
    store.arena_used += bytes;
    record->value_words = value_words;
    snprintf(record->key, KEY_BYTES, "%s", key);
    memcpy(record->value, value, value_words * sizeof value[0]);
    record->checksum = record_checksum(record);

    struct record **slot = find_slot(key);
    if (is_record(*slot)) {
        store.digest -= (*slot)->checksum;
    } else {
        store.records++;
    }
    *slot = record;
    store.digest += record->checksum;
}

static const struct record *get(const char *key)
{
    const struct record *record = *find_slot(key);
    if (!is_record(record)) {
        return NULL;
    }
    if (record_checksum(record) != record->checksum) {
        fail("the record of %s does not fit its checksum", key);
    }
    return record;
}

static int delete(const char *key)
{
    struct record **slot = find_slot(key);
    if (!is_record(*slot)) {
        return 0;
    }
    store.digest -= (*slot)->checksum;
    store.records--;
    *slot = &removed;
    return 1;
}

/* ---- The bank: account balances, kept in the store as records ---- */

static void account_key(char *key, unsigned account)
{
    snprintf(key, KEY_BYTES, "account:%u", account);
}

static int64_t balance_of(unsigned account)
{
    char key[KEY_BYTES];
    account_key(key, account);
    const struct record *record = get(key);
    if (record == NULL) {
        fail("%s is missing", key);
        return 0;
    }
    return (int64_t)record->value[0];
}

static void set_balance(unsigned account, int64_t balance)
{
    char key[KEY_BYTES];
    const uint64_t value = (uint64_t)balance;
    account_key(key, account);
    put(key, &value, 1);
}

static void transfer(unsigned from, unsigned to, int64_t amount)
{
    set_balance(from, balance_of(from) - amount);
    set_balance(to, balance_of(to) + amount);
}

/* ---- The checks ---- */

static void check_everything(void)
{
    size_t records = 0;
    uint64_t digest = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        if (is_record(store.slots[i])) {
            const struct record *record = get(store.slots[i]->key);
            if (record != store.slots[i]) {
                fail("%s leads to another record", store.slots[i]->key);
            }
            records++;
            digest += record->checksum;
        }
    }
    if (records != store.records) {
        fail("%zu records are there, %zu should be", records, store.records);
    }
    if (digest != store.digest) {
        fail("digest %016" PRIx64 ", should be %016" PRIx64, digest, store.digest);
    }
    int64_t total = 0;
    for (unsigned account = 0; account < ACCOUNTS; account++) {
        total += balance_of(account);
    }
    if (total != ACCOUNTS * OPENING_BALANCE) {
        fail("the accounts hold %" PRId64 ", should hold %d", total, ACCOUNTS * OPENING_BALANCE);
    }
}

/* ---- The script ---- */

static uint64_t random_state;

/* xorshift64*: a run with one seed is always the same run. */
static uint64_t random_word(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static unsigned random_below(unsigned bound)
{
    return (unsigned)((random_word() >> 32) % bound);
}

static void put_measurements(const char *key)
{
    uint64_t value[VALUE_WORDS_MAX];
    const unsigned value_words = 1 + random_below(VALUE_WORDS_MAX);
    for (unsigned i = 0; i < value_words; i++) {
        value[i] = random_word();
    }
    put(key, value, value_words);
}

struct tally {
    unsigned puts, gets, hits, deletes, transfers;
};

static void run_one_operation(struct tally *tally)
{
    char key[KEY_BYTES];
    const unsigned dice = random_below(100);
    snprintf(key, sizeof key, "series:%u", random_below(SERIES));
    if (dice < 40) {
        put_measurements(key);
        tally->puts++;
    } else if (dice < 65) {
        tally->hits += get(key) != NULL;
        tally->gets++;
    } else if (dice < 75) {
        tally->deletes += (unsigned)delete(key);
    } else {
        transfer(random_below(ACCOUNTS), random_below(ACCOUNTS), 1 + random_below(50));
        tally->transfers++;
    }
}

static uint64_t number_from(const char *what, const char *text)
{
    char *end;
    const unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number == 0 || number > 1000000000) {
        fprintf(stderr, "kv: %s is \"%s\", but must be a whole number from 1 to 1000000000\n", what,
                text);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        fprintf(stderr, "usage: kv [OPERATIONS [SEED]]\n");
        return 2;
    }
    const uint64_t operations =
        argc > 1 ? number_from("OPERATIONS", argv[1]) : OPERATIONS_DEFAULT;
    const uint64_t seed = argc > 2 ? number_from("SEED", argv[2]) : 1;

    setvbuf(stdout, NULL, _IOLBF, 0); /* a progress line is out when it is printed */
    printf("kv: %" PRIu64 " operations, seed %" PRIu64
           ": 40 %% put, 25 %% get, 10 %% delete, 25 %% transfer\n",
           operations, seed);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    store.arena = new_arena();
    for (unsigned account = 0; account < ACCOUNTS; account++) {
        set_balance(account, OPENING_BALANCE);
    }

    struct tally tally = {0};
    unsigned line = 0;
    for (uint64_t done = 1; done <= operations; done++) {
        run_one_operation(&tally);
        if (done * PROGRESS_LINES / operations > line) {
            line = (unsigned)(done * PROGRESS_LINES / operations);
            check_everything();
            printf("kv: %3u %%  %5zu records  digest %016" PRIx64 "  %d in %d accounts\n",
                   line * 100 / PROGRESS_LINES, store.records, store.digest,
                   ACCOUNTS * OPENING_BALANCE, ACCOUNTS);
        }
    }
    printf("kv: %u puts, %u of %u gets found, %u deletes, %u transfers, compacted %u times\n",
           tally.puts, tally.hits, tally.gets, tally.deletes, tally.transfers, store.compactions);
    printf("kv: done, %zu records, digest %016" PRIx64 "\n", store.records, store.digest);
    return EXIT_SUCCESS;
}
