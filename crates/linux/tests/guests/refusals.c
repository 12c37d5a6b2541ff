/* What sockets, locks and names are refused with, and in which order things are looked at; what a file shows
 * behind its old end. refusals.txt has the facts as Linux itself states them. */
#include "facts.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct sockaddr_in inet = {.sin_family = AF_INET};
static struct sockaddr_in6 inet6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
static struct sockaddr_un name = {.sun_family = AF_UNIX};

static struct sockaddr *at(const char *path)
{
    strcpy(name.sun_path, path);
    return (struct sockaddr *)&name;
}

static void binding(void)
{
    struct sockaddr *any = (struct sockaddr *)&inet, *any6 = (struct sockaddr *)&inet6;
    int stream = socket(AF_INET, SOCK_STREAM, 0), null = open("/dev/null", O_RDWR);
    CALL(bind(-1, NULL, 0));
    CALL(bind(null, NULL, 0));
    CALL(bind(stream, NULL, sizeof inet));
    CALL(bind(stream, any, 15));
    CALL(bind(stream, any6, sizeof inet6));
    inet.sin_family = AF_UNSPEC;
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CALL(bind(stream, any, sizeof inet));
    CALL(bind(stream, any, 8));
    inet.sin_addr.s_addr = 0;
    inet.sin_port = htons(12345);
    CALL(bind(stream, any, sizeof inet));
    socklen_t length = sizeof inet;
    CALL(getsockname(stream, any, &length));
    FACT(ntohs(inet.sin_port));
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    stream = socket(AF_INET6, SOCK_STREAM, 0);
    CALL(bind(stream, any, sizeof inet));
    CALL(bind(stream, any, 28));
    CALL(bind(stream, any6, 23));
    CALL(connect(stream, any, sizeof inet));
    CALL(connect(stream, any, 28));
    int datagrams = socket(AF_INET6, SOCK_DGRAM, 0);
    CALL(connect(datagrams, any, sizeof inet));
    CALL(connect(datagrams, any6, 23));

    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(bind(local, at("missing/name"), sizeof name));
    CALL(bind(local, at("/dev/null/name"), sizeof name));
    CALL(bind(local, at("name"), sizeof name));
    CALL(bind(local, at("name"), sizeof name));
    CALL(bind(local, at("missing/name"), sizeof name));
    CALL(bind(local, at("/dev/null/name"), sizeof name));
    CALL(bind(local, at("other"), sizeof name));
    CALL(access("other", F_OK));
    CALL(bind(local, at(""), 3));
    CALL(bind(local, at(""), 2));
}

