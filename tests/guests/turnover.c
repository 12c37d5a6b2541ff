/*
 * End-to-end test: threads and processes that come, go, and become others, with hands full.
 *
 *   turnover SEED [DEPTH]
 *
 * Every one of them draws what it does: it takes something that the kernel remembers by threads, processes
 * or open files (wishes, restraints, owners, locks, timers, queues, what is watched), makes others, ends
 * alone, or calls execve, whichever thread it is. Where the power is cut meanwhile, what was saved must be
 * whole: recovery checks every part of it.
 *
 * Always true: what each draws follows from the seed and from its number. Calls that fail are as good as
 * others. The first process ends, whatever became of the rest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum {
    FILES = 64,
    LOCKS = 4,
    KEY = 77,
    THREAD_STACK = 1 << 16,
    LEVELS = 3,      /* threads and processes below each other */
    BECOMES = 4,     /* programs in a row */
    FIRST_ACTS = 120,
    BEST_EFFORT = 2 << 13,
};

static const char *self;
static uint64_t seed;
static int depth;
static __thread uint64_t state;
static __thread int level;
static int files[FILES];
static atomic_int files_count;
static pthread_mutex_t robust[LOCKS];
static uint32_t words[8];

static uint64_t bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int below(int count) { return (int)((bits() >> 11) % (uint64_t)count); }

static pid_t own_number(void) { return (pid_t)syscall(SYS_gettid); }

static void keep(int file)
{
    if (file < 0)
        return;
    int place = files_count++;
    if (place < FILES)
        files[place] = file;
    else
        close(file);
}

static int some_file(void)
{
    int count = files_count < FILES ? files_count : FILES;
    return count > 0 ? files[below(count)] : 0;
}

static int named_file(void)
{
    char name[8];
    snprintf(name, sizeof name, "f%d", below(6));
    int file = open(name, O_RDWR | O_CREAT, 0600);
    keep(file);
    return file;
}

/* ---- What a thread has ------------------------------------------------------------------------- */

static void wishes(void)
{
    struct sched_param none = {0};
    switch (below(5)) {
    case 0: setpriority(PRIO_PROCESS, 0, below(10)); break;
    case 1: syscall(SYS_ioprio_set, 1, 0, BEST_EFFORT | below(8)); break;
    case 2: prctl(PR_SET_PDEATHSIG, below(2) ? SIGUSR1 : 0); break;
    case 3: personality(below(2) ? ADDR_NO_RANDOMIZE : 0); break;
    default: sched_setscheduler(0, below(2) ? SCHED_BATCH : SCHED_OTHER, &none); break;
    }
}

static void restraints(void)
{
    switch (below(3)) {
    case 0: prctl(PR_SET_TIMERSLACK, below(1000), 0, 0, 0); break;
    case 1: prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); break;
    default: prctl(PR_SET_CHILD_SUBREAPER, below(2), 0, 0, 0); break;
    }
}

static void harts(void)
{
    cpu_set_t some;
    CPU_ZERO(&some);
    CPU_SET((unsigned)below(3), &some);
    CPU_SET((unsigned)below(3), &some);
    sched_setaffinity(below(3) ? 0 : getppid(), sizeof some, &some);
}

static void locks(void)
{
    if (below(2))
        pthread_mutex_trylock(&robust[below(LOCKS)]);
    struct timespec soon = {0, 1000};
    syscall(SYS_futex, &words[below(8)], below(2) ? FUTEX_WAIT : FUTEX_WAKE, 0, &soon, NULL, 0);
}

static void signals(void)
{
    switch (below(3)) {
    case 0: sigqueue(getpid(), SIGRTMIN + below(3), (union sigval){.sival_int = 3}); break;
    case 1: kill(getppid() > 1 ? getppid() : getpid(), SIGUSR1); break;
    default: setitimer(below(3), &(struct itimerval){{0, 3000}, {0, 3000}}, NULL); break;
    }
}

/* ---- What a process has open ------------------------------------------------------------------- */

static void owned(void)
{
    struct f_owner_ex owner = {below(3), below(2) ? own_number() : getpid()};
    int ends[2];
    int made = below(2) ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    if (made < 0)
        return;
    fcntl(ends[0], F_SETOWN_EX, &owner);
    fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    keep(ends[0]);
    keep(ends[1]);
}

