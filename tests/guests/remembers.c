/*
 * End-to-end test: everything that a kernel remembers of its programs.
 *
 *   remembers
 *
 * It makes the kernel remember as much as one program can, says so, works for many epochs, and then asks
 * for every bit of it. Where the power was cut meanwhile, nothing may be different.
 *
 * Always true: what is printed is fixed; the exit status is 37 if everything was remembered, and 1 if
 * not. Nothing spins for something to happen: what is lost ends the program or leaves it asleep for ever.
 */
#include "remember.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

enum { LONG_BYTES = 100000 };

static int64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* ---- The process ----------------------------------------------------------------------------- */

static int home;
static volatile sig_atomic_t alarms, children, queued_value, queued_code, on_stack, interrupts;
static struct rusage children_before;

static void on_alarm(int signal) { alarms += signal == SIGALRM; }
static void on_child(int signal) { children += signal == SIGUSR1; }

static void on_queued(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    stack_t stack;
    sigaltstack(NULL, &stack);
    on_stack = (stack.ss_flags & SS_ONSTACK) != 0;
    queued_value = info->si_value.sival_int;
    queued_code = info->si_code;
}

static void on_interrupt(int signal) { interrupts += signal; }

static void action(int signal, void (*plain)(int), void (*full)(int, siginfo_t *, void *), int flags)
{
    struct sigaction made;
    memset(&made, 0, sizeof made);
    if (full)
        made.sa_sigaction = full;
    else
        made.sa_handler = plain;
    made.sa_flags = flags;
    sigaddset(&made.sa_mask, SIGWINCH);
    MUST(sigaction(signal, &made, NULL));
}

static void set_process(void)
{
    MUST(home = open(".", O_RDONLY | O_DIRECTORY));
    MUST(mkdir("inner", 0750));
    umask(027);
    struct rlimit limit = {200, 300};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    limit = (struct rlimit){1 << 20, 1 << 21};
    MUST(setrlimit(RLIMIT_CORE, &limit));
    MUST(prctl(PR_SET_DUMPABLE, 0));
    MUST(prctl(PR_SET_NAME, "memory"));
    action(SIGALRM, on_alarm, NULL, SA_RESTART);
    action(SIGUSR1, on_child, NULL, SA_RESTART | SA_NODEFER);
    action(SIGUSR2, NULL, on_queued, SA_SIGINFO | SA_ONSTACK);
    action(SIGHUP, on_interrupt, NULL, 0);
    signal(SIGQUIT, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGRTMIN);
    sigaddset(&blocked, SIGRTMIN + 1);
    sigaddset(&blocked, SIGRTMIN + 2);
    sigaddset(&blocked, SIGTSTP);
    MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
    /* Of the whole process, in this order. */
    MUST(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 11}));
    MUST(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 12}));
    struct itimerval timer = {{0, 40000}, {0, 40000}};
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

static void set_directory(void) { MUST(chdir("inner")); }

static void check_process(void)
{
    char path[PATH_MAX];
    SAME(getcwd(path, sizeof path) && strcmp(strrchr(path, '/'), "/inner") == 0);
    MUST(fchdir(home));
    SAME(umask(022) == 027);
    struct rlimit limit;
    SAME(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 200 && limit.rlim_max == 300);
    SAME(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 1 << 20 &&
         limit.rlim_max == 1 << 21);
    SAME(prctl(PR_GET_DUMPABLE) == 0);
    char name[16];
    SAME(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "memory") == 0);
    struct sigaction kept;
    SAME(sigaction(SIGUSR1, NULL, &kept) == 0 && kept.sa_handler == on_child &&
         (kept.sa_flags & (SA_RESTART | SA_NODEFER)) == (SA_RESTART | SA_NODEFER) &&
         sigismember(&kept.sa_mask, SIGWINCH) == 1);
    SAME(sigaction(SIGQUIT, NULL, &kept) == 0 && kept.sa_handler == SIG_IGN);
    SAME(kill(getpid(), SIGQUIT) == 0);
    sigset_t mask, waiting;
    SAME(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2) == 1 &&
         sigismember(&mask, SIGHUP) == 0);
    SAME(sigpending(&waiting) == 0 && sigismember(&waiting, SIGRTMIN + 1) == 1 &&
         sigismember(&waiting, SIGUSR2) == 0);
    sigemptyset(&waiting);
    sigaddset(&waiting, SIGRTMIN + 1);
    struct timespec none = {0, 0};
    siginfo_t info;
    SAME(sigtimedwait(&waiting, &info, &none) == SIGRTMIN + 1 && info.si_value.sival_int == 11 &&
         info.si_code == SI_QUEUE && info.si_pid == getpid());
    SAME(sigtimedwait(&waiting, &info, &none) == SIGRTMIN + 1 && info.si_value.sival_int == 12);
    struct itimerval timer;
    SAME(getitimer(ITIMER_REAL, &timer) == 0 && timer.it_interval.tv_usec == 40000 &&
         timer.it_value.tv_sec == 0 && timer.it_value.tv_usec > 0);
    for (int turn = 0; turn < 20 && alarms == 0; turn++)
        nap(5000);
    SAME(alarms > 0);
    memset(&timer, 0, sizeof timer);
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

