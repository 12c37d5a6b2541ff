/* Waiting for one of several futexes, and for being moved to a mutex. futexes.txt has the facts as Linux
 * states them (qemu-user has not all of these calls). */
#include "facts.h"
#include <linux/futex.h>
#include <pthread.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum { U32 = 2, PRIVATE = 128 };
struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static uint32_t words[4];
static int heard;

static long futex(uint32_t *word, int operation, uint32_t value, uint64_t more, uint32_t *second,
                  uint32_t third)
{
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, more, second, third);
}

static void fill(struct waiter *list)
{
    for (int index = 0; index < 4; index++)
        list[index] = (struct waiter){words[index], (uintptr_t)&words[index], U32 | PRIVATE, 0};
}

/* Until the other thread sleeps. */
static void let_sleep(void)
{
    struct timespec time = {0, 50000000};
    nanosleep(&time, NULL);
}

static void hear(int signal)
{
    (void)signal;
    heard++;
}

static void *wait_for_any(void *argument)
{
    struct waiter list[4];
    fill(list);
    return (void *)syscall(SYS_futex_waitv, list, 4, 0, argument, CLOCK_MONOTONIC);
}

static long result_of(pthread_t thread)
{
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, argument);
    let_sleep();
    return thread;
}

static void several(void)
{
    struct waiter list[4];
    struct timespec past = {0, 1};
    fill(list);
    CALL(syscall(SYS_futex_waitv, list, 0, 0, NULL, 0));
    CALL(syscall(SYS_futex_waitv, list, 129, 0, NULL, 0));
    CALL(syscall(SYS_futex_waitv, list, 4, 1, NULL, 0));
    CALL(syscall(SYS_futex_waitv, NULL, 4, 0, NULL, 0));
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &past, 7));
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &past, CLOCK_MONOTONIC));
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &past, CLOCK_REALTIME));
    list[2].value = 9;
    CALL(syscall(SYS_futex_waitv, list, 4, 0, NULL, 0));
    fill(list);
    list[1].flags = PRIVATE;
    CALL(syscall(SYS_futex_waitv, list, 4, 0, NULL, 0));
    fill(list);
    list[1].reserved = 1;
    CALL(syscall(SYS_futex_waitv, list, 4, 0, NULL, 0));
    fill(list);
    list[3].address += 2;
    CALL(syscall(SYS_futex_waitv, list, 4, 0, NULL, 0));
    list[3].address = 16;
    CALL(syscall(SYS_futex_waitv, list, 4, 0, NULL, 0));

    pthread_t thread = start(wait_for_any, NULL);
    CALL(futex(&words[2], FUTEX_WAKE, 1, 0, NULL, 0));
    FACT(result_of(thread));
    CALL(futex(&words[0], FUTEX_WAKE, 9, 0, NULL, 0));
    /* Moved to another futex, it still knows which one it was. */
    uint32_t elsewhere = 0;
    thread = start(wait_for_any, NULL);
    CALL(futex(&words[3], FUTEX_CMP_REQUEUE, 0, 9, &elsewhere, 0));
    CALL(futex(&words[3], FUTEX_WAKE, 1, 0, NULL, 0));
    CALL(futex(&elsewhere, FUTEX_WAKE, 1, 0, NULL, 0));
    FACT(result_of(thread));
    /* A time, and a signal. */
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 20000000;
    fill(list);
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &soon, CLOCK_MONOTONIC));
    struct sigaction action = {.sa_handler = hear};
    sigaction(SIGALRM, &action, NULL);
    struct timespec later = {soon.tv_sec + 100, 0};
    ualarm(20000, 0);
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &later, CLOCK_MONOTONIC));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_sec += 1;
    ualarm(20000, 0);
    CALL(syscall(SYS_futex_waitv, list, 4, 0, &soon, CLOCK_MONOTONIC));
    FACT(heard);
}

static uint32_t condition, mutex;
static int order;

static void *wait_to_be_moved(void *argument)
{
    long result = futex(&condition, FUTEX_WAIT_REQUEUE_PI, 0, 0, &mutex, 0);
    if (result == 0) {
        int owns = (mutex & FUTEX_TID_MASK) == (uint32_t)gettid();
        order = order * 10 + *(int *)argument * owns;
        futex(&mutex, FUTEX_UNLOCK_PI, 0, 0, NULL, 0);
    }
    return (void *)result;
}

static void moved(void)
{
    int names[] = {1, 2, 3};
    pthread_t threads[3];
    struct timespec past = {0, 1};
    CALL(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 1, 0, &mutex, 0));
    CALL(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 0, 0, &condition, 0));
    CALL(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 0, (uintptr_t)&past, &mutex, 0));
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 9, &mutex, 1));
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 2, 9, &mutex, 0));
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 9, &condition, 0));
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 9, &mutex, 0));
    /* Nobody has the mutex: the first one gets it. */
    for (int index = 0; index < 3; index++)
        threads[index] = start(wait_to_be_moved, &names[index]);
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 9, &words[0], 0));
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 9, &mutex, 0));
    for (int index = 0; index < 3; index++)
        FACT(result_of(threads[index]));
    FACT(order);
    FACT(mutex);
    /* Somebody has it: all wait, and some are left behind. */
    order = 0;
    CALL(futex(&mutex, FUTEX_LOCK_PI, 0, 0, NULL, 0));
    for (int index = 0; index < 3; index++)
        threads[index] = start(wait_to_be_moved, &names[index]);
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 1, &mutex, 0));
    let_sleep();
    FACT(order);
    FACT((mutex & FUTEX_WAITERS) != 0);
    CALL(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, 0, &mutex, 0));
    CALL(futex(&mutex, FUTEX_UNLOCK_PI, 0, 0, NULL, 0));
    for (int index = 0; index < 3; index++)
        FACT(result_of(threads[index]));
    FACT(order);
    FACT(mutex);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    several();
    moved();
}