static void polled(void)
{
    int instance = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}}, found;
    for (int number = 0; number < 4; number++) {
        event.events = below(2) ? EPOLLIN : EPOLLIN | EPOLLET | EPOLLONESHOT;
        epoll_ctl(instance, EPOLL_CTL_ADD, some_file(), &event);
    }
    epoll_wait(instance, &found, 1, 0);
    keep(instance);
}

static void told(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + below(3));
    switch (below(3)) {
    case 0: keep(eventfd((unsigned)below(3), EFD_NONBLOCK)); break;
    case 1: keep(signalfd(-1, &set, SFD_NONBLOCK)); break;
    default: {
        int watcher = inotify_init1(IN_NONBLOCK);
        inotify_add_watch(watcher, ".", IN_ALL_EVENTS);
        keep(watcher);
    }
    }
}

static void timers(void)
{
    struct itimerspec times = {{0, 1000000}, {0, 1 + below(1000000)}};
    if (below(2)) {
        int file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        timerfd_settime(file, 0, &times, NULL);
        keep(file);
        return;
    }
    struct sigevent notice = {.sigev_signo = SIGRTMIN + 2};
    notice.sigev_notify = below(2) ? SIGEV_SIGNAL : SIGEV_NONE;
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &notice, &timer) == 0)
        timer_settime(timer, 0, &times, NULL);
}

static void locked_files(void)
{
    int file = named_file();
    struct flock lock = {.l_type = below(2) ? F_WRLCK : F_RDLCK, .l_start = below(10), .l_len = 5};
    switch (below(3)) {
    case 0: flock(file, LOCK_SH | LOCK_NB); break;
    case 1: fcntl(file, F_SETLK, &lock); break;
    default: fcntl(file, F_OFD_SETLK, &lock); break;
    }
}

static void names(void)
{
    char from[8], to[8];
    snprintf(from, sizeof from, "f%d", below(6));
    snprintf(to, sizeof to, "g%d", below(6));
    switch (below(4)) {
    case 0: unlink(from); break;
    case 1: rename(from, to); break;
    case 2: fsetxattr(named_file(), "user.a", "b", 1, 0); break;
    default:
        mkfifo("fifo", 0600);
        keep(open("fifo", O_RDWR | O_NONBLOCK));
        break;
    }
}

static void terminals(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    keep(master);
    if (master < 0 || grantpt(master) || unlockpt(master) || below(2))
        return;
    const char *name = ptsname(master);
    if (name)
        keep(open(name, O_RDWR | O_NOCTTY | O_NONBLOCK));
}

static void requests(void)
{
    static char bytes[64];
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 4, &context) < 0)
        return;
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                           .aio_fildes = (uint32_t)named_file(),
                           .aio_buf = (uintptr_t)bytes,
                           .aio_nbytes = sizeof bytes};
    struct iocb *list[] = {&request};
    syscall(SYS_io_submit, context, 1, list);
    if (below(2))
        syscall(SYS_io_destroy, context);
}

static void closed(void) { close(below(2) ? some_file() : -1); }

/* ---- What processes share ---------------------------------------------------------------------- */

static void memory(void)
{
    enum { BYTES = 8192 };
    int file = memfd_create("sealed", MFD_ALLOW_SEALING);
    if (ftruncate(file, BYTES) == 0) {
        fcntl(file, F_ADD_SEALS, below(2) ? F_SEAL_SHRINK : F_SEAL_GROW);
        char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (bytes != MAP_FAILED)
            bytes[below(BYTES)] = 1;
    }
    keep(file);
    int segment = shmget(KEY + below(4), BYTES, IPC_CREAT | 0600);
    char *attached = shmat(segment, NULL, 0);
    if (attached != (char *)-1) {
        attached[below(BYTES)] = 2;
        if (below(2))
            shmdt(attached);
    }
    if (below(3) == 0)
        shmctl(segment, IPC_RMID, NULL);
    if (mlockall(below(2) ? MCL_FUTURE : MCL_CURRENT) == 0 && below(2))
        munlockall();
}

