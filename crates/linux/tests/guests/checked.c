/* What calls look at before they do nothing, and what comes together. checked.txt has the facts as Linux
 * itself states them. */
#include "facts.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Advice that nothing follows. */
static void hints(void)
{
    int ends[2], file = open("hinted", O_RDWR | O_CREAT, 0644), only = open("hinted", O_WRONLY);
    int path = open("hinted", O_PATH), folder = open(".", O_RDONLY), event = eventfd(0, 0);
    CALL(pipe(ends));
    CALL(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    FACT(posix_fadvise(file, 0, 0, 6) == EINVAL);
    FACT(posix_fadvise(file, 0, -1, 0) == EINVAL);
    FACT(posix_fadvise(ends[0], 0, 0, 6) == ESPIPE);
    FACT(posix_fadvise(event, 0, 0, 0));
    FACT(posix_fadvise(path, 0, 0, 0) == EBADF);
    CALL(readahead(file, 0, 10));
    CALL(readahead(folder, 0, 10));
    CALL(readahead(ends[0], 0, 10));
    CALL(readahead(ends[1], 0, 10));
    CALL(readahead(only, 0, 10));
    CALL(readahead(path, 0, 10));
    CALL(sync_file_range(file, 0, 0, 7));
    CALL(sync_file_range(file, 0, 0, 8));
    CALL(sync_file_range(file, -1, 0, 1));
    CALL(sync_file_range(file, 5, -1, 1));
    CALL(sync_file_range(ends[0], 0, 0, 7));
    CALL(sync_file_range(ends[0], 0, 0, 8));
    CALL(sync_file_range(path, 0, 0, 7));
    close(file), close(only), close(path), close(folder), close(event), close(ends[0]), close(ends[1]);
}

/* Flags that are none, and numbers that may not be. */
static void arguments(void)
{
    struct statx status;
    struct sched_param parameter = {0};
    char byte = 'x';
    CALL(linkat(AT_FDCWD, "hinted", AT_FDCWD, "linked", 77));
    CALL(linkat(AT_FDCWD, "hinted", AT_FDCWD, "linked", 0));
    CALL(statx(AT_FDCWD, "hinted", 0, 1u << 31, &status));
    CALL(statx(AT_FDCWD, "hinted", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, STATX_ALL, &status));
    CALL(statx(AT_FDCWD, "hinted", AT_STATX_FORCE_SYNC, STATX_ALL, &status));
    CALL(setresuid(-1, -1, 0));
    CALL(setresgid(-1, -1, 0));
    CALL(setresgid(-1, -1, getgid()));
    CALL(setreuid(-1, getuid()));
    CALL(setregid(-1, 0));
    CALL(syscall(SYS_getgroups, -1, NULL));
    CALL(sched_setparam(0, NULL));
    CALL(sched_setparam(-1, &parameter));
    CALL(sched_setparam(0, &parameter));
    parameter.sched_priority = 1;
    CALL(sched_setparam(0, &parameter));
    int neither = open("hinted", O_ACCMODE);
    WORKS(neither);
    CALL(read(neither, &byte, 1));
    CALL(write(neither, &byte, 1));
    CALL(ftruncate(neither, 1));
    close(neither);
}

/* One argument has 128 KiB at most, the zero behind it among them. */
static void long_arguments(void)
{
    enum { MOST = 1 << 17 };
    char *text = malloc(MOST + 1), *words[] = {"true", text, NULL}, *none[] = {NULL};
    memset(text, 'x', MOST), text[MOST] = 0;
    CALL(execve("/proc/self/exe", words, none));
    CALL(execve("/proc/self/exe", none, words));
    text[MOST - 1] = 0;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(execve("/proc/self/exe", words, none));
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    free(text);
}

static int ends[2];

static void *waits(void *number)
{
    char byte;
    *(pid_t *)number = syscall(SYS_gettid);
    write(ends[1], "n", 1);
    pause();
    return read(ends[0], &byte, 1) < 0 ? NULL : number;
}

/* A thread's number stands for its process, and others of its process may name it. */
static void threads(void)
{
    pthread_t thread;
    pid_t number;
    char byte, name[16], path[64];
    pipe(ends);
    pthread_create(&thread, NULL, waits, &number);
    read(ends[0], &byte, 1);
    FACT(number != getpid());
    CALL(kill(number, 0));
    FACT(pthread_setname_np(thread, "a longer name!!"));
    FACT(pthread_getname_np(thread, name, sizeof name));
    printf("%s\n", name);
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", getpid(), number);
    int file = open(path, O_WRONLY | O_TRUNC);
    CALL(write(file, "a name that is too long", 23));
    close(file);
    FACT(pthread_getname_np(thread, name, sizeof name));
    printf("%s\n", name);
    if (fork() == 0) {
        file = open(path, O_WRONLY);
        _exit(write(file, "x", 1) == -1 ? errno == EINVAL ? 7 : 8 : 9);
    }
    int status;
    wait(&status);
    FACT(WEXITSTATUS(status));
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    close(ends[0]), close(ends[1]);
}

static void pass(int socket, const char *text, int file)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec bytes = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof(int));
    CALL(sendmsg(socket, &message, 0));
}

