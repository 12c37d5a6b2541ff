// Mutexes whose owners are gone or hand them on, and wishes: what qemu does not know.
#include "facts.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>

struct shared {
    pthread_mutex_t mutex[3];
    int value;
};
static struct shared *common;

static void make_mutex(pthread_mutex_t *mutex, int protocol)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&kind, protocol);
    pthread_mutex_init(mutex, &kind);
}

static void *keeps(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

static void *kept_while_killed(void *mutex)
{
    pthread_mutex_lock(mutex);
    common->value = 1;
    while (pause())
        ;
    return NULL;
}

static int status_of(pid_t child)
{
    int how;
    waitpid(child, &how, 0);
    return how;
}

static void owners(const char *name, int protocol)
{
    printf("%s\n", name);
    for (int i = 0; i < 3; i++)
        make_mutex(&common->mutex[i], protocol);
    // A thread ends with it.
    pthread_t thread;
    pthread_create(&thread, NULL, keeps, &common->mutex[0]);
    pthread_join(thread, NULL);
    FACT(pthread_mutex_trylock(&common->mutex[0]) == EOWNERDEAD);
    FACT(pthread_mutex_consistent(&common->mutex[0]));
    FACT(pthread_mutex_unlock(&common->mutex[0]));
    FACT(pthread_mutex_lock(&common->mutex[0]));
    // A process ends with it, and another one waits.
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&common->mutex[1]);
        common->value = 2;
        usleep(2000);
        _exit(3);
    }
    while (*(volatile int *)&common->value != 2)
        usleep(100);
    FACT(pthread_mutex_lock(&common->mutex[1]) == EOWNERDEAD);
    pthread_mutex_consistent(&common->mutex[1]);
    FACT(pthread_mutex_unlock(&common->mutex[1]));
    FACT(WEXITSTATUS(status_of(child)));
    // A second thread of a process that is killed has it; two wait.
    common->value = 0;
    child = fork();
    if (child == 0) {
        pthread_create(&thread, NULL, kept_while_killed, &common->mutex[2]);
        for (;;)
            pause();
    }
    while (!*(volatile int *)&common->value)
        usleep(100);
    pid_t waiter = fork();
    if (waiter == 0) {
        int answer = pthread_mutex_lock(&common->mutex[2]);
        if (answer == EOWNERDEAD)
            pthread_mutex_consistent(&common->mutex[2]);
        pthread_mutex_unlock(&common->mutex[2]);
        _exit(answer == EOWNERDEAD ? 4 : answer);
    }
    usleep(1000);
    kill(child, SIGKILL);
    FACT(WEXITSTATUS(status_of(waiter)));
    FACT(WTERMSIG(status_of(child)));
    FACT(pthread_mutex_lock(&common->mutex[2]));
    FACT(pthread_mutex_unlock(&common->mutex[2]));
    // Nobody is sane any more.
    pthread_create(&thread, NULL, keeps, &common->mutex[2]);
    pthread_join(thread, NULL);
    FACT(pthread_mutex_lock(&common->mutex[2]) == EOWNERDEAD);
    FACT(pthread_mutex_unlock(&common->mutex[2]));
    FACT(pthread_mutex_lock(&common->mutex[2]) == ENOTRECOVERABLE);
    // What execve leaves behind.
    child = fork();
    if (child == 0) {
        pthread_mutex_lock(&common->mutex[1]);
        execl("/proc/self/exe", "owners", "nothing", NULL);
    }
    FACT(WEXITSTATUS(status_of(child)));
    FACT(pthread_mutex_lock(&common->mutex[1]) == EOWNERDEAD);
}

static pthread_mutex_t inheriting;
static volatile long total;

static void *adds(void *unused)
{
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&inheriting);
        long old = total;
        if (i % 50 == 0)
            sched_yield();
        total = old + 1;
        pthread_mutex_unlock(&inheriting);
    }
    return unused;
}

static void priority_inheritance(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&inheriting, &kind);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, adds, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    FACT(total);
    FACT(pthread_mutex_unlock(&inheriting) == EPERM);
    pthread_mutex_lock(&inheriting);
    FACT(pthread_mutex_lock(&inheriting) == EDEADLK);
    pthread_mutex_unlock(&inheriting);
}

