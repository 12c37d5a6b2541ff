/*
 * Benchmark: transfers between accounts in a pool, undone by a log if a power cut comes between.
 *
 * `transfers POOL [TRANSFERS [WORK]]` makes the pool, or recovers what is there, and does the transfers that
 * are left; before each it computes for WORK rounds, as a program does that has more to do than to store.
 * `transfers POOL recover` recovers alone. A transfer writes the old balances into the log, then says that
 * the log counts, then stores the new ones, then says that it counts no more; each step is durable before
 * the next.
 *
 * Always true: after recovery the balances add up to what there was in the beginning; else the status is 1.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "perdure.h"

enum {
    ACCOUNTS = 1024,
    SIDES = 2,
    OPENING = 1000,
    TRANSFERS_DEFAULT = 2500,
    WORK_DEFAULT = 5000,
    MOST = 10000000
};

struct pool {
    struct {
        uint64_t account[SIDES], balance[SIDES];
        uint64_t unused[4];
    } log;
    struct {
        uint64_t counts, done, is_made;
        uint64_t unused[5];
    } state;
    uint64_t balance[ACCOUNTS];
};

static struct pool *pool;

static void stop(const char *why)
{
    fprintf(stderr, "transfers: %s\n", why);
    exit(2);
}

static void flush(const void *address)
{
    perdure_clwb(address);
}

static void persist(const void *address)
{
    flush(address);
    perdure_sfence();
}

static void open_pool(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || posix_fallocate(file, 0, sizeof *pool) != 0 || fsync(file) != 0) {
        stop("the pool cannot be made");
    }
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED) {
        stop("the pool cannot be mapped");
    }
    close(file);
}

static void make(void)
{
    for (size_t i = 0; i < ACCOUNTS; i++) {
        pool->balance[i] = OPENING;
    }
    for (size_t i = 0; i < ACCOUNTS; i += 8) {
        flush(&pool->balance[i]);
    }
    perdure_sfence();
    pool->state.is_made = 1;
    persist(&pool->state);
}

static void store_balances(const uint64_t balance[SIDES])
{
    for (int side = 0; side < SIDES; side++) {
        uint64_t *home = &pool->balance[pool->log.account[side] % ACCOUNTS];
        *home = balance[side];
        flush(home);
    }
    perdure_sfence();
}

static void set_counts(uint64_t counts, uint64_t done)
{
    pool->state.counts = counts;
    pool->state.done = done;
    persist(&pool->state);
}

/* Undoes a transfer that was cut, and adds everything up. */
static int recover(void)
{
    if (!pool->state.is_made) {
        make();
    }
    if (pool->state.counts) {
        store_balances(pool->log.balance);
        set_counts(0, pool->state.done);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < ACCOUNTS; i++) {
        sum += pool->balance[i];
    }
    return sum == (uint64_t)ACCOUNTS * OPENING;
}

static void transfer(uint64_t number, uint64_t draw)
{
    const uint64_t from = draw % ACCOUNTS, to = (from + 1 + (draw >> 32) % (ACCOUNTS - 1)) % ACCOUNTS;
    const uint64_t amount = pool->balance[from] / 4;
    perdure_op_begin(number);
    pool->log.account[0] = from;
    pool->log.account[1] = to;
    for (int side = 0; side < SIDES; side++) {
        pool->log.balance[side] = pool->balance[pool->log.account[side]];
    }
    persist(&pool->log);
    set_counts(1, number);
    const uint64_t balance[SIDES] = {pool->log.balance[0] - amount, pool->log.balance[1] + amount};
    store_balances(balance);
    set_counts(0, number + 1);
    perdure_op_end();
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        stop("usage: transfers POOL [TRANSFERS [WORK]] | transfers POOL recover");
    }
    const int only = argc == 3 && strcmp(argv[2], "recover") == 0;
    unsigned transfers = TRANSFERS_DEFAULT, work = WORK_DEFAULT;
    if (argc > 2 && !only) {
        transfers = argument_number("transfers", "TRANSFERS", argv[2], 1, MOST);
    }
    if (argc > 3) {
        work = argument_number("transfers", "WORK", argv[3], 0, MOST);
    }
    open_pool(argv[1]);
    if (!recover()) {
        fprintf(stderr, "transfers: WRONG: the balances do not add up\n");
        return EXIT_FAILURE;
    }
    for (uint64_t i = pool->state.done; !only && i < transfers; i++) {
        uint64_t draw = random_seeded(i);
        for (unsigned round = 0; round < work; round++) {
            draw = random_next(&draw);
        }
        transfer(i, mix64(draw));
    }
    printf("transfers: %" PRIu64 " done\n", pool->state.done);
    return EXIT_SUCCESS;
}
