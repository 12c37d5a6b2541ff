/*
 * End-to-end test: pseudo-terminals.
 *
 *   terminals
 *
 * Lines and keys, settings, windows, sessions with jobs, and hanging up. Always true: what is printed
 * is fixed; nobody reads an end before what it waits for has been written.
 */
#include "check.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

static volatile sig_atomic_t got[65];

static void on_signal(int signal)
{
    got[signal]++;
}

static void show(const char *what, const char *bytes, ssize_t count)
{
    printf("%s [", what);
    for (ssize_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (isprint(byte)) {
            putchar(byte);
        } else {
            printf("\\%02x", byte);
        }
    }
    printf("]\n");
}

/* Reads until the text has come, and no further, and shows all of it. */
static void see(int file, const char *text)
{
    char bytes[1024];
    size_t count = 0, length = strlen(text);
    while (count < length || memcmp(bytes + count - length, text, length) != 0) {
        ssize_t now = read(file, bytes + count, count < sizeof bytes);
        if (now <= 0) {
            printf("%s\n", now < 0 ? strerror(errno) : "nothing more");
            break;
        }
        count += (size_t)now;
    }
    show("seen", bytes, (ssize_t)count);
}

static void type(int master, const char *text, size_t length)
{
    if (write(master, text, length) != (ssize_t)length) {
        puts("cannot type");
    }
}

#define TYPE(master, text) type(master, text, sizeof(text) - 1)

static void get(int slave)
{
    char bytes[512];
    ssize_t count = read(slave, bytes, sizeof bytes);
    if (count < 0) {
        printf("cannot read: %s\n", strerror(errno));
    } else {
        show("got", bytes, count);
    }
}

static int ready(int file, short events)
{
    struct pollfd entry = {file, events, 0};
    poll(&entry, 1, 0);
    return entry.revents;
}

static void lines_and_keys(void)
{
    puts("-- lines and keys");
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT(master >= 0 && isatty(master));
    const char *name = ptsname(master);
    EXPECT(name && strncmp(name, "/dev/pts/", 9) == 0);
    CALL(open(name, O_RDWR | O_NOCTTY));
    CALL(grantpt(master));
    CALL(unlockpt(master));
    int slave = open(name, O_RDWR | O_NOCTTY);
    EXPECT(slave >= 0 && isatty(slave) && strcmp(ttyname(slave), name) == 0);
    struct stat status;
    CALL(fstat(slave, &status));
    EXPECT(S_ISCHR(status.st_mode));
    struct termios settings;
    CALL(tcgetattr(slave, &settings));
    printf("%x %x %x %x erase %x\n", settings.c_iflag, settings.c_oflag, settings.c_cflag,
           settings.c_lflag, settings.c_cc[VERASE]);

    EXPECT(ready(slave, POLLIN | POLLOUT) == POLLOUT);
    TYPE(master, "hel");
    EXPECT(ready(slave, POLLIN) == 0);
    TYPE(master, "lo\r");
    see(master, "hello\r\n");
    EXPECT(ready(slave, POLLIN) == POLLIN);
    get(slave);
    TYPE(master, "one\ntwo\n");
    get(slave);
    char two[2];
    CALL(read(slave, two, 2));
    get(slave);
    see(master, "two\r\n");
    CALL(write(slave, "a\nb\tc", 5));
    see(master, "c");
    TYPE(master, "abx\177c two\027three\n");
    get(slave);
    see(master, "three\r\n");
    TYPE(master, "gone\025\026\003lit\033\n");
    get(slave);
    see(master, "\r\n");
    TYPE(master, "no end\004");
    get(slave);
    TYPE(master, "\004");
    get(slave);
    see(master, "no end");
    CALL(lseek(slave, 0, SEEK_SET));
    fcntl(slave, F_SETFL, O_NONBLOCK);
    get(slave);
    TYPE(master, "typed");
    see(master, "typed");
    int count = -1;
    CALL(tcflush(slave, TCIFLUSH));
    TYPE(master, "x\n");
    see(master, "x\r\n");
    CALL(ioctl(slave, FIONREAD, &count));
    EXPECT(count == 2);
    get(slave);

    puts("-- raw");
    struct termios raw = settings;
    cfmakeraw(&raw);
    CALL(tcsetattr(slave, TCSANOW, &raw));
    get(slave);
    fcntl(slave, F_SETFL, 0);
    TYPE(master, "\003\004q\r");
    get(slave);
    CALL(write(slave, "a\nb", 3));
    see(master, "b");
    raw.c_cc[VMIN] = 0;
    CALL(tcsetattr(slave, TCSANOW, &raw));
    get(slave);
    raw.c_cc[VTIME] = 1;
    CALL(tcsetattr(slave, TCSANOW, &raw));
    get(slave);
    TYPE(master, "z");
    get(slave);
    raw.c_lflag |= ICANON;
    CALL(tcsetattr(slave, TCSADRAIN, &raw));
    TYPE(master, "quiet\n");
    get(slave);
    EXPECT(ready(master, POLLIN) == 0);
    CALL(tcsetattr(slave, TCSAFLUSH, &settings));
    EXPECT(tcgetattr(master, &raw) == 0 && memcmp(raw.c_cc, settings.c_cc, NCCS) == 0);

    puts("-- the last ones out");
    CALL(write(slave, "bye\n", 4));
    close(slave);
    see(master, "bye\r\n");
    EXPECT(ready(master, POLLIN) & POLLHUP);
    char byte;
    CALL(read(master, &byte, 1));
    slave = open(name, O_RDWR | O_NOCTTY);
    EXPECT(slave >= 0 && ready(master, POLLIN) == 0);
    char kept[64];
    strcpy(kept, name);
    close(master);
    CALL(read(slave, &byte, 1));
    CALL(write(slave, &byte, 1));
    EXPECT(ready(slave, POLLIN) & POLLHUP);
    CALL(access(kept, F_OK));
    close(slave);
}

