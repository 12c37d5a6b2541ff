// Message queues of POSIX: names, limits, priorities, waiting, polling, being told by a signal.
#include "facts.h"
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static volatile int told, code, from, value;

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    told++, code = info->si_code, from = info->si_pid, value = info->si_value.sival_int;
}

static int ready(mqd_t queue)
{
    struct pollfd one = {queue, POLLIN | POLLOUT, 0};
    poll(&one, 1, 0);
    return one.revents;
}

static void names(void)
{
    struct mq_attr few = {.mq_maxmsg = 2, .mq_msgsize = 16}, got;
    CALL(mq_open("/none", O_RDWR));
    CALL(mq_open("/a/b", O_RDWR | O_CREAT, 0600, NULL));
    CALL(mq_unlink("/none"));
    few.mq_maxmsg = 11;
    CALL(mq_open("/many", O_RDWR | O_CREAT, 0600, &few));
    few.mq_maxmsg = 2, few.mq_msgsize = 8193;
    CALL(mq_open("/many", O_RDWR | O_CREAT, 0600, &few));
    few.mq_msgsize = 0;
    CALL(mq_open("/many", O_RDWR | O_CREAT, 0600, &few));
    few.mq_msgsize = 16;
    CALL(mq_open("/queue", O_RDWR | O_CREAT | O_EXCL, 0400, &few));
    CALL(mq_open("/queue", O_RDWR | O_CREAT | O_EXCL, 0600, &few));
    CALL(mq_open("/queue", O_RDWR));
    CALL(mq_open("/queue", O_RDONLY));
    CALL(fcntl(3, F_GETFD));
    CALL(mq_getattr(3, &got));
    printf("%ld %ld %ld %ld\n", got.mq_flags, got.mq_maxmsg, got.mq_msgsize, got.mq_curmsgs);
    CALL(mq_send(4, "x", 1, 0));
    CALL(mq_send(1, "x", 1, 0));
    CALL(mq_unlink("/queue"));
    CALL(mq_open("/queue", O_RDONLY));
    CALL(mq_send(3, "still", 5, 0));
    CALL(mq_close(3) | mq_close(4));
    CALL(mq_getattr(4, &got));
    CALL(mq_open("/default", O_WRONLY | O_CREAT, 0600, NULL));
    mq_getattr(3, &got);
    printf("%ld %ld %ld %ld\n", got.mq_flags, got.mq_maxmsg, got.mq_msgsize, got.mq_curmsgs);
    char text[8192];
    CALL(mq_receive(3, text, sizeof text, NULL));
    CALL(mq_unlink("/default"));
    close(3);
}

static void order(void)
{
    static const unsigned priorities[] = {1, 5, 1, 32767, 0, 5};
    char text[64];
    unsigned priority;
    struct mq_attr six = {.mq_maxmsg = 6, .mq_msgsize = 8}, set = {.mq_flags = O_NONBLOCK}, old;
    mqd_t queue = mq_open("/order", O_RDWR | O_CREAT, 0600, &six);
    FACT(ready(queue));
    for (int at = 0; at < 6; at++) {
        text[0] = 'a' + at;
        CALL(mq_send(queue, text, at, priorities[at]));
        FACT(ready(queue));
    }
    CALL(mq_send(queue, "x", 1, 32768));
    CALL(mq_send(queue, "123456789", 9, 1));
    CALL(mq_setattr(queue, &set, &old));
    FACT(old.mq_flags);
    FACT(old.mq_curmsgs);
    CALL(mq_send(queue, "x", 1, 0));
    CALL(mq_receive(queue, text, 7, NULL));
    set.mq_flags = 1;
    CALL(mq_setattr(queue, &set, NULL));
    for (int at = 0; at < 6; at++) {
        text[0] = '-';
        CALL(mq_receive(queue, text, sizeof text, &priority));
        printf("%c %u\n", text[0], priority);
    }
    CALL(mq_receive(queue, text, sizeof text, NULL));
    FACT(fcntl(queue, F_GETFL) & O_NONBLOCK);
    mq_close(queue);
    CALL(mq_unlink("/order"));
}

static void *receiver(void *queue)
{
    char text[8];
    return (void *)(long)mq_receive(*(mqd_t *)queue, text, 8, NULL);
}

static void waiting(void)
{
    struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 8};
    mqd_t queue = mq_open("/wait", O_RDWR | O_CREAT, 0600, &one);
    char text[8];
    struct timespec now, until, never = {0, 1000000000};
    clock_gettime(CLOCK_REALTIME, &now);
    until = now, until.tv_nsec += 2000000;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    CALL(mq_timedreceive(queue, text, 8, NULL, &until));
    clock_gettime(CLOCK_REALTIME, &now);
    FACT(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
    CALL(mq_timedreceive(queue, text, 8, NULL, &now));
    CALL(mq_timedreceive(queue, text, 8, NULL, &never));
    CALL(mq_send(queue, "full", 4, 0));
    CALL(mq_timedsend(queue, "more", 4, 0, &now));
    pid_t child = fork();
    if (child == 0) {
        for (int at = 0; at < 20; at++)
            if (mq_send(queue, text, at % 8, at) != 0)
                _exit(1);
        _exit(0);
    }
    long sum = 0;
    for (int at = 0; at < 21; at++)
        sum += mq_receive(queue, text, 8, NULL);
    FACT(sum);
    int how;
    waitpid(child, &how, 0);
    FACT(how);

    // Who waits is served before somebody is told.
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    event.sigev_value.sival_int = 77;
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, receiver, &queue);
    usleep(20000);
    CALL(mq_notify(queue, &event));
    CALL(mq_notify(queue, &event));
    CALL(mq_send(queue, "abc", 3, 0));
    pthread_join(thread, &result);
    FACT((long)result);
    FACT(told);
    child = fork();
    if (child == 0) {
        mq_notify(queue, NULL); // It is the parent's.
        _exit(mq_notify(queue, &event) == -1 && errno == EBUSY ? mq_send(queue, "told", 4, 0) : 9);
    }
    waitpid(child, &how, 0);
    FACT(how);
    FACT(told);
    FACT(code == SI_MESGQ);
    FACT(from == child);
    FACT(value);
    mq_receive(queue, text, 8, NULL);
    CALL(mq_send(queue, "more", 4, 0));
    FACT(told);
    CALL(mq_notify(queue, &event));
    CALL(mq_notify(queue, NULL));
    CALL(mq_notify(queue, &event));
    close(dup(queue)); // Closing any descriptor of it ends that.
    CALL(mq_notify(queue, &event));
    event.sigev_signo = 65;
    CALL(mq_notify(queue, &event));
    event.sigev_notify = 9;
    CALL(mq_notify(queue, &event));
    CALL(mq_notify(0, NULL));

    int poller = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN | EPOLLET}, got;
    CALL(epoll_ctl(poller, EPOLL_CTL_ADD, queue, &interest));
    FACT(epoll_wait(poller, &got, 1, 0));
    FACT(epoll_wait(poller, &got, 1, 0));
    mq_receive(queue, text, 8, NULL);
    mq_send(queue, "", 0, 0);
    FACT(epoll_wait(poller, &got, 1, 0));
    FACT(mq_receive(queue, text, 8, NULL));
    FACT(told);
    mq_close(queue);
    CALL(mq_unlink("/wait"));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    names();
    order();
    waiting();
    return 0;
}