static void semaphores(void)
{
    int set = semget(KEY + below(4), 2, IPC_CREAT | 0600);
    struct sembuf change = {(unsigned short)below(2), (short)(1 - 2 * below(2)), SEM_UNDO | IPC_NOWAIT};
    semop(set, &change, 1);
    if (below(5) == 0)
        semctl(set, 0, IPC_RMID);
}

static void queues(void)
{
    struct {
        long type;
        char text[16];
    } message = {1, "text"};
    int queue = msgget(KEY + below(4), IPC_CREAT | 0600);
    msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT);
    if (below(5) == 0)
        msgctl(queue, IPC_RMID, NULL);
    char name[8];
    snprintf(name, sizeof name, "/q%d", below(3));
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 32};
    mqd_t posix = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &attributes);
    if (posix >= 0) {
        struct sigevent notice = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
        mq_send(posix, "text", 4, 1);
        mq_notify(posix, &notice);
        keep((int)posix);
    }
    if (below(4) == 0)
        mq_unlink(name);
}

static void groups(void)
{
    struct rlimit limit = {50 + (rlim_t)below(100), 200};
    switch (below(3)) {
    case 0: setsid(); break;
    case 1: setpgid(0, below(2) ? 0 : getpgid(getppid())); break;
    default: setrlimit(RLIMIT_NOFILE, &limit); break;
    }
}

/* ---- Coming, going, becoming ------------------------------------------------------------------- */

static void act(void);

static void begin(int own_level, uint64_t number)
{
    level = own_level;
    state = (seed * 77 + number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void *lives(void *number)
{
    begin((int)((uintptr_t)number & 15), (uintptr_t)number);
    for (int left = 10 + below(40); left > 0; left--)
        act();
    while (below(4) == 0)
        pause();
    return NULL;
}

static void thread(void)
{
    if (level == LEVELS)
        return;
    pthread_t made;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    uintptr_t number = (uintptr_t)(level + 1) | (uintptr_t)(bits() & 0xffff00);
    pthread_create(&made, &attributes, lives, (void *)number);
}

static void process(void)
{
    if (level == LEVELS || fork() != 0)
        return;
    begin(level + 1, (uint64_t)getpid());
    for (int left = below(30); left > 0; left--)
        act();
    if (below(2))
        pthread_exit(NULL);
    _exit(below(3));
}

static void another_program(void)
{
    if (level == 0 || depth == BECOMES || below(3))
        return;
    char own_seed[16], own_depth[16];
    snprintf(own_seed, sizeof own_seed, "%d", below(1000000));
    snprintf(own_depth, sizeof own_depth, "%d", depth + 1);
    execl(self, self, own_seed, own_depth, (char *)NULL);
}

static void gone(void)
{
    if (level > 1 && below(6) == 0)
        pthread_exit(NULL);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

static void asleep(void)
{
    struct timespec time = {0, below(200000)};
    nanosleep(&time, NULL);
}

static void act(void)
{
    static void (*const acts[])(void) = {
        wishes,       wishes, wishes,     restraints, restraints, harts,   locks,  signals,
        owned,        owned,  polled,     polled,     told,       timers,  timers, names,
        terminals,    memory, queues,     queues,     requests,   closed,  asleep, gone,
        locked_files, groups, semaphores, thread,     thread,     process, another_program,
    };
    acts[below((int)(sizeof acts / sizeof *acts))]();
}

static void nothing(int signal) { (void)signal; }

int main(int count, char **arguments)
{
    if (count < 2 || count > 3) {
        fprintf(stderr, "usage: turnover SEED [DEPTH]\n");
        return 2;
    }
    self = arguments[0];
    seed = strtoull(arguments[1], NULL, 10);
    depth = count > 2 ? atoi(arguments[2]) : 0;
    begin(0, (uint64_t)depth);
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    for (int signal = SIGHUP; signal <= SIGRTMAX; signal++) {
        if (signal != SIGCHLD && signal != SIGSEGV && signal != SIGABRT)
            sigaction(signal, &action, NULL);
    }
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (int place = 0; place < LOCKS; place++)
        pthread_mutex_init(&robust[place], &attributes);
    for (int left = depth ? FIRST_ACTS / 4 : FIRST_ACTS; left > 0; left--)
        act();
    if (depth == 0) {
        puts("the first process has ended");
        fflush(stdout);
    }
    _exit(0);
}