static void options(void)
{
    int stream = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);
    int value = 1, pair[2];
    socklen_t length = -1;
    CALL(getsockopt(stream, 999, 1, &value, NULL));
    CALL(getsockopt(stream, IPPROTO_UDP, 1, &value, &length));
    CALL(getsockopt(stream, IPPROTO_IPV6, 26, &value, &length));
    CALL(getsockopt(stream, IPPROTO_TCP, 9999, &value, &length));
    CALL(getsockopt(local, IPPROTO_TCP, TCP_NODELAY, &value, NULL));
    CALL(setsockopt(local, IPPROTO_TCP, TCP_NODELAY, &value, 4));
    CALL(setsockopt(stream, 999, 1, &value, 4));
    length = 4;
    CALL(getsockopt(stream, IPPROTO_TCP, 9999, &value, &length));
    CALL(getsockopt(local, SOL_SOCKET, SO_PEERNAME, &value, &length));
    CALL(getsockopt(local, SOL_SOCKET, SO_PEERGROUPS, &value, &length));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(2);
    CALL(getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, &value, &length));
    FACT(length);
    length = 4;
    CALL(getsockopt(pair[0], SOL_SOCKET, SO_PEERNAME, &value, &length));
    FACT(length);
    value = 1;
    CALL(setsockopt(stream, SOL_SOCKET, SO_DEBUG, &value, 4));
    CALL(setsockopt(stream, SOL_SOCKET, SO_PRIORITY, &value, 4));
    value = 7;
    CALL(setsockopt(stream, SOL_SOCKET, SO_PRIORITY, &value, 4));
    value = 0;
    CALL(setsockopt(stream, SOL_SOCKET, SO_DEBUG, &value, 4));
    CALL(setsockopt(stream, SOL_SOCKET, SO_BINDTODEVICE, "absent", 6));
    CALL(setsockopt(stream, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
}

static void packets(void)
{
    int pair[2];
    char byte[10];
    static char many[300000];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) exit(2);
    CALL(write(pair[0], "xyz", 3));
    CALL(read(pair[1], byte, 0)); /* It asks for nothing and takes nothing. */
    CALL(read(pair[1], byte, 2));
    CALL(recv(pair[1], byte, 2, MSG_DONTWAIT));
    CALL(send(pair[0], "ab", 2, 0));
    CALL(send(pair[0], "cd", 2, 0));
    CALL(recv(pair[1], byte, 10, MSG_WAITALL));
    CALL(recv(pair[1], byte, 0, 0));
    CALL(recv(pair[1], byte, 2, MSG_DONTWAIT));
    CALL(send(pair[0], "ab", 2, MSG_OOB));
    CALL(recv(pair[1], byte, 2, MSG_OOB));
    CALL(sendto(pair[0], "q", 1, 0, at("nobody"), sizeof name));
    CALL(recv(pair[1], byte, 10, MSG_DONTWAIT));
    CALL(shutdown(pair[0], SHUT_WR));
    CALL(recv(pair[1], byte, 2, 0));
    CALL(send(pair[0], "a", 1, MSG_NOSIGNAL));
    CALL(send(pair[1], "a", 1, MSG_NOSIGNAL));
    close(pair[0]);
    CALL(send(pair[1], "a", 1, MSG_NOSIGNAL));
    CALL(send(pair[1], "a", 1, MSG_NOSIGNAL));
    CALL(recv(pair[1], byte, 1, 0));
    int cut[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, cut)) exit(2);
    CALL(send(cut[1], "unread", 6, 0));
    CALL(send(cut[0], "b", 1, 0));
    close(cut[0]);
    CALL(recv(cut[1], byte, 1, 0)); /* What went wrong comes before what was sent. */
    CALL(recv(cut[1], byte, 1, 0));
    CALL(recv(cut[1], byte, 1, 0));
    struct pollfd both = {pair[1], POLLIN | POLLOUT | POLLRDHUP, 0};
    CALL(poll(&both, 1, 0));
    FACT(both.revents);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), stream = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(listen(listener, 1));
    CALL(bind(listener, at("packets"), sizeof name));
    CALL(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    CALL(listen(listener, 1));
    CALL(connect(stream, at("packets"), sizeof name));
    int client = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CALL(send(client, "a", 1, MSG_NOSIGNAL));
    CALL(recv(client, byte, 1, 0));
    CALL(sendto(client, "a", 1, MSG_NOSIGNAL, at("packets"), sizeof name));
    CALL(connect(client, at("packets"), sizeof name));
    CALL(connect(client, at("packets"), sizeof name));
    int server = accept(listener, NULL, NULL);
    struct sockaddr_un from;
    struct iovec piece = {byte, 2};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &piece, .msg_iovlen = 1};
    CALL(send(client, "pqr", 3, MSG_EOR));
    CALL(recvmsg(server, &message, 0));
    FACT(message.msg_namelen);
    FACT(message.msg_flags);
    CALL(send(client, "a", 1, 0));
    close(client);
    CALL(recv(server, byte, 5, 0));
    CALL(recv(server, byte, 5, 0));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) exit(2);
    CALL(send(pair[0], many, sizeof many, MSG_DONTWAIT));
}

