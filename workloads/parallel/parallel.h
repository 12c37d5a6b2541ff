/*
 * What the threaded workloads share, for C11 and C++17: options, threads, barriers, locks, memory,
 * random numbers, the digest of a result, and the lines that a program prints.
 *
 * Always true: a program reads no file and no clock, and its seed is fixed. It prints one line when
 * its data stand ready and its threads start (so that an instruction counter can see where that
 * is), and one at its end, with a digest: neither depends on how the threads interleave. What its
 * own check finds wrong it says on standard error, and ends with status 1; wrong options end it
 * with status 2. Threads number 0 and up; thread 0 is the one that main runs on, so that a program
 * of 16 threads needs 16 harts and no more.
 *
 * A program defines PROGRAM, its name in quotes, before it includes this file.
 */
#ifndef PERDURE_PARALLEL_H
#define PERDURE_PARALLEL_H

#ifndef PROGRAM
#error "define PROGRAM, the program's name, before parallel.h is included"
#endif

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATUS_WRONG = 1, /* the program's own check failed */
    STATUS_USAGE = 2, /* options that it does not take, or too little memory for them */
    THREADS_DEFAULT = 16,
    THREADS_MAX = 256,
    /* The same with every C library (musl's default is 128 KiB); thread 0 has main's. */
    THREAD_STACK_BYTES = 1 << 20,
    CACHE_LINE_BYTES = 64
};

/* Says on standard error why the program ends, and ends it with `status`; for any thread. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void die(int status,
                                                                       const char *format, ...)
{
    va_list values;
    va_start(values, format);
    flockfile(stderr);
    fprintf(stderr, "%s: %s", PROGRAM, status == STATUS_WRONG ? "WRONG: " : "");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(values);
    exit(status);
}

/* The line that opens the measured phase, printed before run_threads; it leaves the program at
   once. The format says what the data are. */
__attribute__((format(printf, 1, 2))) static inline void ready(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("%s: ready: ", PROGRAM);
    vprintf(format, values);
    printf("\n");
    va_end(values);
    fflush(stdout);
}

/* ---- Options ------------------------------------------------------------------------------ */

/* One option: a letter and a number, written `-n 40` or `-n40`. Exactly one of `whole` and `real`
   is set: it holds the default, and receives what the command line says instead. */
struct parameter {
    char letter;
    const char *meaning;
    double minimum, maximum;
    uint64_t *whole;
    double *real;
};

/* An option with a whole number in minimum..maximum; maximum below 2^53. */
static inline struct parameter option_whole(char letter, const char *meaning, uint64_t minimum,
                                            uint64_t maximum, uint64_t *value)
{
    const struct parameter parameter = {letter, meaning, (double)minimum, (double)maximum, value,
                                        NULL};
    return parameter;
}

/* An option with a decimal number in minimum..maximum, minimum at least 0. */
static inline struct parameter option_real(char letter, const char *meaning, double minimum,
                                           double maximum, double *value)
{
    const struct parameter parameter = {letter, meaning, minimum, maximum, NULL, value};
    return parameter;
}

/* The option for the number of threads; its letter is the published one (t, but p in kmeans, c in
   vacation). */
static inline struct parameter option_threads(char letter, uint64_t *threads)
{
    return option_whole(letter, "threads", 1, THREADS_MAX, threads);
}

/* What the program takes, with the values that stand before the command line is read. */
static inline void print_usage(FILE *out, const struct parameter *parameters, size_t count)
{
    fprintf(out, "usage: %s", PROGRAM);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, " [-%c NUMBER]", parameters[i].letter);
    }
    fprintf(out, "\n");
    for (size_t i = 0; i < count; i++) {
        const struct parameter *parameter = &parameters[i];
        const double value =
            parameter->whole != NULL ? (double)*parameter->whole : *parameter->real;
        fprintf(out, "  -%c  %s, %.15g to %.15g (%.15g)\n", parameter->letter, parameter->meaning,
                parameter->minimum, parameter->maximum, value);
    }
}

/* Sets a parameter from its text; says why not, and ends the program, if that is no number of its
   kind and range. */
