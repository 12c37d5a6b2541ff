/* Clocks and sleeping. */
#include "facts.h"
#include <sys/time.h>
#include <sys/times.h>

static long long now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) abort();
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
    long long last = now(CLOCK_MONOTONIC);
    int backwards = 0;
    for (int i = 0; i < 1000; i++) {
        long long next = now(CLOCK_MONOTONIC);
        backwards += next < last;
        last = next;
    }
    FACT(backwards);
    struct timespec t = {0, 5000000};
    long long before = now(CLOCK_MONOTONIC);
    CALL(nanosleep(&t, 0));
    FACT(now(CLOCK_MONOTONIC) - before >= 5000000);
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += 1;
    before = now(CLOCK_MONOTONIC);
    FACT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0));
    FACT(now(CLOCK_MONOTONIC) - before > 900000000);
    FACT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, 0));
    t.tv_nsec = 1000000000;
    CALL(nanosleep(&t, 0));
    t.tv_sec = -1;
    t.tv_nsec = 0;
    CALL(nanosleep(&t, 0));
    CALL(clock_gettime(99, &t));
    CALL(clock_getres(CLOCK_MONOTONIC, &t));
    FACT(t.tv_sec == 0 && t.tv_nsec == 1);
    FACT(now(CLOCK_REALTIME) > 1700000000LL * 1000000000);
    FACT(now(CLOCK_PROCESS_CPUTIME_ID) > 0);
    FACT(now(CLOCK_THREAD_CPUTIME_ID) > 0);
    struct timeval v;
    CALL(gettimeofday(&v, 0));
    FACT(v.tv_sec - time(0) >= -1 && v.tv_sec - time(0) <= 1);
    struct tms spent;
    WORKS(times(&spent));
    CALL(clock_settime(CLOCK_MONOTONIC, &t));
    return 0;
}
