/*
 * memcached POOL [OPTION]...: a memcached whose items are in pools, under writes of YCSB's clients.
 *
 * A pool for each thread (section 8.3.1): a handler has a pool of libnearpm's of its own, with its own number
 * for devices. As in memcached for persistent memory, a pool has items alone, and which of them there are is
 * found anew when it is opened: a set takes a new item and gives the old one back, in one transaction.
 *
 * It speaks the text protocol: set, get, gets, delete, version, quit, and noreply.
 *
 * Our assumptions: the hash table, too, is each handler's own, so that a client sees what it has set; all
 * items have one size (a key and a value of up to 1,060 bytes together), and none expires or is evicted.
 *
 * Always true: between transactions a key has one item; items' unique numbers (gets) are those of the
 * handler's sets in their order.
 */
#define PROGRAM "memcached"
#include "service.h"
#include "table.h"

enum { ITEM_BYTES = 1060, KEY_MAX = 250, LINE_MAX = 2048 };
enum { ITEMS }; /* the class of blocks */

struct item {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t unique;
    uint32_t flags, key_bytes, value_bytes;
    char bytes[ITEM_BYTES]; /* key and value */
};

/* What a handler knows of its pool. */
struct store {
    alignas(LINE_BYTES) struct table table;
    uint64_t unique; /* the last number given */
};

static struct store stores[THREADS_MAX];

static void structure_plan(void)
{
    pools_all = work.threads;
    plan_service();
}

static uint64_t structure_pages(void)
{
    uint64_t end = 0;
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        /* An item that is replaced is given back at the end of its transaction. */
        end = np_declare_blocks(pool_at(thread), 1, sizeof(struct item), records_of(0) + 1, 0);
    }
    return end;
}

static void structure_make(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t number = 0; number < records_of(thread); number++) {
            const struct written written = {thread << THREAD_SHIFT | number, 0};
            const struct key key = key_of(written.record);
            struct item *item = (void *)np_block_at(pool_at(thread), ITEMS, number);
            item->used = 1;
            item->unique = number + 1;
            item->key_bytes = (uint32_t)strlen(key.text);
            item->value_bytes = VALUE_BYTES;
            memcpy(item->bytes, key.text, item->key_bytes);
            fill_value(item->bytes + item->key_bytes, written);
        }
    }
}

/* ---- The store -------------------------------------------------------------------------------- */

static void open_items(uint64_t thread)
{
    struct store *store = &stores[thread];
    *store = (struct store){.table = make_table(records_of(thread) + 1)};
    for (uint64_t number = 0; number < blocks_in(pool_at(thread), ITEMS); number++) {
        struct item *home = (void *)np_block_at(pool_at(thread), ITEMS, number);
        const struct item *item = LOOK_IN(thread, home);
        if (item->used != 0) {
            struct entry **link = find_entry(&store->table, item->bytes, item->key_bytes);
            add_entry(link, item->bytes, item->key_bytes, home);
            store->unique = np_most(store->unique, item->unique);
        }
    }
}

static void open_store(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        open_items(thread);
    }
}

/* A set as the request has it, whose data follow. */
struct set {
    const char *key;
    size_t key_bytes, value_bytes;
    uint32_t flags;
    bool is_quiet;
    char value[ITEM_BYTES];
};

OPERATION void set_item(struct np_transaction transaction, const struct set *set)
{
    struct store *store = &stores[transaction.thread->tag];
    struct entry **link = find_entry(&store->table, set->key, set->key_bytes);
    struct item *home = np_allocate(transaction, ITEMS);
    struct item *item =
        np_write(transaction, home, offsetof(struct item, bytes) + set->key_bytes + set->value_bytes);
    item->unique = ++store->unique;
    item->flags = set->flags;
    item->key_bytes = (uint32_t)set->key_bytes;
    item->value_bytes = (uint32_t)set->value_bytes;
    memcpy(item->bytes, set->key, set->key_bytes);
    memcpy(item->bytes + set->key_bytes, set->value, set->value_bytes);
    if (*link != NULL) {
        np_free(transaction, ITEMS, (*link)->home);
        (*link)->home = home;
    } else {
        add_entry(link, set->key, set->key_bytes, home);
    }
    np_commit(transaction);
}

