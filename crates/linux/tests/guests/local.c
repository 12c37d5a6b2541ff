/* UNIX sockets: names in the file tree and without, pairs, descriptors and credentials that come
   along, and waiting for all of them. */
#include "facts.h"
#include "named.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/wait.h>

static int events(int fd, int want) {
    struct pollfd p = {.fd = fd, .events = want};
    poll(&p, 1, 0);
    return p.revents & ~(POLLRDNORM | POLLWRNORM | POLLWRBAND);
}

static int reach(int fd, const char *path) {
    struct sockaddr_un a = path_name(path);
    return connect(fd, (void *)&a, sizeof a);
}

static void names(void) {
    umask(022);
    int s = named_socket(SOCK_STREAM, "stream");
    struct stat st;
    CALL(stat("stream", &st));
    FACT(st.st_mode & 0170777);
    CALL(open("stream", O_RDWR));
    CALL(access("stream", W_OK));
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(reach(c, "stream"));
    FACT(named_socket(SOCK_STREAM, "stream"));
    CALL(listen(s, 2));
    CALL(reach(c, "missing"));
    close(open("file", O_CREAT | O_WRONLY, 0600));
    CALL(reach(c, "file"));
    int d = socket(AF_UNIX, SOCK_DGRAM, 0);
    CALL(reach(d, "stream"));
    CALL(reach(c, "stream"));
    CALL(reach(c, "stream"));
    struct sockaddr_un a;
    socklen_t n = sizeof a;
    CALL(getpeername(c, (void *)&a, &n));
    printf("%u %s\n", n, a.sun_path);
    n = sizeof a;
    CALL(getsockname(c, (void *)&a, &n));
    FACT(n);
    n = sizeof a;
    int e = accept(s, (void *)&a, &n);
    FACT(n);
    n = sizeof a;
    CALL(getsockname(e, (void *)&a, &n));
    printf("%u %s\n", n, a.sun_path);
    CALL(write(c, "through the tree", 16));
    char buffer[32] = {0};
    CALL(read(e, buffer, 32));
    puts(buffer);
    CALL(rename("stream", "moved"));
    int second = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(reach(second, "moved"));
    CALL(unlink("moved"));
    CALL(reach(second, "moved"));
    close(second), close(c), close(e), close(s), close(d);
    s = named_socket(SOCK_STREAM, "left");
    close(s);
    c = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(reach(c, "left"));
    CALL(unlink("left"));
    unlink("file");
    /* Names without a file. */
    a = (struct sockaddr_un){.sun_family = AF_UNIX};
    sprintf(a.sun_path + 1, "perdure-%d", getpid());
    n = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(bind(s, (void *)&a, n));
    int t = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(bind(t, (void *)&a, n));
    CALL(connect(t, (void *)&a, n));
    CALL(listen(s, 1));
    CALL(connect(t, (void *)&a, n));
    close(s), close(t), close(c);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(bind(s, (void *)&a, n));
    close(s);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(listen(s, 1));
    CALL(bind(s, (void *)&a, 2));
    n = sizeof a;
    getsockname(s, (void *)&a, &n);
    FACT(n);
    FACT(a.sun_path[0]);
    close(s);
    a = path_name("x");
    CALL(bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, 200));
}

static void pairs(void) {
    int p[2];
    char buffer[64] = {0};
    CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p));
    FACT(fcntl(p[0], F_GETFD));
    FACT(!!(fcntl(p[1], F_GETFL) & O_NONBLOCK));
    CALL(read(p[0], buffer, 8));
    CALL(write(p[1], "abc", 3));
    CALL(write(p[1], "def", 3));
    CALL(recv(p[0], buffer, 4, 0));
    CALL(recv(p[0], buffer, 4, 0));
    CALL(shutdown(p[0], SHUT_RD));
    signal(SIGPIPE, SIG_IGN);
    CALL(write(p[1], "x", 1));
    FACT(events(p[1], POLLIN | POLLOUT | POLLRDHUP));
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    CALL(write(p[0], "y", 1));
    close(p[1]);
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    CALL(read(p[0], buffer, 8));
    CALL(read(p[0], buffer, 8));
    close(p[0]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    CALL(write(p[0], "unread", 6));
    CALL(write(p[1], "kept", 4));
    close(p[1]);
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    CALL(read(p[0], buffer, 8));
    CALL(read(p[0], buffer, 8));
    CALL(read(p[0], buffer, 8));
    CALL(write(p[0], "x", 1));
    close(p[0]);
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p));
    CALL(send(p[0], "first", 5, 0));
    CALL(send(p[0], "", 0, 0));
    CALL(send(p[0], "second one", 10, MSG_EOR));
    CALL(recv(p[1], buffer, 64, 0));
    CALL(recv(p[1], buffer, 64, 0));
    CALL(recv(p[1], buffer, 3, MSG_TRUNC));
    CALL(recv(p[1], buffer, 3, MSG_DONTWAIT));
    close(p[0]);
    CALL(recv(p[1], buffer, 3, 0));
    CALL(send(p[1], "x", 1, MSG_NOSIGNAL));
    close(p[1]);
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    CALL(send(p[0], "one", 3, 0));
    CALL(send(p[0], "three", 5, 0));
    CALL(recv(p[1], buffer, 2, 0));
    CALL(recv(p[1], buffer, 8, 0));
    close(p[0]);
    CALL(send(p[1], "x", 1, 0));
    CALL(send(p[1], "x", 1, 0));
    close(p[1]);
}

