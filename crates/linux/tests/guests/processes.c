// Processes: fork, wait, pipes between them, shared memory, signals, families, locks.
// Prints facts that are the same on every run and under Linux.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t children_signals;
static volatile int child_code, child_status;
static volatile pid_t child_pid;

static void say(const char *what, long value)
{
    printf("%s: %ld\n", what, value);
    fflush(stdout);
}

static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    children_signals++;
    child_code = info->si_code;
    child_status = info->si_status;
    child_pid = info->si_pid;
}

static int reap(pid_t child)
{
    int status = -1;
    pid_t got = waitpid(child, &status, 0);
    if (got != child)
        printf("waitpid: %d instead of the child, %s\n", (int)got, strerror(errno));
    return status;
}

static void plain_fork(void)
{
    int private_word = 1;
    static int data_word = 1;
    int *heap_word = malloc(1 << 20);
    *heap_word = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        private_word = data_word = *heap_word = 2;
        _exit(private_word + data_word + *heap_word + (getppid() > 0 ? 10 : 0));
    }
    private_word = data_word = *heap_word = 3;
    int status = reap(child);
    say("fork: child exited", WIFEXITED(status));
    say("fork: child's own words", WEXITSTATUS(status));
    say("fork: parent's words", private_word + data_word + *heap_word);
    child = fork();
    if (child == 0)
        _exit(100 + (private_word == 3 && data_word == 3 && *heap_word == 3));
    *heap_word = 4;
    say("fork: a later child sees the parent's", WEXITSTATUS(reap(child)));
    say("wait without children", waitpid(-1, NULL, 0));
    say("errno is ECHILD", errno == ECHILD);
    free(heap_word);
}

static void pipes(void)
{
    int there[2], back[2];
    if (pipe(there) || pipe(back))
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        unsigned char bytes[4096];
        long sum = 0, count = 0;
        ssize_t got;
        while ((got = read(there[0], bytes, sizeof bytes)) > 0) {
            for (ssize_t i = 0; i < got; i++)
                sum += bytes[i];
            count += got;
        }
        long words[2] = {sum, count};
        _exit(write(back[1], words, sizeof words) == sizeof words ? 0 : 1);
    }
    close(there[0]);
    close(back[1]);
    static unsigned char bytes[300000];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = i * 7;
    say("pipe: written", write(there[1], bytes, sizeof bytes));
    close(there[1]);
    long words[2] = {0, 0};
    say("pipe: answer's bytes", read(back[0], words, sizeof words));
    say("pipe: sum", words[0]);
    say("pipe: count", words[1]);
    say("pipe: child", reap(child));
    say("pipe: end", read(back[0], words, sizeof words));
    close(back[0]);

    int broken[2];
    if (pipe(broken))
        exit(1);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(broken[0]);
        sleep(0);
        for (;;)
            if (write(broken[1], bytes, 1000) < 0)
                _exit(3);
    }
    close(broken[0]);
    close(broken[1]);
    int status = reap(child);
    say("pipe: writer killed by SIGPIPE", WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

static void offsets(void)
{
    int fd = open("offsets", O_RDWR | O_CREAT | O_TRUNC, 0600);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int own = dup(fd);
        _exit(write(own, "child ", 6) == 6 ? 0 : 1);
    }
    reap(child);
    say("offset moved by the child", lseek(fd, 0, SEEK_CUR));
    if (write(fd, "parent", 6) != 6)
        exit(1);
    char text[32] = "";
    say("length", pread(fd, text, sizeof text, 0));
    printf("content: %s\n", text);
    close(fd);
    unlink("offsets");
}