OPERATION bool delete_item(struct np_transaction transaction, const char *key)
{
    struct entry **link = find_entry(&stores[transaction.thread->tag].table, key, strlen(key));
    if (*link == NULL) {
        return false;
    }
    np_free(transaction, ITEMS, (*link)->home);
    np_commit(transaction);
    remove_entry(link);
    return true;
}

/* ---- The protocol: the server's side ---------------------------------------------------------- */

static char *next_word(char **rest)
{
    return strtok_r(NULL, " ", rest);
}

static bool is_quiet(const char *word)
{
    return word != NULL && strcmp(word, "noreply") == 0;
}

/* A number of a request; false if it is none. */
static bool read_number(const char *word, uint64_t maximum, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    *number = word != NULL && isdigit((unsigned char)*word) ? strtoull(word, &end, 10) : 0;
    return end != NULL && *end == '\0' && errno == 0 && *number <= maximum;
}

static enum served reply(struct end *end, bool quiet, enum served served, const char *text)
{
    if (!quiet) {
        fprintf(end->out, "%s\r\n", text);
        fflush(end->out);
    }
    return served;
}

/* The data of a set that is refused. */
static void skip_bytes(struct end *end, uint64_t bytes)
{
    while (bytes > 0 && fgetc(end->in) != EOF) {
        bytes--;
    }
}

/* The rest of a set's line, and its data. What the answer is if it is refused; NULL if it is not. */
static const char *read_set(struct end *end, char **rest, struct set *set)
{
    uint64_t flags, expires, bytes;
    set->key = next_word(rest);
    const char *flags_word = next_word(rest), *expires_word = next_word(rest), *bytes_word = next_word(rest);
    set->is_quiet = is_quiet(next_word(rest));
    if (bytes_word == NULL) {
        return "ERROR";
    }
    set->key_bytes = strlen(set->key);
    if (set->key_bytes > KEY_MAX || !read_number(flags_word, UINT32_MAX, &flags) ||
        !read_number(expires_word, UINT32_MAX, &expires) || !read_number(bytes_word, INT32_MAX, &bytes)) {
        return "CLIENT_ERROR bad command line format";
    }
    if (expires != 0 || set->key_bytes + bytes > ITEM_BYTES) {
        skip_bytes(end, bytes + 2);
        return expires != 0 ? "SERVER_ERROR nothing expires here" : "SERVER_ERROR object too large for cache";
    }
    set->flags = (uint32_t)flags;
    set->value_bytes = bytes;
    return read_block(end, set->value, bytes) ? NULL : "CLIENT_ERROR bad data chunk";
}

OPERATION enum served serve_set(struct np_transaction transaction, struct end *end, char **rest)
{
    struct set set;
    const char *refusal = read_set(end, rest, &set);
    if (refusal != NULL) {
        return reply(end, set.is_quiet, ANSWERED, refusal);
    }
    if (np_blocks_left(transaction, ITEMS) == 0) {
        return reply(end, set.is_quiet, ANSWERED, "SERVER_ERROR out of memory storing object");
    }
    set_item(transaction, &set);
    return reply(end, set.is_quiet, CHANGED, "STORED");
}

OPERATION enum served serve_delete(struct np_transaction transaction, struct end *end, char **rest)
{
    const char *key = next_word(rest);
    const bool quiet = is_quiet(next_word(rest));
    if (key == NULL) {
        return reply(end, quiet, ANSWERED, "ERROR");
    }
    return delete_item(transaction, key) ? reply(end, quiet, CHANGED, "DELETED")
                                         : reply(end, quiet, ANSWERED, "NOT_FOUND");
}

OPERATION enum served serve_get(struct np_transaction transaction, struct end *end, char **rest, bool unique)
{
    const char *key = next_word(rest);
    if (key == NULL) {
        return reply(end, false, ANSWERED, "ERROR");
    }
    for (; key != NULL; key = next_word(rest)) {
        const struct entry *entry = *find_entry(&stores[transaction.thread->tag].table, key, strlen(key));
        if (entry != NULL) {
            const struct item *item = NP_READ(transaction, (const struct item *)entry->home);
            fprintf(end->out, "VALUE %s %" PRIu32 " %" PRIu32, key, item->flags, item->value_bytes);
            if (unique) {
                fprintf(end->out, " %" PRIu64, item->unique);
            }
            fputs("\r\n", end->out);
            fwrite(item->bytes + item->key_bytes, 1, item->value_bytes, end->out);
            fputs("\r\n", end->out);
        }
    }
    return reply(end, false, ANSWERED, "END");
}

