/*
 * End-to-end test: flushes, fences and stores around the caches, from two threads.
 *
 *   primitives [ROUNDS]      default 8
 *
 * Always true: no flush and no fence changes what a program reads; a store around the caches is
 * seen by its own thread at once, and by others behind a fence. qemu does not know these
 * instructions (SIGILL).
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "perdure.h"

enum { THREADS = 2, WORDS = 8 * 24 };

static const char *const names[] = {"none",      "clflush",   "clflushopt", "clwb",
                                    "civac",     "cvac",      "cvap",       "cbo.clean",
                                    "cbo.flush", "sfence",    "mfence",     "dsb"};
enum { NAMES = sizeof names / sizeof names[0] };

static uint64_t areas[THREADS][WORDS] __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static _Atomic int failures;
static uint64_t rounds = 8;

static void expect(int condition, const char *name, const char *what)
{
    if (!condition) {
        printf("primitives: WRONG: %s: %s\n", name, what);
        failures++;
    }
}

static uint64_t word_of(int thread, uint64_t turn, size_t at)
{
    return (turn + 1) * 0x9e3779b97f4a7c15 + (uint64_t)thread * 1000 + at;
}

/* Every third line is stored around the caches; of those, every other one in part. */
static void fill(int thread, uint64_t turn)
{
    uint64_t *area = areas[thread];
    for (size_t at = 0; at < WORDS; at++) {
        const size_t line = at / 8;
        if (line % 3 == 0 && (line % 2 == 0 || at % 8 < 5)) {
            perdure_movnt64(&area[at], word_of(thread, turn, at));
        } else {
            area[at] = word_of(thread, turn, at);
        }
    }
}

static int holds(int thread, uint64_t turn)
{
    const volatile uint64_t *area = areas[thread];
    for (size_t at = 0; at < WORDS; at++) {
        if (area[at] != word_of(thread, turn, at)) {
            return 0;
        }
    }
    return 1;
}

static void fences(void)
{
    perdure_dmb_ish();
    perdure_mfence();
    perdure_sfence();
    perdure_dsb_ish();
}

static void *thread(void *argument)
{
    const int own = *(int *)argument, other = 1 - own;
    for (uint64_t turn = 0; turn < NAMES * rounds; turn++) {
        const char *const name = names[turn % NAMES];
        const struct perdure_primitive *const primitive = perdure_primitive_named(name);
        fill(own, turn);
        expect(holds(own, turn), name, "a thread does not see its own stores");
        perdure_flush_range(primitive, (char *)areas[own] + turn % 64, sizeof areas[own] - 64);
        primitive->fence();
        expect(holds(own, turn), name, "a flush changed memory");
        fences();
        pthread_barrier_wait(&barrier);
        expect(holds(other, turn), name, "another thread's stores are not seen");
        /* What the other thread has written, and reads. */
        perdure_flush_range(primitive, areas[other], sizeof areas[other]);
        primitive->fence();
        expect(holds(own, turn) && holds(other, turn), name, "another's flush changed memory");
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rounds = strtoull(argv[1], NULL, 10);
    }
    pthread_t second;
    int numbers[THREADS] = {0, 1};
    if (pthread_barrier_init(&barrier, NULL, THREADS) != 0
        || pthread_create(&second, NULL, thread, &numbers[1]) != 0) {
        return 2;
    }
    thread(&numbers[0]);
    pthread_join(second, NULL);
    expect(perdure_primitive_named("flush") == NULL, "flush", "is a name");
    printf("primitives: %zu ways, %" PRIu64 " rounds\n", (size_t)NAMES, rounds);
    return failures != 0;
}
