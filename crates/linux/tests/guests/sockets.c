/* Internet sockets on loopback: names, connections, datagrams, options, errors. */
#include "facts.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

static struct sockaddr_in address(uint32_t ip, int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(ip);
    return a;
}

static int port_of(int fd) {
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (void *)&a, &n)) return -1;
    return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

static int option(int fd, int level, int name) {
    int v = -12345;
    socklen_t n = sizeof v;
    return getsockopt(fd, level, name, &v, &n) ? -errno : v;
}

static int events(int fd, int want) {
    struct pollfd p = {.fd = fd, .events = want};
    poll(&p, 1, 0);
    return p.revents;
}

/* A listener on a port of its own, and a connection to it. */
static int listener(int backlog) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = address(INADDR_LOOPBACK, 0);
    bind(fd, (void *)&a, sizeof a);
    listen(fd, backlog);
    return fd;
}
static int client(int server) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = address(INADDR_LOOPBACK, port_of(server));
    return connect(fd, (void *)&a, sizeof a) ? -1 : fd;
}
static void connection(int pair[2]) {
    int l = listener(5);
    pair[0] = client(l);
    pair[1] = accept(l, NULL, NULL);
    close(l);
}

static void names(void) {
    int s = listener(5), c = client(s);
    struct sockaddr_in a, b;
    socklen_t n = sizeof a;
    int e = accept4(s, (void *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    FACT(n);
    FACT(a.sin_family);
    FACT(ntohs(a.sin_port) == port_of(c));
    FACT(ntohl(a.sin_addr.s_addr) == INADDR_LOOPBACK);
    FACT(fcntl(e, F_GETFD));
    FACT(!!(fcntl(e, F_GETFL) & O_NONBLOCK));
    FACT(port_of(e) == port_of(s));
    n = sizeof b;
    CALL(getpeername(c, (void *)&b, &n));
    FACT(ntohs(b.sin_port) == port_of(s));
    n = 3;
    CALL(getsockname(c, (void *)&b, &n));
    FACT(n);
    CALL(getpeername(s, (void *)&b, &n));
    CALL(bind(c, (void *)&b, sizeof b));
    CALL(listen(c, 1));
    struct stat st;
    fstat(c, &st);
    FACT(S_ISSOCK(st.st_mode));
    FACT(st.st_mode & 0777);
    CALL(lseek(c, 0, SEEK_CUR));
    CALL(pread(c, &st, 1, 0));
    CALL(pwrite(c, &st, 1, 0));
    CALL(fsync(c));
    CALL(ftruncate(c, 0));
    char link[64] = {0}, path[64];
    sprintf(path, "/proc/self/fd/%d", c);
    FACT(readlink(path, link, 8));
    FACT(strcmp(link, "socket:["));
    close(e), close(c), close(s);
}

static void errors(void) {
    char byte;
    CALL(socket(AF_INET, SOCK_SEQPACKET, 0));
    CALL(socket(AF_INET, SOCK_STREAM, 17));
    CALL(socket(77, SOCK_STREAM, 0));
    int pair[2];
    CALL(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    int s = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);
    CALL(accept(s, NULL, NULL));
    CALL(accept(u, NULL, NULL));
    CALL(listen(u, 1));
    CALL(recv(s, &byte, 1, 0));
    CALL(send(s, &byte, 1, MSG_NOSIGNAL));
    CALL(shutdown(s, SHUT_RDWR));
    CALL(shutdown(s, 7));
    CALL(send(u, &byte, 1, 0));
    FACT(events(s, POLLIN | POLLOUT));
    FACT(events(u, POLLIN | POLLOUT));
    struct sockaddr_in a = address(INADDR_LOOPBACK, 1);
    CALL(bind(s, (void *)&a, 8));
    a.sin_family = 55;
    CALL(bind(s, (void *)&a, sizeof a));
    CALL(connect(s, (void *)&a, sizeof a));
    a = address(0x08080808, 53);
    CALL(bind(s, (void *)&a, sizeof a));
    int one = listener(1);
    a = address(INADDR_LOOPBACK, port_of(one));
    CALL(bind(s, (void *)&a, sizeof a));
    a = address(INADDR_ANY, port_of(one));
    CALL(bind(s, (void *)&a, sizeof a));
    int yes = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CALL(bind(s, (void *)&a, sizeof a));
    a = address(INADDR_LOOPBACK, port_of(one));
    close(one);
    CALL(connect(s, (void *)&a, sizeof a));
    int file = open("/dev/null", O_RDONLY);
    CALL(listen(file, 1));
    CALL(recv(file, &byte, 1, 0));
    close(file);
    /* Refused without waiting. */
    int n = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CALL(connect(n, (void *)&a, sizeof a));
    FACT(events(n, POLLIN | POLLOUT | POLLRDHUP));
    FACT(option(n, SOL_SOCKET, SO_ERROR));
    FACT(option(n, SOL_SOCKET, SO_ERROR));
    close(n), close(s), close(u);
}

static void no_waiting(void) {
    int s = listener(5), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in a = address(INADDR_LOOPBACK, port_of(s));
    fcntl(s, F_SETFL, O_NONBLOCK);
    CALL(accept(s, NULL, NULL));
    FACT(events(s, POLLIN | POLLOUT));
    CALL(connect(c, (void *)&a, sizeof a));
    FACT(events(s, POLLIN | POLLOUT));
    FACT(events(c, POLLIN | POLLOUT));
    FACT(option(c, SOL_SOCKET, SO_ERROR));
    CALL(connect(c, (void *)&a, sizeof a));
    CALL(connect(c, (void *)&a, sizeof a));
    int e = accept(s, NULL, NULL);
    char buffer[8];
    CALL(recv(c, buffer, 8, 0));
    CALL(recv(e, buffer, 8, MSG_DONTWAIT));
    CALL(read(c, buffer, 8));
    int on = 0;
    CALL(ioctl(c, FIONBIO, &on));
    FACT(!!(fcntl(c, F_GETFL) & O_NONBLOCK));
    close(c), close(e), close(s);
}

static void bytes(void) {
    int p[2];
    char buffer[64] = {0};
    connection(p);
    CALL(send(p[0], "hello, ", 7, 0));
    CALL(write(p[0], "world", 5));
    int count = 0;
    CALL(ioctl(p[1], FIONREAD, &count));
    FACT(count);
    CALL(recv(p[1], buffer, 5, MSG_PEEK));
    CALL(recv(p[1], buffer, 64, MSG_WAITALL | MSG_DONTWAIT));
    puts(buffer);
    struct iovec io[2] = {{"abc", 3}, {"defg", 4}};
    CALL(writev(p[1], io, 2));
    char x[3] = {0}, y[9] = {0};
    struct iovec in[2] = {{x, 2}, {y, 8}};
    CALL(readv(p[0], in, 2));
    printf("%s %s\n", x, y);
    CALL(recv(p[0], buffer, 0, MSG_DONTWAIT));
    CALL(send(p[0], "", 0, 0));
    CALL(sendto(p[0], "to", 2, 0, NULL, 0));
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    CALL(recvfrom(p[1], buffer, 8, 0, (void *)&from, &n));
    FACT(n);
    int fd = open("sent", O_RDWR | O_CREAT | O_TRUNC, 0600);
    FACT(write(fd, "from a file", 11));
    off_t at = 5;
    CALL(sendfile(p[0], fd, &at, 6));
    FACT(at);
    memset(buffer, 0, 64);
    CALL(recv(p[1], buffer, 64, 0));
    puts(buffer);
    close(fd), unlink("sent");
    /* The end of what one side sends. */
    FACT(events(p[1], POLLIN | POLLOUT | POLLRDHUP));
    CALL(shutdown(p[0], SHUT_WR));
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    FACT(events(p[1], POLLIN | POLLOUT | POLLRDHUP));
    CALL(recv(p[1], buffer, 8, 0));
    CALL(send(p[0], "x", 1, MSG_NOSIGNAL));
    CALL(send(p[1], "back", 4, 0));
    CALL(recv(p[0], buffer, 8, 0));
    CALL(shutdown(p[1], SHUT_RDWR));
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    FACT(events(p[1], POLLIN | POLLOUT | POLLRDHUP));
    close(p[0]), close(p[1]);
}

static volatile int signals;
static void count_signal(int number) { (void)number, signals++; }

static void endings(void) {
    int p[2];
    char buffer[8];
    signal(SIGPIPE, count_signal);
    /* Closed in order. */
    connection(p);
    FACT(write(p[0], "last", 4));
    close(p[0]);
    CALL(recv(p[1], buffer, 8, 0));
    CALL(recv(p[1], buffer, 8, 0));
    CALL(send(p[1], "a", 1, 0));
    CALL(send(p[1], "b", 1, 0));
    FACT(signals);
    CALL(send(p[1], "c", 1, MSG_NOSIGNAL));
    FACT(signals);
    close(p[1]);
    /* Closed with something unread. */
    connection(p);
    FACT(write(p[0], "unread", 6));
    FACT(write(p[1], "kept", 4));
    close(p[1]);
    FACT(events(p[0], POLLIN | POLLOUT | POLLRDHUP));
    CALL(recv(p[0], buffer, 8, 0));
    CALL(recv(p[0], buffer, 8, 0));
    CALL(recv(p[0], buffer, 8, 0));
    CALL(send(p[0], "b", 1, 0));
    FACT(signals);
    close(p[0]);
    /* Closed at once. */
    connection(p);
    struct linger at_once = {1, 0};
    CALL(setsockopt(p[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    close(p[1]);
    FACT(option(p[0], SOL_SOCKET, SO_ERROR));
    close(p[0]);
    /* A listener that goes takes along who waits. */
    int l = listener(5), c = client(l);
    close(l);
    CALL(recv(c, buffer, 8, 0));
    close(c);
}

static void options(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);
    int v = 50000;
    CALL(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, sizeof v));
    CALL(setsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, sizeof v));
    FACT(option(s, SOL_SOCKET, SO_SNDBUF));
    FACT(option(s, SOL_SOCKET, SO_RCVBUF));
    v = 1;
    CALL(setsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, sizeof v));
    FACT(option(s, SOL_SOCKET, SO_RCVBUF));
    CALL(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, sizeof v));
    FACT(option(s, SOL_SOCKET, SO_SNDBUF));
    FACT(option(s, SOL_SOCKET, SO_TYPE));
    FACT(option(u, SOL_SOCKET, SO_TYPE));
    FACT(option(s, SOL_SOCKET, SO_DOMAIN));
    FACT(option(s, SOL_SOCKET, SO_PROTOCOL));
    FACT(option(u, SOL_SOCKET, SO_PROTOCOL));
    FACT(option(s, SOL_SOCKET, SO_ACCEPTCONN));
    listen(s, 1);
    FACT(option(s, SOL_SOCKET, SO_ACCEPTCONN));
    FACT(option(s, SOL_SOCKET, SO_REUSEADDR));
    FACT(option(s, SOL_SOCKET, SO_KEEPALIVE));
    v = 7;
    CALL(setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof v));
    FACT(option(s, SOL_SOCKET, SO_KEEPALIVE));
    CALL(setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &v, sizeof v));
    FACT(option(s, SOL_SOCKET, SO_REUSEPORT));
    CALL(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &v, sizeof v));
    FACT(option(s, IPPROTO_TCP, TCP_NODELAY));
    CALL(setsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &v, sizeof v));
    FACT(option(s, IPPROTO_TCP, TCP_KEEPIDLE));
    FACT(option(s, IPPROTO_TCP, TCP_KEEPINTVL));
    FACT(option(s, IPPROTO_TCP, TCP_KEEPCNT));
    CALL(setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, 2));
    FACT(option(u, IPPROTO_TCP, TCP_NODELAY) < 0);
    FACT(option(s, IPPROTO_IP, IP_TTL));
    FACT(option(u, SOL_SOCKET, SO_BROADCAST));
    struct timeval t = {1, 500000}, got;
    CALL(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
    socklen_t n = sizeof got;
    CALL(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &got, &n));
    FACT(got.tv_sec * 1000000 + got.tv_usec);
    struct linger l = {1, 30}, m;
    CALL(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    n = sizeof m;
    CALL(getsockopt(s, SOL_SOCKET, SO_LINGER, &m, &n));
    FACT(m.l_onoff * 100 + m.l_linger);
    close(s), close(u);
    /* Time that is over. */
    int p[2];
    connection(p);
    t = (struct timeval){0, 30000};
    setsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    char byte;
    CALL(recv(p[0], &byte, 1, 0));
    close(p[0]), close(p[1]);
}

