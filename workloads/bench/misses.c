/*
 * Benchmark: accesses of one kind to memory of one size, so that what a miss costs the
 * simulator, or the host itself, is known (`perdure bench misses`).
 *
 * `misses ORDER KIND KIB ACCESSES [THREADS]`: ORDER is sequential or random, or chase,
 * where every load says where the next one is; KIND is loads or stores; KIB is a power of
 * two; each of up to eight threads makes so many accesses to the same memory, one to a
 * line. It prints how long the host, or the simulated machine, took for these.
 * Always true: every line is touched before the accesses begin.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { THREADS_MAX = 8, LINE_WORDS = 8, KIB_LINES = 16 };

struct line {
    uint64_t words[LINE_WORDS];
};

enum order { SEQUENTIAL, RANDOM, CHASE };
static const char *const orders[] = {"sequential", "random", "chase"};

struct job {
    pthread_t thread;
    uint64_t number;
    uint64_t sum;
};

static struct line *lines;
static uint64_t last_line;
static uint64_t accesses;
static enum order order;
static int stores;
static struct job jobs[THREADS_MAX];

/* One cycle through all lines, in random order (Sattolo): the first word of each is the next one. */
static void link_lines(void)
{
    uint64_t state = random_seeded(0);
    for (uint64_t line = 0; line <= last_line; line++) {
        lines[line].words[0] = line;
    }
    for (uint64_t line = last_line; line > 0; line--) {
        uint64_t other = random_next(&state) % line;
        uint64_t first = lines[line].words[0];
        lines[line].words[0] = lines[other].words[0];
        lines[other].words[0] = first;
    }
}

static void *make_accesses(void *argument)
{
    struct job *job = argument;
    uint64_t state = random_seeded(job->number);
    uint64_t line = 0;
    uint64_t sum = 0;
    for (uint64_t access = 0; access < accesses; access++) {
        if (order == CHASE) {
            line = lines[line].words[0];
            continue;
        }
        if (order == RANDOM) {
            line = random_next(&state) & last_line;
        } else {
            line = access & last_line;
        }
        volatile uint64_t *word = &lines[line].words[job->number % LINE_WORDS];
        if (stores) {
            *word = access;
        } else {
            sum += *word;
        }
    }
    job->sum = sum + line;
    return NULL;
}

static uint64_t number_from(const char *name, const char *text, uint64_t most)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number > most) {
        fprintf(stderr, "misses: %s is \"%s\", but must be a number up to %llu\n", name, text,
                (unsigned long long)most);
        exit(2);
    }
    return number;
}

static void read_arguments(int argc, char **argv, uint64_t *threads)
{
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: misses sequential|random|chase loads|stores KIB ACCESSES [THREADS]\n");
        exit(2);
    }
    while (strcmp(argv[1], orders[order]) != 0) {
        if (order == CHASE) {
            fprintf(stderr, "misses: ORDER is \"%s\", but must be sequential, random or chase\n",
                    argv[1]);
            exit(2);
        }
        order++;
    }
    stores = strcmp(argv[2], "stores") == 0;
    if (!stores && strcmp(argv[2], "loads") != 0) {
        fprintf(stderr, "misses: KIND is \"%s\", but must be loads or stores\n", argv[2]);
        exit(2);
    }
    uint64_t kib = number_from("KIB", argv[3], UINT64_C(1) << 22);
    if (kib == 0 || (kib & (kib - 1)) != 0) {
        fprintf(stderr, "misses: KIB is %s, but must be a power of two\n", argv[3]);
        exit(2);
    }
    last_line = kib * KIB_LINES - 1;
    accesses = number_from("ACCESSES", argv[4], UINT64_C(1) << 40);
    *threads = argc == 6 ? number_from("THREADS", argv[5], THREADS_MAX) : 1;
    if (*threads == 0) {
        fprintf(stderr, "misses: THREADS is 0, but must be 1 to %d\n", THREADS_MAX);
        exit(2);
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    uint64_t threads;
    read_arguments(argc, argv, &threads);
    lines = aligned_alloc(sizeof *lines, (last_line + 1) * sizeof *lines);
    if (lines == NULL) {
        fprintf(stderr, "misses: there is no memory for %s KiB\n", argv[3]);
        return 1;
    }
    link_lines();
    uint64_t began = now_ns();
    for (uint64_t number = 1; number < threads; number++) {
        jobs[number].number = number;
        if (pthread_create(&jobs[number].thread, NULL, make_accesses, &jobs[number]) != 0) {
            fprintf(stderr, "misses: there is no thread %llu\n", (unsigned long long)number);
            return 1;
        }
    }
    make_accesses(&jobs[0]);
    uint64_t sum = jobs[0].sum;
    for (uint64_t number = 1; number < threads; number++) {
        pthread_join(jobs[number].thread, NULL);
        sum += jobs[number].sum;
    }
    printf("%llu ns, sum %llu\n", (unsigned long long)(now_ns() - began), (unsigned long long)sum);
    return 0;
}
