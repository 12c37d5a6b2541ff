// Programs that processes go on as: execve, vfork, posix_spawn, scripts, what stays and what goes.
// Every line names a fact and its value on Linux; execution.txt has them all. (qemu-user cannot
// start programs of another machine, so this one is not compared with it.)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;

static void say(const char *what, long value)
{
    printf("%s: %ld\n", what, value);
    fflush(stdout);
}

static int reap(pid_t child)
{
    int status = -1;
    pid_t got = waitpid(child, &status, 0);
    if (got != child)
        printf("waitpid: %d instead of the child, %s\n", (int)got, strerror(errno));
    return status;
}

static void on_signal(int signal)
{
    (void)signal;
}

static int run(char *const arguments[])
{
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        execve(arguments[0], arguments, environ);
        _exit(126);
    }
    return reap(child);
}

static void *keeps_running(void *argument)
{
    (void)argument;
    for (;;)
        sched_yield();
    return NULL;
}

// What is a thread's own goes with it: its niceness, and where it may run.
static void *executes(void *argument)
{
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
    if (setpriority(PRIO_PROCESS, 0, 7) || sched_setaffinity(0, sizeof last, &last) ||
        prctl(PR_SET_TIMERSLACK, 4321, 0, 0, 0))
        _exit(124);
    // Under its own number it owns a file, and nobody does when it has another one.
    int ends[2];
    struct f_owner_ex owner = {F_OWNER_TID, (int)syscall(SYS_gettid)};
    if (pipe(ends) || fcntl(ends[0], F_SETOWN_EX, &owner))
        _exit(123);
    execve(self, argument, environ);
    _exit(125);
}

static void execution(void)
{
    say("exec: status", run((char *[]){self, "child", "exit", "17", NULL}));
    say("exec: nothing there", run((char *[]){"./nowhere", NULL}) >> 8);
    int kept = open("kept", O_RDWR | O_CREAT, 0600);
    int closed = open("closed", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char kept_text[16], closed_text[16];
    snprintf(kept_text, sizeof kept_text, "%d", kept);
    snprintf(closed_text, sizeof closed_text, "%d", closed);
    say("exec: descriptors",
        run((char *[]){self, "child", "descriptors", kept_text, closed_text, NULL}) >> 8);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, on_signal);
    say("exec: actions", run((char *[]){self, "child", "actions", NULL}) >> 8);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    setenv("GIVEN", "by the parent", 1);
    say("exec: environment", run((char *[]){self, "child", "environment", NULL}));
    say("exec: arguments",
        run((char *[]){self, "child", "arguments", "", "a b", "\xff\xfe", NULL}) >> 8);

    int script = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    dprintf(script, "#! %s  child script \t\nnonsense\n", self);
    close(script);
    say("exec: a script", run((char *[]){"./script", "first", "second", NULL}) >> 8);
    int chain = open("script2", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    dprintf(chain, "#!./script\n");
    close(chain);
    say("exec: a script's script", run((char *[]){"./script2", NULL}) >> 8);
    // A script that is named by a descriptor, or below one, is told by that name.
    const int descriptor = 50, folder = 51;
    for (int closes = 0; closes <= 1; closes++) {
        dup3(open("script", O_RDONLY), descriptor, closes ? O_CLOEXEC : 0);
        dup3(open(".", O_RDONLY), folder, closes ? O_CLOEXEC : 0);
        fflush(stdout);
        pid_t both[2];
        for (int below = 0; below <= 1; below++) {
            both[below] = fork();
            if (both[below] == 0) {
                char *const words[] = {"named", "first", NULL};
                if (below)
                    syscall(SYS_execveat, folder, "script", words, environ, 0);
                else
                    syscall(SYS_execveat, descriptor, "", words, environ, AT_EMPTY_PATH);
                _exit(errno == ENOENT ? 101 : 102);
            }
            say("exec: a script by a descriptor", reap(both[below]) >> 8);
        }
    }
    close(descriptor);
    close(folder);
    int loop = open("loop", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    dprintf(loop, "#!./loop\n");
    close(loop);
    say("exec: a script that is its own interpreter", run((char *[]){"./loop", NULL}) >> 8);
    int data = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    dprintf(data, "neither program nor script\n");
    close(data);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("./data", "data", NULL);
        _exit(errno == ENOEXEC ? 1 : 2);
    }
    say("exec: ENOEXEC", WEXITSTATUS(reap(child)));
    chmod("data", 0600);
    child = fork();
    if (child == 0) {
        execl("./data", "data", NULL);
        _exit(errno == EACCES ? 1 : 2);
    }
    say("exec: EACCES", WEXITSTATUS(reap(child)));
    child = fork();
    if (child == 0) {
        execl("./", "directory", NULL);
        _exit(errno == EACCES ? 1 : 2);
    }
    say("exec: a directory", WEXITSTATUS(reap(child)));
    child = fork();
    if (child == 0) {
        static char *many[70000];
        static char word[] = "0123456789abcdef0123456789abcdef0123456789abcdef";
        for (int i = 0; i < 69999; i++)
            many[i] = word;
        execv(self, many);
        _exit(errno == E2BIG ? 1 : 2);
    }
    say("exec: E2BIG", WEXITSTATUS(reap(child)));

    // From a thread that is not the first, while others run and wait.
    child = fork();
    if (child == 0) {
        pthread_t threads[3];
        static char *arguments[] = {NULL, "child", "leader", NULL, NULL};
        static char number[16];
        arguments[0] = self;
        snprintf(number, sizeof number, "%d", (int)getpid());
        arguments[3] = number;
        pthread_create(&threads[0], NULL, keeps_running, NULL);
        pthread_create(&threads[1], NULL, keeps_running, NULL);
        pthread_create(&threads[2], NULL, executes, arguments);
        for (;;)
            pause();
    }
    say("exec: from a thread", WEXITSTATUS(reap(child)));

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int out[2];
    if (pipe(out))
        exit(1);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    pid_t spawned = 0;
    char *arguments[] = {self, "child", "print", NULL};
    say("spawn", posix_spawn(&spawned, self, &actions, NULL, arguments, environ));
    close(out[1]);
    char text[64] = "";
    ssize_t length = read(out[0], text, sizeof text - 1);
    say("spawn: length", length);
    printf("spawn: %s", text);
    say("spawn: status", reap(spawned));
    say("spawn: nothing there",
        posix_spawn(&spawned, "./nowhere", NULL, NULL, arguments, environ) == ENOENT);
    close(out[0]);
    close(kept);
    close(closed);
    for (const char *const *name = (const char *const[]){"kept", "closed", "script", "script2", "loop",
                                                   "data", NULL};
         *name; name++)
        unlink(*name);
}

static int is_as_the_thread_was(void)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    return getpriority(PRIO_PROCESS, 0) == 7 && prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 4321 &&
           !sched_getaffinity(0, sizeof own, &own) && CPU_COUNT(&own) == 1 &&
           CPU_ISSET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &own);
}

