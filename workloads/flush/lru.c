/*
 * lru POOL [OPTION]...: LRU of the flush study, a list in the order of last use, with a redo or undo log.
 *
 * Operations (section III-B of the paper): a hash table leads to an object's node in a list; a use of the
 * object moves its node to the head. `--access data` writes the object, too, `meta` only moves the node,
 * and `hybrid` writes in three of four. All operations of a transaction, 1,000, are between its begin and
 * its commit; `--logging heavy` says that 90 % of them are such. Our assumptions: medium is 50 % and
 * light 10 %; the others look an object up and change nothing; there are 16,384 objects of 64 bytes.
 *
 * Logs (transactions.h): a line has one entry in a transaction, its address and its value. Undo: before a
 * line's first change its entry gets the old value and is made durable (fence, flushes, fence); the commit
 * makes the changed lines durable, and then the number of the transaction. Redo: changes go to the entry, and
 * so do reads of what was changed; the commit makes all entries durable with one fence, then their number,
 * then writes them home, makes that durable, and then the number of the transaction. Without a log nothing
 * is flushed, and a cut in a transaction leaves what it leaves. `--log-stores movnt` (ours) writes an undo
 * log's entries around the caches, with no flush. Our assumption: an entry lies behind the one
 * before; the paper links them.
 *
 * Always true of what is durable: the state after whole transactions, or it can be made of the log.
 *
 * Recovery: undoes or does again the transaction that was interrupted. Check: the order of the list, both
 * ways; every object's bytes; that the hash table leads to it: as the same operations in ordinary memory.
 */
#define PROGRAM "lru"
#include "transactions.h"

enum access { DATA, META, HYBRID };
enum purpose { KEYS, CHOICES, VALUES };
enum { HYBRID_WRITE_PERCENT = 75, LIST_LINES = 6 };

static const char *const ACCESSES[] = {"data", "meta", "hybrid", NULL};
static const char *const LOG_STORES[] = {"cached", "movnt", NULL};
static const char *const LOGGING[] = {"heavy", "medium", "light", NULL};
static const uint64_t LOGGING_PERCENT[] = {90, 50, 10};

/* As words of a plan. */
struct work {
    uint64_t seed, log, access, logging, objects, object_bytes, operations, transactions;
};

static struct plan plan;
static struct work work;

/* Key, data and chain never change. */
struct node {
    alignas(LINE_BYTES) uint64_t key;
    uint64_t object;
    struct line *data;
    struct node *chain;
    struct node *previous;
    struct node *next;
};

static struct node **head(void)
{
    return (struct node **)&pool->root[0];
}

static struct node **tail(void)
{
    return (struct node **)&pool->root[1];
}

/* ---- Where things lie: nodes, data, hash table, log ------------------------------------------- */

static uint64_t data_lines(void)
{
    return work.object_bytes / LINE_BYTES;
}

static struct node *nodes(void)
{
    return (struct node *)slots;
}

/* A power of two, at least one for each object. */
static uint64_t buckets_count = WORDS;

static void count_buckets(void)
{
    while (buckets_count < work.objects) {
        buckets_count *= 2;
    }
}

static struct node **buckets(void)
{
    return beside_slots();
}

static struct entry *entries(void)
{
    return (struct entry *)(buckets() + buckets_count);
}

static uint64_t slots_needed(void)
{
    return work.objects * (1 + data_lines());
}

/* Every line that a transaction can change. */
static uint64_t entries_max(void)
{
    const uint64_t lines = slots_needed() + 2;
    const uint64_t changes = work.operations * (LIST_LINES + data_lines());
    return lines < changes ? lines : changes;
}

static uint64_t key_of(uint64_t object)
{
    return random_at(work.seed, KEYS, object);
}

static struct node **bucket_of(uint64_t key)
{
    return buckets() + (mix(key) & (buckets_count - 1));
}

/* The first word of an object that operation `writer` of all wrote last. */
static uint64_t value_of(uint64_t object, uint64_t writer)
{
    return random_at(work.seed, VALUES, writer) + object;
}

/* Word `index` of an object. */
static uint64_t word_at(uint64_t value, uint64_t index)
{
    return value + (index << 32);
}

/* ---- Operations ------------------------------------------------------------------------------- */

struct operation {
    uint64_t number, object;
    bool moves, writes;
};

