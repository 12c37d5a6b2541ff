/*
 * End-to-end test: a table in a pool that threads change under a lock for each bucket, for `perdure check`.
 *
 *   buckets POOL OPERATIONS [MISTAKE]    so many, by all threads together
 *   buckets POOL recover                 recovers, and checks nothing
 *   buckets POOL dump                    the same, and prints the table
 *
 * An operation puts a value, adds to one, or copies one key's to another key; it is durable before its locks
 * are given back, and each value is 8 bytes. What each mistake does otherwise is at its name; `outlasts` and
 * `meet` are none: a lock is given back behind the operation, and operations wait for each other.
 *
 * Always true: no mistake is one of recovery, which has nothing to do; nor is it seen where only one
 * operation is under way at a time, except `late`.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
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

enum { BUCKETS = 3, OF_BUCKET = 2, KEYS = BUCKETS * OF_BUCKET, THREADS = 3 };

struct bucket {
    uint64_t values[OF_BUCKET];
    char other[64 - 8 * OF_BUCKET]; /* a cache line of its own */
};

static struct bucket *pool;
static pthread_mutex_t locks[BUCKETS];
static pthread_mutex_t everything = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;
static const char *mistake = "";
static uint64_t operations;

static int makes(const char *what)
{
    return strcmp(mistake, what) == 0;
}

static uint64_t *value_of(uint64_t key)
{
    return &pool[key % BUCKETS].values[key / BUCKETS];
}

static void persist(const volatile void *address)
{
    perdure_clwb(address);
    perdure_sfence();
}

static void lock(uint64_t key)
{
    if (!makes("no-lock")) {
        pthread_mutex_lock(&locks[key % BUCKETS]);
    }
}

static void unlock(uint64_t key)
{
    if (!makes("no-lock")) {
        pthread_mutex_unlock(&locks[key % BUCKETS]);
    }
}

/* Something to do that takes a while. */
static void count_it(uint64_t key)
{
    static volatile uint64_t counts[64];
    for (int i = 0; i < 64; i++) {
        counts[i] += key;
    }
}

__attribute__((noinline)) void put(uint64_t key, uint64_t value)
{
    lock(key);
    *value_of(key) = value;
    if (makes("unlocked")) {
        unlock(key);
        count_it(key);
        persist(value_of(key)); /* others may have read it meanwhile, and told of it */
        return;
    }
    if (!makes("late")) {
        persist(value_of(key));
    }
    unlock(key);
}

__attribute__((noinline)) void add(uint64_t key, uint64_t value)
{
    lock(key);
    const uint64_t before = *(volatile uint64_t *)value_of(key);
    count_it(key);
    *value_of(key) = before + value; /* no-lock: another thread's may be lost */
    persist(value_of(key));
    unlock(key);
}

__attribute__((noinline)) void copy(uint64_t from, uint64_t to)
{
    const uint64_t first = from % BUCKETS < to % BUCKETS ? from : to, second = first == from ? to : from;
    lock(first);
    if (first % BUCKETS != second % BUCKETS) {
        lock(second);
    }
    *value_of(to) = *value_of(from);
    persist(value_of(to));
    if (first % BUCKETS != second % BUCKETS) {
        unlock(second);
    }
    unlock(first);
}

/* What threads do at about the same time is of the same key. */
static void operate(uint64_t number)
{
    const uint64_t round = number / THREADS, key = round % KEYS, other = (key + 1 + round % 3) % KEYS;
    switch ((number + round) % 3) {
    case 0:
        put(key, number + 1);
        break;
    case 1:
        add(key, 1000);
        break;
    default:
        copy(key, other);
    }
}

static void *run(void *context)
{
    for (uint64_t number = (uintptr_t)context; number < operations; number += THREADS) {
        perdure_op_begin(number);
        if (makes("outlasts")) {
            pthread_mutex_lock(&everything);
        }
        if (makes("meet")) {
            pthread_barrier_wait(&meeting);
        }
        operate(number);
        perdure_op_end();
        if (makes("late")) {
            persist(&pool[number % BUCKETS]);
        }
        if (makes("outlasts")) {
            pthread_mutex_unlock(&everything);
        }
    }
    return NULL;
}

static void open_pool(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || posix_fallocate(file, 0, BUCKETS * sizeof *pool) != 0) {
        perror(path);
        exit(2);
    }
    const int flags = MAP_SHARED_VALIDATE | MAP_SYNC;
    pool = mmap(NULL, BUCKETS * sizeof *pool, PROT_READ | PROT_WRITE, flags, file, 0);
    if (pool == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: buckets POOL OPERATIONS [MISTAKE] | buckets POOL recover|dump\n");
        return 2;
    }
    open_pool(words[1]);
    if (strcmp(words[2], "dump") == 0) {
        for (uint64_t key = 0; key < KEYS; key++) {
            printf("%" PRIu64 " %" PRIu64 "\n", key, *value_of(key));
        }
    }
    mistake = count > 3 ? words[3] : "";
    operations = strtoull(words[2], NULL, 10);
    pthread_t threads[THREADS];
    pthread_barrier_init(&meeting, NULL, THREADS);
    for (uintptr_t i = 0; i < BUCKETS; i++) {
        pthread_mutex_init(&locks[i], NULL);
    }
    for (uintptr_t i = 0; operations > 0 && i < THREADS; i++) {
        pthread_create(&threads[i], NULL, run, (void *)i);
    }
    for (uintptr_t i = 0; operations > 0 && i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
