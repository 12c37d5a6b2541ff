/* What is done in part, and what is refused although it looks right. partial.txt has the facts as Linux
 * itself states them. */
#include "facts.h"
#include <poll.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static char *pages(int count)
{
    return mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* What lies before the place where it cannot be done. */
static void memory_is_protected(void)
{
    char *memory = pages(4);
    int ends[2], file = open("read-only", O_RDWR | O_CREAT, 0644);
    CALL(ftruncate(file, 2 * PAGE));
    CALL(pipe(ends));
    CALL(write(ends[1], "ab", 2));
    CALL(munmap(memory + 2 * PAGE, PAGE));
    CALL(mprotect(memory, 4 * PAGE, PROT_READ));
    CALL(read(ends[0], memory, 1));
    CALL(read(ends[0], memory + 3 * PAGE, 1));
    int only = open("read-only", O_RDONLY);
    char *shown = mmap(memory + 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, only, 0);
    FACT(shown == memory + 2 * PAGE);
    CALL(mprotect(memory, 4 * PAGE, PROT_READ | PROT_WRITE));
    CALL(read(ends[0], memory + PAGE, 1));
    CALL(mprotect(memory + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE));
    close(file), close(only), close(ends[0]), close(ends[1]);
}

static void memory_moves(void)
{
    char *memory = pages(6), *shared, *second;
    memory[0] = 5;
    CALL(mprotect(memory + 2 * PAGE, PAGE, PROT_READ));
    CALL(munmap(memory + 4 * PAGE, PAGE));
    FACT(mremap(memory + 4 * PAGE, 2 * PAGE, PAGE, 0) == MAP_FAILED);
    FACT(mremap(memory, 6 * PAGE, 6 * PAGE, 0) == memory);
    FACT(mremap(memory, 6 * PAGE, 5 * PAGE, MREMAP_MAYMOVE) == memory);
    CALL(msync(memory + 5 * PAGE, PAGE, MS_ASYNC));
    CALL(msync(memory + 3 * PAGE, PAGE, MS_ASYNC));
    FACT(mremap(memory, 6 * PAGE, PAGE, 0) == memory);
    CALL(msync(memory + PAGE, PAGE, MS_ASYNC));
    CALL(msync(memory + 5 * PAGE, PAGE, MS_ASYNC));
    FACT(memory[0]);
    FACT(mremap(memory, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
    FACT(mremap(memory, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
    shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[PAGE] = 42;
    second = mremap(shared + PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
    FACT(second != MAP_FAILED && second != shared + PAGE);
    FACT(second[0]);
    second[PAGE] = 7;
    FACT(shared[2 * PAGE]);
    FACT(mremap(shared, 0, PAGE, 0) == MAP_FAILED);
    CALL(munmap(shared, 3 * PAGE));
    FACT(second[0] + second[PAGE]);
}

/* A private mapping shows what is written to the file, until it is stored to. */
static void writes_are_seen(void)
{
    for (int memory = 0; memory < 2; memory++) {
        int file = memory ? memfd_create("seen", 0) : open("seen", O_RDWR | O_CREAT, 0644);
        ftruncate(file, 3 * PAGE);
        volatile char *seen = mmap(NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
        volatile char *copied = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        FACT(seen[0] + seen[PAGE] + copied[0] + copied[PAGE]);
        copied[0] = 3;
        CALL(pwrite(file, "A", 1, 0));
        CALL(pwrite(file, "B", 1, PAGE));
        FACT(seen[0]);
        FACT(seen[PAGE]);
        FACT(copied[0]);
        FACT(copied[PAGE]);
        close(file);
    }
}

static void children_are_waited_for(void)
{
    siginfo_t info = {0};
    pid_t child = fork();
    if (child == 0) _exit(3);
    CALL(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    CALL(waitid(P_PID, child, &info, WSTOPPED | WNOHANG));
    CALL(waitid(P_PID, child, &info, WSTOPPED));
    CALL(waitid(P_ALL, 0, &info, WCONTINUED));
    CALL(waitpid(child, NULL, __WCLONE | WNOHANG));
    FACT(waitpid(child, NULL, __WALL) == child);
}

static void names_are_asked(void)
{
    char bytes[64];
    struct timespec omitted[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    int file = open("named", O_RDWR | O_CREAT, 0644);
    int name = open("named", O_PATH);
    mkdir("folder", 0755);
    CALL(fcntl(name, F_SETFL, O_APPEND));
    CALL(fcntl(name, F_GETFL) & ~O_CLOEXEC);
    CALL(fcntl(name, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(name, F_GETFD));
    CALL(fcntl(name, F_GETLK, bytes));
    CALL(fcntl(name, F_GETOWN));
    CALL(fcntl(name, F_GET_SEALS));
    CALL(futimens(name, NULL));
    CALL(utimensat(AT_FDCWD, "nothing", omitted, 0));
    CALL(open("folder", O_RDONLY | O_TRUNC));
    CALL(open("named", O_RDWR | O_CREAT | O_DIRECTORY, 0644));
    CALL(open("new", O_RDWR | O_CREAT | O_DIRECTORY, 0644));
    CALL(open("folder", O_RDONLY | O_CREAT | O_DIRECTORY, 0644));
    CALL(access("new", F_OK));
    CALL(symlink("named", "slash/"));
    CALL(link("named", "slash/"));
    CALL(mknod("slash/", S_IFREG | 0644, 0));
    CALL(mkdir("slash/", 0755));
    CALL(symlink("named", "slash/"));
    struct stat status;
    CALL(chmod("folder", 02777));
    CALL(mkdir("folder/inside", 0700));
    CALL(stat("folder/inside", &status));
    FACT(status.st_mode & 07777);
    close(file), close(name);
}

static int order;

static void handler(int signal) { order = order * 100 + signal; }

static void signals_come(void)
{
    struct sigaction action = {.sa_handler = handler}, old;
    sigset_t some, before;
    sigemptyset(&some);
    int signals[] = {SIGUSR1, SIGTERM, SIGSEGV, SIGHUP, SIGFPE};
    for (int i = 0; i < 5; i++) {
        sigaddset(&some, signals[i]);
        sigaction(signals[i], &action, NULL);
    }
    action.sa_mask = some;
    for (int i = 0; i < 5; i++) sigaction(signals[i], &action, NULL);
    sigprocmask(SIG_BLOCK, &some, &before);
    for (int i = 0; i < 5; i++) raise(signals[i]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    FACT(order);
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &old);
    FACT(old.sa_handler == SIG_DFL);
    FACT((old.sa_flags & (int)(SA_RESETHAND | SA_RESTART)) == (int)(SA_RESETHAND | SA_RESTART));
    FACT(sigismember(&old.sa_mask, SIGHUP));
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16, .ss_flags = 7};
    CALL(sigaltstack(&stack, NULL));
    stack.ss_flags = SS_DISABLE | SS_ONSTACK;
    CALL(sigaltstack(&stack, NULL));
    stack.ss_flags = SS_ONSTACK;
    CALL(sigaltstack(&stack, NULL));
}

static void words_are_waited_for(void)
{
    uint32_t word = 5, other = 6;
    struct timespec none = {0, 0};
#define FUTEX(operation, value, fourth, last) \
    CALL(syscall(SYS_futex, &word, operation, value, fourth, &other, last))
    FUTEX(FUTEX_WAKE_OP, 1, 1, FUTEX_OP(7, 9, FUTEX_OP_CMP_EQ, 0));
    FACT(other);
    FUTEX(FUTEX_WAKE_OP, 1, 1, FUTEX_OP(FUTEX_OP_ADD, 9, FUTEX_OP_CMP_EQ, 6));
    FACT(other);
    FUTEX(FUTEX_REQUEUE, -1, 1, 0);
    FUTEX(FUTEX_REQUEUE, 1, -1, 0);
    FUTEX(FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, 0, 0);
    FUTEX(FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 5, &none, 0);
    FUTEX(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 5, &none, 1);
    CALL(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &none, NULL));
    CALL(syscall(SYS_clock_nanosleep, CLOCK_REALTIME_COARSE, 0, &none, NULL));
    CALL(syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME, 0, &none, NULL));
}

static void memory_is_sealed(void)
{
    struct stat status;
    int file = memfd_create("sealed", 8 /* MFD_NOEXEC_SEAL */);
    CALL(fstat(file, &status));
    FACT(status.st_mode & 07777);
    CALL(fcntl(file, F_GET_SEALS));
    CALL(fchmod(file, 0777));
    CALL(memfd_create("both", 8 | 16));
    int other = memfd_create("executable", MFD_ALLOW_SEALING);
    CALL(fcntl(other, F_ADD_SEALS, 32 /* F_SEAL_EXEC */));
    CALL(fcntl(other, F_GET_SEALS));
    close(file), close(other);
}

static void instances_wake_one(void)
{
    int ends[2], poller = epoll_create1(0), inner = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLET};
    CALL(pipe(ends));
    CALL(epoll_ctl(poller, EPOLL_CTL_MOD, ends[0], &event));
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, inner, &event));
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event));
    CALL(epoll_ctl(poller, EPOLL_CTL_MOD, ends[0], &event));
    event.events = EPOLLIN;
    CALL(epoll_ctl(poller, EPOLL_CTL_MOD, ends[0], &event));
    event.events = EPOLLOUT | EPOLLEXCLUSIVE | EPOLLONESHOT;
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, ends[1], &event));
    close(ends[0]), close(ends[1]), close(poller), close(inner);
}

static void packets_go_where_they_go(void)
{
    struct sockaddr somewhere = {.sa_family = AF_UNIX, .sa_data = "nowhere"};
    int pair[2], alone = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    CALL(sendto(pair[0], "x", 1, MSG_NOSIGNAL, &somewhere, sizeof somewhere));
    CALL(sendto(alone, "x", 1, MSG_NOSIGNAL, &somewhere, sizeof somewhere));
    close(pair[0]), close(pair[1]), close(alone);
}

int main(void)
{
    umask(022);
    memory_is_protected();
    memory_moves();
    writes_are_seen();
    children_are_waited_for();
    names_are_asked();
    signals_come();
    words_are_waited_for();
    memory_is_sealed();
    instances_wake_one();
    packets_go_where_they_go();
    return 0;
}