static void locks(void)
{
    int pipe_ends[2], pair[2], other[2];
    struct flock lock = {.l_type = F_WRLCK};
    if (pipe(pipe_ends) || pipe(other) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(2);
    CALL(fcntl(pipe_ends[0], F_SETLK, &lock));
    CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
    lock.l_type = F_RDLCK;
    CALL(fcntl(pipe_ends[0], F_SETLK, &lock));
    if (fork() == 0) {
        lock.l_type = F_WRLCK;
        CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
        CALL(fcntl(other[1], F_SETLK, &lock));
        CALL(fcntl(pipe_ends[1], F_GETLK, &lock));
        FACT(lock.l_type == F_RDLCK && lock.l_pid == getppid());
        close(pipe_ends[0]); /* Which is not what the parent has. */
        CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    close(dup(pipe_ends[1]));
    if (fork() == 0) {
        lock.l_type = F_WRLCK;
        CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_END;
    lock.l_start = -1;
    CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
    lock.l_start = 0;
    CALL(fcntl(pipe_ends[1], F_SETLK, &lock));
    CALL(fcntl(pair[0], F_SETLK, &lock));
    CALL(fcntl(pair[1], F_OFD_SETLK, &lock));
    CALL(fcntl(pair[0], F_OFD_SETLK, &lock));
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), here = open(".", O_RDONLY);
    CALL(sync_file_range(null, 0, 0, 0));
    CALL(sync_file_range(null, 0, 0, 8));
    CALL(sync_file_range(zero, 0, 0, 7));
    CALL(sync_file_range(here, 0, 0, 7));
    CALL(sync_file_range(open("/proc/self/stat", O_RDONLY), 0, 0, 7));
}

static void names(void)
{
    struct stat status;
    umask(022);
    CALL(mknod("named", S_IFSOCK | 0666, 0));
    CALL(stat("named", &status));
    FACT(status.st_mode);
    CALL(open("named", O_RDWR));
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(connect(local, at("named"), sizeof name));
    CALL(bind(local, at("named"), sizeof name));
    CALL(mknod("named", S_IFSOCK | 0666, 0));
    CALL(unlink("named"));
    CALL(mknod("named", S_IFCHR | 0644, makedev(1, 3)));
    CALL(mknod("named", S_IFBLK | 0644, makedev(1, 3)));
    CALL(mknod("named", S_IFDIR | 0644, 0));
    CALL(mknod("named", S_IFLNK | 0644, 0));
    CALL(mknod("named", S_IFMT, 0));
    CALL(mknod("named/", S_IFSOCK | 0644, 0));
    CALL(mknod(".", S_IFCHR | 0644, makedev(1, 3)));
    CALL(mknod("missing/named", S_IFCHR | 0644, makedev(1, 3)));
}

/* What was stored behind the end through a mapping. */
#define STORED strcpy(page + 10, "behind")

static void tails(void)
{
    char bytes[100];
    struct stat status;
    int file = open("tail", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (write(file, "hello", 5) < 5) exit(2);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    STORED;
    CALL(fstat(file, &status));
    FACT(status.st_size);
    FACT(page[10]);
    CALL(ftruncate(file, 100));
    FACT(page[10]);
    CALL(pread(file, bytes, 100, 0));
    FACT(bytes[10]);
    CALL(ftruncate(file, 5));
    STORED;
    CALL(pwrite(file, "x", 1, 50));
    FACT(page[10]);
    CALL(ftruncate(file, 5));
    FACT(page[10]);
    STORED;
    CALL(fallocate(file, 0, 0, 100));
    FACT(page[10]);
    CALL(ftruncate(file, 5));
    STORED;
    CALL(ftruncate(file, 5));
    FACT(page[10]);
    STORED;
    CALL(ftruncate(file, 8192));
    FACT(page[10]);
    CALL(ftruncate(file, 5));
    STORED;
    CALL(pwrite(file, "x", 1, 5000));
    FACT(page[10]);
    CALL(ftruncate(file, 5));
    STORED;
    CALL(pwrite(file, "1234567890", 10, 5));
    FACT(page[10]);
    FACT(page[15]); /* A write where the file ends leaves what lies beyond. */
    CALL(ftruncate(file, 100));
    FACT(page[15]);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    binding();
    options();
    packets();
    locks();
    names();
    tails();
    return 0;
}
