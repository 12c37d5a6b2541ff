/*
 * redis POOL [OPTION]...: a redis whose dictionary is in a pool, under writes of YCSB's clients.
 *
 * All threads share one pool (section 8.3.1), one dictionary and a lock, since redis does one command at a
 * time; a thread keeps the lock until its command's transaction is durable, as others' will read what it
 * wrote. As in redis over PMDK (pmem/redis), pairs of a key and a pointer to its value are in a list that
 * leads from the root, and the hash table is made anew from them when the pool is opened. A SET of a key
 * that is there takes a new value and gives the old one back, in one transaction.
 *
 * It speaks RESP2, arrays of bulk strings: SET, GET, DEL of one key, PING, QUIT.
 *
 * Our assumptions: the lock, where redis has one thread for all clients; keys have up to 92 bytes, values
 * 1,072; a key is of the handler that has entered it, and others may read it alone.
 *
 * Always true: between transactions the list leads to each pair once, and a pair to its value.
 */
#define PROGRAM "redis"
#include <strings.h>

#include "service.h"
#include "table.h"

enum { KEY_MAX = 92, VALUE_MAX = 1072, WORDS_MAX = 8, WORD_MAX = 2048, LINE_MAX = 64 };
enum { PAIRS, VALUES }; /* classes of blocks */

struct value {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t bytes;
    char data[VALUE_MAX];
};

struct pair {
    alignas(LINE_BYTES) uint64_t used;
    struct value *value;
    struct pair *next, *previous;
    uint32_t key_bytes;
    char key[KEY_MAX];
};

/* Of the first thread's page. */
struct root {
    struct pair *first;
};

static struct table dictionary;

static void structure_plan(void)
{
    plan_service();
}

static uint64_t structure_pages(void)
{
    const unsigned count = (unsigned)work.threads;
    const uint64_t own = records_of(0);
    const uint64_t pairs_end = np_declare_blocks(&np, count, sizeof(struct pair), own, work.threads);
    /* A value that is replaced is given back at the end of its transaction. */
    return np_declare_blocks(&np, count, sizeof(struct value), own + 1, pairs_end);
}

static struct root *root(void)
{
    return root_of(0);
}

static void *block_of(unsigned class, uint64_t thread, uint64_t number)
{
    return np_block_at(&np, class, thread * np.classes[class].blocks + number);
}

static void make_pair(uint64_t thread, uint64_t number)
{
    const struct written written = {thread << THREAD_SHIFT | number, 0};
    const struct key key = key_of(written.record);
    struct pair *pair = block_of(PAIRS, thread, number);
    struct value *value = block_of(VALUES, thread, number);
    *value = (struct value){.used = 1, .bytes = VALUE_BYTES};
    fill_value(value->data, written);
    *pair = (struct pair){.used = 1, .value = value, .next = root()->first};
    pair->key_bytes = (uint32_t)strlen(key.text);
    memcpy(pair->key, key.text, pair->key_bytes);
    if (pair->next != NULL) {
        pair->next->previous = pair;
    }
    root()->first = pair;
}

static void structure_make(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        for (uint64_t number = 0; number < records_of(thread); number++) {
            make_pair(thread, number);
        }
    }
}

/* ---- The store: whoever calls has the lock ---------------------------------------------------- */

static void open_store(void)
{
    dictionary = make_table(work.elements);
    struct pair *home = LOOK(root())->first;
    while (home != NULL) {
        const struct pair *pair = LOOK(home);
        add_entry(find_entry(&dictionary, pair->key, pair->key_bytes), pair->key, pair->key_bytes, home);
        home = pair->next;
    }
}

/* A bulk string of a request. */
struct word {
    size_t bytes;
    char text[WORD_MAX];
};

static struct entry **find_word(const struct word *key)
{
    return find_entry(&dictionary, key->text, key->bytes);
}

static bool is_own(struct np_transaction transaction, const struct entry *entry)
{
    const uint64_t number = np_block_number(&np, PAIRS, entry->home);
    return number / np.classes[PAIRS].blocks == transaction.thread->number;
}

OPERATION struct value *new_value(struct np_transaction transaction, const struct word *word)
{
    struct value *home = np_allocate(transaction, VALUES);
    struct value *value = np_write(transaction, home, offsetof(struct value, data) + word->bytes);
    value->bytes = word->bytes;
    memcpy(value->data, word->text, word->bytes);
    return home;
}

OPERATION void enter_pair(struct np_transaction transaction, struct entry **link, const struct word *key,
                          struct value *value)
{
    struct pair *home = np_allocate(transaction, PAIRS), *next = NP_READ(transaction, root())->first;
    struct pair *pair = NP_WRITE(transaction, home);
    *pair = (struct pair){.used = 1, .value = value, .next = next};
    pair->key_bytes = (uint32_t)key->bytes;
    memcpy(pair->key, key->text, key->bytes);
    NP_WRITE(transaction, root())->first = home;
    if (next != NULL) {
        *NP_WRITE(transaction, &next->previous) = home;
    }
    add_entry(link, key->text, key->bytes, home);
}