static void shared_memory(void)
{
    struct {
        int futex, turns, filler;
    } *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *private = 5;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int turn = 0; turn < 50; turn++) {
            while (__atomic_load_n(&shared->futex, __ATOMIC_ACQUIRE) != 1)
                syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
            shared->turns++;
            __atomic_store_n(&shared->futex, 0, __ATOMIC_RELEASE);
            syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
        }
        *private = 6;
        shared->filler = *private;
        _exit(0);
    }
    for (int turn = 0; turn < 50; turn++) {
        __atomic_store_n(&shared->futex, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
        while (__atomic_load_n(&shared->futex, __ATOMIC_ACQUIRE) != 0)
            syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    reap(child);
    say("shared memory: turns", shared->turns);
    say("shared memory: the child's private word", shared->filler);
    say("private memory stays", *private);

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    struct {
        pthread_mutex_t mutex;
        long sum;
    } *locked = (void *)((char *)shared + 4096);
    pthread_mutex_init(&locked->mutex, &attributes);
    fflush(stdout);
    for (int worker = 0; worker < 4; worker++)
        if (fork() == 0) {
            for (int i = 0; i < 200; i++) {
                pthread_mutex_lock(&locked->mutex);
                locked->sum++;
                if (i % 50 == 0)
                    sched_yield();
                pthread_mutex_unlock(&locked->mutex);
            }
            _exit(0);
        }
    int ended = 0;
    while (wait(NULL) > 0)
        ended++;
    say("workers", ended);
    say("locked sum", locked->sum);
    munmap(shared, 8192);
    munmap(private, 4096);
}

static void statuses(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(0x1234);
    say("status of exit(0x1234)", reap(child));
    child = fork();
    if (child == 0)
        raise(SIGTERM);
    int status = reap(child);
    say("killed", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    say("WNOHANG while it runs", waitpid(child, &status, WNOHANG));
    say("kill", kill(child, SIGKILL));
    status = reap(child);
    say("killed by", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    say("kill of nobody", kill(child, 0));
    say("errno is ESRCH", errno == ESRCH);

    child = fork();
    if (child == 0)
        _exit(7);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    say("waitid leaves it", waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    say("si_code is CLD_EXITED", info.si_code == CLD_EXITED);
    say("si_status", info.si_status);
    say("si_pid", info.si_pid == child);
    say("zombies exist", kill(child, 0));
    struct rusage usage;
    memset(&usage, 0xff, sizeof usage);
    say("wait4", wait4(child, &status, 0, &usage) == child);
    say("usage filled", usage.ru_utime.tv_usec >= 0 && usage.ru_utime.tv_usec < 1000000);
    memset(&info, 0, sizeof info);
    child = fork();
    if (child == 0)
        abort();
    say("waitid", waitid(P_ALL, 0, &info, WEXITED));
    say("killed or dumped", info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
    say("by", info.si_status);
    say("waitid without children", waitid(P_ALL, 0, &info, WEXITED));
    say("errno is ECHILD", errno == ECHILD);
    say("waitid with nonsense", waitid(P_ALL, 0, &info, 0));
    say("errno is EINVAL", errno == EINVAL);
}

static void child_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    sigaction(SIGCHLD, &action, NULL);
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, &old);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(42);
    while (children_signals == 0)
        sigsuspend(&old);
    say("SIGCHLD: CLD_EXITED", child_code == CLD_EXITED);
    say("SIGCHLD: status", child_status);
    say("SIGCHLD: from the child", child_pid == child);
    reap(child);
    sigprocmask(SIG_SETMASK, &old, NULL);

    signal(SIGCHLD, SIG_IGN);
    child = fork();
    if (child == 0)
        _exit(1);
    say("ignored children leave no zombies", waitpid(child, NULL, 0));
    say("errno is ECHILD", errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);

    // A handler interrupts wait, and the call goes on with SA_RESTART.
    struct sigaction quiet = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &quiet, NULL);
    pid_t own = getpid();
    child = fork();
    if (child == 0) {
        struct timespec moment = {0, 20000000};
        nanosleep(&moment, NULL);
        kill(own, SIGUSR1);
        nanosleep(&moment, NULL);
        _exit(9);
    }
    int before = children_signals;
    say("wait goes on after a handler", WEXITSTATUS(reap(child)));
    say("the handler ran", children_signals - before);
}

static void families(void)
{
    fflush(stdout);
    say("own session's group", getpgid(0) == getpgrp());
    int answers[2];
    if (pipe(answers))
        exit(1);
    pid_t own = getpid();
    pid_t child = fork();
    if (child == 0) {
        int results[8] = {0};
        results[0] = getppid() == own;
        results[1] = getpgid(0) == getpgid(own);
        results[2] = setsid() == getpid();
        results[3] = getsid(0) == getpid() && getpgid(0) == getpid();
        results[4] = setsid() == -1 && errno == EPERM;
        results[5] = setpgid(0, 0) == -1 && errno == EPERM;
        _exit(write(answers[1], results, sizeof results) == sizeof results ? 0 : 1);
    }
    reap(child);
    int results[8];
    if (read(answers[0], results, sizeof results) != sizeof results)
        exit(1);
    for (int i = 0; i < 6; i++)
        say("family", results[i]);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    say("setpgid of a child", setpgid(child, 0));
    say("its group", getpgid(child) == child);
    say("kill the group", kill(-child, SIGUSR2));
    int status = 0;
    say("wait for the group", waitpid(-child, &status, 0) == child);
    say("killed by", WTERMSIG(status));
    say("getpgid of nobody", getpgid(child));
    say("errno is ESRCH", errno == ESRCH);

    // An orphan belongs to somebody else.
    int orphan[2];
    if (pipe(orphan))
        exit(1);
    child = fork();
    if (child == 0) {
        pid_t middle = getpid();
        if (fork() == 0) {
            while (getppid() == middle)
                sched_yield();
            int fine = getppid() != middle;
            _exit(write(orphan[1], &fine, sizeof fine) == sizeof fine ? 0 : 1);
        }
        _exit(0);
    }
    reap(child);
    close(orphan[1]);
    int fine = 0;
    say("the orphan's word", read(orphan[0], &fine, sizeof fine));
    say("it has another parent", fine);
    say("and is not ours", waitpid(-1, NULL, 0));
}

static void locks(void)
{
    int fd = open("locked", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(fd, "0123456789", 10) != 10)
        exit(1);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 4};
    say("lock", fcntl(fd, F_SETLK, &lock));
    fflush(stdout);
    pid_t own = getpid();
    pid_t child = fork();
    if (child == 0) {
        struct flock wish = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        int code = 0;
        code |= fcntl(fd, F_SETLK, &wish) == -1 && (errno == EAGAIN || errno == EACCES);
        fcntl(fd, F_GETLK, &wish);
        code |= (wish.l_type == F_WRLCK && wish.l_start == 2 && wish.l_len == 4) << 1;
        code |= (wish.l_pid == own) << 2;
        struct flock beside = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 6, .l_len = 2};
        code |= (fcntl(fd, F_SETLK, &beside) == 0) << 3;
        struct flock waits = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};
        code |= (fcntl(fd, F_SETLKW, &waits) == 0) << 4;
        _exit(code);
    }
    struct timespec moment = {0, 30000000};
    nanosleep(&moment, NULL);
    // Closing any descriptor of the file lets the process's locks go.
    close(open("locked", O_RDONLY));
    say("record locks in the child", WEXITSTATUS(reap(child)));
    lock.l_type = F_WRLCK;
    lock.l_start = 0;
    lock.l_len = 0;
    say("the child's went with it", fcntl(fd, F_SETLK, &lock));

    say("flock", flock(fd, LOCK_EX));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        int other = open("locked", O_RDWR);
        int code = flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK;
        code |= (flock(fd, LOCK_EX | LOCK_NB) == 0) << 1;
        code |= (flock(fd, LOCK_UN) == 0) << 2;
        code |= (flock(other, LOCK_EX | LOCK_NB) == 0) << 3;
        _exit(code);
    }
    say("flock in the child", WEXITSTATUS(reap(child)));
    close(fd);
    unlink("locked");
}

