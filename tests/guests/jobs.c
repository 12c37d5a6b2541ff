/*
 * End-to-end test: processes that are stopped and go on.
 *
 *   jobs [exact | for-ever]
 *
 * A parent stops, watches and continues its children in every way that there is. Always true:
 * what is printed is fixed; whoever waits for something that must not happen waits for a moment.
 * `exact` also looks for what emulators of Linux leave out; `for-ever` stops itself, with nobody to
 * continue it.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static volatile long *counters;
static int pipe_ends[2];
static volatile int notices, last_code, last_status;

static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    notices++;
    last_code = info->si_code;
    last_status = info->si_status;
}

static void on_signal(int signal)
{
    char letter = (char)('A' + signal);
    if (write(pipe_ends[1], &letter, 1) != 1) {
        _exit(3);
    }
}

/* A child in a group of its own. */
static pid_t begin(void)
{
    pid_t child = make_child();
    if (child == 0) {
        setpgid(0, 0);
    }
    return child;
}

/* What waitpid says, in words. */
static void show(const char *what, pid_t child, int options)
{
    int status = 0;
    pid_t found = waitpid(child, &status, options);
    printf("%s: ", what);
    if (found == 0) {
        printf("nothing\n");
    } else if (found < 0) {
        printf("%s\n", strerror(errno));
    } else if (WIFSTOPPED(status)) {
        printf("stopped by %d\n", WSTOPSIG(status));
    } else if (WIFCONTINUED(status)) {
        printf("continued\n");
    } else if (WIFSIGNALED(status)) {
        printf("killed by %d\n", WTERMSIG(status));
    } else {
        printf("exited with %d\n", WEXITSTATUS(status));
    }
}

static void show_id(const char *what, pid_t child, int options)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    int result = waitid(P_PID, (id_t)child, &info, options);
    printf("%s: %d signal %d code %d status %d\n", what, result, info.si_signo, info.si_code,
           info.si_status);
}

static char state_of(pid_t child)
{
    char path[64], text[512] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) {
        return '?';
    }
    close(file);
    char *end = strrchr(text, ')');
    return end ? end[2] : '?';
}

static char letter(void)
{
    char found = 0;
    return read(pipe_ends[0], &found, 1) == 1 ? found : '?';
}

static int silent(void)
{
    struct pollfd entry = {pipe_ends[0], POLLIN, 0};
    return poll(&entry, 1, 20) == 0;
}

static void *count_for_ever(void *counter)
{
    for (;;) {
        ++*(volatile long *)counter;
    }
    return NULL;
}

static void by_itself(void)
{
    puts("-- a child stops itself");
    pid_t child = begin();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(letter() == 'x' ? 7 : 1);
    }
    show("stop", child, WUNTRACED);
    EXPECT(notices == 1 && last_code == CLD_STOPPED && last_status == SIGSTOP);
    EXPECT(state_of(child) == 'T');
    show("again", child, WUNTRACED | WNOHANG);
    kill(child, SIGCONT);
    show("continue", child, WCONTINUED);
    /* A child tells that it goes on only once it does. */
    while (notices < 2) {
        moment(1);
    }
    EXPECT(notices == 2 && last_code == CLD_CONTINUED && last_status == SIGCONT);
    show("again", child, WCONTINUED | WNOHANG);
    if (write(pipe_ends[1], "x", 1) != 1) {
        _exit(3);
    }
    show("end", child, WUNTRACED | WCONTINUED);
    EXPECT(notices == 3 && last_code == CLD_EXITED && last_status == 7);
}

static void with_threads(void)
{
    puts("-- threads that run are stopped, too");
    counters[0] = counters[1] = 0;
    pid_t child = begin();
    if (child == 0) {
        pthread_t other;
        pthread_create(&other, NULL, count_for_ever, (void *)&counters[1]);
        count_for_ever((void *)&counters[0]);
    }
    while (counters[0] == 0 || counters[1] == 0) {
        moment(1);
    }
    kill(child, SIGSTOP);
    show_id("peek", child, WSTOPPED | WNOWAIT);
    show_id("peek", child, WSTOPPED | WEXITED | WNOWAIT);
    show_id("take", child, WSTOPPED);
    show_id("nothing more", child, WSTOPPED | WNOHANG);
    long before = counters[0] + counters[1];
    moment(10);
    EXPECT(counters[0] + counters[1] == before);
    kill(child, SIGCONT);
    show_id("peek", child, WCONTINUED | WNOWAIT);
    show_id("take", child, WCONTINUED);
    while (counters[0] + counters[1] == before) {
        moment(1);
    }
    kill(child, SIGSTOP);
    show("stop", child, WUNTRACED);
    kill(child, SIGKILL);
    show("kill", child, WUNTRACED);
}