/* ---- Threads ---------------------------------------------------------------------------------- */

static sem_t ready, go_on;
static pthread_mutex_t robust, inheriting;
static int wake, full[2], tty_read[2], named_pipe = -1;
static char alternate[32768];
static pid_t vforked, signalled;

enum { NEAREST = 0, TOWARDS_ZERO = 1, UPWARDS = 3, DIVISION_BY_ZERO = 8 };

/* For one thread; not every C library has a function for it. */
static long queue_to(pid_t thread, int signal, int value)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, signal, &info);
}


static unsigned long rounding(void)
{
    unsigned long mode;
    __asm__ volatile("frrm %0" : "=r"(mode));
    return mode;
}

static void set_rounding(unsigned long mode) { __asm__ volatile("fsrm %0" : : "r"(mode)); }

static unsigned long exceptions(void)
{
    unsigned long flags;
    __asm__ volatile("frflags %0" : "=r"(flags));
    return flags;
}

/* Off its hart, with registers of its own. */
static void *computes(void *unused)
{
    (void)unused;
    set_rounding(UPWARDS);
    __asm__ volatile("fsflags %0" : : "r"((unsigned long)DIVISION_BY_ZERO));
    volatile double one = 1, three = 3;
    register double kept __asm__("fs3") = one / three;
    __asm__ volatile("" : "+f"(kept));
    sem_post(&ready);
    while (sem_wait(&go_on) < 0) {
    }
    __asm__ volatile("" : "+f"(kept));
    SAME(rounding() == UPWARDS);
    SAME((exceptions() & DIVISION_BY_ZERO) != 0);
    SAME(one / three == kept);
    sem_post(&go_on);
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "sleeper");
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    struct timespec time = {0, 30000000};
    sem_post(&ready);
    while (nanosleep(&time, &time) < 0) {
    }
    SAME(now_ns(CLOCK_MONOTONIC) - begun >= 30000000);
    char name[16];
    SAME(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "sleeper") == 0);
    return NULL;
}

/* Waits with another mask than its own. */
static void *polls(void *unused)
{
    (void)unused;
    sigset_t inner;
    sigfillset(&inner);
    sigdelset(&inner, SIGHUP);
    struct pollfd what = {wake, POLLIN, 0};
    sem_post(&ready);
    int found = ppoll(&what, 1, NULL, &inner);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    SAME(found == 1 && what.revents == POLLIN);
    SAME(sigismember(&mask, SIGWINCH) == 0 && sigismember(&mask, SIGUSR2) == 1);
    return NULL;
}

/* Has written a part of it. */
static void *writes(void *unused)
{
    (void)unused;
    static char bytes[LONG_BYTES];
    memset(bytes, 'w', sizeof bytes);
    sem_post(&ready);
    ssize_t written = write(full[1], bytes, sizeof bytes);
    SAME(written == LONG_BYTES);
    close(full[1]);
    return NULL;
}

/* Ends with a lock. */
static void *locks(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&robust);
    sem_post(&ready);
    while (sem_wait(&go_on) < 0) {
    }
    sem_post(&go_on);
    return NULL;
}

static void *waits_for_lock(void *unused)
{
    (void)unused;
    sem_post(&ready);
    pthread_mutex_lock(&inheriting);
    pthread_mutex_unlock(&inheriting);
    return NULL;
}

static void *waits_for_signal(void *unused)
{
    (void)unused;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    siginfo_t info;
    signalled = own_number();
    sem_post(&ready);
    int taken = sigwaitinfo(&set, &info);
    SAME(taken == SIGRTMIN + 2 && info.si_value.sival_int == 21);
    return NULL;
}

