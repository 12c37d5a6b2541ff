/* Children that have ended, and such that end otherwise than others; barriers; stacks of handlers.
 * children.txt has the facts as Linux itself states them. */
#include "facts.h"
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static char stacks[2][65536] __attribute__((aligned(16)));

/* A child that has ended, and that nobody has asked for. */
static pid_t ended(void)
{
    siginfo_t info;
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    return child;
}

static void groups(void)
{
    int ends[2];
    pid_t first = ended(), other = ended();
    CALL(setpgid(first, 0));
    FACT(getpgid(first) == first);
    CALL(setpgid(first, getpgrp()));
    FACT(getpgid(first) == getpgrp());
    CALL(setpgid(first, 999999));
    CALL(setpgid(first, first));
    CALL(setpgid(other, first)); /* Its members have all ended, and it is there. */
    CALL(kill(-first, 0));
    FACT(waitpid(-first, NULL, 0) == first);
    FACT(waitpid(-first, NULL, 0) == other);
    CALL(setpgid(first, first));
    CALL(setpgid(first, 0));
    /* Somebody else's. */
    if (pipe(ends)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        pid_t own = ended();
        if (write(ends[1], &own, sizeof own) < 0) _exit(2);
        pause();
    }
    if (read(ends[0], &other, sizeof other) < 0) exit(2);
    CALL(setpgid(other, other));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static int seven(void *unused)
{
    return 7 + (unused != NULL);
}

static int becomes_another(void *arguments)
{
    return execv("/proc/self/exe", arguments);
}

static pid_t told_by(int signal, int stack)
{
    return clone(seven, stacks[stack] + sizeof stacks[stack], signal, NULL);
}

static void others(void)
{
    int status;
    siginfo_t info;
    pid_t child = told_by(0, 0);
    CALL(waitpid(child, &status, 0));
    CALL(waitpid(-1, &status, WNOHANG));
    FACT(waitpid(child, &status, __WCLONE) == child);
    FACT(WEXITSTATUS(status));
    signal(SIGUSR2, SIG_IGN);
    child = told_by(SIGUSR2, 0);
    CALL(waitid(P_PID, child, &info, WEXITED));
    CALL(waitid(P_PID, child, &info, WEXITED | __WCLONE | WNOWAIT));
    FACT(waitpid(child, &status, __WALL) == child);
    child = told_by(SIGCHLD, 0);
    CALL(waitpid(child, &status, __WCLONE));
    FACT(waitpid(child, &status, 0) == child);
    signal(SIGCHLD, SIG_IGN);
    child = told_by(0, 0);
    FACT(waitpid(child, &status, __WALL) == child);
    signal(SIGCHLD, SIG_DFL);
    pid_t usual = told_by(SIGCHLD, 0), unusual = told_by(0, 1);
    FACT(waitpid(-1, &status, 0) == usual);
    CALL(waitpid(-1, &status, 0));
    FACT(waitpid(-1, &status, __WCLONE) == unusual);
    /* Another program ends as all programs do. */
    char *arguments[] = {"children", "ends", NULL};
    child = clone(becomes_another, stacks[0] + sizeof stacks[0], 0, arguments);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT | __WALL);
    CALL(waitpid(child, &status, __WCLONE));
    FACT(waitpid(child, &status, 0) == child);
    /* Who gets one from somebody who has ended is told as usual. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    child = fork();
    if (child == 0) {
        child = told_by(0, 0);
        waitid(P_PID, child, &info, WEXITED | WNOWAIT | __WALL);
        _exit(0);
    }
    FACT(waitpid(child, &status, 0) == child);
    FACT(waitpid(-1, &status, 0) > 0);
    FACT(WEXITSTATUS(status));
    CALL(waitpid(-1, &status, __WALL));
}

static int barrier(int command, int flags)
{
    return syscall(SYS_membarrier, command, flags, 0);
}

static void barriers(void)
{
    CALL(barrier(MEMBARRIER_CMD_QUERY, 1));
    CALL(barrier(MEMBARRIER_CMD_GLOBAL, 1));
    CALL(barrier(MEMBARRIER_CMD_GLOBAL, 0));
    CALL(barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0));
    CALL(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
    CALL(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 1));
    CALL(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 1));
    CALL(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
    CALL(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
    CALL(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
    CALL(barrier(3, 0));
    CALL(barrier(1 << 20, 0));
    CALL(barrier(-1, 0));
    pid_t child = fork();
    if (child == 0) {
        CALL(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
        fflush(stdout);
        execl("/proc/self/exe", "children", "barrier", NULL);
        _exit(2);
    }
    waitpid(child, NULL, 0);
}

static stack_t meanwhile;
static int replaced;

static void note(int signal)
{
    stack_t other = {.ss_sp = stacks[1], .ss_size = sizeof stacks[1]};
    sigaltstack(NULL, &meanwhile);
    replaced = signal == SIGUSR1 ? sigaltstack(&other, NULL) : 0;
}

static void show(const char *what)
{
    stack_t now;
    sigaltstack(NULL, &now);
    printf("%s: flags %x, first %d, size %zu\n", what, now.ss_flags, now.ss_sp == stacks[0], now.ss_size);
}

static void stacks_of_handlers(void)
{
    stack_t stack = {.ss_sp = stacks[0], .ss_size = sizeof stacks[0], .ss_flags = 1U << 31};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL);
    CALL(sigaltstack(&stack, NULL));
    show("it disarms itself");
    for (int number = 0; number < 2; number++) {
        raise(number ? SIGUSR2 : SIGUSR1);
        FACT(meanwhile.ss_flags);
        FACT(meanwhile.ss_sp == NULL && meanwhile.ss_size == 0);
        FACT(replaced);
        show("again");
    }
    stack.ss_flags = SS_ONSTACK | 1U << 31;
    CALL(sigaltstack(&stack, NULL));
    stack.ss_flags = SS_DISABLE | 1U << 31;
    CALL(sigaltstack(&stack, NULL));
    show("none");
    stack.ss_flags = 4;
    CALL(sigaltstack(&stack, NULL));
    stack.ss_flags = 3;
    CALL(sigaltstack(&stack, NULL));
    stack.ss_flags = SS_ONSTACK;
    CALL(sigaltstack(&stack, NULL));
    raise(SIGUSR1);
    FACT(meanwhile.ss_flags);
    FACT(replaced);
    show("it stays");
    /* What a handler sets that runs elsewhere, its end takes back. */
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    FACT(replaced);
    show("it stays");
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1) {
        if (strcmp(arguments[1], "barrier") == 0)
            CALL(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
        return 0;
    }
    groups();
    others();
    barriers();
    stacks_of_handlers();
    return 0;
}