static void by_terminal_signals(void)
{
    puts("-- signals of a terminal");
    for (int signal = SIGTSTP; signal <= SIGTTOU; signal++) {
        pid_t child = begin();
        if (child == 0) {
            raise(signal);
            _exit(signal);
        }
        show("stop", child, WUNTRACED);
        kill(child, SIGCONT);
        show("end", child, 0);
    }
    pid_t child = begin();
    if (child == 0) {
        signal(SIGTSTP, on_signal);
        signal(SIGTTIN, SIG_IGN);
        raise(SIGTSTP);
        raise(SIGTTIN);
        sigset_t set, pending;
        sigemptyset(&set);
        sigaddset(&set, SIGTTOU);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGTTOU);
        sigpending(&pending);
        int was = sigismember(&pending, SIGTTOU);
        raise(SIGCONT);
        sigpending(&pending);
        int is = sigismember(&pending, SIGTTOU);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        _exit(was * 2 + is);
    }
    show("caught, ignored, called off", child, WUNTRACED);
    EXPECT(letter() == 'A' + SIGTSTP);
}

static void what_waits(void)
{
    puts("-- what comes while it is stopped");
    pid_t child = begin();
    if (child == 0) {
        signal(SIGTERM, on_signal);
        raise(SIGSTOP);
        moment(5);
        _exit(9);
    }
    show("stop", child, WUNTRACED);
    kill(child, SIGTERM);
    EXPECT(silent());
    kill(child, SIGCONT);
    EXPECT(letter() == 'A' + SIGTERM);
    show("end", child, 0);

    int in[2], out[2];
    if (pipe(in) || pipe(out)) {
        exit(2);
    }
    child = begin();
    if (child == 0) {
        char byte = 0;
        struct timespec time = {0, 15000000};
        int slept = nanosleep(&time, NULL);
        if (write(out[1], "r", 1) != 1 || read(in[0], &byte, 1) != 1) {
            _exit(1);
        }
        byte = (char)(byte + 1);
        _exit(write(out[1], &byte, 1) == 1 && slept == 0 ? 0 : 2);
    }
    kill(child, SIGSTOP);
    show("stop in a sleep", child, WUNTRACED);
    moment(20);
    kill(child, SIGCONT);
    char byte = 0;
    EXPECT(read(out[0], &byte, 1) == 1 && byte == 'r');
    moment(2);
    kill(child, SIGSTOP);
    show("stop in a read", child, WUNTRACED);
    EXPECT(write(in[1], "b", 1) == 1);
    struct pollfd entry = {out[0], POLLIN, 0};
    EXPECT(poll(&entry, 1, 20) == 0);
    kill(child, SIGCONT);
    EXPECT(read(out[0], &byte, 1) == 1 && byte == 'c');
    show("end", child, 0);
}

static void whole_groups(void)
{
    puts("-- a group");
    pid_t first = begin();
    if (first == 0) {
        count_for_ever((void *)&counters[2]);
    }
    setpgid(first, first);
    fflush(stdout);
    pid_t second = fork();
    if (second == 0) {
        setpgid(0, first);
        count_for_ever((void *)&counters[3]);
    }
    setpgid(second, first);
    kill(-first, SIGTTIN);
    show("first", first, WUNTRACED);
    show("second", second, WUNTRACED);
    show("no more", -first, WUNTRACED | WNOHANG);
    kill(-first, SIGCONT);
    show("first", first, WCONTINUED);
    show("second", second, WCONTINUED);
    kill(-first, SIGTERM);
    show("first", first, 0);
    show("second", second, 0);
    show("nobody", -first, WUNTRACED);
}

static void orphans(void)
{
    puts("-- a stopped group that nobody looks after any more");
    pid_t leader = begin();
    if (leader == 0) {
        pid_t middle = fork();
        if (middle == 0) {
            setsid();
            pid_t last = fork();
            if (last == 0) {
                setpgid(0, 0);
                signal(SIGHUP, on_signal);
                signal(SIGCONT, on_signal);
                raise(SIGTSTP);
                raise(SIGTSTP);
                on_signal(20);
                _exit(0);
            }
            int status;
            waitpid(last, &status, WUNTRACED);
            _exit(WIFSTOPPED(status));
        }
        int status;
        waitpid(middle, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    show("leader", leader, 0);
    char got[4] = {0};
    for (int i = 0; i < 3; i++) {
        got[i] = letter();
    }
    EXPECT(got[2] == 'A' + 20);
    EXPECT((got[0] == 'A' + SIGHUP && got[1] == 'A' + SIGCONT) ||
           (got[0] == 'A' + SIGCONT && got[1] == 'A' + SIGHUP));
}

int main(int argc, char **argv)
{
    int exact = argc > 1 && strcmp(argv[1], "exact") == 0;
    if (argc > 1 && !exact) {
        raise(SIGSTOP);
        return 1;
    }
    counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counters == MAP_FAILED || pipe(pipe_ends)) {
        perror("jobs");
        return 2;
    }
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    by_itself();
    action.sa_flags |= SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, NULL);
    notices = 0;
    with_threads();
    EXPECT((notices == 1 || !exact) && last_code == CLD_KILLED);
    by_terminal_signals();
    what_waits();
    whole_groups();
    orphans();
    show("nobody is left", -1, WUNTRACED | WCONTINUED);
    return 0;
}