/* Has a stack for signals, and a signal that waits. */
static void *has_signals(void *unused)
{
    (void)unused;
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    MUST(sigaltstack(&stack, NULL));
    MUST(queue_to(own_number(), SIGUSR2, 31));
    sem_post(&ready);
    while (sem_wait(&go_on) < 0) {
    }
    sem_post(&go_on);
    stack_t kept;
    sigaltstack(NULL, &kept);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    SAME(kept.ss_sp == alternate && kept.ss_size == sizeof alternate && kept.ss_flags == 0);
    SAME(queued_value == 31 && queued_code == SI_QUEUE && on_stack);
    return NULL;
}

static void *opens(void *unused)
{
    (void)unused;
    sem_post(&ready);
    named_pipe = open("fifo", O_RDONLY);
    return NULL;
}

static int vfork_pipe[2];

static void *vforks(void *unused)
{
    (void)unused;
    sem_post(&ready);
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        _exit(read(vfork_pipe[0], &byte, 1) == 1 ? byte : 1);
    }
    vforked = child;
    return NULL;
}

static void *reads_until(void *unused)
{
    (void)unused;
    char bytes[16];
    sem_post(&ready);
    ssize_t count = read(tty_read[0], bytes, sizeof bytes);
    SAME(count == 4 && memcmp(bytes, "woke", 4) == 0);
    return NULL;
}

static void *waits_timed(void *unused)
{
    (void)unused;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 30000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&own);
    sem_post(&ready);
    int ended = pthread_cond_timedwait(&never, &own, &until);
    pthread_mutex_unlock(&own);
    SAME(ended == ETIMEDOUT);
    return NULL;
}

static void *(*const bodies[])(void *) = {computes,         sleeps,      polls, writes, locks,
                                          waits_for_lock,   has_signals, opens, vforks,
                                          waits_for_signal, reads_until, waits_timed};

static void *begin(void *index)
{
    own = (int)(intptr_t)index;
    return bodies[own](NULL);
}

static void start(int index)
{
    pthread_create(&threads[index], NULL, begin, (void *)(intptr_t)index);
    while (sem_wait(&ready) < 0) {
    }
}

static void set_threads(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inheriting, &attributes);
    sem_init(&ready, 0, 0);
    sem_init(&go_on, 0, 0);
    MUST(wake = eventfd(0, 0));
    MUST(pipe(full));
    MUST(pipe(tty_read));
    MUST(pipe(vfork_pipe));
    MUST(mkfifo("fifo", 0600));
    pthread_mutex_lock(&inheriting);
    /* The first thread takes what is meant for all: a write that is interrupted ends early. */
    sigset_t mine, before;
    sigemptyset(&mine);
    sigaddset(&mine, SIGALRM);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mine, &before);
    for (size_t index = 0; index < sizeof bodies / sizeof bodies[0]; index++)
        start((int)index);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    set_rounding(TOWARDS_ZERO);
}