static void *keeps_running(void *argument)
{
    (void)argument;
    for (;;)
        sched_yield();
    return NULL;
}

static void *forks(void *argument)
{
    (void)argument;
    pid_t child = fork();
    if (child == 0)
        _exit(syscall(SYS_gettid) == getpid() ? 33 : 34);
    return (void *)(long)WEXITSTATUS(reap(child));
}

static void many(void)
{
    // Threads of one process fork; every child has one thread.
    pthread_t threads[4];
    fflush(stdout);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, forks, NULL);
    long sum = 0;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    say("forks of threads", sum);

    // exit_group ends threads that run and that wait.
    pid_t child = fork();
    if (child == 0) {
        pthread_create(&threads[0], NULL, keeps_running, NULL);
        pthread_create(&threads[1], NULL, keeps_running, NULL);
        sched_yield();
        exit(55);
    }
    say("exit with running threads", WEXITSTATUS(reap(child)));

    // A chain of processes, each the child of the one before.
    int depth = 0;
    int ends[2];
    if (pipe(ends))
        exit(1);
    child = fork();
    while (child == 0 && depth < 20) {
        depth++;
        child = fork();
    }
    if (child == 0) {
        _exit(write(ends[1], &depth, sizeof depth) == sizeof depth ? 1 : 0);
    }
    if (depth > 0)
        _exit(WEXITSTATUS(reap(child)) + 1);
    say("a chain", WEXITSTATUS(reap(child)));
    if (read(ends[0], &depth, sizeof depth) != sizeof depth)
        exit(1);
    say("its depth", depth);
    close(ends[0]);
    close(ends[1]);
}

static void itself(void)
{
    char path[64], target[256], other[256];
    ssize_t length = readlink("/proc/self/exe", target, sizeof target);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)getpid());
    say("/proc by name and number",
        length > 0 && readlink(path, other, sizeof other) == length && !memcmp(target, other, length));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char number[16], expected[16];
        ssize_t length = readlink("/proc/self", number, sizeof number);
        snprintf(expected, sizeof expected, "%d", (int)getpid());
        _exit(length == (ssize_t)strlen(expected) && !memcmp(number, expected, length));
    }
    say("/proc/self in a child", WEXITSTATUS(reap(child)));
}

int main(void)
{
    plain_fork();
    pipes();
    offsets();
    shared_memory();
    statuses();
    child_signals();
    families();
    locks();
    many();
    itself();
    return 0;
}
