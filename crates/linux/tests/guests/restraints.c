/* What threads bind themselves to by prctl, who looks after orphans, and what /proc says of a process's
   signals and rights. restraints.txt has the values on Linux. (qemu-user has signals of its own.) */
#include "facts.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define GET(option) prctl(option, 0, 0, 0, 0)

/* A line of /proc/self/status, or of the calling thread's. */
static const char *line(const char *key)
{
    static char found[8][128];
    static int turn;
    char *text = found[turn++ % 8];
    FILE *file = fopen("/proc/thread-self/status", "r");
    strcpy(text, "not there");
    char read[512];
    while (file && fgets(read, sizeof read, file)) {
        size_t length = strlen(key);
        if (!strncmp(read, key, length) && read[length] == ':') {
            read[strcspn(read, "\n")] = '\0';
            strncpy(text, read + length + 2, 127);
        }
    }
    if (file)
        fclose(file);
    return text;
}
#define LINE(key) printf("%s: %s\n", key, line(key))

static void handler(int signal) { (void)signal; }

static void *of_a_thread(void *unused)
{
    FACT(GET(PR_GET_TIMERSLACK));
    FACT(prctl(PR_SET_TIMERSLACK, 99, 0, 0, 0));
    FACT(GET(PR_GET_TIMERSLACK));
    FACT(prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0));
    FACT(GET(PR_GET_TIMERSLACK));
    FACT(GET(PR_GET_NO_NEW_PRIVS));
    FACT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    FACT(GET(PR_GET_NO_NEW_PRIVS));
    LINE("NoNewPrivs");
    prctl(PR_SET_NAME, "second", 0, 0, 0);
    char path[64], name[17] = "", link[64] = "", wanted[80];
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)syscall(SYS_gettid));
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    int file = openat(directory, "comm", O_RDONLY);
    FACT(read(file, name, 16) == 7 && !strcmp(name, "second\n"));
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(wanted, sizeof wanted, "/proc/%d/task/%d/comm", (int)getpid(), (int)syscall(SYS_gettid));
    FACT(readlink(path, link, sizeof link) == (ssize_t)strlen(wanted) && !strcmp(link, wanted));
    close(file);
    close(directory);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    LINE("SigPnd");
    LINE("ShdPnd");
    LINE("SigBlk");
    struct timespec now = {0, 0};
    FACT(sigtimedwait(&set, NULL, &now) == SIGUSR1);
    LINE("SigPnd");
    return unused;
}

static void threads(void)
{
    FACT(GET(PR_GET_TIMERSLACK));
    FACT(prctl(PR_SET_TIMERSLACK, 1234, 0, 0, 0));
    FACT(GET(PR_GET_TIMERSLACK));
    pthread_t thread;
    pthread_create(&thread, NULL, of_a_thread, NULL);
    pthread_join(thread, NULL);
    FACT(GET(PR_GET_NO_NEW_PRIVS));
    FACT(prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0));
    FACT(GET(PR_GET_TIMERSLACK));
}

/* A number of /proc/self/stat, counted from 1. */
static long field(int number)
{
    char text[512] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file || !fgets(text, sizeof text, file))
        exit(1);
    fclose(file);
    char *rest = strrchr(text, ')') + 2;
    for (int at = 3; at < number; at++)
        rest = strchr(rest, ' ') + 1;
    return atol(rest);
}

/* In a child, for whom the rest is as it was. */
static void place(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t last;
        CPU_ZERO(&last);
        CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
        struct sched_param none = {0};
        FACT(setpriority(PRIO_PROCESS, 0, 5) + sched_setaffinity(0, sizeof last, &last));
        FACT(sched_setscheduler(0, SCHED_BATCH, &none));
        FACT(field(18));
        FACT(field(19));
        FACT(field(39) == sysconf(_SC_NPROCESSORS_ONLN) - 1);
        FACT(field(41));
        FACT(field(20));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void status(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGQUIT, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGTERM);
    LINE("SigPnd");
    LINE("ShdPnd");
    LINE("SigBlk");
    LINE("SigIgn");
    LINE("SigCgt");
    LINE("Seccomp");
    LINE("Mems_allowed_list");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    LINE("ShdPnd");
    FACT(strlen(line("CapEff")));
}

