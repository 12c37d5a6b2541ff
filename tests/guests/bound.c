/*
 * End-to-end test: threads that run on the harts to which they are bound.
 *
 *   bound [THREADS] [ROUNDS]
 *
 * Threads bind themselves to one hart each, work, yield, sleep, and look where they are; are bound to
 * another one by the first thread while they work; and hand it down to a child. Where the power was cut
 * meanwhile, nothing may be different.
 *
 * Always true: what is printed is the same on any number of harts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 16, WORK_STEPS = 300 };

static cpu_set_t allowed;
static atomic_int told[MOST_THREADS]; /* the hart to which a thread was bound last */
static atomic_int tids[MOST_THREADS];
static atomic_int begun, rebound;
static long rounds = 300;

/* The number-th of the harts that there are, over and over. */
static int hart_for(int number)
{
    int left = number % CPU_COUNT(&allowed);
    for (int hart = 0; hart < CPU_SETSIZE; hart++) {
        if (CPU_ISSET(hart, &allowed) && left-- == 0)
            return hart;
    }
    return -1;
}

static int bind_to(pid_t thread, int hart)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(hart, &one);
    return sched_setaffinity(thread, sizeof one, &one);
}

static int is_bound_to(int hart)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    return sched_getaffinity(0, sizeof own, &own) == 0 && CPU_COUNT(&own) == 1 &&
           CPU_ISSET(hart, &own);
}

static uint64_t work(uint64_t value)
{
    for (int step = 0; step < WORK_STEPS; step++)
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return value;
}

static void rest(long round)
{
    struct timespec time = {0, 20000};
    if (round % 16 == 0)
        nanosleep(&time, NULL);
    else
        sched_yield();
}

/* How often it was elsewhere. */
static long look(int number)
{
    long elsewhere = 0;
    volatile uint64_t value = (uint64_t)number;
    for (long round = 0; round < rounds; round++) {
        value = work(value);
        elsewhere += sched_getcpu() != told[number];
        rest(round);
        elsewhere += sched_getcpu() != told[number];
    }
    return elsewhere + !is_bound_to(told[number]);
}

static void *body(void *argument)
{
    int number = (int)(intptr_t)argument;
    tids[number] = (int)syscall(SYS_gettid);
    told[number] = hart_for(number);
    long elsewhere = bind_to(0, told[number]) != 0;
    elsewhere += look(number);
    begun++;
    while (!rebound)
        rest(1);
    return (void *)(intptr_t)(elsewhere + look(number));
}

/* To a child. */
static int handed_down(int hart)
{
    pid_t child = fork();
    if (child == 0)
        _exit(!is_bound_to(hart) || sched_getcpu() != hart);
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* True if "/proc" says that the caller runs on one hart. */
static int is_listed_on(int hart)
{
    char line[512], wanted[64];
    snprintf(wanted, sizeof wanted, "Cpus_allowed_list:\t%d\n", hart);
    FILE *file = fopen("/proc/self/status", "r");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file))
        found = strcmp(line, wanted) == 0;
    if (file)
        fclose(file);
    return found;
}

static void refused(void)
{
    cpu_set_t none, here;
    CPU_ZERO(&none);
    printf("no hart: %d\n", sched_setaffinity(0, sizeof none, &none) < 0 && errno == EINVAL);
    CPU_SET(CPU_SETSIZE - 1, &none);
    printf("a hart that is not there: %d\n",
           sched_setaffinity(0, sizeof none, &none) < 0 && errno == EINVAL);
    printf("no bytes: %d\n", sched_setaffinity(0, 0, &none) < 0 && errno == EINVAL);
    printf("a thread that is not there: %d\n",
           sched_setaffinity(0x3ffffff, sizeof allowed, &allowed) < 0 && errno == ESRCH);
    printf("too short: %d\n",
           syscall(SYS_sched_getaffinity, 0, 4, &here) < 0 && errno == EINVAL);
    cpu_set_t more = allowed;
    CPU_SET(CPU_SETSIZE - 1, &more);
    CPU_ZERO(&here);
    printf("of more than there are, those that are: %d\n",
           sched_setaffinity(0, sizeof more, &more) == 0 &&
               sched_getaffinity(0, sizeof here, &here) == 0 && CPU_EQUAL(&here, &allowed));
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 6;
    rounds = argc > 2 ? atol(argv[2]) : rounds;
    if (threads < 1 || threads > MOST_THREADS || rounds < 1) {
        fprintf(stderr, "usage: bound [THREADS] [ROUNDS]\n");
        return 2;
    }
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    refused();

    pthread_t joined[MOST_THREADS];
    for (int number = 0; number < threads; number++)
        pthread_create(&joined[number], NULL, body, (void *)(intptr_t)number);
    while (begun < threads)
        rest(1);
    long failed = 0;
    for (int number = 0; number < threads; number++) {
        told[number] = hart_for(number + 1);
        failed += bind_to(tids[number], told[number]) != 0;
    }
    /* At the latest when its time slice is over. */
    for (int round = 0; round < 50; round++)
        rest(0);
    rebound = 1;
    long elsewhere = 0;
    for (int number = 0; number < threads; number++) {
        void *result = NULL;
        pthread_join(joined[number], &result);
        elsewhere += (long)(intptr_t)result;
    }
    printf("%d threads: %ld not bound, %ld times elsewhere\n", threads, failed, elsewhere);

    int last = hart_for(CPU_COUNT(&allowed) - 1);
    printf("the first one: %d, at once: %d\n", bind_to(0, last) == 0, sched_getcpu() == last);
    printf("listed: %d\n", is_listed_on(last));
    printf("handed down: %d\n", handed_down(last));
    printf("everywhere again: %d\n", sched_setaffinity(0, sizeof allowed, &allowed) == 0);
    cpu_set_t here;
    CPU_ZERO(&here);
    printf("as before: %d\n",
           sched_getaffinity(0, sizeof here, &here) == 0 && CPU_EQUAL(&here, &allowed));
    return elsewhere != 0;
}
