/* Pipes, event counters, poll, select, epoll; blocking between threads. */
#include "facts.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

static int p[2], back[2];

static void *echo(void *unused) {
    (void)unused;
    char b[1000];
    long total = 0, n;
    while ((n = read(p[0], b, sizeof b)) > 0) total += n;
    char line[32];
    int length = snprintf(line, sizeof line, "%ld", total);
    if (write(back[1], line, length) != length) abort();
    return 0;
}

static void *later(void *descriptor) {
    usleep(2000);
    uint64_t one = 5;
    if (write(*(int *)descriptor, &one, 8) != 8) abort();
    return 0;
}

int main(void) {
    char b[100] = {0};
    CALL(pipe(p));
    CALL(pipe(back));
    pthread_t thread;
    pthread_create(&thread, 0, echo, 0);
    char *big = calloc(1, 200000);
    CALL(write(p[1], big, 200000));
    CALL(write(p[1], big, 10));
    CALL(close(p[1]));
    CALL(read(back[0], b, 100));
    puts(b);
    pthread_join(thread, 0);
    CALL(lseek(back[0], 0, SEEK_SET));
    CALL(pread(back[0], b, 1, 0));
    CALL(read(back[1], b, 1));
    CALL(write(back[0], b, 1));
    signal(SIGPIPE, SIG_IGN);
    int q[2];
    CALL(pipe2(q, O_NONBLOCK | O_CLOEXEC));
    CALL(fcntl(q[0], F_GETFD));
    CALL(read(q[0], b, 1));
    long filled = 0, n;
    while ((n = write(q[1], big, 4096)) > 0) filled += n;
    FACT(filled);
    CALL(write(q[1], big, 1));
    struct pollfd polls[3] = {{q[0], POLLIN, 0}, {q[1], POLLOUT, 0}, {99, POLLIN, 0}};
    CALL(poll(polls, 3, 0));
    printf("%d %d %d\n", polls[0].revents, polls[1].revents, polls[2].revents);
    CALL(read(q[0], big, 8192));
    CALL(poll(polls, 2, 0));
    printf("%d %d\n", polls[0].revents, polls[1].revents);
    CALL(close(q[0]));
    CALL(write(q[1], b, 1));
    CALL(poll(polls + 1, 1, 0));
    printf("%d\n", polls[1].revents);
    CALL(close(q[1]));
    CALL(pipe(q));
    CALL(close(q[1]));
    polls[0].fd = q[0];
    CALL(poll(polls, 1, -1));
    printf("%d\n", polls[0].revents);
    CALL(read(q[0], b, 1));
    CALL(poll(0, 0, 3));
    struct pollfd negative = {-1, POLLIN, 7};
    CALL(poll(&negative, 1, 1));
    FACT(negative.revents);

    int e = eventfd(3, EFD_NONBLOCK);
    uint64_t value = 4;
    CALL(write(e, &value, 8));
    CALL(read(e, &value, 8));
    FACT(value);
    CALL(read(e, &value, 8));
    CALL(read(e, &value, 7));
    int s = eventfd(2, EFD_SEMAPHORE);
    CALL(read(s, &value, 8));
    FACT(value);
    CALL(read(s, &value, 8));
    int w = eventfd(0, 0);
    pthread_create(&thread, 0, later, &w);
    CALL(read(w, &value, 8));
    FACT(value);
    pthread_join(thread, 0);
    pthread_create(&thread, 0, later, &w);
    polls[0] = (struct pollfd){w, POLLIN, 0};
    CALL(poll(polls, 1, -1));
    FACT(polls[0].revents);
    pthread_join(thread, 0);

    fd_set set;
    FD_ZERO(&set);
    FD_SET(w, &set);
    struct timeval soon = {0, 1000};
    CALL(select(w + 1, &set, 0, 0, &soon));
    FACT(FD_ISSET(w, &set));
    CALL(read(w, &value, 8));
    FD_SET(w, &set);
    soon.tv_usec = 500;
    CALL(select(w + 1, &set, 0, 0, &soon));
    FACT(FD_ISSET(w, &set));

    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 42}, got[4];
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, w, &event));
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, w, &event));
    CALL(epoll_ctl(poller, EPOLL_CTL_DEL, s, &event));
    int file = open("file", O_CREAT | O_RDWR, 0600);
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, file, &event));
    CALL(epoll_wait(poller, got, 4, 0));
    value = 1;
    CALL(write(w, &value, 8));
    CALL(epoll_wait(poller, got, 4, -1));
    FACT(got[0].data.u64 * 1000 + got[0].events);
    CALL(epoll_wait(poller, got, 4, 1));
    CALL(write(w, &value, 8));
    CALL(epoll_wait(poller, got, 4, 1));
    event.events = EPOLLIN | EPOLLONESHOT;
    CALL(epoll_ctl(poller, EPOLL_CTL_MOD, w, &event));
    CALL(epoll_wait(poller, got, 4, 1));
    CALL(epoll_wait(poller, got, 4, 1));
    CALL(epoll_wait(poller, got, 0, 1));
    CALL(epoll_wait(file, got, 1, 1));
    pthread_create(&thread, 0, later, &w);
    CALL(epoll_ctl(poller, EPOLL_CTL_MOD, w, &event));
    CALL(epoll_wait(poller, got, 4, -1));
    pthread_join(thread, 0);
    return 0;
}
