/*
 * End-to-end test: FIFOs, and what pipes can do beside reading and writing.
 *
 *   fifos                        everything, in the current directory
 *   fifos send NAME [COUNT]      writes COUNT numbers (default 2000) into the FIFO NAME
 *   fifos receive NAME           reads numbers from it to its end, and prints their sum
 *
 * Always true: what is printed is fixed; either end of a FIFO may come first.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

static char page[1 << 17];

static short events_of(int file, short wanted)
{
    struct pollfd entry = {file, wanted, 0};
    poll(&entry, 1, 0);
    return entry.revents;
}

static void on_alarm(int signal)
{
    (void)signal;
}

static void opening(void)
{
    puts("-- opening");
    CALL(mkfifo("f", 0640));
    CALL(mkfifo("f", 0600));
    struct stat status;
    CALL(stat("f", &status));
    EXPECT(S_ISFIFO(status.st_mode) && (status.st_mode & 0777) == 0640 && status.st_size == 0);
    CALL(open("f", O_WRONLY | O_NONBLOCK));
    int reader = open("f", O_RDONLY | O_NONBLOCK);
    EXPECT(reader >= 0);
    EXPECT(events_of(reader, POLLIN) == 0);
    CALL(read(reader, page, 1));
    int writer = open("f", O_WRONLY | O_NONBLOCK);
    EXPECT(writer >= 0);
    CALL(read(reader, page, 1));
    CALL(write(writer, "hello", 5));
    EXPECT(events_of(reader, POLLIN) == POLLIN);
    EXPECT(events_of(writer, POLLOUT) == POLLOUT);
    fstat(reader, &status);
    struct stat other;
    stat("f", &other);
    EXPECT(status.st_ino == other.st_ino && S_ISFIFO(status.st_mode));
    CALL(lseek(reader, 0, SEEK_SET));
    CALL(ftruncate(writer, 0));
    CALL(close(writer));
    CALL(read(reader, page, 3));
    EXPECT(events_of(reader, POLLIN) == (POLLIN | POLLHUP));
    CALL(read(reader, page, 3));
    CALL(read(reader, page, 3));
    EXPECT(events_of(reader, POLLIN) == POLLHUP);
    close(reader);

    int both = open("f", O_RDWR);
    EXPECT(both >= 0);
    CALL(write(both, "kept while open", 15));
    CALL(unlink("f"));
    CALL(access("f", F_OK));
    CALL(read(both, page, 100));
    close(both);

    mkfifo("f", 0600);
    both = open("f", O_RDWR | O_NONBLOCK);
    CALL(write(both, "lost", 4));
    close(both);
    both = open("f", O_RDWR | O_NONBLOCK);
    CALL(read(both, page, 4));
    close(both);

    for (int first = 0; first < 2; first++) {
        pid_t child = make_child();
        if (child == 0) {
            moment(first ? 5 : 0);
            int file = open("f", O_WRONLY);
            _exit(file >= 0 && write(file, "met", 3) == 3 ? 0 : 1);
        }
        moment(first ? 0 : 5);
        reader = open("f", O_RDONLY);
        EXPECT(read(reader, page, 10) == 3 && read(reader, page, 10) == 0);
        close(reader);
        CALL(end_of(child));
    }

    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    ualarm(5000, 0);
    CALL(open("f", O_RDONLY));
    chmod("f", 0200);
    CALL(open("f", O_RDONLY | O_NONBLOCK | O_DIRECTORY));
    unlink("f");
}

static void opening_together(void)
{
    puts("-- many wait for one");
    mkfifo("g", 0600);
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = make_child();
        if (children[i] == 0) {
            char byte;
            int file = open("g", O_RDONLY);
            _exit(read(file, &byte, 1) == 1 ? byte : 99);
        }
    }
    moment(10);
    pid_t killed = make_child();
    if (killed == 0) {
        open("g", O_RDONLY);
        _exit(1);
    }
    moment(5);
    kill(killed, SIGKILL);
    CALL(end_of(killed));
    int writer = open("g", O_WRONLY);
    CALL(unlink("g"));
    CALL(write(writer, "\1\2\3", 3));
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        sum += end_of(children[i]);
    }
    EXPECT(sum == 6);
    signal(SIGPIPE, SIG_IGN);
    CALL(write(writer, "x", 1));
    EXPECT(events_of(writer, POLLOUT) & POLLERR);
    close(writer);
}

static void sizes(void)
{
    puts("-- sizes");
    int ends[2];
    CALL(pipe2(ends, O_NONBLOCK));
    CALL(fcntl(ends[0], F_GETPIPE_SZ));
    CALL(fcntl(ends[1], F_SETPIPE_SZ, 100000));
    CALL(fcntl(ends[0], F_GETPIPE_SZ));
    CALL(write(ends[1], page, sizeof page));
    CALL(write(ends[1], page, 1));
    EXPECT(events_of(ends[1], POLLOUT) == 0);
    int held = 0;
    CALL(ioctl(ends[1], FIONREAD, &held));
    EXPECT(held == 131072);
    CALL(fcntl(ends[0], F_SETPIPE_SZ, 4096));
    CALL(read(ends[0], page, 4096 * 31));
    CALL(fcntl(ends[0], F_SETPIPE_SZ, 1));
    CALL(ioctl(ends[0], FIONREAD, &held));
    EXPECT(held == 4096);
    CALL(write(ends[1], page, 10));
    CALL(read(ends[0], page, 5000));
    CALL(write(ends[1], page, 5000));
    CALL(fcntl(ends[0], F_SETPIPE_SZ, 1L << 30) < 0);
    close(ends[0]);
    close(ends[1]);
}

static void packets(void)
{
    puts("-- packets");
    int ends[2];
    CALL(pipe2(ends, O_DIRECT | O_NONBLOCK));
    CALL(write(ends[1], "one", 3));
    CALL(write(ends[1], "two two", 7));
    CALL(write(ends[1], "three", 5));
    CALL(read(ends[0], page, 100));
    CALL(read(ends[0], page, 3));
    CALL(read(ends[0], page, 100));
    CALL(write(ends[1], page, 10000));
    CALL(read(ends[0], page, 100000));
    CALL(read(ends[0], page, 100000));
    CALL(read(ends[0], page, 100000));
    int count = 0;
    while (write(ends[1], "x", 1) == 1) {
        count++;
    }
    EXPECT(count == 16);
    close(ends[0]);
    close(ends[1]);
}

static void atomicity(void)
{
    puts("-- writes of up to 4096 bytes are not split");
    int ends[2];
    if (pipe(ends)) {
        exit(2);
    }
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = make_child();
        if (children[i] == 0) {
            close(ends[0]);
            memset(page, 'a' + i, 4096);
            for (int round = 0; round < 12; round++) {
                if (write(ends[1], page, 4096) != 4096) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    close(ends[1]);
    int whole = 0, total = 0;
    for (;;) {
        int got = 0;
        while (got < 4096) {
            ssize_t now = read(ends[0], page + got, (size_t)(4096 - got));
            if (now <= 0) {
                break;
            }
            got += (int)now;
        }
        if (got == 0) {
            break;
        }
        total++;
        whole += got == 4096 && memcmp(page, page + 1, 4095) == 0;
    }
    EXPECT(total == 48 && whole == 48);
    for (int i = 0; i < 4; i++) {
        end_of(children[i]);
    }
    close(ends[0]);
}

static void splicing(void)
{
    puts("-- splice, tee, vmsplice");
    int a[2], b[2];
    if (pipe(a) || pipe(b)) {
        exit(2);
    }
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CALL(write(file, "the quick brown fox", 19));
    off_t at = 4;
    CALL(splice(file, &at, a[1], NULL, 11, 0));
    EXPECT(at == 15);
    CALL(tee(a[0], b[1], 5, 0));
    CALL(splice(a[0], NULL, b[1], NULL, 100, 0));
    CALL(splice(a[0], NULL, b[1], NULL, 100, SPLICE_F_NONBLOCK));
    at = 0;
    int copy = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CALL(splice(b[0], NULL, copy, &at, 100, 0));
    EXPECT(at == 16);
    CALL(pread(copy, page, 100, 0));
    EXPECT(memcmp(page, "quickquick brown", 16) == 0);
    CALL(splice(a[0], NULL, a[1], NULL, 1, 0));
    CALL(splice(file, NULL, file, NULL, 1, 0));
    CALL(splice(a[0], &at, file, NULL, 1, 0));
    CALL(splice(a[1], NULL, file, NULL, 1, 0));
    CALL(tee(a[0], file, 1, 0));
    CALL(tee(a[0], b[1], 0, 0));
    lseek(file, 0, SEEK_END);
    CALL(splice(file, NULL, a[1], NULL, 10, 0));
    struct iovec pieces[2] = {{"abc", 3}, {"defg", 4}};
    CALL(vmsplice(a[1], pieces, 2, 0));
    CALL(read(a[0], page, 100));
    EXPECT(memcmp(page, "abcdefg", 7) == 0);
    pid_t child = make_child();
    if (child == 0) {
        moment(5);
        _exit(write(a[1], "late", 4) == 4 ? 0 : 1);
    }
    lseek(file, 0, SEEK_SET);
    CALL(splice(a[0], NULL, file, NULL, 100, 0));
    CALL(end_of(child));
    close(a[1]);
    CALL(splice(a[0], NULL, file, NULL, 100, 0));
    CALL(tee(a[0], b[1], 100, 0));
    close(b[0]);
    CALL(splice(file, NULL, b[1], NULL, 5, 0));
    CALL(vmsplice(b[1], pieces, 2, 0));
    close(a[0]);
    close(b[1]);
    close(file);
    close(copy);
    unlink("file");
    unlink("copy");
}

static void edges(void)
{
    puts("-- epoll");
    mkfifo("h", 0600);
    int file = open("h", O_RDWR | O_NONBLOCK), set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 7}}, found;
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, file, &event));
    CALL(epoll_wait(set, &found, 1, 0));
    CALL(write(file, "12", 2));
    CALL(epoll_wait(set, &found, 1, 0));
    EXPECT(found.data.u32 == 7 && found.events == EPOLLIN);
    CALL(epoll_wait(set, &found, 1, 0));
    CALL(write(file, "3", 1));
    CALL(epoll_wait(set, &found, 1, 0));
    close(file);
    close(set);
    unlink("h");
}

static int send_numbers(const char *name, int count)
{
    mkfifo(name, 0600);
    FILE *out = fopen(name, "w");
    if (!out) {
        perror(name);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        fprintf(out, "%d\n", i);
    }
    return fclose(out) != 0;
}

static int receive_numbers(const char *name)
{
    mkfifo(name, 0600);
    FILE *in = fopen(name, "r");
    if (!in) {
        perror(name);
        return 2;
    }
    long sum = 0;
    int number, count = 0;
    while (fscanf(in, "%d", &number) == 1) {
        sum += number;
        count++;
    }
    printf("%d numbers, sum %ld\n", count, sum);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "send") == 0) {
        return send_numbers(argv[2], argc > 3 ? atoi(argv[3]) : 2000);
    }
    if (argc > 2) {
        return receive_numbers(argv[2]);
    }
    umask(0);
    opening();
    opening_together();
    sizes();
    packets();
    atomicity();
    splicing();
    edges();
    return 0;
}