static void datagrams(void) {
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = address(INADDR_LOOPBACK, 0), from;
    CALL(bind(a, (void *)&at, sizeof at));
    at = address(INADDR_LOOPBACK, port_of(a));
    CALL(sendto(b, "one", 3, 0, (void *)&at, sizeof at));
    CALL(sendto(b, "", 0, 0, (void *)&at, sizeof at));
    CALL(sendto(b, "three", 5, 0, (void *)&at, sizeof at));
    FACT(events(a, POLLIN | POLLOUT));
    int count;
    ioctl(a, FIONREAD, &count);
    FACT(count);
    char buffer[16] = {0};
    socklen_t n = sizeof from;
    CALL(recvfrom(a, buffer, 16, 0, (void *)&from, &n));
    FACT(ntohs(from.sin_port) == port_of(b));
    FACT(n);
    CALL(recv(a, buffer, 16, 0));
    CALL(recv(a, buffer, 2, MSG_TRUNC | MSG_PEEK));
    struct iovec io = {buffer, 2};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    CALL(recvmsg(a, &m, 0));
    FACT(m.msg_flags);
    CALL(recv(a, buffer, 16, MSG_DONTWAIT));
    /* Connected: others are not heard, refusals are. */
    CALL(connect(b, (void *)&at, sizeof at));
    CALL(send(b, "again", 5, 0));
    CALL(recv(a, buffer, 16, 0));
    int c = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(INADDR_LOOPBACK, port_of(b));
    CALL(sendto(c, "ignored", 7, 0, (void *)&to, sizeof to));
    CALL(recv(b, buffer, 16, MSG_DONTWAIT));
    CALL(sendto(a, "heard", 5, 0, (void *)&to, sizeof to));
    CALL(recv(b, buffer, 16, MSG_DONTWAIT));
    close(a);
    CALL(send(b, "x", 1, 0));
    CALL(send(b, "x", 1, 0));
    CALL(recv(b, buffer, 16, MSG_DONTWAIT));
    static char large[70000];
    CALL(sendto(c, large, sizeof large, 0, (void *)&to, sizeof to));
    /* Several in one call. */
    int d[2] = {socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};
    at = address(INADDR_LOOPBACK, 0);
    bind(d[0], (void *)&at, sizeof at);
    at = address(INADDR_LOOPBACK, port_of(d[0]));
    connect(d[1], (void *)&at, sizeof at);
    struct iovec parts[3] = {{"a", 1}, {"bb", 2}, {"ccc", 3}};
    struct mmsghdr many[3] = {0};
    for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = &parts[i], many[i].msg_hdr.msg_iovlen = 1;
    CALL(sendmmsg(d[1], many, 3, 0));
    FACT(many[2].msg_len);
    char texts[4][8] = {0};
    struct iovec in[4];
    struct mmsghdr got[4] = {0};
    for (int i = 0; i < 4; i++) {
        in[i] = (struct iovec){texts[i], 8};
        got[i].msg_hdr.msg_iov = &in[i], got[i].msg_hdr.msg_iovlen = 1;
    }
    CALL(recvmmsg(d[0], got, 4, MSG_DONTWAIT, NULL));
    printf("%s %s %s %u\n", texts[0], texts[1], texts[2], got[1].msg_len);
    close(b), close(c), close(d[0]), close(d[1]);
}