static struct operation operation_at(uint64_t number)
{
    const uint64_t choice = random_at(work.seed, CHOICES, number);
    const bool moves = (choice >> 32) % 100 < LOGGING_PERCENT[work.logging];
    const bool data = work.access == DATA ||
                      (work.access == HYBRID && (choice >> 48) % 100 < HYBRID_WRITE_PERCENT);
    return (struct operation){number, (uint32_t)choice % work.objects, moves, moves && data};
}

/* ---- The list --------------------------------------------------------------------------------- */

static struct node *next_of(const struct node *node)
{
    return ((const struct node *)reading(node))->next;
}

static struct node *previous_of(const struct node *node)
{
    return ((const struct node *)reading(node))->previous;
}

static void move_to_head(struct node *node)
{
    struct node *first = *(struct node *const *)reading(head());
    if (node == first) {
        return;
    }
    struct node *previous = previous_of(node), *next = next_of(node);
    ((struct node *)writing(previous))->next = next;
    if (next != NULL) {
        ((struct node *)writing(next))->previous = previous;
    } else {
        *(struct node **)writing(tail()) = previous;
    }
    struct node *moved = writing(node);
    moved->previous = NULL;
    moved->next = first;
    ((struct node *)writing(first))->previous = node;
    *(struct node **)writing(head()) = node;
}

static struct node *look_up(uint64_t object)
{
    const uint64_t key = key_of(object);
    struct node *node = *bucket_of(key);
    while (node != NULL && node->key != key) {
        node = node->chain;
    }
    if (node == NULL) {
        die(STATUS_WRONG, "object %" PRIu64 " is not in the hash table", object);
    }
    return node;
}

static void do_operation(const struct operation *operation)
{
    struct node *node = look_up(operation->object);
    if (operation->moves) {
        move_to_head(node);
    }
    const uint64_t value = value_of(operation->object, operation->number);
    for (uint64_t i = 0; i < data_lines(); i++) {
        if (operation->writes) {
            struct line *line = writing(&node->data[i]);
            for (unsigned j = 0; j < WORDS; j++) {
                line->word[j] = word_at(value, i * WORDS + j);
            }
        } else if (!operation->moves) {
            const struct line *line = reading(&node->data[i]);
            if (line->word[WORDS - 1] != word_at(line->word[0], WORDS - 1)) {
                die(STATUS_WRONG, "object %" PRIu64 " is mixed", operation->object);
            }
        }
    }
}

/* ---- Making, recovery, check ------------------------------------------------------------------ */

/* Object 0 is at the head; no operation has the number 0, which wrote all. */
static void make(void)
{
    struct line *data = (struct line *)(nodes() + work.objects);
    memset(buckets(), 0, buckets_count * sizeof *buckets());
    for (uint64_t object = 0; object < work.objects; object++) {
        struct node *node = &nodes()[object];
        struct node **bucket = bucket_of(key_of(object));
        *node = (struct node){.key = key_of(object), .object = object, .chain = *bucket};
        node->data = &data[object * data_lines()];
        node->previous = object == 0 ? NULL : node - 1;
        node->next = object + 1 == work.objects ? NULL : node + 1;
        *bucket = node;
        for (uint64_t i = 0; i < data_lines() * WORDS; i++) {
            node->data[i / WORDS].word[i % WORDS] = word_at(value_of(object, 0), i);
        }
    }
    *head() = nodes();
    *tail() = &nodes()[work.objects - 1];
}

/* The list and who wrote which object last, in ordinary memory: links[object + 1] are its neighbours',
   and object 0's place is both ends'. */
struct link {
    uint64_t previous, next, writer;
};

static struct link *model(uint64_t transactions)
{
    struct link *links = ordinary(work.objects + 1, sizeof *links);
    for (uint64_t i = 0; i <= work.objects; i++) {
        links[i].previous = i == 0 ? work.objects : i - 1;
        links[i].next = i == work.objects ? 0 : i + 1;
    }
    for (uint64_t number = 1; number <= transactions * work.operations; number++) {
        const struct operation operation = operation_at(number);
        const uint64_t at = operation.object + 1;
        if (operation.moves) {
            links[links[at].previous].next = links[at].next;
            links[links[at].next].previous = links[at].previous;
            links[at].previous = 0;
            links[at].next = links[0].next;
            links[links[0].next].previous = at;
            links[0].next = at;
        }
        if (operation.writes) {
            links[at].writer = number;
        }
    }
    return links;
}