OPERATION void remove_pair(struct np_transaction transaction, struct entry **link)
{
    struct pair *home = (*link)->home;
    const struct pair pair = *NP_READ(transaction, home);
    if (pair.next != NULL) {
        *NP_WRITE(transaction, &pair.next->previous) = pair.previous;
    }
    *NP_WRITE(transaction, pair.previous == NULL ? &root()->first : &pair.previous->next) = pair.next;
    np_free(transaction, VALUES, pair.value);
    np_free(transaction, PAIRS, home);
    remove_entry(link);
}

OPERATION void set_value(struct np_transaction transaction, struct entry **link, const struct word *key,
                         const struct word *word)
{
    struct value *value = new_value(transaction, word);
    if (*link == NULL) {
        enter_pair(transaction, link, key, value);
        return;
    }
    struct value **place = &((struct pair *)(*link)->home)->value;
    np_free(transaction, VALUES, *NP_READ(transaction, place));
    *NP_WRITE(transaction, place) = value;
}

/* ---- The protocol: the server's side ---------------------------------------------------------- */

struct request {
    alignas(LINE_BYTES) uint64_t words;
    struct word word[WORDS_MAX];
};

static struct request requests[THREADS_MAX]; /* what each handler is about */

static const char *const FOREIGN = "-ERR the key is another client's";

static enum served reply(struct end *end, enum served served, const char *text)
{
    fprintf(end->out, "%s\r\n", text);
    fflush(end->out);
    return served;
}

/* A line of a sign and a number; what is wrong with it, or NULL. */
static const char *read_count(struct end *end, char sign, uint64_t maximum, uint64_t *count)
{
    char line[LINE_MAX], *last = NULL;
    if (!read_line(end, line, sizeof line)) {
        return "-ERR Protocol error: no line";
    }
    if (line[0] != sign) {
        return sign == '*' ? "-ERR Protocol error: expected '*'" : "-ERR Protocol error: expected '$'";
    }
    *count = isdigit((unsigned char)line[1]) ? strtoull(line + 1, &last, 10) : 0;
    if (last == NULL || *last != '\0' || *count > maximum) {
        return sign == '*' ? "-ERR Protocol error: invalid multibulk length"
                           : "-ERR Protocol error: invalid bulk length";
    }
    return NULL;
}

/* What is wrong with the request, or NULL. */
static const char *read_request(struct end *end, struct request *request)
{
    const char *error = read_count(end, '*', WORDS_MAX, &request->words);
    for (uint64_t i = 0; i < request->words && error == NULL; i++) {
        struct word *word = &request->word[i];
        uint64_t bytes;
        error = read_count(end, '$', WORD_MAX, &bytes);
        if (error == NULL) {
            word->bytes = bytes;
            error = read_block(end, word->text, bytes) ? NULL : "-ERR Protocol error: invalid bulk string";
        }
    }
    return error;
}

static bool is_command(const struct request *request, const char *name)
{
    const struct word *word = &request->word[0];
    return word->bytes == strlen(name) && strncasecmp(word->text, name, word->bytes) == 0;
}

static enum served refuse_count(struct end *end)
{
    return reply(end, ANSWERED, "-ERR wrong number of arguments");
}

/* Why a key cannot be set, whose entry that is or which has none; NULL if it can. */
static const char *refusal_of_set(struct np_transaction transaction, const struct entry *entry)
{
    if (entry != NULL && !is_own(transaction, entry)) {
        return FOREIGN;
    }
    const bool has_room = np_blocks_left(transaction, VALUES) > 0 &&
                          (entry != NULL || np_blocks_left(transaction, PAIRS) > 0);
    return has_room ? NULL : "-OOM the pool is full";
}

OPERATION enum served serve_set(struct np_transaction transaction, struct end *end,
                                const struct request *request)
{
    const struct word *key = &request->word[1], *value = &request->word[2];
    if (request->words != 3) {
        return request->words < 3 ? refuse_count(end) : reply(end, ANSWERED, "-ERR syntax error");
    }
    if (key->bytes > KEY_MAX || value->bytes > VALUE_MAX) {
        return reply(end, ANSWERED, "-ERR the key or value is too long");
    }
    lock();
    struct entry **link = find_word(key);
    const char *refusal = refusal_of_set(transaction, *link);
    if (refusal == NULL) {
        set_value(transaction, link, key, value);
        np_commit(transaction);
    }
    unlock(transaction);
    return refusal == NULL ? reply(end, CHANGED, "+OK") : reply(end, ANSWERED, refusal);
}

OPERATION enum served serve_delete(struct np_transaction transaction, struct end *end,
                                   const struct request *request)
{
    if (request->words != 2) {
        return refuse_count(end);
    }
    lock();
    struct entry **link = find_word(&request->word[1]);
    const bool is_there = *link != NULL, may = is_there && is_own(transaction, *link);
    if (may) {
        remove_pair(transaction, link);
        np_commit(transaction);
    }
    unlock(transaction);
    if (is_there && !may) {
        return reply(end, ANSWERED, FOREIGN);
    }
    return is_there ? reply(end, CHANGED, ":1") : reply(end, ANSWERED, ":0");
}