static void job(int way)
{
    if (way == 0) {
        signal(SIGINT, on_signal);
        sigset_t keys, none;
        sigemptyset(&none);
        sigemptyset(&keys);
        sigaddset(&keys, SIGINT);
        sigprocmask(SIG_BLOCK, &keys, NULL);
        puts("job waits for a key");
        fflush(stdout);
        sigsuspend(&none);
        puts(got[SIGINT] == 1 ? "interrupted" : "something else");
        fflush(stdout);
        for (;;) {
            pause();
        }
    } else {
        char line[64] = {0};
        ssize_t count = read(0, line, sizeof line);
        printf("job reads %ld: %s", (long)count, line);
        fflush(stdout);
    }
    _exit(way + 5);
}

static void say_status(const char *what, pid_t child)
{
    int status = 0;
    if (waitpid(child, &status, WUNTRACED) != child) {
        printf("%s: %s\n", what, strerror(errno));
    } else if (WIFSTOPPED(status)) {
        printf("%s stopped by %d\n", what, WSTOPSIG(status));
    } else if (WIFSIGNALED(status)) {
        printf("%s killed by %d\n", what, WTERMSIG(status));
    } else {
        printf("%s exits with %d\n", what, WEXITSTATUS(status));
    }
    fflush(stdout);
}

/* A shell's way of running jobs. */
static void lead(const char *name)
{
    setsid();
    EXPECT(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    int slave = open(name, O_RDWR);
    EXPECT(tcgetpgrp(slave) == getpid());
    int own = open("/dev/tty", O_RDWR);
    EXPECT(own >= 0 && isatty(own));
    CALL(ioctl(slave, TIOCSCTTY, 0));
    fflush(stdout);
    close(own);
    dup2(slave, 0);
    dup2(slave, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGWINCH, on_signal);
    signal(SIGHUP, on_signal);
    for (int way = 0; way < 2; way++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGTTOU, SIG_DFL);
            setpgid(0, 0);
            if (way == 0) {
                while (tcgetpgrp(0) != getpid()) {
                    usleep(500);
                }
            }
            job(way);
        }
        setpgid(child, child);
        if (way == 0) {
            tcsetpgrp(0, child);
        }
        say_status("job", child);
        tcsetpgrp(0, child);
        kill(child, SIGCONT);
        puts("in front");
        say_status("job", child);
        tcsetpgrp(0, getpid());
    }
    puts("turn it");
    while (!got[SIGWINCH]) {
        usleep(500);
    }
    struct winsize window;
    ioctl(0, TIOCGWINSZ, &window);
    printf("%d rows, %d columns\n", window.ws_row, window.ws_col);
    while (!got[SIGHUP]) {
        usleep(500);
    }
    char byte;
    _exit(read(0, &byte, 1) == 0 && write(1, "x", 1) == -1 && errno == EIO ? 33 : 1);
}

static void jobs_of_a_session(void)
{
    puts("-- a session");
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master);
    unlockpt(master);
    const char *name = ptsname(master);
    fflush(stdout);
    pid_t leader = fork();
    if (leader == 0) {
        close(master);
        lead(name);
    }
    see(master, "a key\r\n");
    TYPE(master, "\003");
    see(master, "interrupted\r\n");
    TYPE(master, "\032");
    see(master, "stopped by 20\r\n");
    see(master, "in front\r\n");
    TYPE(master, "\034");
    see(master, "stopped by 21\r\n");
    see(master, "in front\r\n");
    TYPE(master, "words\n");
    see(master, "turn it\r\n");
    pid_t foreground = 0;
    CALL(ioctl(master, TIOCGPGRP, &foreground));
    EXPECT(foreground == leader);
    struct winsize window = {30, 90, 0, 0};
    CALL(ioctl(master, TIOCSWINSZ, &window));
    see(master, "columns\r\n");
    close(master);
    int status;
    waitpid(leader, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 33);
}

int main(void)
{
    lines_and_keys();
    jobs_of_a_session();
    return 0;
}
