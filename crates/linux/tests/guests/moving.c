/* What moves from sockets to pipes and between files, who is told of it, and what processes may do to each
 * other. moving.txt has the facts as Linux itself states them. */
#include "facts.h"
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char bytes[64];

static void splicing(void)
{
    int pair[2], to[2], packets[2], here = open(".", O_RDONLY);
    off_t at = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(to)) exit(2);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets)) exit(2);
    CALL(send(pair[0], "hello", 5, 0));
    CALL(send(pair[0], "world", 5, 0));
    CALL(splice(pair[1], &at, to[1], NULL, 3, 0));
    CALL(splice(pair[1], NULL, to[1], NULL, 3, 0));
    CALL(splice(pair[1], NULL, to[1], NULL, 4, 0));
    CALL(splice(pair[1], NULL, to[1], NULL, 40, 0));
    CALL(splice(pair[1], NULL, to[1], NULL, 40, SPLICE_F_NONBLOCK));
    memset(bytes, 0, sizeof bytes);
    CALL(read(to[0], bytes, sizeof bytes));
    puts(bytes);
    pid_t child = fork();
    if (child == 0) {
        usleep(10000);
        _exit(send(pair[0], "later", 5, 0) != 5);
    }
    CALL(splice(pair[1], NULL, to[1], NULL, 40, 0));
    CALL(splice(to[0], NULL, pair[1], NULL, 40, 0));
    CALL(recv(pair[0], bytes, sizeof bytes, 0));
    waitpid(child, NULL, 0);
    close(pair[0]);
    CALL(splice(pair[1], NULL, to[1], NULL, 40, 0));
    CALL(splice(here, NULL, to[1], NULL, 40, 0));
    CALL(recv(packets[0], bytes, 1, MSG_OOB));
}

static void told(int watcher)
{
    char events[1024] __attribute__((aligned(8)));
    ssize_t size = read(watcher, events, sizeof events);
    for (char *event = events; event < events + size; event += sizeof(struct inotify_event))
        printf(" watch %d: %x\n", ((struct inotify_event *)event)->wd, ((struct inotify_event *)event)->mask);
}

static void watching(void)
{
    int from = open("from", O_CREAT | O_RDWR, 0600), to = open("to", O_CREAT | O_RDWR, 0600), pipes[2];
    int first = inotify_init1(IN_NONBLOCK), second = inotify_init1(IN_NONBLOCK);
    off_t start = 0, goal = 0;
    if (write(from, "0123456789", 10) != 10 || pipe(pipes)) exit(2);
    inotify_add_watch(first, "from", IN_ACCESS | IN_MODIFY);
    inotify_add_watch(second, "to", IN_ACCESS | IN_MODIFY);
    CALL(sendfile(to, from, &start, 4));
    told(first), told(second);
    start = 0;
    CALL(copy_file_range(from, &start, to, &goal, 4, 0));
    told(first), told(second);
    start = 0;
    CALL(splice(from, &start, pipes[1], NULL, 4, 0));
    CALL(splice(pipes[0], NULL, to, NULL, 4, 0));
    told(first), told(second);
    CALL(fallocate(to, FALLOC_FL_KEEP_SIZE, 0, 100));
    told(second);
    CALL(fallocate(to, 0, 0, 100));
    told(second);
    CALL(sendfile(to, from, &(off_t){100}, 4));
    told(first), told(second);
}

static volatile sig_atomic_t code;

static void note(int signal, siginfo_t *info, void *context)
{
    code = signal && context ? info->si_code : 0;
}

static void others(void)
{
    siginfo_t info = {.si_signo = SIGUSR1};
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    pid_t own = getpid(), child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    static const int codes[] = {SI_USER, SI_TKILL, 5, SI_KERNEL, SI_QUEUE};
    for (int at = 0; at < 5; at++) {
        info.si_code = codes[at];
        printf("code %d\n", codes[at]);
        CALL(syscall(SYS_rt_sigqueueinfo, own, SIGUSR1, &info));
        FACT(code == codes[at]);
        CALL(syscall(SYS_rt_tgsigqueueinfo, own, own, SIGUSR1, &info));
        CALL(syscall(SYS_rt_sigqueueinfo, child, 0, &info));
        CALL(syscall(SYS_rt_tgsigqueueinfo, child, child, 0, &info));
    }
    CALL(syscall(SYS_tkill, 0, 0));
    CALL(syscall(SYS_tkill, -1, 0));
    int handle = syscall(SYS_pidfd_open, child, O_NONBLOCK);
    CALL(waitid(P_PIDFD, handle, &info, WEXITED));
    CALL(waitid(P_PIDFD, handle, &info, WEXITED | WNOHANG));
    info.si_signo = SIGUSR1, info.si_code = SI_USER;
    CALL(syscall(SYS_pidfd_send_signal, handle, SIGUSR1, &info, 0));
    CALL(syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0));
    struct pollfd ends = {handle, POLLIN, 0};
    CALL(poll(&ends, 1, -1));
    FACT(ends.revents);
    CALL(syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0));
    CALL(waitid(P_PIDFD, handle, &info, WEXITED));
    FACT(info.si_status);
    CALL(syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0));
    CALL(waitid(P_PIDFD, handle, &info, WEXITED));
    CALL(syscall(SYS_pidfd_getfd, handle, 0, 0));
}

static void rest(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char local;
    void *stack = (void *)((uintptr_t)&local & -4096UL);
    int *address = NULL;
    CALL(mprotect(page, 4096, PROT_READ | PROT_GROWSDOWN));
    CALL(mprotect(page, 4096, PROT_READ | PROT_GROWSUP));
    CALL(mprotect(page, 4096, PROT_READ | PROT_GROWSUP | PROT_GROWSDOWN));
    CALL(mprotect(stack, 4096, PROT_READ | PROT_WRITE | PROT_GROWSDOWN));
    CALL(mprotect(stack, 4096, PROT_READ | PROT_WRITE | PROT_GROWSUP));
    CALL(mprotect(stack, 0, PROT_READ | PROT_GROWSUP));
    CALL(prctl(PR_GET_TIMING));
    CALL(prctl(PR_SET_TIMING, 0));
    CALL(prctl(PR_SET_TIMING, 1));
    CALL(prctl(PR_TASK_PERF_EVENTS_DISABLE));
    CALL(prctl(PR_TASK_PERF_EVENTS_ENABLE));
    CALL(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    CALL(prctl(PR_MCE_KILL_GET, 1, 0, 0, 0));
    CALL(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
    CALL(prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0));
    int word;
    CALL(syscall(SYS_set_tid_address, &word) == getpid());
    CALL(prctl(PR_GET_TID_ADDRESS, &address));
    FACT(address == &word);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    splicing();
    watching();
    others();
    rest();
    return 0;
}
