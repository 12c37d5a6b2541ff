/* Clocks: none runs backwards, not over a power cut either, and sleeping is not CPU time.
 *
 *   clocks THREADS ROUNDS   THREADS threads read every clock ROUNDS times each, under a lock, with work,
 *                           naps and yields between; no reading may be below the last one
 *   clocks                  sleeps, and says whether that counted as CPU time anywhere
 *   clocks loop             how long one fixed loop takes by every clock, in nanoseconds
 *
 * The text of the first two is the same on every machine whose clocks are right.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 16, CLOCKS = 4 };

static const clockid_t clocks[CLOCKS] = {
    CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID};
static const char *const names[CLOCKS] = {"real time", "monotonic", "since boot", "process CPU"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last[CLOCKS], last_time_register, last_cycle_register;
static long threads;
static unsigned long readings;
static long rounds;

static uint64_t now_ns(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) {
        perror("clock_gettime");
        exit(1);
    }
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t cycle_register(void) {
    uint64_t value;
    __asm__ volatile("rdcycle %0" : "=r"(value));
    return value;
}

static uint64_t time_register(void) {
    uint64_t value;
    __asm__ volatile("rdtime %0" : "=r"(value));
    return value;
}

static void must_not_run_back(const char *name, uint64_t *before, uint64_t now) {
    if (now < *before) {
        printf("%s ran backwards: %llu after %llu\n", name, (unsigned long long)now,
               (unsigned long long)*before);
        exit(1);
    }
    *before = now;
}

static uint64_t work(unsigned long steps) {
    uint64_t value = steps | 1;
    for (unsigned long step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static void *read_all(void *unused) {
    (void)unused;
    uint64_t own = 0;
    for (long round = 0; round < rounds; round++) {
        must_not_run_back("thread CPU", &own, now_ns(CLOCK_THREAD_CPUTIME_ID));
        pthread_mutex_lock(&lock);
        for (int index = 0; index < CLOCKS; index++)
            must_not_run_back(names[index], &last[index], now_ns(clocks[index]));
        must_not_run_back("the time register", &last_time_register, time_register());
        if (threads == 1) /* each hart counts its own cycles */
            must_not_run_back("the cycle register", &last_cycle_register, cycle_register());
        readings++;
        pthread_mutex_unlock(&lock);
        work(200 + (unsigned long)round % 7 * 300);
        if (round % 50 == 49)
            usleep(10);
        else if (round % 10 == 9)
            sched_yield();
    }
    return NULL;
}

static uint64_t used_ns(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    uint64_t user = (uint64_t)usage.ru_utime.tv_sec * 1000000u + (uint64_t)usage.ru_utime.tv_usec;
    uint64_t kernel = (uint64_t)usage.ru_stime.tv_sec * 1000000u + (uint64_t)usage.ru_stime.tv_usec;
    return 1000 * (user + kernel);
}

static void *sleep_and_work(void *unused) {
    (void)unused;
    usleep(20000);
    work(20000);
    return NULL;
}

/* Sleeps of 300 ms in all, and work of far less. */
static void sleeping_is_no_work(void) {
    uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t used = used_ns(RUSAGE_SELF);
    clock_t ticks = clock();
    usleep(260000);
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_and_work, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(now_ns(CLOCK_PROCESS_CPUTIME_ID) < 15000000u ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("slept: %s\n", now_ns(CLOCK_MONOTONIC) - wall >= 300000000u ? "yes" : "no");
    printf("CPU time of the process: %s\n",
           now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 150000000u ? "little" : "too much");
    printf("by getrusage: %s\n", used_ns(RUSAGE_SELF) - used < 150000000u ? "little" : "too much");
    printf("by clock(): %s\n",
           (clock() - ticks) < CLOCKS_PER_SEC / 1000 * 150 ? "little" : "too much");
    printf("of the child: %s, it says %d\n",
           used_ns(RUSAGE_CHILDREN) < 150000000u ? "little" : "too much", WEXITSTATUS(status));
    clockid_t clock_of_parent;
    printf("clock of the process: %d\n", clock_getcpuclockid(getpid(), &clock_of_parent));
    uint64_t one = now_ns(clock_of_parent), other = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    printf("the same clock: %s\n", other - one < 50000000u ? "yes" : "no");
    struct timespec nap = {0, 1000};
    printf("no sleeping by one's own CPU time: %d\n",
           clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &nap, NULL) != 0);
}

static int loop(void) {
    uint64_t monotonic = now_ns(CLOCK_MONOTONIC), process = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t thread = now_ns(CLOCK_THREAD_CPUTIME_ID);
    work(1000000);
    printf("%llu %llu %llu\n", (unsigned long long)(now_ns(CLOCK_MONOTONIC) - monotonic),
           (unsigned long long)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - process),
           (unsigned long long)(now_ns(CLOCK_THREAD_CPUTIME_ID) - thread));
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "loop") == 0)
        return loop();
    if (count == 1) {
        sleeping_is_no_work();
        return 0;
    }
    threads = atol(arguments[1]);
    rounds = count > 2 ? atol(arguments[2]) : 0;
    if (threads < 1 || threads > MOST_THREADS || rounds < 1) {
        fprintf(stderr, "usage: clocks [THREADS ROUNDS | loop]\n");
        return 2;
    }
    pthread_t others[MOST_THREADS];
    for (long index = 0; index < threads; index++)
        pthread_create(&others[index], NULL, read_all, NULL);
    for (long index = 0; index < threads; index++)
        pthread_join(others[index], NULL);
    printf("%lu readings, none below the last\n", readings);
    return 0;
}