static void six(void) {
    int s = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, got;
    CALL(bind(s, (void *)&a, sizeof a));
    CALL(listen(s, 5));
    FACT(option(s, IPPROTO_IPV6, IPV6_V6ONLY));
    int port = port_of(s);
    int c4 = socket(AF_INET, SOCK_STREAM, 0), c6 = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in to = address(INADDR_LOOPBACK, port);
    CALL(connect(c4, (void *)&to, sizeof to));
    a.sin6_addr = in6addr_loopback;
    a.sin6_port = htons(port);
    CALL(connect(c6, (void *)&a, sizeof a));
    char text[64];
    for (int i = 0; i < 2; i++) {
        socklen_t n = sizeof got;
        int e = accept(s, (void *)&got, &n);
        FACT(n);
        puts(inet_ntop(AF_INET6, &got.sin6_addr, text, sizeof text));
        n = sizeof got;
        getsockname(e, (void *)&got, &n);
        puts(inet_ntop(AF_INET6, &got.sin6_addr, text, sizeof text));
        close(e);
    }
    int other = socket(AF_INET, SOCK_STREAM, 0);
    to = address(INADDR_ANY, port);
    CALL(bind(other, (void *)&to, sizeof to));
    close(s), close(c4), close(c6);
    int only = socket(AF_INET6, SOCK_STREAM, 0), yes = 1;
    CALL(setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes));
    a.sin6_port = 0;
    CALL(bind(only, (void *)&a, sizeof a));
    CALL(listen(only, 1));
    c4 = socket(AF_INET, SOCK_STREAM, 0);
    to = address(INADDR_LOOPBACK, port_of(only));
    CALL(connect(c4, (void *)&to, sizeof to));
    close(only), close(c4), close(other);
}