static void check_object(const struct node *node, uint64_t object, uint64_t writer)
{
    if (node->object != object || node->key != key_of(object)) {
        die(STATUS_WRONG, "object %" PRIu64 " is in the list where %" PRIu64 " should be",
            node->object, object);
    }
    for (uint64_t i = 0; i < data_lines(); i++) {
        const struct line *line = claim(&node->data[i]);
        for (unsigned j = 0; j < WORDS; j++) {
            if (line->word[j] != word_at(value_of(object, writer), i * WORDS + j)) {
                die(STATUS_WRONG, "object %" PRIu64 " is not as operation %" PRIu64 " wrote it", object,
                    writer);
            }
        }
    }
    if (look_up(object) != node) {
        die(STATUS_WRONG, "the hash table does not lead to object %" PRIu64, object);
    }
}

static void check(void)
{
    const uint64_t told = pool->acknowledged[0].word, interval = plan.acknowledge_interval;
    if (*committed() > work.transactions || *committed() < told ||
        (interval != 0 && *committed() > told + interval)) {
        die(STATUS_WRONG, "%" PRIu64 " transactions are committed, but %" PRIu64 " were acknowledged",
            *committed(), told);
    }
    struct link *links = model(*committed());
    const struct node *before = NULL, *node = *head();
    begin_check(slots_all);
    for (uint64_t at = links[0].next; at != 0; at = links[at].next) {
        const struct node *listed = claim(node);
        check_object(listed, at - 1, links[at].writer);
        if (listed->previous != before) {
            die(STATUS_WRONG, "object %" PRIu64 " leads back to another", at - 1);
        }
        before = listed;
        node = listed->next;
    }
    if (node != NULL || *tail() != before) {
        die(STATUS_WRONG, "the list does not end where it should");
    }
    free(links);
}

static void read_work(int argc, char **argv)
{
    work = (struct work){.seed = 1,
                         .log = UNDO,
                         .objects = 16384,
                         .object_bytes = LINE_BYTES,
                         .operations = 1000,
                         .transactions = 1};
    const struct option options[] = {
        {"log", "(undo)", 0, LOGS, &work.log},
        {"access", "what a use does (data)", 0, ACCESSES, &work.access},
        {"logging", "how many operations are uses (heavy)", 0, LOGGING, &work.logging},
        {"objects", "in the list (16384)", 1 << 24, NULL, &work.objects},
        {"object-bytes", "of each, in lines of 64 (64)", 1 << 12, NULL, &work.object_bytes},
        {"operations", "of a transaction (1000)", 1 << 20, NULL, &work.operations},
        {"log-stores", "how an undo log is written (cached)", 0, LOG_STORES, &log_around},
        {"transactions", "one behind the other (1)", 1 << 20, NULL, &work.transactions},
        {"seed", "of keys, values and choices (1)", UINT32_MAX, NULL, &work.seed},
    };
    parse_options(argc, argv, &plan.acknowledge_interval, options, sizeof options / sizeof *options);
    if (work.objects < 2 || work.object_bytes == 0 || work.object_bytes % LINE_BYTES != 0) {
        die(STATUS_USAGE, "there must be two objects at least, of whole lines");
    }
}

int main(int argc, char **argv)
{
    read_work(argc, argv);
    memcpy(plan.words, &work, sizeof work);
    if (recover_only) {
        read_plan(&plan);
        memcpy(&work, plan.words, sizeof work);
    }
    count_buckets();
    const size_t before_log = buckets_count * sizeof(struct node *);
    const size_t bytes = before_log + entries_max() * sizeof(struct entry);
    open_pool(&plan, slots_needed(), bytes, make);
    if (make_only) {
        return EXIT_SUCCESS;
    }
    prepare_log(work.log, entries(), entries_max());
    if (pool->used.word != 0 || recover_only) {
        recover_log();
        check();
        if (plan.acknowledge_interval != 0) {
            tell(0, *committed());
        }
        printf("lru: recovered: %" PRIu64 " of %" PRIu64 " transactions\n", *committed(),
               work.transactions);
    }
    if (recover_only) {
        return EXIT_SUCCESS;
    }
    begin_use();
    for (uint64_t number = *committed() + 1; number <= work.transactions; number++) {
        begin_transaction(number);
        for (uint64_t i = 1; i <= work.operations; i++) {
            const struct operation operation = operation_at((number - 1) * work.operations + i);
            do_operation(&operation);
        }
        commit();
        acknowledge(plan.acknowledge_interval, 0, number, work.transactions);
    }
    printf("lru: %" PRIu64 " transactions of %" PRIu64 " operations\n", work.transactions,
           work.operations);
    return EXIT_SUCCESS;
}