static void wishes(void)
{
    void *head = (void *)1;
    size_t bytes = 0;
    CALL(syscall(SYS_get_robust_list, 0, &head, &bytes));
    FACT(head != (void *)1 && bytes == 24);
    CALL(syscall(SYS_set_robust_list, head, 23));
    char *from = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(from, "moved");
    char *to = mremap(from, 8192, 8192, MREMAP_MAYMOVE | 4);
    FACT(to != from && !strcmp(to, "moved") && from[0] == 0);
    int mode = 9;
    unsigned long nodes = 0;
    CALL(syscall(SYS_get_mempolicy, &mode, &nodes, 64, NULL, 0));
    FACT(mode);
    CALL(syscall(SYS_get_mempolicy, NULL, &nodes, 64, NULL, 4));
    FACT(nodes);
    CALL(syscall(SYS_set_mempolicy, 2, &nodes, 64));
    CALL(syscall(SYS_get_mempolicy, &mode, &nodes, 64, NULL, 0));
    FACT(mode);
    nodes = 2;
    CALL(syscall(SYS_set_mempolicy, 2, &nodes, 64));
    CALL(syscall(SYS_mbind, from, 8192, 0, NULL, 0, 0));
    CALL(syscall(SYS_mbind, from, 8192, 0, NULL, 0, 4));
    CALL(syscall(SYS_mbind, 1, 8192, 0, NULL, 0, 4));
    CALL(syscall(SYS_mbind, from, 8192, 0, NULL, 0, 12));
    FACT(syscall(SYS_ioprio_get, 1, 0));
    CALL(syscall(SYS_ioprio_set, 1, 0, 3 << 13));
    FACT(syscall(SYS_ioprio_get, 1, 0));
    CALL(syscall(SYS_ioprio_set, 1, 0, 1 << 13));
    unsigned attributes[14] = {0};
    CALL(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0));
    FACT(attributes[0]);
    FACT(attributes[1]);
    CALL(syscall(SYS_kcmp, getpid(), getpid(), 1, 0, 0));
    int copy = dup(1);
    CALL(syscall(SYS_kcmp, getpid(), getpid(), 0, 1, copy));
    FACT(syscall(SYS_kcmp, getpid(), getpid(), 0, 0, copy) != 0);
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    CALL(syscall(SYS_kcmp, getpid(), other, 6, 0, 0));
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf up = {0, 1, SEM_UNDO};
    semop(set, &up, 1);
    FACT(syscall(SYS_kcmp, getpid(), other, 6, 0, 0) != 0);
    CALL(syscall(SYS_kcmp, getpid(), getpid(), 6, 0, 0));
    semctl(set, 0, IPC_RMID);
    int process = syscall(SYS_pidfd_open, other, 0);
    CALL(syscall(448, process, 1));
    CALL(syscall(448, process, 0));
    CALL(syscall(448, 0, 0));
    kill(other, SIGKILL);
    siginfo_t info;
    waitid(P_PID, other, &info, WEXITED | WNOWAIT);
    CALL(syscall(448, process, 0));
    waitpid(other, NULL, 0);
    CALL(syscall(448, process, 0));
    struct timex adjustment = {.modes = ADJ_TICK, .tick = 10001};
    CALL(syscall(SYS_adjtimex, &adjustment));
    CALL(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &adjustment));
    adjustment.modes = 0;
    WORKS(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &adjustment));
    FACT(adjustment.tick);
    FACT(adjustment.precision);
    CALL(syscall(SYS_clock_adjtime, CLOCK_MONOTONIC, &adjustment));
    CALL(syscall(SYS_clock_adjtime, 99, &adjustment));
    struct sched_param none = {0};
    CALL(sched_setscheduler(0, SCHED_BATCH, &none));
    CALL(sched_getscheduler(0));
    CALL(sched_setscheduler(0, SCHED_FIFO, &none));
    none.sched_priority = 1;
    CALL(sched_setscheduler(0, SCHED_FIFO, &none));
    CALL(sched_setscheduler(0, SCHED_OTHER, &none));
    CALL(sched_setscheduler(0, SCHED_OTHER, NULL));
    CALL(sched_setscheduler(-1, SCHED_OTHER, &none));
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0));
    CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0));
    CALL(prctl(PR_GET_NO_NEW_PRIVS, 0, 1, 0, 0));
    int own = open("/proc/self", O_RDONLY | O_DIRECTORY);
    CALL(syscall(SYS_pidfd_send_signal, own, 0, NULL, 0));
    int root = open("/", O_RDONLY | O_DIRECTORY);
    CALL(syscall(SYS_pidfd_send_signal, root, 0, NULL, 0));
    char text[8] = "";
    struct iovec near[2] = {{text, 2}, {text + 2, 4}}, far = {to, 6};
    CALL(syscall(SYS_process_vm_readv, getpid(), near, 2, &far, 1, 0));
    printf("%s\n", text);
    near[0].iov_base = NULL;
    CALL(syscall(SYS_process_vm_writev, getpid(), near, 1, &far, 1, 0));
    CALL(syscall(SYS_setfsuid, 0));
    CALL(syscall(SYS_personality, 0x40000));
    FACT(syscall(SYS_personality, 0xffffffff));
}

int main(int count, char **arguments)
{
    (void)arguments;
    if (count > 1)
        return 11;
    setvbuf(stdout, NULL, _IOLBF, 0);
    common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    owners("robust", PTHREAD_PRIO_NONE);
    owners("robust, inheriting", PTHREAD_PRIO_INHERIT);
    priority_inheritance();
    wishes();
    return 0;
}
