/* Threads: more of them than harts; mutexes, conditions, barriers, futex operations. */
#include "facts.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 24, ROUNDS = 400 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static long counter, whose;
static _Atomic long atomic_counter;
static __thread long own;
static uint32_t word, other;

static long futex(uint32_t *at, int operation, uint32_t value, void *fourth, uint32_t *second,
                  uint32_t sixth) {
    return syscall(SYS_futex, at, operation, value, fourth, second, sixth);
}

static void *work(void *argument) {
    long me = (long)argument;
    own = me;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        counter += me;
        pthread_mutex_unlock(&mutex);
        atomic_counter++;
        if (i % 16 == 0) {
            pthread_rwlock_rdlock(&rwlock);
            pthread_rwlock_unlock(&rwlock);
            sched_yield();
        }
    }
    for (int round = 0; round < 3; round++) {
        pthread_mutex_lock(&mutex);
        while (whose % THREADS != me) pthread_cond_wait(&turn, &mutex);
        whose++;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&mutex);
    }
    sem_post(&semaphore);
    return (void *)(own * 2);
}

static void *waiter(void *argument) {
    uint32_t bits = (uint32_t)(uintptr_t)argument;
    long result = bits ? futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, 0, bits)
                       : futex(&word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    return (void *)(result == 0 ? 0 : (long)errno);
}

static void *exits(void *unused) {
    (void)unused;
    pthread_exit((void *)77);
}

int main(void) {
    pthread_t t[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS);
    sem_init(&semaphore, 0, 0);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) sem_wait(&semaphore);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(t[i], &result);
        sum += (long)result;
    }
    FACT(counter);
    FACT(atomic_counter);
    FACT(whose);
    FACT(sum);
    FACT(own);
    void *result;
    pthread_create(&t[0], 0, exits, 0);
    pthread_join(t[0], &result);
    FACT((long)result);

    struct timespec soon = {0, 1000000};
    CALL(futex(&word, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0));
    CALL(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, 0, 0));
    CALL(futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0, 0, 0, 0));
    CALL(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, 0, 0));
    soon.tv_nsec = 2000000000;
    CALL(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, 0, 0));
    CALL(futex(&word, FUTEX_WAKE_PRIVATE, 5, 0, 0, 0));
    for (long i = 0; i < 6; i++) pthread_create(&t[i], 0, waiter, 0);
    usleep(20000);
    CALL(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2L, &other, 9));
    CALL(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2L, &other, 0));
    CALL(futex(&other, FUTEX_WAKE_PRIVATE, 10, 0, 0, 0));
    word = 0;
    CALL(futex(&other, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, &word,
               FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)));
    FACT(word);
    CALL(futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0));
    for (int i = 0; i < 6; i++) {
        pthread_join(t[i], &result);
        FACT((long)result);
    }
    word = 0;
    pthread_create(&t[0], 0, waiter, (void *)1L);
    pthread_create(&t[1], 0, waiter, (void *)2L);
    usleep(20000);
    CALL(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 4));
    CALL(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 2));
    CALL(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, 0, 0, 3));
    pthread_join(t[0], 0);
    pthread_join(t[1], 0);

    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_nsec += 1000000;
    if (when.tv_nsec >= 1000000000) {
        when.tv_nsec -= 1000000000;
        when.tv_sec++;
    }
    pthread_mutex_lock(&mutex);
    FACT(pthread_cond_timedwait(&turn, &mutex, &when));
    pthread_mutex_unlock(&mutex);
    FACT(pthread_mutex_trylock(&mutex));
    FACT(pthread_mutex_trylock(&mutex) == EBUSY);
    FACT(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
    FACT(syscall(SYS_gettid) == getpid());
    fflush(stdout);
    syscall(SYS_exit, 9);
    return 0;
}
