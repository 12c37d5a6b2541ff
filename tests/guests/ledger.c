/*
 * End-to-end test: accounts with an undo log, which have to come through a power cut.
 *
 *   ledger DIRECTORY TRANSACTIONS [careless]
 *
 * The pool `accounts` of the directory is recovered and checked, and then brought to so many transactions
 * (0: as it is), each of which moves money between two accounts. After some of them the file `promised` is
 * synchronised, which says how many there are: fewer must never be found again. `careless` flushes and
 * fences nothing of the pool.
 *
 * Always true: after recovery the accounts are to the last one those that this number of transactions
 * makes; otherwise it says what is wrong, and exits with 1. On an ordinary directory it synchronises where
 * it would flush.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

enum { ACCOUNTS = 96, BETWEEN_PROMISES = 5, MAGIC = 0x1ed6e2 };

struct account {
    uint64_t balance;
    char other[56]; /* a cache line of its own */
};

struct pool {
    uint64_t magic;
    uint64_t transactions;
    char other[48];
    /* What was there before the transaction that is under way, if one is. */
    uint64_t underway;
    uint64_t old_transactions;
    uint64_t places[2];
    uint64_t old_balances[2];
    char rest[16];
    struct account accounts[ACCOUNTS];
};

static struct pool *pool;
static int careless, synchronous;

static void fail(const char *what)
{
    printf("ledger: WRONG: %s (errno %d)\n", what, errno);
    exit(1);
}

static void persist(void *start, size_t bytes)
{
    __asm__ volatile("" : : : "memory"); /* stores are made in the program's order, flushed or not */
    if (careless) {
        return;
    }
    if (synchronous) {
        perdure_persist(start, bytes);
        perdure_persist_fence_full();
    } else if (msync(pool, sizeof *pool, MS_SYNC) != 0) {
        fail("msync");
    }
}

/* The accounts that a transaction is about, and what it moves. */
static void draw(uint64_t number, uint64_t places[2], uint64_t *amount)
{
    const uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
    places[0] = (mixed >> 20) % ACCOUNTS;
    places[1] = (places[0] + 1 + (mixed >> 40) % (ACCOUNTS - 1)) % ACCOUNTS;
    *amount = 1 + (mixed >> 56);
}

static void transact(void)
{
    uint64_t amount;
    draw(pool->transactions, pool->places, &amount);
    for (int i = 0; i < 2; i++) {
        pool->old_balances[i] = pool->accounts[pool->places[i]].balance;
    }
    pool->old_transactions = pool->transactions;
    persist(&pool->old_transactions, sizeof(uint64_t) * 5);
    pool->underway = 1;
    persist(&pool->underway, sizeof pool->underway);
    for (int i = 0; i < 2; i++) {
        uint64_t *balance = &pool->accounts[pool->places[i]].balance;
        *balance = i == 0 ? *balance - amount : *balance + amount;
        persist(balance, sizeof *balance);
    }
    pool->transactions++;
    persist(&pool->transactions, sizeof pool->transactions);
    pool->underway = 0;
    persist(&pool->underway, sizeof pool->underway);
}

static void recover(void)
{
    if (pool->magic != MAGIC) {
        memset(pool, 0, sizeof *pool);
        persist(pool, sizeof *pool);
        pool->magic = MAGIC;
        persist(&pool->magic, sizeof pool->magic);
    }
    if (pool->underway) {
        for (int i = 0; i < 2; i++) {
            uint64_t *balance = &pool->accounts[pool->places[i]].balance;
            *balance = pool->old_balances[i];
            persist(balance, sizeof *balance);
        }
        pool->transactions = pool->old_transactions;
        persist(&pool->transactions, sizeof pool->transactions);
        pool->underway = 0;
        persist(&pool->underway, sizeof pool->underway);
    }
}

static void check(int promises)
{
    uint64_t balances[ACCOUNTS] = {0}, promised = 0;
    for (uint64_t number = 0; number < pool->transactions; number++) {
        uint64_t places[2], amount;
        draw(number, places, &amount);
        balances[places[0]] -= amount;
        balances[places[1]] += amount;
    }
    for (int i = 0; i < ACCOUNTS; i++) {
        if (balances[i] != pool->accounts[i].balance) {
            printf("ledger: account %d after %" PRIu64 " transactions: %" PRId64 ", not %" PRId64 "\n", i,
                   pool->transactions, (int64_t)pool->accounts[i].balance, (int64_t)balances[i]);
            exit(1);
        }
    }
    if (pread(promises, &promised, sizeof promised, 0) == sizeof promised && promised > pool->transactions) {
        printf("ledger: %" PRIu64 " transactions, and %" PRIu64 " were promised\n", pool->transactions, promised);
        exit(1);
    }
}

int main(int count, char **words)
{
    if (count < 3 || chdir(words[1]) != 0) {
        fail("usage: ledger DIRECTORY TRANSACTIONS [careless]");
    }
    const uint64_t transactions = strtoull(words[2], NULL, 10);
    careless = count > 3 && strcmp(words[3], "careless") == 0;
    const int file = open("accounts", O_RDWR | O_CREAT, 0644);
    const int promises = open("promised", O_RDWR | O_CREAT, 0644);
    if (file < 0 || promises < 0 || posix_fallocate(file, 0, sizeof *pool) != 0) {
        fail("the files");
    }
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
    synchronous = pool != MAP_FAILED;
    if (!synchronous) {
        pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (pool == MAP_FAILED) {
        fail("mmap");
    }
    recover();
    check(promises);
    while (pool->transactions < transactions) {
        transact();
        if (pool->transactions % BETWEEN_PROMISES == 0) {
            const uint64_t promised = pool->transactions;
            if (pwrite(promises, &promised, sizeof promised, 0) != sizeof promised || fsync(promises) != 0) {
                fail("a promise");
            }
        }
    }
    check(promises);
    printf("ledger: sound\n");
    return 0;
}