static void interfaces(void) {
    FACT(if_nametoindex("lo"));
    char name[IF_NAMESIZE] = {0};
    if_indextoname(1, name);
    puts(name);
    struct ifaddrs *list, *at;
    int found = 0;
    CALL(getifaddrs(&list));
    for (at = list; at; at = at->ifa_next)
        if (!strcmp(at->ifa_name, "lo") && at->ifa_addr && at->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_in *a = (void *)at->ifa_addr;
            printf("lo %s up %d loopback %d\n", inet_ntoa(a->sin_addr),
                   !!(at->ifa_flags & IFF_UP), !!(at->ifa_flags & IFF_LOOPBACK));
            found++;
        }
    FACT(found);
    freeifaddrs(list);
    struct ifreq r = {.ifr_name = "lo"};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    CALL(ioctl(s, SIOCGIFMTU, &r));
    FACT(r.ifr_mtu);
    CALL(ioctl(s, SIOCGIFADDR, &r));
    puts(inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
    strcpy(r.ifr_name, "none0");
    CALL(ioctl(s, SIOCGIFMTU, &r));
    close(s);
}

/* More than the buffers hold goes through when somebody reads. */
static void traffic(void) {
    enum { TOTAL = 3000000 };
    int l = listener(1);
    pid_t child = fork();
    if (child == 0) {
        int c = client(l);
        static unsigned char out[10007];
        uint32_t value = 1;
        for (int sent = 0; sent < TOTAL;) {
            int n = TOTAL - sent < 10007 ? TOTAL - sent : 10007;
            for (int i = 0; i < n; i++) out[i] = (value = value * 1664525 + 1013904223) >> 24;
            if (send(c, out, n, 0) != n) _exit(1);
            sent += n;
        }
        shutdown(c, SHUT_WR);
        char answer[8];
        _exit(recv(c, answer, 8, MSG_WAITALL) == 8 && !memcmp(answer, "complete", 8) ? 7 : 2);
    }
    int e = accept(l, NULL, NULL);
    static unsigned char in[7001];
    uint32_t value = 1;
    long got = 0, wrong = 0;
    for (;;) {
        ssize_t n = recv(e, in, sizeof in, got % 2 ? MSG_WAITALL : 0);
        if (n <= 0) break;
        for (int i = 0; i < n; i++) wrong += in[i] != (value = value * 1664525 + 1013904223) >> 24;
        got += n;
    }
    FACT(got);
    FACT(wrong);
    FACT(send(e, "comp", 4, 0));
    FACT(send(e, "lete", 4, 0));
    int status;
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    close(e), close(l);
}

/* A socket that is connected to nothing any more can be connected anew; its peer is cut off. */
static void nobody_is_at_the_other_end(void) {
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int l = listener(2), c = client(l), e = accept(l, NULL, NULL);
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    char b[8];
    CALL(send(c, "last", 4, 0));
    CALL(send(e, "lost", 4, 0));
    CALL(connect(c, &nobody, sizeof nobody));
    CALL(getpeername(c, (struct sockaddr *)&at, &size));
    CALL(recv(e, b, sizeof b, 0));
    CALL(recv(e, b, sizeof b, 0));
    CALL(recv(e, b, sizeof b, 0));
    CALL(send(e, "x", 1, MSG_NOSIGNAL));
    close(e);
    size = sizeof at;
    getsockname(l, (struct sockaddr *)&at, &size);
    CALL(connect(c, (struct sockaddr *)&at, sizeof at));
    e = accept(l, NULL, NULL);
    CALL(send(e, "new", 3, 0));
    CALL(recv(c, b, sizeof b, 0));
    CALL(shutdown(c, SHUT_WR));
    CALL(shutdown(e, SHUT_WR));
    CALL(recv(c, b, sizeof b, 0));
    CALL(connect(c, &nobody, sizeof nobody));
    CALL(recv(e, b, sizeof b, 0));
    CALL(recv(e, b, sizeof b, 0));
    close(e);
    CALL(connect(l, &nobody, sizeof nobody));
    CALL(accept(l, NULL, NULL));
    CALL(connect(c, (struct sockaddr *)&at, sizeof at));
    CALL(listen(l, 2));
    close(l), close(c);
    int pair[2];
    for (int kind = 0; kind < 2; kind++) {
        socketpair(AF_UNIX, kind ? SOCK_DGRAM : SOCK_STREAM, 0, pair);
        CALL(connect(pair[0], &nobody, sizeof nobody));
        CALL(send(pair[0], "x", 1, MSG_NOSIGNAL));
        CALL(sendto(pair[0], "x", 1, MSG_NOSIGNAL, &nobody, sizeof nobody));
        CALL(bind(pair[0], &nobody, sizeof nobody));
        close(pair[0]), close(pair[1]);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    names();
    errors();
    no_waiting();
    bytes();
    endings();
    options();
    datagrams();
    six();
    interfaces();
    traffic();
    nobody_is_at_the_other_end();
    return 0;
}