/* What came at once: the bytes, and whether a file came with them. */
static void take(int socket, size_t room, int flags)
{
    char control[CMSG_SPACE(sizeof(int))], text[32] = {0};
    struct iovec bytes = {text, room};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    CALL(recvmsg(socket, &message, flags));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    printf("%s%s\n", text, header ? ", and a file" : "");
    if (header)
        close(*(int *)CMSG_DATA(header));
}

/* Bytes of a stream that were sent before a file come with it; those behind it do not. */
static void streams(void)
{
    int pair[2], file = open("hinted", O_RDONLY);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int turn = 0; turn < 4; turn++) {
        write(pair[0], "one ", 4);
        pass(pair[0], "two", file);
        write(pair[0], " three", 6);
        pass(pair[0], " four", file);
        if (turn == 0)
            take(pair[1], 30, MSG_PEEK);
        if (turn == 1)
            take(pair[1], 5, 0);
        if (turn == 2)
            take(pair[1], 4, 0);
        if (turn == 3)
            take(pair[1], 30, MSG_WAITALL);
        for (struct pollfd input = {pair[1], POLLIN, 0}; poll(&input, 1, 0) == 1;)
            take(pair[1], 30, 0);
    }
    close(pair[0]), close(pair[1]), close(file);
}

/* Whoever is told that there is room for a datagram finds it. */
static void datagrams(void)
{
    int pair[2], sent = 0;
    char text[512] = {0};
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair);
    struct pollfd output = {pair[0], POLLOUT, 0};
    FACT(poll(&output, 1, 0));
    while (send(pair[0], text, sizeof text, 0) > 0)
        sent++;
    FACT(errno == EAGAIN && sent > 9);
    FACT(poll(&output, 1, 0));
    for (int count = 0; count < sent; count++)
        recv(pair[1], text, sizeof text, 0);
    FACT(poll(&output, 1, 0));
    for (sent = 0; poll(&output, 1, 0) == 1 && sent < 1000 && send(pair[0], text, sizeof text, 0) > 0;)
        sent++;
    FACT(sent > 9 && sent < 1000);
    if (fork() == 0)
        _exit(usleep(1000) || recv(pair[1], text, sizeof text, 0) < 0 || poll(&output, 1, 0) < 0);
    FACT(poll(&output, 1, 1000));
    wait(NULL);
    close(pair[0]), close(pair[1]);
}

int main(int count, char **words)
{
    (void)words;
    if (count > 1)
        return 5;
    setvbuf(stdout, NULL, _IOLBF, 0);
    hints();
    arguments();
    long_arguments();
    threads();
    streams();
    datagrams();
    return 0;
}
