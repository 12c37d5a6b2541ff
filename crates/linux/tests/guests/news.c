/* Owners of open files get a signal when something comes (O_ASYNC). */
#include "facts.h"
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static volatile sig_atomic_t told;

static void hear(int signal)
{
    (void)signal;
    told++;
}

/* Whether it was told since the last time; how often is the kernel's choice. */
static int news(void)
{
    int any = told > 0;
    told = 0;
    return any;
}

static int asynchronous(int fd, int on)
{
    return ioctl(fd, FIOASYNC, &on);
}

static void local(void)
{
    int pair[2];
    char byte = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    FACT(fcntl(pair[0], F_GETOWN));
    CALL(asynchronous(pair[0], 1));
    FACT((fcntl(pair[0], F_GETFL) & O_ASYNC) != 0);
    write(pair[1], "a", 1);
    FACT(news());
    CALL(fcntl(pair[0], F_SETOWN, getpid()));
    FACT(fcntl(pair[0], F_GETOWN) == getpid());
    write(pair[1], "b", 1);
    FACT(news());
    read(pair[0], &byte, 1);
    FACT(news());
    read(pair[0], &byte, 1);
    FACT(news());
    write(pair[0], "c", 1);
    FACT(news());
    CALL(asynchronous(pair[0], 0));
    write(pair[1], "d", 1);
    FACT(news());
    CALL(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    int copy = dup(pair[0]);
    close(pair[0]);
    write(pair[1], "e", 1);
    FACT(news());
    CALL(fcntl(copy, F_SETOWN, 0));
    write(pair[1], "f", 1);
    FACT(news());
    close(pair[1]);
    close(copy);
    FACT(news());
}

static void internet(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &size);
    CALL(asynchronous(listener, 1));
    CALL(fcntl(listener, F_SETOWN, getpid()));
    connect(client, (struct sockaddr *)&address, sizeof address);
    FACT(news());
    int server = accept(listener, NULL, NULL);
    news();
    FACT((fcntl(server, F_GETFL) & O_ASYNC) != 0);
    CALL(asynchronous(server, 1));
    CALL(fcntl(server, F_SETOWN, getpid()));
    write(client, "a", 1);
    for (int i = 0; i < 100 && !told; i++) usleep(1000);
    FACT(news());
    close(client);
    for (int i = 0; i < 100 && !told; i++) usleep(1000);
    FACT(news());
    close(server);
    close(listener);
    news();
}

static void pipes(void)
{
    int ends[2];
    static char bytes[65536];
    pipe(ends);
    for (int i = 0; i < 2; i++) {
        CALL(fcntl(ends[i], F_SETOWN, getpid()));
        CALL(asynchronous(ends[i], 1));
    }
    write(ends[1], bytes, 100);
    FACT(news());
    read(ends[0], bytes, 100);
    FACT(news());
    CALL(asynchronous(ends[0], 0));
    write(ends[1], bytes, sizeof bytes);
    FACT(news());
    read(ends[0], bytes, sizeof bytes);
    FACT(news());
    close(ends[0]);
    FACT(news());
    close(ends[1]);
}

/* A group of processes, threads, and numbers that nobody has. */
static void whom(void)
{
    int pair[2], file = open("/dev/null", O_RDWR);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    CALL(asynchronous(file, 1));
    CALL(fcntl(pair[0], F_SETOWN, 1 << 30));
    CALL(fcntl(pair[0], F_SETOWN, -(1 << 30)));
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    CALL(fcntl(pair[0], F_SETOWN_EX, &owner));
    CALL(asynchronous(pair[0], 1));
    write(pair[1], "a", 1);
    FACT(news());
    owner = (struct f_owner_ex){99, 99};
    CALL(fcntl(pair[0], F_GETOWN_EX, &owner));
    FACT(owner.type);
    FACT(owner.pid == gettid());
    owner.type = 7;
    CALL(fcntl(pair[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){F_OWNER_PGRP, getpgrp()};
    setpgid(0, 0);
    owner.pid = getpgrp();
    CALL(fcntl(pair[0], F_SETOWN_EX, &owner));
    FACT(fcntl(pair[0], F_GETOWN) == -getpgrp());
    int go[2];
    pipe(go);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        read(go[0], &byte, 1);
        _exit(news() ? 5 : 6);
    }
    struct sigaction restart = {.sa_handler = hear, .sa_flags = SA_RESTART};
    sigaction(SIGIO, &restart, NULL);
    write(pair[1], "b", 1);
    write(go[1], "g", 1);
    int status = 0;
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    FACT(news());
    /* Who is gone is told nothing. */
    child = fork();
    if (child == 0) _exit(fcntl(pair[0], F_SETOWN, getpid()) ? 1 : 0);
    waitpid(child, &status, 0);
    FACT(WEXITSTATUS(status));
    FACT(fcntl(pair[0], F_GETOWN));
    write(pair[1], "c", 1);
    FACT(news());
    /* Without a handler it ends the process. */
    signal(SIGIO, SIG_DFL);
    child = fork();
    if (child == 0) {
        fcntl(pair[0], F_SETOWN, getpid());
        write(pair[1], "d", 1);
        _exit(1);
    }
    waitpid(child, &status, 0);
    FACT(WTERMSIG(status));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};
    sigaction(SIGIO, &action, NULL);
    local();
    internet();
    pipes();
    whom();
    return 0;
}