static void datagrams(void) {
    int a = named_socket(SOCK_DGRAM, "a"), b = named_socket(SOCK_DGRAM, "b"), c = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un at = path_name("a"), from;
    CALL(sendto(b, "named", 5, 0, (void *)&at, sizeof at));
    CALL(sendto(c, "unnamed", 7, 0, (void *)&at, sizeof at));
    char buffer[16] = {0};
    socklen_t n = sizeof from;
    CALL(recvfrom(a, buffer, 16, 0, (void *)&from, &n));
    printf("%u %s\n", n, from.sun_path);
    n = sizeof from;
    CALL(recvfrom(a, buffer, 16, 0, (void *)&from, &n));
    FACT(n);
    CALL(reach(c, "a"));
    int sent = 0;
    while (send(c, "more", 4, MSG_DONTWAIT) == 4) sent++;
    FACT(sent);
    FACT(errno == EAGAIN);
    FACT(events(c, POLLOUT));
    CALL(recv(a, buffer, 16, 0));
    FACT(events(c, POLLOUT));
    CALL(reach(a, "b"));
    CALL(send(c, "x", 1, 0));
    close(a);
    CALL(send(c, "x", 1, 0));
    CALL(sendto(c, "x", 1, 0, (void *)&at, sizeof at));
    close(b), close(c);
    unlink("a"), unlink("b");
}

/* Sends a byte and some descriptors. */
static ssize_t pass(int to, const int *fds, int count) {
    char control[CMSG_SPACE(sizeof(int) * 8)] = {0}, byte = 'd';
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control};
    m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    return sendmsg(to, &m, 0);
}

/* Receives descriptors with so much room for them; prints what it was told. */
static int take(int from, int *fds, size_t room, int flags) {
    _Alignas(8) char control[256] = {0}, byte[4];
    struct iovec io = {byte, 4};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control};
    m.msg_controllen = room;
    ssize_t n = recvmsg(from, &m, flags);
    int count = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    }
    /* qemu does not say that one of two was cut off. */
    int shown = room == CMSG_LEN(sizeof(int)) ? 0 : m.msg_flags & ~MSG_CMSG_CLOEXEC;
    printf("%zd bytes, %d descriptors, flags %#x\n", n, count, shown);
    return count;
}

static void passing(void) {
    int p[2], q[2], fds[8] = {0};
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    pipe(q);
    CALL(pass(p[0], q, 2));
    CALL(write(p[0], "after", 5));
    close(q[0]);
    FACT(take(p[1], fds, 256, MSG_CMSG_CLOEXEC));
    FACT(fcntl(fds[0], F_GETFD));
    CALL(write(q[1], "same pipe", 9));
    char buffer[16] = {0};
    CALL(read(fds[0], buffer, 16));
    puts(buffer);
    close(fds[0]), close(fds[1]);
    CALL(read(p[1], buffer, 16));
    /* Less room than descriptors. */
    int two[2] = {q[1], q[1]};
    CALL(pass(p[0], two, 2));
    FACT(take(p[1], fds, CMSG_LEN(sizeof(int)), 0));
    close(fds[0]);
    CALL(pass(p[0], two, 2));
    FACT(take(p[1], fds, 0, 0));
    CALL(pass(p[0], two, 1));
    CALL(read(p[1], buffer, 16));
    int bad = 99;
    CALL(pass(p[0], &bad, 1));
    /* Peeking makes copies. */
    CALL(pass(p[0], two, 1));
    FACT(take(p[1], fds, 256, MSG_PEEK));
    FACT(take(p[1], fds + 1, 256, 0));
    FACT(fds[0] != fds[1]);
    close(fds[0]), close(fds[1]);
    /* The writer in the message keeps the pipe open; it goes with the message. */
    int r[2];
    pipe(r);
    CALL(pass(p[0], r + 1, 1));
    close(r[1]);
    FACT(events(r[0], POLLIN));
    close(p[1]);
    FACT(events(r[0], POLLIN));
    close(p[0]), close(r[0]), close(q[1]);
}