static void check_threads(void)
{
    SAME(rounding() == TOWARDS_ZERO);
    set_rounding(NEAREST);
    sem_post(&go_on);
    join(0);
    join(1);
    uint64_t one = 1;
    SAME(write(wake, &one, sizeof one) == sizeof one);
    join(2);
    char bytes[BLOCK];
    size_t count = 0;
    while (count < LONG_BYTES) { /* no end of file: a child has the other end as well */
        ssize_t got = read(full[0], bytes, sizeof bytes);
        MUST(got);
        count += (size_t)got;
    }
    join(3);
    SAME(count == LONG_BYTES);
    join(4);
    SAME(pthread_mutex_lock(&robust) == EOWNERDEAD);
    SAME(pthread_mutex_consistent(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    SAME(pthread_mutex_unlock(&inheriting) == 0);
    join(5);
    join(6);
    int end = open("fifo", O_WRONLY);
    join(7);
    SAME(write(end, "x", 1) == 1 && read(named_pipe, bytes, 1) == 1);
    SAME(write(vfork_pipe[1], "\x2a", 1) == 1);
    join(8);
    int status;
    SAME(waitpid(vforked, &status, 0) == vforked && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    SAME(queue_to(signalled, SIGRTMIN + 2, 21) == 0);
    join(9);
    SAME(write(tty_read[1], "woke", 4) == 4);
    join(10);
    join(11);
}

/* ---- Processes -------------------------------------------------------------------------------- */

static pid_t exited, killed, stopped, leader, cloned, waiter, gone_on;
static int tell[2], told[2];

static pid_t fork_waiting(int then)
{
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        char byte;
        close(tell[1]);
        _exit(read(tell[0], &byte, 1) == 0 ? then : 99);
    }
    return child;
}

static void set_processes(void)
{
    MUST(pipe(tell));
    MUST(pipe(told));
    int status;
    pid_t first = fork();
    if (first == 0) {
        work();
        _exit(1);
    }
    MUST(waitpid(first, &status, 0));
    MUST(getrusage(RUSAGE_CHILDREN, &children_before));
    MUST(exited = fork());
    if (exited == 0)
        _exit(23);
    MUST(killed = fork());
    if (killed == 0) {
        raise(SIGKILL);
    }
    siginfo_t info;
    MUST(waitid(P_PID, (id_t)exited, &info, WEXITED | WNOWAIT));
    MUST(waitid(P_PID, (id_t)killed, &info, WEXITED | WNOWAIT));
    MUST(leader = fork());
    if (leader == 0) {
        close(tell[1]);
        setsid();
        int file = open("locked", O_RDWR | O_CREAT, 0600);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
        char byte = fcntl(file, F_SETLK, &lock) == 0;
        lock = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 7};
        byte &= fcntl(file, F_SETLK, &lock) == 0;
        byte &= write(told[1], &byte, 1) == 1;
        _exit(read(tell[0], &byte, 1) == 0 ? 25 : 99);
    }
    char byte = 0;
    MUST(read(told[0], &byte, 1));
    cloned = (pid_t)syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
    if (cloned < 0) { /* as under qemu, whose children all end with SIGCHLD */
        MUST(cloned = fork());
        children = 1;
    }
    if (cloned == 0) {
        close(tell[1]);
        _exit(read(tell[0], &byte, 1) == 0 ? 26 : 99);
    }
    MUST(waiter = fork());
    if (waiter == 0) {
        close(tell[1]);
        fork_waiting(27);
        status = 0;
        _exit(wait(&status) > 0 && WEXITSTATUS(status) == 27 ? 27 : 99);
    }
    stopped = fork_waiting(24);
    MUST(kill(stopped, SIGSTOP));
    gone_on = fork_waiting(28);
    MUST(kill(gone_on, SIGSTOP));
    MUST(waitpid(gone_on, &status, WUNTRACED));
    MUST(kill(gone_on, SIGCONT));
}

static int ended(pid_t child, int flags, int with)
{
    int status;
    return waitpid(child, &status, flags) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == with;
}

static void check_processes(void)
{
    struct rusage children_now;
    SAME(getrusage(RUSAGE_CHILDREN, &children_now) == 0 &&
         children_now.ru_utime.tv_sec >= children_before.ru_utime.tv_sec &&
         children_now.ru_utime.tv_usec + children_now.ru_utime.tv_sec * 1000000 >=
             children_before.ru_utime.tv_usec + children_before.ru_utime.tv_sec * 1000000 &&
         children_now.ru_minflt >= children_before.ru_minflt);
    sigset_t waiting;
    SAME(sigpending(&waiting) == 0 && sigismember(&waiting, SIGCHLD) == 1);
    SAME(ended(exited, 0, 23));
    int status;
    SAME(waitpid(killed, &status, 0) == killed && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL);
    SAME(waitpid(stopped, &status, WUNTRACED | WNOHANG) == stopped && WIFSTOPPED(status) &&
         WSTOPSIG(status) == SIGSTOP);
    SAME(waitpid(gone_on, &status, WCONTINUED | WNOHANG) == gone_on && WIFCONTINUED(status));
    SAME(getsid(leader) == leader && getpgid(leader) == leader && getpgrp() == getpgid(0));
    SAME(getsid(stopped) == getsid(0) && getpgid(stopped) == getpgrp());
    int file = open("locked", O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    SAME(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == leader &&
         lock.l_start == 10 && lock.l_len == 5);
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 20, .l_len = 0};
    SAME(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK && lock.l_start == 100 &&
         lock.l_len == 7);
    SAME(kill(stopped, SIGCONT) == 0);
    close(tell[1]);
    SAME(ended(stopped, 0, 24));
    SAME(ended(gone_on, 0, 28));
    SAME(ended(leader, 0, 25));
    SAME(ended(cloned, __WALL, 26) && children == 1);
    SAME(ended(waiter, 0, 27));
}

/* ---- Files ------------------------------------------------------------------------------------ */

static int whole, shared_file, doubled, appends, quits, nameless, sparse, locked_file;
static char *mapped, *private_pages;
static DIR *listing;
static char listed[64];
static struct stat whole_before;

static void set_files(void)
{
    char block[BLOCK];
    memset(block, 'a', sizeof block);
    MUST(whole = open("whole", O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    for (int index = 0; index < 5; index++)
        MUST(write(whole, block, sizeof block));
    MUST(ftruncate(whole, 5 * BLOCK - 7));
    MUST(link("whole", "second name"));
    MUST(symlink("whole", "pointer"));
    MUST(fchmod(whole, 0640));
    struct timespec times[2] = {{1000000007, 5}, {1000000009, 6}};
    MUST(futimens(whole, times));
    MUST(lseek(whole, 1234, SEEK_SET));
    MUST(fstat(whole, &whole_before));
    MUST(shared_file = open("whole", O_RDONLY));
    MUST(read(shared_file, block, 100));
    MUST(doubled = dup(shared_file));
    MUST(appends = open("appended", O_WRONLY | O_CREAT | O_APPEND, 0600));
    MUST(write(appends, "one ", 4));
    MUST(quits = open("pointer", O_RDONLY | O_NONBLOCK));
    MUST(nameless = open("nameless", O_RDWR | O_CREAT, 0600));
    MUST(write(nameless, "still here", 10));
    MUST(unlink("nameless"));
    MUST(sparse = open("sparse", O_RDWR | O_CREAT, 0600));
    MUST(pwrite(sparse, "far", 3, 64 << 20));
    MUST(locked_file = open("flocked", O_RDWR | O_CREAT, 0600));
    MUST(flock(locked_file, LOCK_EX));
    MUST(mkdir("many", 0755));
    for (int index = 0; index < 40; index++) {
        char name[32];
        snprintf(name, sizeof name, "many/%d", index);
        MUST(close(open(name, O_WRONLY | O_CREAT, 0600)));
    }
    listing = opendir("many");
    MUST(listing ? 0 : -1);
    for (int index = 0; index < 5; index++)
        snprintf(listed, sizeof listed, "%.60s", readdir(listing)->d_name);
    mapped = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, whole, BLOCK);
    private_pages = mmap(NULL, 3 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[BLOCK + 3] = 'm';
    private_pages[5] = 'p';
    MUST(mprotect(private_pages + BLOCK, BLOCK, PROT_READ));
}

static void check_files(void)
{
    char block[BLOCK];
    struct stat now;
    SAME(lseek(whole, 0, SEEK_CUR) == 1234 && fcntl(whole, F_GETFD) == FD_CLOEXEC);
    SAME(fstat(whole, &now) == 0 && now.st_size == 5 * BLOCK - 7 && now.st_nlink == 2 &&
         (now.st_mode & 0777) == 0640 && now.st_ino == whole_before.st_ino);
    SAME(now.st_atim.tv_nsec == 5 || now.st_atim.tv_sec > 1000000009);
    SAME(now.st_mtim.tv_sec >= 1000000009 && now.st_ctim.tv_sec >= whole_before.st_ctim.tv_sec);
    SAME(lseek(shared_file, 7, SEEK_CUR) == 107 && lseek(doubled, 0, SEEK_CUR) == 107);
    SAME(pread(whole, block, sizeof block, 4 * BLOCK) == BLOCK - 7 && block[0] == 'a');
    SAME(pread(whole, block, 1, 2 * BLOCK + 3) == 1 && block[0] == 'm');
    SAME(write(appends, "two", 3) == 3 && (fcntl(appends, F_GETFL) & O_APPEND) != 0);
    int again = open("appended", O_RDONLY);
    SAME(read(again, block, sizeof block) == 7 && memcmp(block, "one two", 7) == 0);
    SAME((fcntl(quits, F_GETFL) & O_NONBLOCK) != 0);
    SAME(readlink("pointer", block, sizeof block) == 5 && memcmp(block, "whole", 5) == 0);
    SAME(pread(nameless, block, sizeof block, 0) == 10 && memcmp(block, "still here", 10) == 0);
    SAME(access("nameless", F_OK) < 0 && errno == ENOENT);
    SAME(fstat(sparse, &now) == 0 && now.st_size == (64 << 20) + 3 && now.st_blocks <= 16);
    SAME(pread(sparse, block, 8, 64 << 20) == 3 && memcmp(block, "far", 3) == 0);
    int other = open("flocked", O_RDWR);
    SAME(flock(other, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK);
    snprintf(block, sizeof block, "/proc/self/fd/%d", shared_file);
    char path[PATH_MAX] = "";
    SAME(readlink(block, path, sizeof path - 1) > 6 && strstr(path, "/whole") != NULL);
    int left = 0;
    while (readdir(listing))
        left++;
    SAME(left == 37);
    SAME(mapped[BLOCK + 3] == 'm' && mapped[0] == 'a' && private_pages[5] == 'p');
    private_pages[2 * BLOCK] = 'q';
    /* The kernel is asked to write where it may only read. */
    SAME(pread(whole, private_pages + BLOCK, 4, 0) < 0 && errno == EFAULT);
}

/* ---- Bytes on their way ----------------------------------------------------------------------- */

static int half_read[2], packets[2], counter, semaphore, epoll, timer_file, signal_file, watcher;
static int pair[2], datagrams[2], listener, client, watched;
static int64_t timer_due;

static void set_pipes(void)
{
    MUST(pipe2(half_read, O_NONBLOCK));
    MUST(write(half_read[1], "0123456789", 10));
    char bytes[16];
    MUST(read(half_read[0], bytes, 4));
    MUST(pipe2(packets, O_DIRECT));
    MUST(fcntl(packets[1], F_SETPIPE_SZ, 16 * BLOCK * 2));
    MUST(write(packets[1], "first", 5));
    MUST(write(packets[1], "second", 6));
    MUST(counter = eventfd(5, EFD_NONBLOCK));
    MUST(semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK));
    MUST(epoll = epoll_create1(0));
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 71}};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, half_read[0], &event));
    event = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 72}};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, packets[0], &event));
    event = (struct epoll_event){EPOLLIN, {.u64 = 73}};
    struct epoll_event events[4];
    MUST(epoll_wait(epoll, events, 4, 0) == 2 ? 0 : -1);
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event));
    MUST(timer_file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    struct itimerspec timer = {{0, 7000000}, {0, 20000000}};
    timer_due = now_ns(CLOCK_MONOTONIC) + 20000000;
    MUST(timerfd_settime(timer_file, 0, &timer, NULL));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    MUST(signal_file = signalfd(-1, &set, SFD_NONBLOCK));
    MUST(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 41}));
    MUST(watcher = inotify_init1(IN_NONBLOCK));
    MUST(mkdir("watched", 0755));
    MUST(watched = inotify_add_watch(watcher, "watched", IN_CREATE | IN_MOVE));
    close(open("watched/new", O_WRONLY | O_CREAT, 0600));
    MUST(rename("watched/new", "watched/old"));
    /* Sockets: bytes, a descriptor, options, an end, a caller. */
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(write(pair[0], "stream", 6));
    int size = 9000;
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    struct timeval limit = {2, 500000};
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    limit.tv_sec = 3;
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams));
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec text = {"with a file", 11};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &counter, sizeof counter);
    MUST(sendmsg(datagrams[0], &message, 0));
    MUST(write(datagrams[0], "alone", 5));
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    MUST(listener = socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address));
    MUST(listen(listener, 3));
    MUST(client = socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    MUST(write(client, "early", 5));
    MUST(shutdown(client, SHUT_WR));
}

