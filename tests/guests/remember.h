/*
 * What the programs share that make the kernel remember things: they say whether each is as it was,
 * work in between for many epochs, and number their threads.
 *
 * Always true: it is the first header that a program includes; what is printed is fixed, whichever
 * thread finds it.
 */
#ifndef REMEMBER_H
#define REMEMBER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "digest.h"

/* The exit status of a program for which everything was remembered; bytes; how long it works. */
enum { DONE = 37, BLOCK = 4096, WORK_STEPS = 50000 };

static int wrong;

/* What other threads than the first one find is printed when they are joined: in a fixed order. */
enum { NOTES_MAX = 4, THREADS_MAX = 12 };
static struct {
    int count;
    const char *what[NOTES_MAX];
    int is_same[NOTES_MAX];
} notes[THREADS_MAX];
static pthread_t threads[THREADS_MAX];

/* The thread's own number, if it is not the first one. */
static __thread int own = -1;

static inline void same(const char *what, int is_same)
{
    if (own >= 0 && notes[own].count < NOTES_MAX) {
        notes[own].what[notes[own].count] = what;
        notes[own].is_same[notes[own].count++] = is_same;
        return;
    }
    printf("%s: %s\n", what, is_same ? "yes" : "NO");
    wrong |= !is_same;
}
#define SAME(condition) same(#condition, !!(condition))

static inline void must(const char *what, long result)
{
    if (result < 0) {
        printf("%s: %s\n", what, strerror(errno));
        exit(2);
    }
}
#define MUST(call) must(#call, (long)(call))

static inline void join(int number)
{
    pthread_join(threads[number], NULL);
    for (int note = 0; note < notes[number].count; note++)
        same(notes[number].what[note], notes[number].is_same[note]);
}

static inline void nap(long microseconds)
{
    struct timespec time = {0, microseconds * 1000};
    while (nanosleep(&time, &time) < 0) {
    }
}

static inline uint64_t work(void)
{
    uint64_t value = DIGEST_EMPTY;
    for (uint64_t step = 0; step < WORK_STEPS; step++) {
        value = digest_add_word(value, step);
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

/* What the kernel calls the thread. */
static inline pid_t own_number(void) { return (pid_t)syscall(SYS_gettid); }

#endif