static void credentials(void) {
    int p[2], on = 1;
    socketpair(AF_UNIX, SOCK_DGRAM, 0, p);
    CALL(setsockopt(p[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    pid_t child = fork();
    if (child == 0) {
        send(p[0], "who", 3, 0);
        _exit(0);
    }
    _Alignas(8) char control[64];
    char buffer[8];
    struct iovec io = {buffer, 8};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 64};
    CALL(recvmsg(p[1], &m, 0));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    FACT(c->cmsg_type == SCM_CREDENTIALS);
    struct ucred *who = (void *)CMSG_DATA(c);
    FACT(who->pid == child);
    FACT(who->uid == getuid());
    waitpid(child, NULL, 0);
    struct ucred peer;
    socklen_t n = sizeof peer;
    CALL(getsockopt(p[0], SOL_SOCKET, SO_PEERCRED, &peer, &n));
    close(p[0]), close(p[1]);
    int s = named_socket(SOCK_STREAM, "who");
    listen(s, 1);
    child = fork();
    if (child == 0) {
        int d = socket(AF_UNIX, SOCK_STREAM, 0);
        reach(d, "who");
        n = sizeof peer;
        getsockopt(d, SOL_SOCKET, SO_PEERCRED, &peer, &n);
        _exit(peer.pid == getppid());
    }
    int e = accept(s, NULL, NULL);
    n = sizeof peer;
    getsockopt(e, SOL_SOCKET, SO_PEERCRED, &peer, &n);
    FACT(peer.pid == child);
    FACT(peer.gid == getgid());
    int status;
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    close(s), close(e), unlink("who");
}

static void backlog(void) {
    int s = named_socket(SOCK_STREAM, "busy"), c[4], good = 0;
    listen(s, 1);
    for (int i = 0; i < 4; i++) {
        c[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        good += reach(c[i], "busy") == 0;
    }
    FACT(good);
    FACT(errno == EAGAIN);
    pid_t child = fork();
    if (child == 0) {
        int d = socket(AF_UNIX, SOCK_STREAM, 0);
        _exit(reach(d, "busy") == 0 && write(d, "late", 4) == 4 ? 3 : 4);
    }
    char text[8];
    for (int i = 0; i < 3; i++) {
        int e = accept(s, NULL, NULL);
        if (i == 2) FACT(read(e, text, 8));
        close(e);
    }
    int status;
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    for (int i = 0; i < 4; i++) close(c[i]);
    close(s), unlink("busy");
}

static int wait_for(int poller, const char *what) {
    struct epoll_event e[8];
    int n = epoll_wait(poller, e, 8, 0);
    printf("%s:", what);
    for (int i = 0; i < n; i++) printf(" %d:%#x", e[i].data.u32, e[i].events);
    puts("");
    return n;
}

static void watch(int poller, int operation, int fd, uint32_t events, uint32_t data) {
    struct epoll_event e = {.events = events, .data.u32 = data};
    epoll_ctl(poller, operation, fd, &e);
}

static void pollers(void) {
    int p[2], poller = epoll_create1(EPOLL_CLOEXEC);
    char buffer[64];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
    watch(poller, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLRDHUP, 1);
    wait_for(poller, "nothing");
    write(p[1], "data", 4);
    wait_for(poller, "level");
    wait_for(poller, "level again");
    watch(poller, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET | EPOLLRDHUP, 1);
    wait_for(poller, "edge");
    wait_for(poller, "edge again");
    read(p[0], buffer, 2);
    wait_for(poller, "edge, part read");
    write(p[1], "more", 4);
    wait_for(poller, "edge, more");
    watch(poller, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 1);
    wait_for(poller, "once");
    wait_for(poller, "once again");
    watch(poller, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 1);
    wait_for(poller, "armed");
    watch(poller, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLRDHUP, 1);
    watch(poller, EPOLL_CTL_ADD, p[1], EPOLLOUT, 2);
    wait_for(poller, "both");
    while (write(p[1], buffer, 64) > 0) {}
    watch(poller, EPOLL_CTL_MOD, p[0], 0, 1);
    wait_for(poller, "full");
    while (read(p[0], buffer, 64) > 0) {}
    wait_for(poller, "empty");
    watch(poller, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLRDHUP, 1);
    watch(poller, EPOLL_CTL_DEL, p[1], 0, 0);
    shutdown(p[1], SHUT_WR);
    wait_for(poller, "half");
    int copy = dup(p[0]);
    close(p[1]);
    wait_for(poller, "hang up");
    close(p[0]);
    wait_for(poller, "a copy is open");
    close(copy);
    wait_for(poller, "closed");
    close(poller);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(p[0], &in);
    FD_SET(p[0], &out);
    write(p[1], "x", 1);
    struct timeval zero = {0, 0};
    FACT(select(p[0] + 1, &in, &out, NULL, &zero));
    FACT(FD_ISSET(p[0], &in) * 10 + FD_ISSET(p[0], &out));
    close(p[0]), close(p[1]);
}

/* Threads and processes that wait for each other through sockets. */
static int ring[4][2];
static void *pass_on(void *which) {
    long i = (long)which;
    char byte;
    while (read(ring[i][1], &byte, 1) == 1)
        if (write(ring[(i + 1) % 4][0], &byte, 1) != 1) break;
    shutdown(ring[(i + 1) % 4][0], SHUT_WR);
    return NULL;
}

static void waiting(void) {
    pthread_t threads[3];
    for (int i = 0; i < 4; i++) socketpair(AF_UNIX, SOCK_STREAM, 0, ring[i]);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, pass_on, (void *)i);
    int sum = 0;
    for (int i = 0; i < 200; i++) {
        unsigned char byte = i;
        write(ring[0][0], &byte, 1);
        read(ring[3][1], &byte, 1);
        sum += byte;
    }
    FACT(sum);
    shutdown(ring[0][0], SHUT_WR);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    char byte;
    FACT(read(ring[3][1], &byte, 1));
    /* A large message needs many turns. */
    int p[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    pid_t child = fork();
    static char block[1000000];
    if (child == 0) {
        close(p[0]);
        memset(block, 'z', sizeof block);
        _exit(write(p[1], block, sizeof block) == sizeof block ? 5 : 6);
    }
    close(p[1]);
    long got = 0, n;
    while ((n = read(p[0], block, 30000)) > 0) got += n;
    FACT(got);
    int status;
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    close(p[0]);
}

/* A socket that travels in itself is gone with its last descriptor; Linux takes its time. */
static int garbage(void) {
    int p[2], r[2];
    pipe(r);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    int self[3] = {p[0], p[1], r[1]};
    pass(p[0], self, 3);
    pass(p[1], self, 3);
    close(r[1]);
    int before = events(r[0], POLLIN);
    close(p[0]), close(p[1]);
    return before == 0 && events(r[0], POLLIN) == POLLHUP ? 0 : 1;
}

/* A server and a client that are programs of their own: `serve PORT` and `ask PORT`. */
static int talk(int serves, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0), sum = 0;
    if (serves) {
        bind(s, (void *)&at, sizeof at);
        listen(s, 4);
        int e = accept(s, NULL, NULL), value;
        while (read(e, &value, sizeof value) == sizeof value) {
            value = value * 2 + 1;
            write(e, &value, sizeof value);
        }
        return puts("served") < 0;
    }
    while (connect(s, (void *)&at, sizeof at)) usleep(10);
    for (int i = 0; i < 100; i++) {
        int value = i;
        struct pollfd p = {.fd = s, .events = POLLIN};
        write(s, &value, sizeof value);
        poll(&p, 1, -1);
        read(s, &value, sizeof value);
        sum += value;
    }
    printf("%d\n", sum);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 2) return talk(arguments[1][0] == 's', atoi(arguments[2]));
    if (count > 1) return garbage();
    setvbuf(stdout, NULL, _IOLBF, 0);
    names();
    pairs();
    datagrams();
    passing();
    credentials();
    backlog();
    pollers();
    waiting();
    return 0;
}