OPERATION enum served serve(struct np_transaction transaction, struct end *end)
{
    char line[LINE_MAX], *rest;
    if (!read_line(end, line, sizeof line)) {
        return CLOSED;
    }
    const char *command = strtok_r(line, " ", &rest);
    if (command == NULL) {
        return reply(end, false, ANSWERED, "ERROR");
    }
    if (strcmp(command, "set") == 0) {
        return serve_set(transaction, end, &rest);
    }
    if (strcmp(command, "get") == 0 || strcmp(command, "gets") == 0) {
        return serve_get(transaction, end, &rest, command[3] == 's');
    }
    if (strcmp(command, "delete") == 0) {
        return serve_delete(transaction, end, &rest);
    }
    if (strcmp(command, "version") == 0) {
        return reply(end, false, ANSWERED, "VERSION perdure");
    }
    return strcmp(command, "quit") == 0 ? CLOSED : reply(end, false, ANSWERED, "ERROR");
}

/* ---- The protocol: the client's side ---------------------------------------------------------- */

static void ask_to_set(struct end *end, const char *key, const char *value)
{
    fprintf(end->out, "set %s 0 0 %d\r\n", key, VALUE_BYTES);
    fwrite(value, 1, VALUE_BYTES, end->out);
    ask(end, "\r\n", "STORED");
}

static void ask_to_get(struct end *end, const char *key, const char *value)
{
    char head[LINE_MAX];
    fprintf(end->out, "get %s\r\n", key);
    snprintf(head, sizeof head, "VALUE %s 0 %d", key, VALUE_BYTES);
    expect(end, head);
    expect_value(end, key, value);
    expect(end, "END");
}

static void ask_for_errors(struct end *end)
{
    ask(end, "version\r\n", "VERSION perdure");
    ask(end, "get nobody\r\n", "END");
    ask(end, "delete nobody\r\n", "NOT_FOUND");
    ask(end, "delete nobody noreply\r\nget\r\n", "ERROR");
    ask(end, "set nobody 0 0\r\n", "ERROR");
    ask(end, "set nobody 0 0 many\r\n", "CLIENT_ERROR bad command line format");
    ask(end, "set nobody 0 0 3\r\nfive!\r\n", "CLIENT_ERROR bad data chunk");
    expect(end, "ERROR"); /* what the data were not taken for is a request */
    ask(end, "set nobody 0 1 4\r\nfour\r\n", "SERVER_ERROR nothing expires here");
    ask(end, "increase nobody\r\n", "ERROR");
}

static void ask_to_quit(struct end *end)
{
    fputs("quit\r\n", end->out);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void check_item(uint64_t thread, const struct item *home)
{
    const struct item *item = LOOK_IN(thread, (const struct item *)claim_block_in(thread, ITEMS, home));
    if (item->value_bytes != VALUE_BYTES || item->key_bytes > ITEM_BYTES - VALUE_BYTES) {
        die(STATUS_WRONG, "an item has a key of %" PRIu32 " and a value of %" PRIu32 " bytes",
            item->key_bytes, item->value_bytes);
    }
    const struct written written = read_value(item->bytes + item->key_bytes);
    const struct key key = key_of(written.record);
    if (item->key_bytes != strlen(key.text) || memcmp(item->bytes, key.text, item->key_bytes) != 0) {
        die(STATUS_WRONG, "key %.*s has another's value", (int)item->key_bytes, item->bytes);
    }
    const uint64_t before = written.operation == 0 ? (uint32_t)written.record + 1 : records_of(thread);
    if (item->unique != before + written.operation) {
        die(STATUS_WRONG, "key %s was set by operation %" PRIu64 ", but has unique number %" PRIu64, key.text,
            written.operation, item->unique);
    }
    found_record(thread, written);
}

static void structure_check(void)
{
    begin_records();
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t number = 0; number < blocks_in(pool_at(thread), ITEMS); number++) {
            if (np_is_used(pool_at(thread), ITEMS, number) != 0) {
                check_item(thread, (const void *)np_block_at(pool_at(thread), ITEMS, number));
            }
        }
    }
    check_all_records();
}