/* A grandchild whose parent ends; it says when it sees that. */
static pid_t orphan(int *seen, int dies_first)
{
    int numbers[2];
    if (pipe(numbers))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        pid_t parent = getpid();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            if (dies_first)
                _exit(5);
            while (getppid() == parent)
                usleep(1000);
            pid_t now = getppid();
            if (write(numbers[1], &now, sizeof now) != sizeof now)
                _exit(1);
            _exit(6);
        }
        if (dies_first)
            waitid(P_PID, (id_t)grandchild, NULL, WEXITED | WNOWAIT);
        if (write(numbers[1], &grandchild, sizeof grandchild) != sizeof grandchild)
            _exit(1);
        _exit(7);
    }
    pid_t grandchild = 0;
    if (read(numbers[0], &grandchild, sizeof grandchild) != sizeof grandchild)
        exit(1);
    int result = 0;
    FACT(waitpid(child, &result, 0) == child && WEXITSTATUS(result) == 7);
    *seen = 0;
    if (!dies_first && read(numbers[0], seen, sizeof *seen) != sizeof *seen)
        exit(1);
    close(numbers[0]);
    close(numbers[1]);
    return grandchild;
}

static volatile sig_atomic_t children;
static void on_child(int signal) { children += signal == SIGCHLD; }

static void orphans(void)
{
    int reaps = 7, result = 0, parent = 0;
    FACT(prctl(PR_GET_CHILD_SUBREAPER, &reaps, 0, 0, 0));
    FACT(reaps);
    FACT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    FACT(prctl(PR_GET_CHILD_SUBREAPER, &reaps, 0, 0, 0));
    FACT(reaps);
    CALL(prctl(PR_GET_CHILD_SUBREAPER, 8, 0, 0, 0));
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    pid_t left = orphan(&parent, 0);
    FACT(parent == getpid());
    FACT(waitpid(left, &result, 0) == left && WEXITSTATUS(result) == 6);
    FACT(children > 0);
    left = orphan(&parent, 1);
    FACT(waitpid(-1, &result, 0) == left && WEXITSTATUS(result) == 5);
    CALL(waitpid(-1, &result, 0));

    /* A child does not reap for itself, but its orphans come to the one that does. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_GET_CHILD_SUBREAPER, &reaps, 0, 0, 0);
        FACT(reaps);
        int seen = 0;
        pid_t below = orphan(&seen, 0);
        FACT(seen == getppid());
        CALL(waitpid(below, &result, 0));
        fflush(stdout);
        _exit(8);
    }
    FACT(waitpid(child, &result, 0) == child && WEXITSTATUS(result) == 8);
    FACT(waitpid(-1, &result, 0) > 0 && WEXITSTATUS(result) == 6);

    /* Who ignores them is left none. */
    signal(SIGCHLD, SIG_IGN);
    fflush(stdout);
    int done[2];
    if (pipe(done))
        exit(1);
    child = fork();
    if (child == 0) {
        signal(SIGCHLD, SIG_DFL);
        pid_t below = fork();
        if (below == 0)
            _exit(0);
        waitid(P_PID, (id_t)below, NULL, WEXITED | WNOWAIT);
        close(done[0]);
        _exit(0);
    }
    close(done[1]);
    char byte;
    FACT(read(done[0], &byte, 1));
    CALL(waitpid(-1, &result, 0));
    signal(SIGCHLD, SIG_DFL);

    FACT(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0));
    left = orphan(&parent, 0);
    FACT(parent != getpid());
    CALL(waitpid(left, &result, 0));
}

int main(void)
{
    status();
    place();
    threads();
    orphans();
    return 0;
}
