/*
 * End-to-end test: a record of three cache lines in a pool, which a log of one entry changes as a whole, for
 * `perdure check` and perdure_atomic.
 *
 *   whole POOL OPERATIONS [MISTAKE]     recovers, and changes it so often
 *   whole POOL recover                  recovers
 *
 * What is new is durable in the log before its number is, and that before the record changes; recovery does
 * again what a log with a number says. What each mistake does otherwise is at its name. The pool remembers
 * it, so that recovery makes it.
 *
 * Always true: every run ends with 0, whatever it has found: only bytes can say that something is wrong.
 */
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

enum { WORDS = 24 };

struct pool {
    char mistake[56];
    uint64_t number; /* of the change in the log; 0 is none */
    uint64_t record[WORDS];
    uint64_t log[WORDS];
};

static struct pool *pool;

static int makes(const char *mistake)
{
    return strcmp(pool->mistake, mistake) == 0;
}

static void persist(const volatile void *start, size_t bytes)
{
    perdure_flush_range(perdure_primitive_named("clwb"), start, bytes);
    perdure_sfence();
}

static void say(uint64_t number)
{
    pool->number = number;
    persist(&pool->number, sizeof pool->number);
}

static void carry_out(void)
{
    for (int i = 0; i < WORDS; i++) {
        pool->record[i] = pool->log[i];
    }
    persist(pool->record, sizeof pool->record);
}

static void change(uint64_t number)
{
    if (makes("in-place")) {
        for (uint64_t i = 0; i < WORDS; i++) {
            pool->record[i] = number * 100 + i;
        }
        persist(pool->record, sizeof pool->record);
        return;
    }
    if (makes("number-first")) {
        say(number);
    }
    for (uint64_t i = 0; i < WORDS; i++) {
        pool->log[i] = number * 100 + i;
    }
    persist(pool->log, sizeof pool->log);
    if (!makes("number-first")) {
        say(number);
    }
    carry_out();
    say(0);
}

static void recover(void)
{
    if (pool->number == 0 || makes("not-again")) {
        return;
    }
    if (makes("over-first")) {
        say(0); /* power fails again, and nobody goes on */
    }
    carry_out();
    say(0);
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: whole POOL OPERATIONS [MISTAKE] | whole POOL recover\n");
        return 2;
    }
    const int file = open(words[1], O_RDWR | O_CREAT, 0644);
    if (file < 0 || posix_fallocate(file, 0, sizeof *pool) != 0) {
        perror(words[1]);
        return 2;
    }
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
    if (pool == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    if (count > 3) {
        strncpy(pool->mistake, words[3], sizeof pool->mistake - 1);
        persist(pool->mistake, sizeof pool->mistake);
    }
    recover();
    perdure_atomic(pool->record, sizeof pool->record);
    const uint64_t operations = strtoull(words[2], NULL, 10);
    for (uint64_t i = 1; i <= operations; i++) {
        perdure_op_begin(i);
        change(i);
        perdure_op_end();
    }
    return 0;
}
