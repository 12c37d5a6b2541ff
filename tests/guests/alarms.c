/*
 * End-to-end test: timers that signal, timers and signals that are read from files.
 *
 *   alarms
 *
 * Always true: what is printed is fixed, because it says in what order things come and whether they
 * are late enough, never when they come.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum { MILLISECOND = 1000000 };

static volatile sig_atomic_t seen, last_value, last_code;
static volatile int last_overrun;

static int64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    seen++;
    last_code = info->si_code;
    last_value = info->si_value.sival_int;
    last_overrun = info->si_overrun;
}

static struct itimerspec setting(long value, long interval)
{
    struct itimerspec setting = {{0, interval * MILLISECOND}, {0, value * MILLISECOND}};
    return setting;
}

static int ready(int file)
{
    struct pollfd entry = {file, POLLIN, 0};
    return poll(&entry, 1, 0);
}

static void timer_files(void)
{
    puts("-- timers that are files");
    uint64_t count = 0;
    int file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    EXPECT(file >= 0 && fcntl(file, F_GETFD) == FD_CLOEXEC);
    CALL(read(file, &count, 8));
    CALL(read(file, &count, 7));
    CALL(write(file, &count, 8));
    struct itimerspec once = setting(4, 0), found, often = setting(2, 2);
    CALL(timerfd_gettime(file, &found));
    EXPECT(found.it_value.tv_nsec == 0 && found.it_interval.tv_nsec == 0);
    int64_t start = now(CLOCK_MONOTONIC);
    CALL(timerfd_settime(file, 0, &once, NULL));
    CALL(timerfd_gettime(file, &found));
    EXPECT(found.it_value.tv_nsec > 0 && found.it_value.tv_nsec <= 4 * MILLISECOND);
    EXPECT(ready(file) == 0);
    struct pollfd entry = {file, POLLIN, 0};
    CALL(poll(&entry, 1, -1));
    EXPECT(now(CLOCK_MONOTONIC) - start >= 4 * MILLISECOND);
    CALL(read(file, &count, 8));
    EXPECT(count == 1);
    CALL(read(file, &count, 8));
    CALL(timerfd_settime(file, 0, &often, &found));
    EXPECT(found.it_value.tv_nsec == 0);
    moment(11);
    CALL(read(file, &count, 8));
    EXPECT(count >= 5);
    fcntl(file, F_SETFL, 0);
    CALL(read(file, &count, 8));
    EXPECT(count >= 1);
    once = setting(0, 0);
    CALL(timerfd_settime(file, 0, &once, &found));
    EXPECT(found.it_interval.tv_nsec == 2 * MILLISECOND);

    int real = timerfd_create(CLOCK_REALTIME, 0), set = epoll_create1(0);
    start = now(CLOCK_REALTIME) + 3 * MILLISECOND;
    struct itimerspec later = {{0, 0}, {start / 1000000000, start % 1000000000}};
    CALL(timerfd_settime(real, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, NULL));
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 5}};
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, real, &event));
    CALL(epoll_wait(set, &event, 1, -1));
    EXPECT(now(CLOCK_REALTIME) >= start);
    CALL(epoll_wait(set, &event, 1, 0));
    CALL(read(real, &count, 8));
    later.it_value.tv_sec = 1;
    CALL(timerfd_settime(real, TFD_TIMER_ABSTIME, &later, NULL));
    CALL(epoll_wait(set, &event, 1, -1));
    pid_t child = fork();
    if (child == 0) {
        _exit(read(real, &count, 8) == 8 && count == 1 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(ready(real) == 0);
    later.it_value.tv_nsec = 1000000000;
    CALL(timerfd_settime(real, 0, &later, NULL));
    CALL(timerfd_settime(set, 0, &once, NULL));
    CALL(timerfd_create(CLOCK_THREAD_CPUTIME_ID, 0));
    close(file);
    close(real);
    close(set);
}

static void signal_files(void)
{
    puts("-- signals that are read");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int file = signalfd(-1, &set, SFD_NONBLOCK);
    EXPECT(file >= 0 && ready(file) == 0);
    struct signalfd_siginfo found[4];
    CALL(read(file, found, sizeof found));
    CALL(read(file, found, 100));
    CALL(write(file, found, sizeof found[0]));
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    EXPECT(ready(file) == 1);
    for (int i = 1; i <= 2; i++) {
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 40 + i});
    }
    EXPECT(read(file, found, sizeof found) == 3 * sizeof found[0]);
    EXPECT(found[0].ssi_signo == SIGUSR1 && found[0].ssi_code == SI_USER);
    EXPECT(found[0].ssi_pid == (uint32_t)getpid() && found[0].ssi_uid == getuid());
    EXPECT(found[1].ssi_signo == (uint32_t)SIGRTMIN + 1 && found[1].ssi_int == 41);
    EXPECT(found[2].ssi_int == 42 && found[2].ssi_code == SI_QUEUE);
    fcntl(file, F_SETFL, 0);
    pid_t child = fork();
    if (child == 0) {
        moment(3);
        _exit(12);
    }
    CALL(read(file, found, sizeof found));
    EXPECT(found[0].ssi_signo == SIGCHLD && found[0].ssi_code == CLD_EXITED);
    EXPECT(found[0].ssi_pid == (uint32_t)child && found[0].ssi_status == 12);
    waitpid(child, NULL, 0);
    sigdelset(&set, SIGUSR1);
    EXPECT(signalfd(file, &set, 0) == file);
    kill(getpid(), SIGUSR1);
    EXPECT(ready(file) == 0);
    sigaddset(&set, SIGUSR1);
    EXPECT(signalfd(file, &set, 0) == file);
    EXPECT(ready(file) == 1);
    int poller = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u32 = 6}};
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, file, &event));
    CALL(epoll_wait(poller, &event, 1, -1));
    EXPECT(read(file, found, sizeof found) == sizeof found[0]);
    CALL(epoll_wait(poller, &event, 1, 0));
    CALL(signalfd(poller, &set, 0));
    close(poller);
    close(file);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void *take_signal(void *timer_count)
{
    (void)timer_count;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    siginfo_t info;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
    event.sigev_value.sival_int = 77;
#ifdef sigev_notify_thread_id
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
#else
    event._sigev_un._tid = (int)syscall(SYS_gettid);
#endif
    timer_t timer;
    struct itimerspec soon = setting(2, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL)) {
        return (void *)"no timer";
    }
    int signal = sigwaitinfo(&set, &info);
    timer_delete(timer);
    return signal == SIGUSR2 && info.si_value.sival_int == 77 && info.si_code == SI_TIMER
               ? (void *)"its own signal"
               : (void *)"something else";
}

static void in_a_thread(union sigval value)
{
    if (write(value.sival_int, "t", 1) != 1) {
        abort();
    }
}

static void posix_timers(void)
{
    puts("-- timers of POSIX");
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 2, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
    event.sigev_value.sival_int = 31;
    timer_t timer, none;
    CALL(timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec soon = setting(3, 0), often = setting(2, 2), found;
    CALL(timer_settime(timer, 0, &soon, NULL));
    CALL(timer_gettime(timer, &found));
    EXPECT(found.it_value.tv_nsec > 0 && found.it_value.tv_nsec <= 3 * MILLISECOND);
    while (seen == 0) {
        pause();
    }
    EXPECT(seen == 1 && last_code == SI_TIMER && last_value == 31 && last_overrun == 0);
    CALL(timer_gettime(timer, &found));
    EXPECT(found.it_value.tv_nsec == 0);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CALL(timer_settime(timer, 0, &often, NULL));
    moment(11);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    EXPECT(seen >= 2 && last_overrun <= 20);
    struct itimerspec never = setting(0, 0);
    CALL(timer_settime(timer, 0, &never, &found));
    EXPECT(found.it_interval.tv_nsec == 2 * MILLISECOND && found.it_value.tv_nsec > 0);
    CALL(timer_getoverrun(timer) >= 0);

    sigprocmask(SIG_BLOCK, &set, NULL);
    int64_t at = now(CLOCK_REALTIME) + 2 * MILLISECOND;
    struct itimerspec then = {{0, MILLISECOND}, {at / 1000000000, at % 1000000000}};
    timer_t real;
    event.sigev_value.sival_int = 32;
    CALL(timer_create(CLOCK_REALTIME, &event, &real));
    CALL(timer_settime(real, TIMER_ABSTIME, &then, NULL));
    moment(10);
    siginfo_t info;
    EXPECT(sigwaitinfo(&set, &info) == SIGRTMIN + 2 && info.si_value.sival_int == 32);
    EXPECT(now(CLOCK_REALTIME) >= at && info.si_overrun >= 5);
    EXPECT(timer_getoverrun(real) == info.si_overrun);
    CALL(timer_delete(real));
    sigprocmask(SIG_UNBLOCK, &set, NULL);

    event.sigev_notify = SIGEV_NONE;
    CALL(timer_create(CLOCK_MONOTONIC, &event, &none));
    soon = setting(500, 0);
    CALL(timer_settime(none, 0, &soon, NULL));
    CALL(timer_gettime(none, &found));
    EXPECT(found.it_value.tv_nsec > 0);
    CALL(timer_delete(none));

    seen = 0;
    CALL(timer_create(CLOCK_MONOTONIC, NULL, &none));
    soon = setting(1, 0);
    CALL(timer_settime(none, 0, &soon, NULL));
    while (seen == 0) {
        pause();
    }
    EXPECT(seen == 1 && last_code == SI_TIMER);
    CALL(timer_delete(none));

    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR2);
    sigprocmask(SIG_BLOCK, &user, NULL);
    pthread_t thread;
    void *what;
    pthread_create(&thread, NULL, take_signal, NULL);
    pthread_join(thread, &what);
    printf("a thread gets %s\n", (const char *)what);

    int ends[2];
    if (pipe(ends)) {
        exit(2);
    }
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = in_a_thread;
    event.sigev_notify_attributes = NULL;
    event.sigev_value.sival_int = ends[1];
    CALL(timer_create(CLOCK_MONOTONIC, &event, &none));
    often = setting(1, 1);
    CALL(timer_settime(none, 0, &often, NULL));
    char letters[3] = {0};
    for (int i = 0; i < 3; i++) {
        if (read(ends[0], letters + i, 1) != 1) {
            exit(2);
        }
    }
    EXPECT(memcmp(letters, "ttt", 3) == 0);
    CALL(timer_delete(none));

    soon = setting(50, 0);
    CALL(timer_settime(timer, 0, &soon, NULL));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(timer_gettime(timer, &found) == -1 && errno == EINVAL ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CALL(timer_delete(timer));
    CALL(timer_gettime(timer, &found));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = 0;
    CALL(timer_create(12345, NULL, &timer));
}

static void work_until_seen(void)
{
    volatile unsigned long work = 0;
    while (seen == 0) {
        work++;
    }
}

static void cpu_time(void)
{
    puts("-- timers of CPU time");
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGVTALRM, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    struct itimerval soon = {{0, 0}, {0, 5000}}, found;
    for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
        seen = 0;
        int64_t start = now(CLOCK_PROCESS_CPUTIME_ID);
        CALL(setitimer(which, &soon, NULL));
        getitimer(which, &found);
        EXPECT(found.it_value.tv_sec == 0 && found.it_value.tv_usec > 0);
        work_until_seen();
        EXPECT(seen == 1);
        EXPECT(now(CLOCK_PROCESS_CPUTIME_ID) - start >= 4 * MILLISECOND);
        getitimer(which, &found);
        EXPECT(found.it_value.tv_usec == 0);
    }
    seen = 0;
    soon.it_value.tv_usec = 1000;
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    getitimer(ITIMER_REAL, &found);
    EXPECT(found.it_value.tv_usec == 0);
    work_until_seen();
    EXPECT(seen == 1);
    clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int i = 0; i < 2; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
        timer_t timer;
        seen = 0;
        CALL(timer_create(clocks[i], &event, &timer));
        struct itimerspec spec = setting(3, 0);
        int64_t start = now(clocks[i]);
        CALL(timer_settime(timer, 0, &spec, NULL));
        work_until_seen();
        EXPECT(now(clocks[i]) - start >= 3 * MILLISECOND);
        CALL(timer_delete(timer));
    }
    soon.it_value.tv_usec = 1000000;
    CALL(setitimer(ITIMER_PROF, &soon, NULL));
    CALL(setitimer(3, &soon, NULL));
}

int main(void)
{
    timer_files();
    signal_files();
    posix_timers();
    cpu_time();
    return 0;
}
