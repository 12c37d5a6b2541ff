/* Who is woken by something that may be what it waits for, and gets a signal before it has looked. woken.txt
 * has the facts as Linux itself states them. */
#include "facts.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

enum { ROUNDS = 25 };

static volatile int handled;
static int noise[2];

static void count(int signal) { (void)signal, handled++; }

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

/* Another process makes every waiting one look, and sends a signal at once. */
static pid_t disturb(void)
{
    pid_t self = getpid(), child = fork();
    if (child != 0) return child;
    usleep(1000);
    char byte = 0;
    if (write(noise[1], &byte, 1) != 1) _exit(1);
    kill(self, SIGUSR1);
    if (read(noise[0], &byte, 1) != 1) _exit(1);
    _exit(0);
}

enum { POLL, PPOLL, EPOLL, PAUSE, READ, TAKE, WAYS };

static int silent[2], instance;

static int wait_by(int way)
{
    struct pollfd one = {.fd = silent[0], .events = POLLIN};
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    char byte;
    switch (way) {
    case POLL: return poll(&one, 1, 60000);
    case PPOLL: return ppoll(&one, 1, NULL, &none);
    case EPOLL: return epoll_wait(instance, &event, 1, -1);
    case PAUSE: return pause();
    case READ: return (int)read(silent[0], &byte, 1);
    default: {
        sigset_t other;
        sigemptyset(&other);
        sigaddset(&other, SIGUSR2);
        return sigwaitinfo(&other, NULL);
    }
    }
}

/* A handler ends the call, however often something else woke the caller meanwhile. */
static void calls_end(void)
{
    int ended[WAYS] = {0};
    handle(SIGUSR1, count, 0);
    for (int way = 0; way < WAYS; way++)
        for (int round = 0; round < ROUNDS; round++) {
            handled = 0;
            sigset_t own, before;
            sigemptyset(&own);
            sigaddset(&own, SIGUSR1);
            if (way == PPOLL) sigprocmask(SIG_BLOCK, &own, &before);
            pid_t child = disturb();
            int result = wait_by(way), error = errno;
            if (way == PPOLL) sigprocmask(SIG_SETMASK, &before, NULL);
            ended[way] += result == -1 && error == EINTR && handled == 1;
            waitpid(child, NULL, 0);
        }
    for (int way = 0; way < WAYS; way++) printf("way %d ended %d\n", way, ended[way]);
}

/* Who waits for a signal takes it, whether it has a handler or not. */
static void signals_are_taken(void)
{
    int taken = 0;
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    handled = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = disturb();
        siginfo_t info;
        int signal = sigwaitinfo(&own, &info);
        taken += signal == SIGUSR1 && info.si_pid == child;
        waitpid(child, NULL, 0);
    }
    FACT(taken);
    FACT(handled);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (pipe(noise) != 0 || pipe(silent) != 0) return 1;
    instance = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(instance, EPOLL_CTL_ADD, silent[0], &event);
    calls_end();
    signals_are_taken();
    return 0;
}
