/*
 * End-to-end test: asynchronous input and output by the kernel's own calls.
 *
 *   asynchronous
 *
 * Always true: what is printed is fixed: results of calls, and events in the order in which they are
 * told. Every request stands in `requests`, and is named by its place there.
 */
static const char *name_of(int error);
#define NAME_OF_ERROR name_of
#include "check.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

/* The names of errors are the same in every C library; what it says of them is not. */
static const char *name_of(int error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {EPERM, "EPERM"},   {EINTR, "EINTR"},   {EBADF, "EBADF"},   {EAGAIN, "EAGAIN"},
        {EFAULT, "EFAULT"}, {EINVAL, "EINVAL"}, {ENOSPC, "ENOSPC"}, {ESPIPE, "ESPIPE"},
        {EPIPE, "EPIPE"},   {EOPNOTSUPP, "EOPNOTSUPP"}, {EINPROGRESS, "EINPROGRESS"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return strerror(error);
}

/* System calls that the C library has no functions for. */
static long setup(unsigned count, aio_context_t *context)
{
    return syscall(SYS_io_setup, count, context);
}

static long destroy(aio_context_t context)
{
    return syscall(SYS_io_destroy, context);
}

static long submit(aio_context_t context, long count, struct iocb **list)
{
    return syscall(SYS_io_submit, context, count, list);
}

static long cancel(aio_context_t context, struct iocb *request)
{
    struct io_event event;
    return syscall(SYS_io_cancel, context, request, &event);
}

static long getevents(aio_context_t context, long least, long most, struct io_event *events,
                      const struct timespec *timeout)
{
    return syscall(SYS_io_getevents, context, least, most, events, timeout);
}

enum { REQUESTS = 600 };
static struct iocb requests[REQUESTS];
static aio_context_t context;
static const struct timespec none = {0, 0}, some = {0, 20 * 1000 * 1000}, enough = {5, 0};
static char buffer[3 << 20], other[3 << 20];

/* A request, made anew. */
static struct iocb *request(int place, int operation, int file, const void *bytes, size_t length,
                            long offset)
{
    requests[place] = (struct iocb){
        .aio_data = (uint64_t)place + 1000,
        .aio_lio_opcode = (uint16_t)operation,
        .aio_fildes = (uint32_t)file,
        .aio_buf = (uintptr_t)bytes,
        .aio_nbytes = length,
        .aio_offset = offset,
        .aio_key = 77,
    };
    return &requests[place];
}

/* One request, handed in. */
static long one(int place)
{
    struct iocb *list[] = {&requests[place]};
    return submit(context, 1, list);
}

/* Everything that is there to be told, once there is so much. */
static void events(long least)
{
    struct io_event told[16];
    long count;
    do {
        count = getevents(context, least, 16, told, &enough);
        least = 0;
        for (long i = 0; i < count; i++) {
            long place = (struct iocb *)(uintptr_t)told[i].obj - requests;
            printf("  request %ld: %lld", place, (long long)told[i].res);
            if (told[i].res < 0) {
                printf(" (%s)", name_of((int)-told[i].res));
            }
            printf("%s\n", told[i].data == (uint64_t)place + 1000 && !told[i].res2 ? "" : " WRONG");
        }
    } while (count == 16);
    if (count < 0) {
        printf("  %s\n", name_of(errno));
    }
}

static void run(int place)
{
    long result;
    CALL(result = one(place));
    events(result == 1);
}

/* One that waits. */
static void begin(int place)
{
    CALL(one(place));
    events(0);
}

static void contexts(void)
{
    aio_context_t bad = 0, second = 0, many = 0;
    struct io_event event;
    CALL(setup(0, &bad));
    bad = 1;
    CALL(setup(1, &bad));
    CALL(setup(1, (aio_context_t *)8));
    bad = 0;
    CALL(setup(65537, &bad));
    CALL(setup(0x400001, &bad));
    CALL(setup(0x80000000u, &bad));
    CALL(setup(65536, &many));
    CALL(setup(1, &bad));
    EXPECT(bad == 0 && many != 0);
    CALL(destroy(many));
    CALL(destroy(many));
    CALL(setup(8, &second));
    CALL(setup(8, &bad));
    EXPECT(second != bad);
    CALL(getevents(bad, 1, 0, &event, &none));
    CALL(getevents(bad, -1, 1, &event, &none));
    CALL(getevents(bad, 0, 0, NULL, &none));
    CALL(getevents(bad, 0, 1, &event, (struct timespec *)8));
    CALL(getevents(bad + 8, 0, 1, &event, &none));
    CALL(getevents(0, 0, 1, &event, &none));
    CALL(submit(bad, -1, NULL));
    CALL(submit(bad, 0, NULL));
    CALL(submit(0, 1, NULL));
    CALL(destroy(0));
    CALL(destroy(bad));
    /* A context whose ring was moved goes by its new address; one whose ring is gone is lost. */
    char *target = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moved = mremap((void *)second, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    EXPECT(moved == target);
    CALL(getevents(second, 0, 1, &event, &none));
    CALL(getevents((aio_context_t)moved, 0, 1, &event, &none));
    /* The ring says of itself who may read it: everybody, or only the kernel. */
    EXPECT(((uint32_t *)moved)[4] == 0xa10a10a1 || ((uint32_t *)moved)[4] == 0);
    munmap(moved, 1 << 20);
    CALL(getevents((aio_context_t)moved, 0, 1, &event, &none));
    CALL(destroy((aio_context_t)moved));
    CALL(setup(64, &context));
}

static void files(void)
{
    int file = open("asynchronous.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int reader = open("asynchronous.dat", O_RDONLY);
    int directory = open(".", O_RDONLY);
    struct iovec halves[] = {{buffer, 4}, {buffer + 8, 4}};
    struct iocb *list[4];

    strcpy(buffer, "twelve bytes");
    list[0] = request(0, IOCB_CMD_PWRITE, file, buffer, 12, 0);
    list[1] = request(1, IOCB_CMD_PWRITEV, file, halves, 2, 12);
    list[2] = request(2, IOCB_CMD_PREAD, file, other, 100, 7);
    list[3] = request(3, IOCB_CMD_PREADV, reader, halves, 2, 100);
    CALL(submit(context, 4, list));
    EXPECT(requests[0].aio_key == 0);
    events(4);
    printf("%s\n", other);
    EXPECT(lseek(file, 0, SEEK_CUR) == 0);

    /* What cannot be handed in. */
    request(0, IOCB_CMD_PWRITE, reader, buffer, 1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, 99, buffer, 1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, directory, buffer, 1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_NOOP, file, buffer, 1, 0);
    CALL(one(0));
    request(0, 4, file, buffer, 1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, file, buffer, 1, -1);
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, file, buffer, (size_t)-1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREADV, file, halves, 1025, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREADV, file, (void *)8, 1, 0);
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, file, buffer, 1, 0)->aio_reserved2 = 1;
    CALL(one(0));
    request(0, IOCB_CMD_PREAD, file, buffer, 1, 0)->aio_rw_flags = 0x1000;
    CALL(one(0));
    CALL(submit(context, 1, (struct iocb **)8));
    list[0] = (struct iocb *)8;
    CALL(submit(context, 1, list));
    events(0);

    /* What fails once it is. */
    request(0, IOCB_CMD_PREAD, file, (void *)4096, 1, 0);
    run(0);
    list[0] = request(0, IOCB_CMD_PREAD, file, other, 1, 0);
    list[1] = request(1, IOCB_CMD_PREAD, 99, other, 1, 0);
    list[2] = request(2, IOCB_CMD_PREAD, file, other, 1, 0);
    CALL(submit(context, 3, list));
    events(1);

    /* Durability and flags. */
    request(0, IOCB_CMD_FSYNC, file, NULL, 0, 0);
    run(0);
    request(0, IOCB_CMD_FDSYNC, file, NULL, 0, 0);
    run(0);
    request(0, IOCB_CMD_FSYNC, file, buffer, 0, 0);
    run(0);
    request(0, IOCB_CMD_PWRITE, file, "end", 3, 0)->aio_rw_flags = RWF_APPEND;
    run(0);
    EXPECT(pread(reader, other, 100, 20) == 3 && memcmp(other, "end", 3) == 0);
    request(0, IOCB_CMD_PWRITE, file, "T", 1, 0)->aio_rw_flags = RWF_DSYNC;
    run(0);
    request(0, IOCB_CMD_PREAD, file, other, 6, 0)->aio_flags = IOCB_FLAG_IOPRIO;
    requests[0].aio_reqprio = 2 << 13 | 4;
    run(0);
    EXPECT(memcmp(other, "Twelve", 6) == 0);
    requests[0].aio_reqprio = 1 << 13;
    run(0);
    requests[0].aio_reqprio = 7;
    run(0);

    /* Devices, and what is no file at all. */
    int zero = open("/dev/zero", O_RDWR), full = open("/dev/full", O_RDWR);
    request(0, IOCB_CMD_PREAD, zero, other, 4096, 5);
    run(0);
    request(0, IOCB_CMD_PWRITE, full, other, 1, 0);
    run(0);
    request(0, IOCB_CMD_FSYNC, zero, NULL, 0, 0);
    run(0);
    int poller = epoll_create1(0);
    request(0, IOCB_CMD_PREAD, poller, other, 8, 0);
    run(0);
    close(poller), close(zero), close(full), close(directory);

    /* More at once than is done in one go. */
    for (size_t i = 0; i < sizeof buffer; i += 1000) {
        memset(buffer + i, (int)(i / 1000), sizeof buffer - i < 1000 ? sizeof buffer - i : 1000);
    }
    list[0] = request(0, IOCB_CMD_PWRITE, file, buffer, sizeof buffer, 0);
    list[1] = request(1, IOCB_CMD_PREAD, file, other, sizeof other, 0);
    CALL(submit(context, 2, list));
    events(2);
    EXPECT(memcmp(buffer, other, sizeof buffer) == 0);
    close(file), close(reader);
    unlink("asynchronous.dat");
}

static void pipes(void)
{
    int ends[2], sockets[2];
    EXPECT(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    struct iocb *list[2];
    list[0] = request(0, IOCB_CMD_PWRITE, ends[1], "pipe", 4, 9);
    list[1] = request(1, IOCB_CMD_PREAD, ends[0], buffer, 9, 9);
    CALL(submit(context, 2, list));
    events(2);
    list[0] = request(0, IOCB_CMD_PWRITE, sockets[0], "socket", 6, 0);
    list[1] = request(1, IOCB_CMD_PREAD, sockets[1], buffer, 9, 0);
    CALL(submit(context, 2, list));
    events(2);
    request(0, IOCB_CMD_PREAD, sockets[1], buffer, 9, 1);
    run(0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    request(0, IOCB_CMD_PREAD, ends[0], buffer, 9, 0);
    run(0);
    int counter = eventfd(5, 0);
    request(0, IOCB_CMD_PREAD, counter, buffer, 8, 0);
    run(0);
    EXPECT(*(uint64_t *)buffer == 5);
    request(0, IOCB_CMD_PWRITE, counter, buffer, 8, 0);
    run(0);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    request(0, IOCB_CMD_PWRITE, ends[1], "x", 1, 0);
    run(0);
    close(ends[1]), close(sockets[0]), close(sockets[1]), close(counter);
}

static void polls(void)
{
    int ends[2], file = open("/dev/null", O_RDONLY), plain = open("asynchronous.txt", O_RDWR | O_CREAT, 0600);
    EXPECT(pipe(ends) == 0);
    struct iocb *list[2];
    request(0, IOCB_CMD_POLL, ends[1], (void *)POLLOUT, 0, 0);
    run(0);
    list[0] = request(0, IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
    list[1] = request(1, IOCB_CMD_POLL, ends[0], (void *)(POLLIN | POLLOUT), 0, 0);
    CALL(submit(context, 2, list));
    events(0);
    EXPECT(write(ends[1], "x", 1) == 1 && read(ends[0], buffer, 1) == 1);
    events(2);
    /* It holds what it waits for, and is told of its end. */
    request(0, IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
    begin(0);
    close(ends[0]);
    EXPECT(write(ends[1], "x", 1) == 1);
    events(1);
    EXPECT(pipe(ends) == 0);
    request(0, IOCB_CMD_POLL, ends[0], NULL, 0, 0);
    begin(0);
    close(ends[1]);
    events(1);
    close(ends[0]);
    request(0, IOCB_CMD_POLL, plain, (void *)POLLIN, 0, 0);
    run(0);
    request(0, IOCB_CMD_POLL, plain, (void *)POLLPRI, 0, 0);
    run(0);
    request(0, IOCB_CMD_POLL, file, (void *)POLLIN, 1, 0);
    run(0);
    request(0, IOCB_CMD_POLL, file, (void *)0x10001, 0, 0);
    run(0);
    /* Given up. */
    EXPECT(pipe(ends) == 0);
    request(0, IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
    begin(0);
    CALL(cancel(context, &requests[1]));
    CALL(cancel(context, (struct iocb *)8));
    CALL(cancel(context, &requests[0]));
    events(1);
    CALL(cancel(context, &requests[0]));
    requests[0].aio_key = 1;
    CALL(cancel(context, &requests[0]));
    close(ends[0]), close(ends[1]), close(file), close(plain);
    unlink("asynchronous.txt");
}

static void counters(void)
{
    int ends[2], file = open("/dev/zero", O_RDONLY), counter = eventfd(0, EFD_NONBLOCK);
    uint64_t value = 0;
    EXPECT(pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        request(i, i == 2 ? IOCB_CMD_POLL : IOCB_CMD_PREAD, i == 2 ? ends[0] : file,
                i == 2 ? (void *)POLLIN : (void *)buffer, i == 2 ? 0 : 8, 0);
        requests[i].aio_flags = IOCB_FLAG_RESFD;
        requests[i].aio_resfd = (uint32_t)counter;
        CALL(one(i));
    }
    EXPECT(read(counter, &value, 8) == 8 && value == 2);
    /* The counter is polled, and so is what is told of that poll. */
    int second = eventfd(0, EFD_NONBLOCK);
    request(3, IOCB_CMD_POLL, counter, (void *)POLLIN, 0, 0)->aio_flags = IOCB_FLAG_RESFD;
    requests[3].aio_resfd = (uint32_t)second;
    CALL(one(3));
    int poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    EXPECT(epoll_ctl(poller, EPOLL_CTL_ADD, second, &event) == 0);
    EXPECT(epoll_wait(poller, &got, 1, 0) == 0);
    EXPECT(write(ends[1], "x", 1) == 1);
    EXPECT(epoll_wait(poller, &got, 1, 5000) == 1);
    EXPECT(read(second, &value, 8) == 8 && value == 1);
    events(4);
    requests[0].aio_resfd = 99;
    CALL(one(0));
    requests[0].aio_resfd = (uint32_t)file;
    CALL(one(0));
    close(ends[0]), close(ends[1]), close(file), close(counter), close(second), close(poller);
}

static int wake[2];

static void *writer(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        usleep(2000);
        if (write(wake[1], "x", 1) != 1) {
            abort();
        }
    }
    return NULL;
}

static void *destroyer(void *unused)
{
    (void)unused;
    usleep(5000);
    destroy(context);
    return NULL;
}

static volatile sig_atomic_t handled;

static void handler(int number)
{
    (void)number;
    handled++;
}

static void waiting(void)
{
    struct io_event told[8];
    struct timespec before, after;
    pthread_t thread;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CALL(getevents(context, 1, 8, told, &some));
    clock_gettime(CLOCK_MONOTONIC, &after);
    long passed = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    EXPECT(passed >= 19 && passed < 1000);
    /* Three polls, each of one byte that a thread writes; the waiter reads none of them. */
    EXPECT(pipe(wake) == 0);
    for (int i = 0; i < 3; i++) {
        request(i, IOCB_CMD_POLL, wake[0], (void *)POLLIN, 0, 0);
        one(i);
    }
    pthread_create(&thread, NULL, writer, NULL);
    CALL(getevents(context, 3, 8, told, NULL));
    pthread_join(thread, NULL);
    /* A signal ends a wait, unless something was told; so it does with a mask of its own. */
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {.it_value = {0, 3000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    CALL(getevents(context, 1, 8, told, NULL));
    EXPECT(handled == 1);
    int zero = open("/dev/zero", O_RDONLY);
    request(0, IOCB_CMD_PREAD, zero, buffer, 8, 0);
    one(0);
    setitimer(ITIMER_REAL, &soon, NULL);
    CALL(getevents(context, 2, 8, told, NULL));
    EXPECT(handled == 2);
    sigset_t blocked, nothing;
    sigemptyset(&nothing), sigemptyset(&blocked), sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGALRM);
    EXPECT(handled == 2);
    struct {
        const void *set;
        size_t bytes;
    } mask = {&nothing, 8};
    CALL(syscall(SYS_io_pgetevents, context, 1L, 8L, told, &some, &mask));
    EXPECT(handled == 3);
    mask.bytes = 4;
    CALL(syscall(SYS_io_pgetevents, context, 1L, 8L, told, &some, &mask));
    CALL(syscall(SYS_io_pgetevents, context, 0L, 8L, told, &some, NULL));
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    /* A read of a pipe waits while it is handed in, and a signal ends it there. */
    char byte[2];
    while (read(wake[0], byte, 1) == 1 && poll(&(struct pollfd){wake[0], POLLIN, 0}, 1, 0) == 1) {
    }
    struct iocb *list[2];
    list[0] = request(0, IOCB_CMD_PREAD, zero, buffer, 8, 0);
    list[1] = request(1, IOCB_CMD_PREAD, wake[0], byte, 1, 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    CALL(submit(context, 2, list));
    events(2);
    pthread_create(&thread, NULL, writer, NULL);
    CALL(submit(context, 2, list));
    pthread_join(thread, NULL);
    events(2);
    close(zero), close(wake[0]), close(wake[1]);
}

static void limits(void)
{
    aio_context_t small = 0;
    struct io_event told[REQUESTS];
    struct iocb *list[REQUESTS];
    int zero = open("/dev/zero", O_RDONLY);
    CALL(setup(1, &small));
    for (int i = 0; i < REQUESTS; i++) {
        list[i] = request(i, IOCB_CMD_PREAD, zero, buffer, 16, 0);
    }
    /* At least what was asked for; then none until events are fetched. */
    long taken = submit(small, REQUESTS, list);
    EXPECT(taken >= 1 && taken < 128);
    long more = 0;
    while (submit(small, 1, list) == 1) {
        more++;
    }
    EXPECT(errno == EAGAIN && taken + more < 128);
    EXPECT(getevents(small, 1, 1, told, NULL) == 1);
    EXPECT(getevents(small, 0, REQUESTS, told, NULL) == taken + more - 1);
    EXPECT(submit(small, 1, list) == 1);
    CALL(destroy(small));
    small = 0;
    CALL(setup(REQUESTS, &small));
    CALL(submit(small, REQUESTS, list));
    CALL(getevents(small, 0, REQUESTS, (struct io_event *)8, NULL));
    CALL(getevents(small, REQUESTS, REQUESTS, told, NULL));
    int ordered = 0;
    for (int i = 0; i < REQUESTS; i++) {
        ordered += told[i].data == (uint64_t)i + 1000 && told[i].res == 16;
    }
    EXPECT(ordered == REQUESTS);
    CALL(destroy(small));
    close(zero);
}

static void processes(char **arguments)
{
    int ends[2], status;
    struct io_event event;
    EXPECT(pipe(ends) == 0);
    request(0, IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
    CALL(one(0));
    fflush(stdout);
    /* Contexts are not inherited; the child's own go with it. */
    pid_t child = fork();
    if (child == 0) {
        aio_context_t own = 0;
        CALL(getevents(context, 0, 1, &event, &none));
        CALL(destroy(context));
        CALL(setup(65536 - 64 - 8, &own));
        request(1, IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
        CALL(submit(own, 1, (struct iocb *[]){&requests[1]}));
        fflush(stdout);
        execl(arguments[0], arguments[0], "executed", NULL);
        _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(write(ends[1], "x", 1) == 1);
    events(1);
    /* What is under way is given up; whoever waits is told that there is no context. */
    pthread_t thread;
    EXPECT(read(ends[0], buffer, 1) == 1);
    CALL(one(0));
    close(ends[0]);
    pthread_create(&thread, NULL, destroyer, NULL);
    CALL(getevents(context, 1, 1, &event, NULL));
    pthread_join(thread, NULL);
    CALL(write(ends[1], "x", 1));
    close(ends[1]);
}

int main(int count, char **arguments)
{
    if (count > 1) {
        /* After an exec, nothing is left of the contexts from before. */
        CALL(setup(65536 - 64 - 8, &context));
        return 0;
    }
    contexts();
    files();
    pipes();
    polls();
    counters();
    waiting();
    limits();
    processes(arguments);
    return 0;
}