static int child_main(int count, char **arguments)
{
    const char *what = arguments[0];
    if (!strcmp(what, "exit"))
        return atoi(arguments[1]);
    if (!strcmp(what, "descriptors")) {
        int first = fcntl(atoi(arguments[1]), F_GETFD) == 0;
        int second = fcntl(atoi(arguments[2]), F_GETFD) == -1 && errno == EBADF;
        return first | second << 1;
    }
    if (!strcmp(what, "actions")) {
        struct sigaction ignored, reset;
        sigaction(SIGUSR1, NULL, &ignored);
        sigaction(SIGUSR2, NULL, &reset);
        return (ignored.sa_handler == SIG_IGN) | (reset.sa_handler == SIG_DFL) << 1;
    }
    if (!strcmp(what, "environment"))
        return strcmp(getenv("GIVEN"), "by the parent") != 0;
    if (!strcmp(what, "arguments"))
        return count == 4 && !*arguments[1] && !strcmp(arguments[2], "a b") &&
               !strcmp(arguments[3], "\xff\xfe");
    if (!strcmp(what, "leader"))
        return getpid() != atoi(arguments[1]) || syscall(SYS_gettid) != getpid() ? 22
               : !is_as_the_thread_was()                                        ? 23
                                                                                : 21;
    if (!strcmp(what, "file")) {
        char file[256] = "";
        if (readlink("/proc/self/exe", file, sizeof file - 1) < 0)
            return 1;
        puts(file);
        return 0;
    }
    if (!strcmp(what, "print")) {
        printf("printed by %s\n", "a spawned child");
        return 0;
    }
    return 99;
}

int main(int count, char **arguments)
{
    self = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "child script")) {
        // Of a script: the rest of its first line, its path, and its arguments.
        printf("script:");
        for (int i = 2; i < count; i++)
            printf(" %s", arguments[i]);
        printf("\n");
        return count;
    }
    if (count > 2 && !strcmp(arguments[1], "child"))
        return child_main(count - 2, arguments + 2);
    execution();
    return 0;
}
