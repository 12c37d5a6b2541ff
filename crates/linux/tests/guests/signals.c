/* Signals: handlers, masks, stacks, queues, interrupted calls. */
#include "facts.h"
#include <pthread.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile int seen[65], last_value, depth, depth_max, on_alternate;
static char stack[65536];

static void count(int signal) { seen[signal]++; }

static void inform(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    seen[signal]++;
    last_value = info->si_value.sival_int;
    char here;
    on_alternate = &here > stack && &here < stack + sizeof stack;
    printf("signal %d code %d value %d pc %s mask %lu\n", signal, info->si_code,
           signal >= SIGRTMIN ? last_value : 0, u->uc_mcontext.__gregs[0] ? "set" : "zero",
           u->uc_sigmask.__val[0]);
}

static void nested(int signal) {
    (void)signal;
    depth++;
    if (depth > depth_max) depth_max = depth;
    if (depth < 3) raise(SIGUSR1);
    depth--;
}

static void spoil(int signal) {
    (void)signal;
    volatile double x = 1.0;
    for (int i = 0; i < 20; i++) x = x * 1.5 + i;
    seen[0] = (int)x;
}

static pthread_t main_thread;
static int target_pipe[2];

static void *poke(void *what) {
    usleep(3000);
    pthread_kill(main_thread, SIGUSR2);
    if (what) {
        usleep(3000);
        if (write(target_pipe[1], "z", 1) != 1) abort();
    }
    return 0;
}

int main(void) {
    setvbuf(stdout, 0, _IOFBF, 1 << 16);
    main_thread = pthread_self();
    struct sigaction a = {0}, old;
    a.sa_handler = count;
    CALL(sigaction(SIGUSR1, &a, &old));
    FACT(old.sa_handler == SIG_DFL);
    CALL(sigaction(SIGKILL, &a, 0));
    CALL(syscall(SYS_rt_sigaction, 65, &a, 0, 8));
    raise(SIGUSR1);
    FACT(seen[SIGUSR1]);
    kill(getpid(), SIGUSR1);
    FACT(seen[SIGUSR1]);
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    FACT(seen[SIGUSR1]);
    sigpending(&pending);
    FACT(sigismember(&pending, SIGUSR1));
    sigprocmask(SIG_UNBLOCK, &set, 0);
    FACT(seen[SIGUSR1]);

    a.sa_sigaction = inform;
    a.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN, &a, 0);
    sigaction(SIGRTMIN + 1, &a, 0);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int i = 0; i < 3; i++) {
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 10 + i});
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 20 + i});
    }
    siginfo_t info;
    struct timespec none = {0, 0}, soon = {0, 2000000};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 1);
    CALL(sigtimedwait(&one, &info, &none) - SIGRTMIN);
    FACT(info.si_value.sival_int);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    FACT(seen[SIGRTMIN]);
    FACT(seen[SIGRTMIN + 1]);
    CALL(sigtimedwait(&one, &info, &soon));

    a.sa_handler = nested;
    a.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &a, 0);
    raise(SIGUSR1);
    FACT(depth_max);
    a.sa_handler = count;
    a.sa_flags = SA_RESETHAND;
    sigaction(SIGUSR1, &a, 0);
    raise(SIGUSR1);
    sigaction(SIGUSR1, 0, &old);
    FACT(old.sa_handler == SIG_DFL);

    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, present;
    CALL(sigaltstack(&alternate, 0));
    CALL(sigaltstack(0, &present));
    FACT(present.ss_sp == stack && present.ss_flags == 0);
    a.sa_sigaction = inform;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGRTMIN + 2, &a, 0);
    sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 5});
    FACT(on_alternate);
    alternate.ss_flags = SS_DISABLE;
    CALL(sigaltstack(&alternate, 0));
    alternate.ss_flags = 0;
    alternate.ss_size = 100;
    CALL(sigaltstack(&alternate, 0));
    on_alternate = 0;
    sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 6});
    FACT(on_alternate);

    double before[4] = {1.25, 2.5, 1e300, -0.0};
    a.sa_handler = spoil;
    a.sa_flags = 0;
    sigaction(SIGUSR1, &a, 0);
    double x = before[0], y = before[1], z = before[2] * 2;
    raise(SIGUSR1);
    FACT(x + y == 3.75 && z == 2e300);

    a.sa_handler = count;
    a.sa_flags = 0;
    sigaction(SIGUSR2, &a, 0);
    char b[4];
    if (pipe(target_pipe)) abort();
    pthread_t t;
    pthread_create(&t, 0, poke, 0);
    CALL(read(target_pipe[0], b, 1));
    pthread_join(t, 0);
    pthread_create(&t, 0, poke, 0);
    struct timespec long_time = {5, 0}, left = {0, 0};
    CALL(nanosleep(&long_time, &left));
    FACT(left.tv_sec);
    pthread_join(t, 0);
    pthread_create(&t, 0, poke, 0);
    CALL(pause());
    pthread_join(t, 0);
    a.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &a, 0);
    pthread_create(&t, 0, poke, b);
    CALL(read(target_pipe[0], b, 1));
    pthread_join(t, 0);
    pthread_create(&t, 0, poke, 0);
    long_time.tv_sec = 2;
    CALL(nanosleep(&long_time, 0));
    pthread_join(t, 0);
    FACT(seen[SIGUSR2]);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR2);
    FACT(seen[SIGUSR2]);
    sigset_t empty;
    sigemptyset(&empty);
    CALL(sigsuspend(&empty));
    FACT(seen[SIGUSR2]);
    pthread_sigmask(SIG_BLOCK, 0, &set);
    FACT(sigismember(&set, SIGUSR2));
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR2);
    sigpending(&pending);
    FACT(sigismember(&pending, SIGURG));
    CALL(kill(getpid(), 0));
    CALL(kill(99999, 0));
    CALL(syscall(SYS_tgkill, getpid(), 99999, SIGUSR1));
    CALL(kill(getpid(), 70));
    raise(SIGCHLD);
    raise(SIGURG);
    signal(SIGALRM, count);
    struct itimerval timer = {{0, 2000}, {0, 1000}};
    CALL(setitimer(ITIMER_REAL, &timer, 0));
    while (seen[SIGALRM] < 3) pause();
    struct itimerval was;
    timer.it_value.tv_usec = 0;
    CALL(setitimer(ITIMER_REAL, &timer, &was));
    FACT(was.it_interval.tv_usec);
    alarm(50);
    FACT(alarm(0));
    fflush(stdout);
    raise(SIGTERM);
    return 1;
}
