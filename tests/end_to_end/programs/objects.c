/*
 * End-to-end test: accounts in a pool of libpmemobj, moved by its transactions.
 *
 *   objects POOL PROMISED TRANSACTIONS
 *
 * The pool is opened, which recovers it, or made; it is checked, and brought to so many transactions, each of
 * which moves money between two accounts and replaces a receipt that the allocator made. After some of them
 * the file PROMISED, which libpmem maps, is synchronised with msync: it says how many there are, and fewer
 * must never be found again.
 *
 * Always true: whatever makes bytes of the pool durable is the library's; this program flushes nothing of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <libpmem.h>
#include <libpmemobj.h>

#define LAYOUT "objects"

enum { ACCOUNTS = 96, BETWEEN_PROMISES = 5 };

struct root {
    uint64_t transactions;
    PMEMoid receipt;
    uint64_t balances[ACCOUNTS];
};

struct receipt {
    uint64_t number;
    uint64_t amount;
};

static void fail(const char *what)
{
    printf("objects: WRONG: %s (errno %d: %s)\n", what, errno, pmemobj_errormsg());
    exit(1);
}

/* The accounts that a transaction is about, and what it moves. */
static void draw(uint64_t number, uint64_t places[2], uint64_t *amount)
{
    const uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
    places[0] = (mixed >> 20) % ACCOUNTS;
    places[1] = (places[0] + 1 + (mixed >> 40) % (ACCOUNTS - 1)) % ACCOUNTS;
    *amount = 1 + (mixed >> 50);
}

static void move(PMEMobjpool *pool, struct root *root)
{
    uint64_t places[2], amount;
    draw(root->transactions, places, &amount);
    TX_BEGIN(pool)
    {
        pmemobj_tx_add_range_direct(root, offsetof(struct root, balances));
        for (int side = 0; side < 2; side++) {
            uint64_t *balance = &root->balances[places[side]];
            pmemobj_tx_add_range_direct(balance, sizeof *balance);
            *balance += side == 0 ? -amount : amount;
        }
        if (!OID_IS_NULL(root->receipt)) {
            pmemobj_tx_free(root->receipt);
        }
        root->receipt = pmemobj_tx_alloc(sizeof(struct receipt), 1);
        struct receipt *receipt = pmemobj_direct(root->receipt);
        receipt->number = root->transactions++;
        receipt->amount = amount;
    }
    TX_ONABORT
    {
        fail("a transaction was aborted");
    }
    TX_END
}

static void check(const struct root *root, uint64_t promised)
{
    uint64_t balances[ACCOUNTS] = {0}, places[2], amount = 0;
    if (root->transactions < promised) {
        printf("objects: %" PRIu64 " transactions, and %" PRIu64 " were promised\n", root->transactions,
               promised);
        exit(1);
    }
    for (uint64_t number = 0; number < root->transactions; number++) {
        draw(number, places, &amount);
        balances[places[0]] -= amount;
        balances[places[1]] += amount;
    }
    for (int account = 0; account < ACCOUNTS; account++) {
        if (root->balances[account] != balances[account]) {
            fail("an account is not what its transactions made it");
        }
    }
    if (root->transactions == 0) {
        return;
    }
    const struct receipt *receipt = pmemobj_direct(root->receipt);
    if (receipt == NULL || receipt->number != root->transactions - 1 || receipt->amount != amount) {
        fail("the receipt is not the last transaction's");
    }
}

int main(int argc, char **argv)
{
    int is_pmem = 0;
    if (argc != 4) {
        fail("usage: objects POOL PROMISED TRANSACTIONS");
    }
    const uint64_t wanted = strtoull(argv[3], NULL, 10);
    uint64_t *promised = pmem_map_file(argv[2], sizeof *promised, PMEM_FILE_CREATE, 0600, NULL, &is_pmem);
    if (promised == NULL || !is_pmem || !pmem_is_pmem(promised, sizeof *promised)) {
        fail("what was promised is in no persistent memory that libpmem knows");
    }
    PMEMobjpool *pool = pmemobj_open(argv[1], LAYOUT);
    if (pool == NULL && *promised == 0) {
        /* Nothing was promised of a pool whose making the power took. */
        unlink(argv[1]);
        pool = pmemobj_create(argv[1], LAYOUT, PMEMOBJ_MIN_POOL, 0600);
    }
    if (pool == NULL) {
        fail("the pool cannot be opened");
    }
    struct root *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
    check(root, *promised);
    while (root->transactions < wanted) {
        move(pool, root);
        if (root->transactions % BETWEEN_PROMISES == 0) {
            *promised = root->transactions;
            if (pmem_msync(promised, sizeof *promised) != 0) {
                fail("nothing can be promised");
            }
        }
    }
    check(root, *promised);
    pmemobj_close(pool);
    puts("objects: sound");
    return 0;
}