static void check_pipes(void)
{
    char bytes[BLOCK];
    struct epoll_event events[4];
    int found = epoll_wait(epoll, events, 4, 0);
    SAME(found == 1 && events[0].data.u64 == 73 && events[0].events == EPOLLIN);
    struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.u64 = 74}};
    SAME(epoll_ctl(epoll, EPOLL_CTL_MOD, packets[0], &event) == 0);
    SAME(epoll_wait(epoll, events, 4, 0) == 2);
    SAME(read(half_read[0], bytes, sizeof bytes) == 6 && memcmp(bytes, "456789", 6) == 0);
    SAME(read(half_read[0], bytes, 1) < 0 && errno == EAGAIN);
    SAME(fcntl(packets[0], F_GETPIPE_SZ) == 16 * BLOCK * 2);
    SAME(read(packets[0], bytes, 3) == 3 && memcmp(bytes, "fir", 3) == 0);
    SAME(read(packets[0], bytes, sizeof bytes) == 6 && memcmp(bytes, "second", 6) == 0);
    uint64_t value = 0;
    SAME(read(counter, &value, sizeof value) == sizeof value && value == 5);
    SAME(read(semaphore, &value, sizeof value) == sizeof value && value == 1);
    SAME(read(semaphore, &value, sizeof value) == sizeof value &&
         read(semaphore, &value, sizeof value) == sizeof value &&
         read(semaphore, &value, sizeof value) < 0);
    struct signalfd_siginfo info;
    SAME(read(signal_file, &info, sizeof info) == sizeof info &&
         info.ssi_signo == (uint32_t)SIGRTMIN && info.ssi_int == 41);
    struct itimerspec timer;
    SAME(timerfd_gettime(timer_file, &timer) == 0 && timer.it_interval.tv_nsec == 7000000);
    struct pollfd due = {timer_file, POLLIN, 0};
    SAME(poll(&due, 1, 5000) == 1 && now_ns(CLOCK_MONOTONIC) >= timer_due);
    SAME(read(timer_file, &value, sizeof value) == sizeof value && value >= 1);
    close(timer_file);
    ssize_t length = read(watcher, bytes, sizeof bytes);
    const struct inotify_event *happened = (const void *)bytes;
    SAME(length > 0 && happened->wd == watched && happened->mask == IN_CREATE &&
         strcmp(happened->name, "new") == 0);
    const struct inotify_event *from = (const void *)(bytes + sizeof *happened + happened->len);
    const struct inotify_event *to = (const void *)((const char *)(from + 1) + from->len);
    SAME(from->mask == IN_MOVED_FROM && to->mask == IN_MOVED_TO && from->cookie == to->cookie &&
         strcmp(to->name, "old") == 0);
    close(open("watched/newer", O_WRONLY | O_CREAT, 0600));
    SAME(read(watcher, bytes, sizeof bytes) > 0 && strcmp(happened->name, "newer") == 0);
    SAME(read(pair[1], bytes, sizeof bytes) == 6 && memcmp(bytes, "stream", 6) == 0);
    struct timeval limit;
    socklen_t size = sizeof limit;
    SAME(getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0 && limit.tv_sec == 2 &&
         limit.tv_usec == 500000);
    SAME(getsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, &size) == 0 && limit.tv_sec == 3);
    int number = 0;
    size = sizeof number;
    SAME(getsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &number, &size) == 0 && number == 18000);
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec text = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    SAME(recvmsg(datagrams[1], &message, 0) == 11 && memcmp(bytes, "with a file", 11) == 0);
    int passed = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header)
        memcpy(&passed, CMSG_DATA(header), sizeof passed);
    value = 6;
    SAME(write(passed, &value, sizeof value) == sizeof value &&
         read(counter, &value, sizeof value) == sizeof value && value == 6);
    SAME(read(datagrams[1], bytes, sizeof bytes) == 5 && memcmp(bytes, "alone", 5) == 0);
    int accepted = accept(listener, NULL, NULL);
    SAME(read(accepted, bytes, sizeof bytes) == 5 && read(accepted, bytes, sizeof bytes) == 0);
    SAME(write(accepted, "late", 4) == 4 && read(client, bytes, sizeof bytes) == 4);
}

int main(void)
{
    int64_t began = now_ns(CLOCK_MONOTONIC), clock_began = now_ns(CLOCK_REALTIME);
    set_process();
    set_files();
    set_pipes();
    set_threads();
    set_processes();
    set_directory();
    nap(2000);
    printf("everything is there to be remembered\n");
    fflush(stdout);
    int64_t before = now_ns(CLOCK_MONOTONIC), cpu_before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t result = work();
    MUST(result == work() ? 0 : -1);
    SAME(now_ns(CLOCK_MONOTONIC) > before && before > began);
    SAME(now_ns(CLOCK_REALTIME) > clock_began);
    SAME(now_ns(CLOCK_PROCESS_CPUTIME_ID) > cpu_before);
    check_process();
    check_pipes();
    check_files();
    check_processes();
    check_threads();
    printf(wrong ? "something was forgotten\n" : "everything was remembered\n");
    return wrong ? 1 : DONE;
}