static inline void set_parameter(const struct parameter *parameter, const char *text)
{
    const bool is_whole = parameter->whole != NULL;
    char *end = NULL;
    bool valid = isdigit((unsigned char)*text) || (!is_whole && *text == '.');
    if (valid && is_whole) {
        const uint64_t number = strtoull(text, &end, 10);
        valid = *end == '\0' && (double)number >= parameter->minimum &&
                (double)number <= parameter->maximum;
        if (valid) {
            *parameter->whole = number;
        }
    } else if (valid) {
        const double number = strtod(text, &end);
        /* Written so that a NaN, which compares with nothing, is refused. */
        valid = *end == '\0' && number >= parameter->minimum && number <= parameter->maximum;
        if (valid) {
            *parameter->real = number;
        }
    }
    if (!valid) {
        die(STATUS_USAGE, "-%c (%s) is \"%s\", but must be a %snumber from %.15g to %.15g",
            parameter->letter, parameter->meaning, text, is_whole ? "whole " : "",
            parameter->minimum, parameter->maximum);
    }
}

/* Reads the command line; `-h` prints what the program takes. What it does not take ends it with
   status 2. An option given twice has its last value. */
static inline void parse_options(int argc, char **argv, const struct parameter *parameters,
                                 size_t count)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const struct parameter *found = NULL;
        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            print_usage(stdout, parameters, count);
            exit(EXIT_SUCCESS);
        }
        for (size_t j = 0; j < count && found == NULL; j++) {
            if (word[0] == '-' && word[1] != '\0' && word[1] == parameters[j].letter) {
                found = &parameters[j];
            }
        }
        if (found == NULL) {
            print_usage(stderr, parameters, count);
            die(STATUS_USAGE, "takes no \"%s\"", word);
        }
        if (word[2] != '\0') {
            set_parameter(found, word + 2);
        } else if (i + 1 < argc) {
            set_parameter(found, argv[++i]);
        } else {
            die(STATUS_USAGE, "-%c (%s) needs a number", found->letter, found->meaning);
        }
    }
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Memory for `count` items that starts on a cache line; its content is arbitrary. */
static inline void *allocate(size_t count, size_t item_bytes)
{
    size_t bytes;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, item_bytes, &bytes) &&
        bytes <= SIZE_MAX - CACHE_LINE_BYTES) {
        bytes = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
        if (bytes == 0) {
            bytes = CACHE_LINE_BYTES;
        }
        memory = aligned_alloc(CACHE_LINE_BYTES, bytes);
    }
    if (memory == NULL) {
        die(STATUS_USAGE, "no memory for %zu items of %zu bytes", count, item_bytes);
    }
    return memory;
}

/* The same, all zero. */
static inline void *allocate_zeroed(size_t count, size_t item_bytes)
{
    void *memory = allocate(count, item_bytes);
    memset(memory, 0, count * item_bytes);
    return memory;
}

/* ---- Threads ------------------------------------------------------------------------------ */

/* What a thread does: its number in 0..count-1, and what all of them share. */
typedef void thread_function(unsigned thread, void *context);

struct thread_start {
    pthread_t handle;
    unsigned thread;
    thread_function *function;
    void *context;
    pthread_barrier_t *together;
};

/* Waits until all threads of the barrier have come here. */
static inline void barrier_wait(pthread_barrier_t *barrier)
{
    const int result = pthread_barrier_wait(barrier);
    if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD) {
        die(STATUS_WRONG, "a barrier failed: error %d", result);
    }
}

/* A barrier for `count` threads. */
static inline void barrier_init(pthread_barrier_t *barrier, unsigned count)
{
    const int result = pthread_barrier_init(barrier, NULL, count);
    if (result != 0) {
        die(STATUS_USAGE, "no barrier for %u threads: error %d", count, result);
    }
}

static inline void *thread_main(void *argument)
{
    const struct thread_start *self = (const struct thread_start *)argument;
    barrier_wait(self->together);
    self->function(self->thread, self->context);
    barrier_wait(self->together);
    return NULL;
}

/* Runs function(0, context) to function(count - 1, context) at the same time, number 0 on the
   calling thread, and returns when all have returned. None begins before all threads exist, and none
   ends before all have returned: there are several threads as long as any of them works. */