OPERATION enum served serve_get(struct np_transaction transaction, struct end *end,
                                const struct request *request)
{
    char data[VALUE_MAX];
    uint64_t bytes = 0;
    if (request->words != 2) {
        return refuse_count(end);
    }
    lock();
    const struct entry *entry = *find_word(&request->word[1]);
    if (entry != NULL) {
        const struct pair *pair = NP_READ(transaction, (const struct pair *)entry->home);
        const struct value *value = NP_READ(transaction, pair->value);
        bytes = value->bytes;
        memcpy(data, value->data, bytes);
    }
    unlock(transaction);
    if (entry == NULL) {
        return reply(end, ANSWERED, "$-1");
    }
    fprintf(end->out, "$%" PRIu64 "\r\n", bytes);
    fwrite(data, 1, bytes, end->out);
    return reply(end, ANSWERED, "");
}

OPERATION enum served serve(struct np_transaction transaction, struct end *end)
{
    struct request *request = &requests[transaction.thread->number];
    const int first = fgetc(end->in);
    if (first == EOF) {
        return CLOSED;
    }
    ungetc(first, end->in);
    const char *error = read_request(end, request);
    if (error != NULL) {
        return reply(end, CLOSED, error);
    }
    if (request->words == 0) {
        return ANSWERED;
    }
    if (is_command(request, "SET")) {
        return serve_set(transaction, end, request);
    }
    if (is_command(request, "GET")) {
        return serve_get(transaction, end, request);
    }
    if (is_command(request, "DEL")) {
        return serve_delete(transaction, end, request);
    }
    if (is_command(request, "PING")) {
        return request->words == 1 ? reply(end, ANSWERED, "+PONG") : refuse_count(end);
    }
    return is_command(request, "QUIT") ? reply(end, CLOSED, "+OK")
                                       : reply(end, ANSWERED, "-ERR unknown command");
}

/* ---- The protocol: the client's side ---------------------------------------------------------- */

static void ask_to_set(struct end *end, const char *key, const char *value)
{
    fprintf(end->out, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%d\r\n", strlen(key), key, VALUE_BYTES);
    fwrite(value, 1, VALUE_BYTES, end->out);
    ask(end, "\r\n", "+OK");
}

static void ask_to_get(struct end *end, const char *key, const char *value)
{
    char head[LINE_MAX];
    fprintf(end->out, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
    snprintf(head, sizeof head, "$%d", VALUE_BYTES);
    expect(end, head);
    expect_value(end, key, value);
}

static void ask_for_errors(struct end *end)
{
    ask(end, "*1\r\n$4\r\nPING\r\n", "+PONG");
    ask(end, "*2\r\n$3\r\nget\r\n$6\r\nnobody\r\n", "$-1");
    ask(end, "*2\r\n$3\r\nDEL\r\n$6\r\nnobody\r\n", ":0");
    ask(end, "*2\r\n$3\r\nSET\r\n$6\r\nnobody\r\n", "-ERR wrong number of arguments");
    ask(end, "*5\r\n$3\r\nSET\r\n$6\r\nnobody\r\n$1\r\n1\r\n$2\r\nEX\r\n$1\r\n1\r\n", "-ERR syntax error");
    ask(end, "*1\r\n$8\r\nINCREASE\r\n", "-ERR unknown command");
}

static void ask_to_quit(struct end *end)
{
    ask(end, "*1\r\n$4\r\nQUIT\r\n", "+OK");
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void check_pair(const struct pair *pair)
{
    const struct value *value = LOOK((const struct value *)claim_block(VALUES, pair->value));
    if (value->bytes != VALUE_BYTES || pair->key_bytes > KEY_MAX) {
        die(STATUS_WRONG, "a pair has a key of %" PRIu32 " and a value of %" PRIu64 " bytes", pair->key_bytes,
            value->bytes);
    }
    const struct written written = read_value(value->data);
    const struct key key = key_of(written.record);
    if (pair->key_bytes != strlen(key.text) || memcmp(pair->key, key.text, pair->key_bytes) != 0) {
        die(STATUS_WRONG, "key %.*s has another's value", (int)pair->key_bytes, pair->key);
    }
    found_record(written.record >> THREAD_SHIFT, written);
}

static void structure_check(void)
{
    const struct pair *previous = NULL, *home = LOOK(root())->first;
    begin_records();
    while (home != NULL) {
        const struct pair *pair = LOOK((const struct pair *)claim_block(PAIRS, home));
        if (pair->previous != previous) {
            die(STATUS_WRONG, "a pair leads back to %p, which is not the one before", (void *)pair->previous);
        }
        check_pair(pair);
        previous = home;
        home = pair->next;
    }
    check_all_records();
}
