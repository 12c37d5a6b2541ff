/*
 * End-to-end test: an inventory in a pool of libpmemobj, for `perdure check`.
 *
 *   inventory POOL make                           makes the pool
 *   inventory POOL HOW OPERATIONS [MISTAKE]       recovers it, and changes it so often
 *   inventory POOL dump                           recovers it, checks it, and prints it
 *
 * HOW is what changes it: `transactions` (which allocate, change and free items), `lists` (by the library's
 * list functions, which are atomic by themselves) or `reservations` (items are reserved, filled, flushed and
 * published). With a mistake, one step is left out:
 *
 *   not-added      a transaction changes a range of which it was not told
 *   not-flushed    what was reserved is published without a flush
 *
 * Always true: recovery exits with 3 if an item is not what it was made as, or the count is not theirs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpmemobj.h>

#include "pmem_flush.h"

#define LAYOUT "inventory"

enum { WRONG = 3, STATUS_USAGE = 2, EVERY = 3 };

POBJ_LAYOUT_BEGIN(inventory);
POBJ_LAYOUT_ROOT(inventory, struct root);
POBJ_LAYOUT_TOID(inventory, struct item);
POBJ_LAYOUT_END(inventory);

struct item {
    uint64_t number, twice;
    char name[112]; /* more than a cache line */
    POBJ_LIST_ENTRY(struct item) order;
    TOID(struct item) next;
};

struct root {
    uint64_t count; /* of those in the chain */
    TOID(struct item) chain;
    POBJ_LIST_HEAD(items, struct item) listed;
};

static PMEMobjpool *pool;
static struct root *root;
static const char *mistake = "";

static void fail(int status, const char *what)
{
    fprintf(stderr, "inventory: %s (%s)\n", what, pmemobj_errormsg());
    exit(status);
}

static int makes(const char *name)
{
    return strcmp(mistake, name) == 0;
}

static void fill(struct item *item, uint64_t number)
{
    if (item == NULL) {
        fail(WRONG, "there is no new item");
    }
    memset(item, 0, sizeof *item);
    item->number = number;
    item->twice = 2 * number;
    snprintf(item->name, sizeof item->name, "%0100llu", (unsigned long long)number);
}

static int construct(PMEMobjpool *of, void *item, void *number)
{
    fill(item, *(uint64_t *)number);
    pmemobj_persist(of, item, sizeof(struct item));
    return 0;
}

/* ---- Three ways to change it ------------------------------------------------------------------ */

static void by_transaction(uint64_t number)
{
    TX_BEGIN(pool)
    {
        if (!makes("not-added")) {
            pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
        }
        pmemobj_tx_add_range_direct(&root->chain, sizeof root->chain);
        if (number % EVERY == EVERY - 1) {
            TOID(struct item) first = root->chain;
            root->chain = D_RO(first)->next;
            TX_FREE(first);
            root->count--;
        } else {
            TOID(struct item) item = TX_ZNEW(struct item);
            fill(D_RW(item), number);
            D_RW(item)->next = root->chain;
            root->chain = item;
            root->count++;
        }
    }
    TX_ONABORT
    {
        fail(WRONG, "a transaction is aborted");
    }
    TX_END
}

static void by_list(uint64_t number)
{
    if (number % EVERY == EVERY - 1) {
        POBJ_LIST_REMOVE_FREE(pool, &root->listed, POBJ_LIST_FIRST(&root->listed), order);
    } else if (OID_IS_NULL(POBJ_LIST_INSERT_NEW_HEAD(pool, &root->listed, order, sizeof(struct item),
                                                      construct, &number))) {
        fail(WRONG, "there is no new item");
    }
}

static void by_reservation(uint64_t number)
{
    struct pobj_action actions[4];
    TOID(struct item) item = POBJ_RESERVE_NEW(pool, struct item, &actions[0]);
    fill(D_RW(item), number);
    D_RW(item)->next = root->chain;
    if (!makes("not-flushed")) {
        pmemobj_persist(pool, D_RW(item), sizeof(struct item));
    }
    pmemobj_set_value(pool, &actions[1], &root->chain.oid.off, item.oid.off);
    pmemobj_set_value(pool, &actions[2], &root->chain.oid.pool_uuid_lo, item.oid.pool_uuid_lo);
    pmemobj_set_value(pool, &actions[3], &root->count, root->count + 1);
    pmemobj_publish(pool, actions, 4);
}

static const struct {
    const char *name;
    void (*change)(uint64_t number);
} WAYS[] = {{"transactions", by_transaction}, {"lists", by_list}, {"reservations", by_reservation}};

/* ---- What is in it ---------------------------------------------------------------------------- */

static void look_at(const struct item *item)
{
    struct item made;
    fill(&made, item->number);
    if (item->twice != made.twice || memcmp(item->name, made.name, sizeof made.name) != 0) {
        fail(WRONG, "an item is not what it was made as");
    }
    printf(" %llu", (unsigned long long)item->number);
}

static void dump(void)
{
    uint64_t count = 0;
    fputs("chain", stdout);
    for (TOID(struct item) item = root->chain; !TOID_IS_NULL(item); item = D_RO(item)->next) {
        look_at(D_RO(item));
        count++;
    }
    if (count != root->count) {
        fail(WRONG, "there are not as many as are counted");
    }
    fputs("\nlist", stdout);
    TOID(struct item) item;
    POBJ_LIST_FOREACH(item, &root->listed, order)
    {
        look_at(D_RO(item));
    }
    putchar('\n');
    uint64_t objects = 0;
    for (PMEMoid object = pmemobj_first(pool); !OID_IS_NULL(object); object = pmemobj_next(object)) {
        objects++;
    }
    printf("objects %llu\n", (unsigned long long)objects);
}

static void change(const char *how, uint64_t operations)
{
    for (size_t way = 0; way < sizeof WAYS / sizeof WAYS[0]; way++) {
        if (strcmp(how, WAYS[way].name) != 0) {
            continue;
        }
        for (uint64_t number = 0; number < operations; number++) {
            perdure_op_begin(number);
            WAYS[way].change(number);
            perdure_op_end();
        }
        return;
    }
    fail(STATUS_USAGE, "HOW is transactions, lists or reservations");
}

int main(int count, char **words)
{
    if (count < 3) {
        fail(STATUS_USAGE, "usage: inventory POOL make | dump | HOW OPERATIONS [MISTAKE]");
    }
    const char *path = words[1], *asked = words[2];
    const int is_new = strcmp(asked, "make") == 0;
    pool = is_new ? pmemobj_create(path, LAYOUT, PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(path, LAYOUT);
    if (pool == NULL) {
        fail(WRONG, "the pool cannot be opened");
    }
    root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
    if (strcmp(asked, "dump") == 0) {
        dump();
    } else if (count > 3) {
        mistake = count > 4 ? words[4] : "";
        change(asked, strtoull(words[3], NULL, 10));
    }
    pmemobj_close(pool);
    return 0;
}