static inline void run_threads(unsigned count, thread_function *function, void *context)
{
    struct thread_start *starts =
        (struct thread_start *)allocate_zeroed(count, sizeof(struct thread_start));
    pthread_barrier_t together;
    pthread_attr_t attributes;
    barrier_init(&together, count);
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES) != 0) {
        die(STATUS_USAGE, "no stacks of %d bytes for threads", THREAD_STACK_BYTES);
    }
    for (unsigned i = 0; i < count; i++) {
        starts[i].thread = i;
        starts[i].function = function;
        starts[i].context = context;
        starts[i].together = &together;
        if (i > 0 &&
            pthread_create(&starts[i].handle, &attributes, thread_main, &starts[i]) != 0) {
            die(STATUS_USAGE, "thread %u of %u could not be started", i, count);
        }
    }
    thread_main(&starts[0]);
    for (unsigned i = 1; i < count; i++) {
        pthread_join(starts[i].handle, NULL);
    }
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&together);
    free(starts);
}

/* The items first..end-1. */
struct share {
    uint64_t first, end;
};

/* The part of `total` items that is a thread's: consecutive, and equal to within one item. */
static inline struct share thread_share(uint64_t total, unsigned threads, unsigned thread)
{
    const uint64_t each = total / threads;
    const uint64_t larger = total % threads;
    const uint64_t first = each * thread + (thread < larger ? thread : larger);
    const struct share share = {first, first + each + (thread < larger ? 1 : 0)};
    return share;
}

/* ---- Locks -------------------------------------------------------------------------------- */

enum { SPINS_BEFORE_YIELD = 64 };

/* To be called each time round a loop that waits for another thread: lets that thread run if there
   are fewer harts than threads. */
static inline void spin_wait(unsigned *spins)
{
    if (++*spins % SPINS_BEFORE_YIELD == 0) {
        sched_yield();
    }
}

/* A lock of four bytes, open when zero, for short critical sections and where locks are many: test
   and test-and-set. It is not fair. */
struct spin_lock {
    uint32_t held;
};

static inline bool spin_lock_try(struct spin_lock *lock)
{
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void spin_lock_take(struct spin_lock *lock)
{
    unsigned spins = 0;
    while (!spin_lock_try(lock)) {
        while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0) {
            spin_wait(&spins);
        }
    }
}

static inline void spin_lock_release(struct spin_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* ---- Random numbers ----------------------------------------------------------------------- */

/* The finaliser of SplitMix64: a bijection of 64-bit words that scatters them well. */
static inline uint64_t mix64(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* A starting state for random_next, unrelated for neighbouring seeds. */
static inline uint64_t random_seeded(uint64_t seed)
{
    return mix64(seed + UINT64_C(0x9e3779b97f4a7c15));
}

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Each thread has a state of its own. */
static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix64(*state);
}

/* Uniform in 0..bound-1; bound at most 2^32. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return ((random_next(state) >> 32) * bound) >> 32;
}

/* Uniform in [0, 1), 53 random bits. */
static inline double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- The digest of a result --------------------------------------------------------------- */

/* FNV-1a of 64 bits; a digest starts as DIGEST_START. */
static const uint64_t DIGEST_START = UINT64_C(0xcbf29ce484222325);

static inline void digest_bytes(uint64_t *digest, const void *bytes, size_t count)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < count; i++) {
        *digest = (*digest ^ byte[i]) * UINT64_C(0x100000001b3);
    }
}

/* Takes in a word, lowest byte first on every machine. */
static inline void digest_word(uint64_t *digest, uint64_t word)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        *digest = (*digest ^ ((word >> shift) & 0xff)) * UINT64_C(0x100000001b3);
    }
}

/* The last line of a program whose result was right; returns the program's status. */
__attribute__((format(printf, 2, 3))) static inline int verified(uint64_t digest,
                                                                 const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("%s: ", PROGRAM);
    vprintf(format, values);
    printf("; digest %016" PRIx64 ", verified\n", digest);
    va_end(values);
    return EXIT_SUCCESS;
}

#endif
