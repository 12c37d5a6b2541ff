/*
 * End-to-end test: what a kernel remembers of its programs, beside what `remembers` asks for.
 *
 *   keeps
 *
 * Timers, terminals, objects of System V and POSIX, locks that are waited for, asynchronous requests,
 * wishes, sockets, and children: it sets them, says so, works for many epochs, and then asks for every
 * bit of them. Where the power was cut meanwhile, nothing may be different.
 *
 * Always true: what is printed is fixed; the exit status is 37 if everything was kept, and 1 if not.
 * Nothing spins for something to happen: what is lost ends the program or leaves it asleep for ever.
 * Signals that are asked for are blocked in every thread and taken by the first one.
 */
#include "remember.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/membarrier.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>

enum { FAR_SECONDS = 100000 };

/* ---- Signals: taken in the order in which they are asked for ------------------------------------ */

#define ON_FAR SIGRTMIN
#define ON_PERIOD (SIGRTMIN + 1)
#define ON_EXPIRED (SIGRTMIN + 2)
#define ON_MESSAGE (SIGRTMIN + 3)

static void set_signals(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int signal = ON_FAR; signal <= ON_MESSAGE; signal++)
        sigaddset(&blocked, signal);
    sigaddset(&blocked, SIGIO);
    sigaddset(&blocked, SIGCHLD);
    MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
}

static int is_pending(int signal)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 && sigismember(&waiting, signal) == 1;
}

/* Whether it comes, after five seconds at most. */
static int taken(int signal, siginfo_t *info)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    struct timespec limit = {5, 0};
    return sigtimedwait(&one, info, &limit) == signal;
}

/* ---- Children and threads that wait ------------------------------------------------------------- */

static int tell[2], told[2];

static void set_pipes(void)
{
    MUST(pipe(tell));
    MUST(pipe(told));
}

/* A child that has said that it is ready goes on when every end of `tell` is closed. */
static void child_is_ready(void)
{
    char byte = 1;
    close(tell[1]);
    if (write(told[1], &byte, 1) != 1)
        _exit(98);
}

static int child_may_go_on(void)
{
    char byte;
    return read(tell[0], &byte, 1) == 0;
}

static void wait_for_child(void)
{
    char byte;
    MUST(read(told[0], &byte, 1) == 1 ? 0 : -1);
}

static int ended(pid_t child, int with)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == with;
}

static sem_t ready;
static int threads_count;

struct body {
    int number;
    void (*run)(void);
};
static struct body bodies[THREADS_MAX];

static void *begin(void *given)
{
    const struct body *body = given;
    own = body->number;
    body->run();
    return NULL;
}

/* Begins a thread, which says itself when it is about to wait. */
static int start(void (*run)(void))
{
    int number = threads_count++;
    bodies[number] = (struct body){number, run};
    pthread_create(&threads[number], NULL, begin, &bodies[number]);
    while (sem_wait(&ready) < 0) {
    }
    return number;
}

/* ---- Timers ------------------------------------------------------------------------------------- */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static timer_t far_timer, periodic, expired, silent, of_work;
static int far_file, expired_file;

static void set_timer(timer_t timer, time_t seconds, long nanoseconds, long interval)
{
    struct itimerspec spec = {{0, interval}, {seconds, nanoseconds}};
    MUST(timer_settime(timer, 0, &spec, NULL));
}

static void set_interval_timer(int which, time_t seconds, long interval)
{
    struct itimerval timer = {{interval, 7}, {seconds, 0}};
    MUST(setitimer(which, &timer, NULL));
}

static void set_timers(void)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = ON_FAR;
    event.sigev_value.sival_int = 51;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &far_timer));
    set_timer(far_timer, FAR_SECONDS, 0, 3000);
    event.sigev_signo = ON_EXPIRED;
    event.sigev_value.sival_int = 53;
    MUST(timer_create(CLOCK_REALTIME, &event, &expired));
    set_timer(expired, 0, 1, 0);
    event.sigev_notify = SIGEV_SIGNAL | SIGEV_THREAD_ID;
    event.sigev_signo = ON_PERIOD;
    event.sigev_value.sival_ptr = &periodic;
    event.sigev_notify_thread_id = own_number();
    MUST(timer_create(CLOCK_MONOTONIC, &event, &periodic));
    set_timer(periodic, 0, 400000, 400000);
    event.sigev_notify = SIGEV_NONE;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &silent));
    set_timer(silent, FAR_SECONDS, 0, 0);
    MUST(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &of_work));
    set_timer(of_work, FAR_SECONDS, 0, 11);
    set_interval_timer(ITIMER_REAL, FAR_SECONDS, 21);
    set_interval_timer(ITIMER_VIRTUAL, FAR_SECONDS, 22);
    set_interval_timer(ITIMER_PROF, FAR_SECONDS, 23);
    MUST(far_file = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK));
    struct itimerspec spec = {{9, 8}, {0, 0}};
    MUST(clock_gettime(CLOCK_REALTIME, &spec.it_value));
    spec.it_value.tv_sec += FAR_SECONDS;
    MUST(timerfd_settime(far_file, TFD_TIMER_ABSTIME, &spec, NULL));
    MUST(expired_file = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    spec = (struct itimerspec){{0, 0}, {0, 1}};
    MUST(timerfd_settime(expired_file, 0, &spec, NULL));
}

static int is_far(const struct timespec *left)
{
    return left->tv_sec > FAR_SECONDS / 2 && left->tv_sec <= FAR_SECONDS;
}

static int interval_timer_is(int which, long interval)
{
    struct itimerval timer;
    return getitimer(which, &timer) == 0 && timer.it_value.tv_sec > FAR_SECONDS / 2 &&
           timer.it_value.tv_sec <= FAR_SECONDS && timer.it_interval.tv_sec == interval &&
           timer.it_interval.tv_usec == 7;
}

static void check_timers(void)
{
    struct itimerspec spec;
    siginfo_t info;
    SAME(timer_gettime(far_timer, &spec) == 0 && is_far(&spec.it_value) &&
         spec.it_interval.tv_nsec == 3000);
    SAME(!is_pending(ON_FAR));
    SAME(timer_gettime(silent, &spec) == 0 && is_far(&spec.it_value));
    SAME(timer_gettime(of_work, &spec) == 0 && is_far(&spec.it_value) &&
         spec.it_interval.tv_nsec == 11);
    SAME(interval_timer_is(ITIMER_REAL, 21));
    SAME(interval_timer_is(ITIMER_VIRTUAL, 22));
    SAME(interval_timer_is(ITIMER_PROF, 23));
    set_timer(far_timer, 0, 1, 0);
    SAME(taken(ON_FAR, &info) && info.si_code == SI_TIMER && info.si_value.sival_int == 51);
    SAME(timer_getoverrun(far_timer) == 0);
    SAME(is_pending(ON_EXPIRED) && taken(ON_EXPIRED, &info) && info.si_value.sival_int == 53);
    SAME(timer_gettime(expired, &spec) == 0 && spec.it_value.tv_sec == 0 &&
         spec.it_value.tv_nsec == 0);
    SAME(is_pending(ON_PERIOD) && taken(ON_PERIOD, &info) && info.si_value.sival_ptr == &periodic);
    SAME(info.si_overrun > 0 && timer_getoverrun(periodic) == info.si_overrun);
    SAME(timer_delete(periodic) == 0);
    SAME(timerfd_gettime(far_file, &spec) == 0 && is_far(&spec.it_value) &&
         spec.it_interval.tv_sec == 9 && spec.it_interval.tv_nsec == 8);
    uint64_t times = 0;
    SAME(read(far_file, &times, sizeof times) < 0 && errno == EAGAIN);
    SAME(read(expired_file, &times, sizeof times) == sizeof times && times == 1);
    SAME(read(expired_file, &times, sizeof times) < 0 && errno == EAGAIN);
}

/* ---- Terminals ---------------------------------------------------------------------------------- */

static int master, slave, locked, controlling;
static struct termios settings;
static pid_t session, foreground;

static int terminal(int *end_of_pair)
{
    int unlocked = 0, number;
    char name[32];
    MUST(*end_of_pair = open("/dev/ptmx", O_RDWR | O_NOCTTY));
    MUST(ioctl(*end_of_pair, TIOCSPTLCK, &unlocked));
    MUST(ioctl(*end_of_pair, TIOCGPTN, &number));
    snprintf(name, sizeof name, "/dev/pts/%d", number);
    return open(name, O_RDWR | O_NOCTTY);
}

/* The leader of a session, with its terminal, another group of which is in front. */
static void lead(int own_terminal)
{
    setsid();
    if (ioctl(own_terminal, TIOCSCTTY, 0) < 0)
        _exit(97);
    pid_t front = fork();
    if (front == 0) {
        close(tell[1]);
        setpgid(0, 0);
        signal(SIGINT, SIG_DFL);
        for (;;)
            pause();
    }
    setpgid(front, front);
    if (tcsetpgrp(own_terminal, front) < 0 || write(told[1], &front, sizeof front) < 0)
        _exit(96);
    close(tell[1]);
    int status;
    waitpid(front, &status, 0);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT ? 41 : 95);
}

static void set_terminals(void)
{
    int one = 1;
    MUST(slave = terminal(&master));
    MUST(tcgetattr(slave, &settings));
    settings.c_iflag = ICRNL | IUTF8 | IGNPAR;
    settings.c_oflag = OPOST | ONLCR;
    settings.c_lflag = ICANON | ISIG | IEXTEN | NOFLSH;
    settings.c_cc[VEOL] = ';';
    settings.c_cc[VERASE] = 'X';
    settings.c_cc[VMIN] = 3;
    settings.c_cc[VTIME] = 9;
    cfsetospeed(&settings, B19200);
    MUST(tcsetattr(slave, TCSANOW, &settings));
    MUST(tcgetattr(slave, &settings));
    struct winsize size = {.ws_row = 41, .ws_col = 119, .ws_xpixel = 1001, .ws_ypixel = 703};
    MUST(ioctl(slave, TIOCSWINSZ, &size));
    MUST(ioctl(master, TIOCPKT, &one));
    MUST(write(master, "first\rnextX;thi", 15));
    char bytes[16];
    MUST(read(slave, bytes, 3));
    MUST(write(slave, "out\n", 4));
    MUST(locked = open("/dev/ptmx", O_RDWR | O_NOCTTY));
    int controlled;
    MUST(controlled = terminal(&controlling));
    MUST(session = fork());
    if (session == 0)
        lead(controlled);
    MUST(read(told[0], &foreground, sizeof foreground));
    close(controlled);
}

static void check_terminals(void)
{
    struct termios now;
    char bytes[64];
    SAME(tcgetattr(slave, &now) == 0 && now.c_iflag == settings.c_iflag &&
         now.c_oflag == settings.c_oflag);
    SAME(now.c_cflag == settings.c_cflag && cfgetospeed(&now) == B19200);
    SAME(now.c_lflag == settings.c_lflag && now.c_line == settings.c_line);
    SAME(memcmp(now.c_cc, settings.c_cc, sizeof now.c_cc) == 0 && now.c_cc[VERASE] == 'X');
    struct winsize size;
    SAME(ioctl(master, TIOCGWINSZ, &size) == 0 && size.ws_row == 41 && size.ws_col == 119 &&
         size.ws_xpixel == 1001 && size.ws_ypixel == 703);
    int number = 0;
    SAME(ioctl(slave, FIONREAD, &number) == 0 && number >= 3);
    SAME(read(slave, bytes, sizeof bytes) == 3 && memcmp(bytes, "st\n", 3) == 0);
    SAME(read(slave, bytes, sizeof bytes) == 4 && memcmp(bytes, "nex;", 4) == 0);
    SAME(write(master, "rd\n", 3) == 3);
    SAME(read(slave, bytes, sizeof bytes) == 6 && memcmp(bytes, "third\n", 6) == 0);
    SAME(read(master, bytes, sizeof bytes) == 6 && memcmp(bytes, "\0out\r\n", 6) == 0);
    SAME(ioctl(locked, TIOCGPTLCK, &number) == 0 && number == 1);
    char name[32];
    SAME(ioctl(locked, TIOCGPTN, &number) == 0);
    snprintf(name, sizeof name, "/dev/pts/%d", number);
    SAME(open(name, O_RDWR | O_NOCTTY) < 0 && errno == EIO);
    SAME(tcgetpgrp(controlling) == foreground && tcgetsid(controlling) == session);
    SAME(write(controlling, "\003", 1) == 1);
    SAME(ended(session, 41));
}

/* ---- System V ----------------------------------------------------------------------------------- */

static int segment, marked, semaphores, messages, needs_semaphore;
static char *shared, *doomed;
static pid_t undoes;
static struct shmid_ds segment_before;
static struct semid_ds semaphores_before;
static struct msqid_ds messages_before;

struct message {
    long type;
    char text[16];
};

static void decreases(void)
{
    struct sembuf change = {2, -1, 0};
    sem_post(&ready);
    int result = semop(semaphores, &change, 1);
    SAME(result == 0);
}

static void set_system_v(void)
{
    MUST(segment = shmget(0x6b656570, 3 * BLOCK, IPC_CREAT | IPC_EXCL | 0640));
    shared = shmat(segment, NULL, 0);
    memcpy(shared + 2 * BLOCK, "shared", 6);
    MUST(marked = shmget(IPC_PRIVATE, BLOCK, 0600));
    doomed = shmat(marked, NULL, 0);
    memcpy(doomed, "doomed", 6);
    MUST(shmctl(marked, IPC_RMID, NULL));
    MUST(semaphores = semget(IPC_PRIVATE, 3, 0620));
    unsigned short values[3] = {3, 5, 0};
    MUST(semctl(semaphores, 0, SETALL, values));
    struct sembuf change = {0, 4, SEM_UNDO};
    MUST(semop(semaphores, &change, 1));
    MUST(undoes = fork());
    if (undoes == 0) {
        change = (struct sembuf){1, -2, SEM_UNDO};
        if (semop(semaphores, &change, 1) < 0)
            _exit(94);
        child_is_ready();
        _exit(child_may_go_on() ? 42 : 93);
    }
    wait_for_child();
    needs_semaphore = start(decreases);
    MUST(messages = msgget(IPC_PRIVATE, 0600));
    MUST(msgctl(messages, IPC_STAT, &messages_before));
    messages_before.msg_qbytes = 5000;
    MUST(msgctl(messages, IPC_SET, &messages_before));
    MUST(msgsnd(messages, &(struct message){3, "three"}, 5, 0));
    MUST(msgsnd(messages, &(struct message){2, "two"}, 3, 0));
    MUST(msgsnd(messages, &(struct message){1, "one"}, 3, 0));
    MUST(msgsnd(messages, &(struct message){3, ""}, 0, 0));
    struct message got;
    MUST(msgrcv(messages, &got, sizeof got.text, 3, 0));
    MUST(shmctl(segment, IPC_STAT, &segment_before));
    MUST(semctl(semaphores, 0, IPC_STAT, &semaphores_before));
    MUST(msgctl(messages, IPC_STAT, &messages_before));
}

static int rights_are(const struct ipc_perm *now, const struct ipc_perm *before, unsigned mode)
{
    return now->mode == mode && now->uid == before->uid && now->gid == before->gid &&
           now->cuid == before->cuid && now->cgid == before->cgid;
}

static void check_system_v(void)
{
    struct shmid_ds of_segment;
    SAME(shmctl(segment, IPC_STAT, &of_segment) == 0 &&
         rights_are(&of_segment.shm_perm, &segment_before.shm_perm, 0640));
    SAME(of_segment.shm_nattch == segment_before.shm_nattch && of_segment.shm_cpid == getpid() &&
         of_segment.shm_lpid == segment_before.shm_lpid && of_segment.shm_segsz == 3 * BLOCK);
    SAME(of_segment.shm_atime == segment_before.shm_atime &&
         of_segment.shm_dtime == segment_before.shm_dtime &&
         of_segment.shm_ctime == segment_before.shm_ctime);
    SAME(shmget(0x6b656570, 0, 0) == segment && memcmp(shared + 2 * BLOCK, "shared", 6) == 0);
    SAME(memcmp(doomed, "doomed", 6) == 0 && shmctl(marked, IPC_STAT, &of_segment) == 0 &&
         (of_segment.shm_perm.mode & 01000) != 0);
    SAME(shmdt(doomed) == 0);
    struct semid_ds of_semaphores;
    SAME(semctl(semaphores, 0, IPC_STAT, &of_semaphores) == 0 &&
         rights_are(&of_semaphores.sem_perm, &semaphores_before.sem_perm, 0620) &&
         of_semaphores.sem_nsems == 3);
    SAME(of_semaphores.sem_otime == semaphores_before.sem_otime &&
         of_semaphores.sem_ctime == semaphores_before.sem_ctime);
    unsigned short values[3];
    SAME(semctl(semaphores, 0, GETALL, values) == 0 && values[0] == 7 && values[1] == 3 &&
         values[2] == 0);
    SAME(semctl(semaphores, 0, GETPID) == getpid() && semctl(semaphores, 1, GETPID) == undoes);
    SAME(semctl(semaphores, 2, GETNCNT) == 1 && semctl(semaphores, 2, GETZCNT) == 0);
    struct sembuf change = {2, 1, 0};
    SAME(semop(semaphores, &change, 1) == 0);
    join(needs_semaphore);
    struct msqid_ds of_messages;
    SAME(msgctl(messages, IPC_STAT, &of_messages) == 0 &&
         rights_are(&of_messages.msg_perm, &messages_before.msg_perm, 0600));
    SAME(of_messages.msg_qnum == 3 && of_messages.msg_qbytes == 5000 &&
         of_messages.msg_lspid == getpid() && of_messages.msg_lrpid == getpid());
    SAME(of_messages.msg_stime == messages_before.msg_stime &&
         of_messages.msg_rtime == messages_before.msg_rtime &&
         of_messages.msg_ctime == messages_before.msg_ctime);
    struct message got;
    SAME(msgrcv(messages, &got, sizeof got.text, -2, IPC_NOWAIT) == 3 && got.type == 1 &&
         memcmp(got.text, "one", 3) == 0);
    SAME(msgrcv(messages, &got, sizeof got.text, 0, IPC_NOWAIT) == 3 && got.type == 2 &&
         memcmp(got.text, "two", 3) == 0);
    SAME(msgrcv(messages, &got, sizeof got.text, 0, IPC_NOWAIT) == 0 && got.type == 3);
    SAME(msgrcv(messages, &got, sizeof got.text, 0, IPC_NOWAIT) < 0 && errno == ENOMSG);
    SAME(msgctl(messages, IPC_RMID, NULL) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
}

/* Once the child has ended. */
static void check_undone(void)
{
    SAME(ended(undoes, 42));
    SAME(semctl(semaphores, 1, GETVAL) == 5 && semctl(semaphores, 0, GETVAL) == 7);
    SAME(semctl(semaphores, 0, IPC_RMID) == 0);
}

/* ---- POSIX message queues ----------------------------------------------------------------------- */

static mqd_t queue, notified, awaited;
static int receiver;

static void receives(void)
{
    char text[32];
    unsigned priority = 0;
    sem_post(&ready);
    ssize_t length = mq_receive(awaited, text, sizeof text, &priority);
    SAME(length == 4 && memcmp(text, "then", 4) == 0 && priority == 8);
}

static void set_queues(void)
{
    struct mq_attr attributes = {.mq_maxmsg = 5, .mq_msgsize = 32};
    MUST(queue = mq_open("/keeps", O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0640, &attributes));
    MUST(mq_send(queue, "low", 3, 1));
    MUST(mq_send(queue, "high", 4, 9));
    MUST(mq_send(queue, "higher", 6, 30000));
    MUST(mq_send(queue, "as high", 7, 9));
    MUST(notified = mq_open("/keeps.notified", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes));
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = ON_MESSAGE;
    event.sigev_value.sival_int = 61;
    MUST(mq_notify(notified, &event));
    /* Without a name already. */
    MUST(awaited = mq_open("/keeps.awaited", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes));
    MUST(mq_unlink("/keeps.awaited"));
    receiver = start(receives);
}

static void check_queues(void)
{
    struct mq_attr now;
    char text[32];
    unsigned priority;
    SAME(mq_getattr(queue, &now) == 0 && now.mq_maxmsg == 5 && now.mq_msgsize == 32 &&
         now.mq_curmsgs == 4 && now.mq_flags == O_NONBLOCK);
    mqd_t again = mq_open("/keeps", O_RDONLY | O_NONBLOCK);
    SAME(mq_receive(again, text, sizeof text, &priority) == 6 && priority == 30000 &&
         memcmp(text, "higher", 6) == 0);
    SAME(mq_receive(queue, text, sizeof text, &priority) == 4 && priority == 9 &&
         memcmp(text, "high", 4) == 0);
    SAME(mq_receive(queue, text, sizeof text, &priority) == 7 && priority == 9 &&
         memcmp(text, "as high", 7) == 0);
    SAME(mq_receive(queue, text, sizeof text, &priority) == 3 && priority == 1);
    SAME(mq_receive(queue, text, sizeof text, NULL) < 0 && errno == EAGAIN);
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    SAME(mq_notify(notified, &event) < 0 && errno == EBUSY);
    SAME(!is_pending(ON_MESSAGE) && mq_send(notified, "come", 4, 2) == 0);
    siginfo_t info;
    SAME(taken(ON_MESSAGE, &info) && info.si_code == SI_MESGQ && info.si_value.sival_int == 61 &&
         info.si_pid == getpid());
    SAME(mq_notify(notified, &event) == 0);
    SAME(mq_open("/keeps.awaited", O_RDONLY) < 0 && errno == ENOENT);
    SAME(mq_send(awaited, "then", 4, 8) == 0);
    join(receiver);
    SAME(mq_unlink("/keeps") == 0 && mq_unlink("/keeps.notified") == 0);
}

/* ---- Files and locks ---------------------------------------------------------------------------- */

static int sealed, attributed, namespace, owned[2], whole_lock, described_lock;
static int needs_whole, needs_described;
static pid_t needs_record;
static pthread_mutex_t *robust;

static void locks_whole(void)
{
    int file = open("whole", O_RDWR);
    sem_post(&ready);
    int result = flock(file, LOCK_EX);
    SAME(result == 0);
}

static void locks_described(void)
{
    int file = open("described", O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};
    sem_post(&ready);
    int result = fcntl(file, F_OFD_SETLKW, &lock);
    SAME(result == 0);
}

static void set_files(void)
{
    MUST(sealed = memfd_create("keeps", MFD_ALLOW_SEALING));
    MUST(write(sealed, "sealed", 6));
    MUST(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE));
    MUST(attributed = open("attributed", O_RDWR | O_CREAT, 0600));
    MUST(fsetxattr(attributed, "user.one", "first", 5, XATTR_CREATE));
    MUST(fsetxattr(attributed, "user.another", "", 0, 0));
    uint64_t hint = RWH_WRITE_LIFE_LONG;
    MUST(fcntl(attributed, F_SET_RW_HINT, &hint));
    MUST(namespace = open("/proc/self/ns/uts", O_RDONLY));
    MUST(pipe(owned));
    struct f_owner_ex owner = {F_OWNER_TID, own_number()};
    MUST(fcntl(owned[0], F_SETOWN_EX, &owner));
    MUST(fcntl(owned[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    MUST(whole_lock = open("whole", O_RDWR | O_CREAT, 0600));
    MUST(flock(whole_lock, LOCK_SH));
    needs_whole = start(locks_whole);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 5};
    MUST(described_lock = open("described", O_RDWR | O_CREAT, 0600));
    MUST(fcntl(described_lock, F_OFD_SETLK, &lock));
    needs_described = start(locks_described);
    lock.l_type = F_WRLCK;
    MUST(fcntl(attributed, F_SETLK, &lock));
    robust = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(robust, &attributes);
    MUST(needs_record = fork());
    if (needs_record == 0) {
        pthread_mutex_lock(robust);
        child_is_ready();
        _exit(fcntl(attributed, F_SETLKW, &lock) == 0 && child_may_go_on() ? 43 : 92);
    }
    wait_for_child();
}

static void check_files(void)
{
    char text[32];
    SAME(fcntl(sealed, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_WRITE));
    SAME(ftruncate(sealed, 3) < 0 && errno == EPERM && ftruncate(sealed, 9) == 0);
    SAME(pwrite(sealed, "x", 1, 0) < 0 && errno == EPERM && pread(sealed, text, 32, 0) == 9 &&
         memcmp(text, "sealed\0\0", 9) == 0);
    SAME(fgetxattr(attributed, "user.one", text, sizeof text) == 5 && memcmp(text, "first", 5) == 0);
    SAME(getxattr("attributed", "user.another", text, sizeof text) == 0);
    SAME(readlink("/proc/self/ns/uts", text, sizeof text) > 5 && memcmp(text, "uts:[", 5) == 0);
    MUST(close(namespace));
    uint64_t hint = 0;
    SAME(fcntl(attributed, F_GET_RW_HINT, &hint) == 0 && hint == RWH_WRITE_LIFE_LONG);
    SAME(fsetxattr(attributed, "user.one", "", 0, XATTR_CREATE) < 0 && errno == EEXIST);
    struct f_owner_ex owner;
    SAME(fcntl(owned[0], F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
         owner.pid == own_number());
    SAME((fcntl(owned[0], F_GETFL) & (O_ASYNC | O_NONBLOCK)) == (O_ASYNC | O_NONBLOCK));
    siginfo_t info;
    SAME(!is_pending(SIGIO) && write(owned[1], "go", 2) == 2);
    SAME(taken(SIGIO, &info));
    int file = open("whole", O_RDWR);
    SAME(flock(file, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
    SAME(flock(whole_lock, LOCK_UN) == 0);
    join(needs_whole);
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 5};
    SAME(fcntl(described_lock, F_OFD_SETLK, &lock) == 0);
    join(needs_described);
    SAME(pthread_mutex_trylock(robust) == EBUSY);
    SAME(fcntl(attributed, F_SETLK, &lock) == 0);
}

/* Once the child may go on. */
static void check_owner_died(void)
{
    SAME(ended(needs_record, 43));
    SAME(pthread_mutex_lock(robust) == EOWNERDEAD);
    SAME(pthread_mutex_consistent(robust) == 0 && pthread_mutex_unlock(robust) == 0);
}

/* ---- Asynchronous requests ---------------------------------------------------------------------- */

static aio_context_t context;
static struct iocb finished, polling;
static char read_ahead[8];
static int polled[2], told_of;

static void set_requests(void)
{
    MUST(syscall(SYS_io_setup, 8, &context));
    MUST(pipe(polled));
    MUST(told_of = eventfd(0, EFD_NONBLOCK));
    finished = (struct iocb){.aio_data = 81,
                             .aio_lio_opcode = IOCB_CMD_PREAD,
                             .aio_fildes = (uint32_t)sealed,
                             .aio_buf = (uintptr_t)read_ahead,
                             .aio_nbytes = 4};
    polling = (struct iocb){.aio_data = 82,
                            .aio_lio_opcode = IOCB_CMD_POLL,
                            .aio_fildes = (uint32_t)polled[0],
                            .aio_buf = POLLIN,
                            .aio_flags = IOCB_FLAG_RESFD,
                            .aio_resfd = (uint32_t)told_of};
    struct iocb *list[] = {&finished, &polling};
    MUST(syscall(SYS_io_submit, context, 2, list) == 2 ? 0 : -1);
}

static void check_requests(void)
{
    struct io_event events[4];
    struct timespec limit = {5, 0}, none = {0, 0};
    uint64_t times = 0;
    SAME(syscall(SYS_io_getevents, context, 1, 4, events, &limit) == 1 && events[0].data == 81 &&
         events[0].res == 4 && events[0].obj == (uintptr_t)&finished);
    SAME(memcmp(read_ahead, "seal", 4) == 0);
    SAME(syscall(SYS_io_getevents, context, 0, 4, events, &none) == 0);
    SAME(read(told_of, &times, sizeof times) < 0 && errno == EAGAIN);
    SAME(write(polled[1], "now", 3) == 3);
    SAME(syscall(SYS_io_getevents, context, 1, 4, events, &limit) == 1 && events[0].data == 82 &&
         (events[0].res & POLLIN) != 0 && events[0].obj == (uintptr_t)&polling);
    SAME(read(told_of, &times, sizeof times) == sizeof times && times == 1);
    SAME(syscall(SYS_io_destroy, context) == 0);
}

/* ---- Wishes ------------------------------------------------------------------------------------- */

enum { CLASS_BEST_EFFORT = 2 << 13 };

static sem_t leave;
static int needs_leave;

/* It is bound to more than the others are. */
static void is_restrained(void)
{
    cpu_set_t last, own;
    CPU_ZERO(&last);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
    MUST(sched_setaffinity(0, sizeof last, &last));
    MUST(prctl(PR_SET_TIMERSLACK, 99, 0, 0, 0));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    sem_post(&ready);
    while (sem_wait(&leave) < 0) {
    }
    CPU_ZERO(&own);
    SAME(sched_getaffinity(0, sizeof own, &own) == 0 && CPU_EQUAL(&own, &last));
    SAME(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    SAME(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 99);
    prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);
    SAME(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1234);
}

static int instance;

/* Which of three that are always ready it is that is reported where there is room for one. */
static int reported(void)
{
    struct epoll_event event;
    return epoll_wait(instance, &event, 1, 0) == 1 ? (int)event.data.u32 : -1;
}

/* A child that has ended, and whose end is told otherwise than others'. */
static pid_t unusual;

static int is_unusual(void *unused)
{
    (void)unused;
    return 44;
}

static void set_restraints(void)
{
    static char stack[16384] __attribute__((aligned(16)));
    siginfo_t info;
    MUST(unusual = clone(is_unusual, stack + sizeof stack, CLONE_VM, NULL));
    MUST(waitid(P_PID, (id_t)unusual, &info, WEXITED | WNOWAIT | __WALL));
    MUST(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
    MUST(instance = epoll_create1(0));
    for (uint32_t number = 0; number < 3; number++) {
        struct epoll_event event = {EPOLLIN, {.u32 = number}};
        MUST(epoll_ctl(instance, EPOLL_CTL_ADD, eventfd(1, 0), &event));
    }
    MUST(reported() == 0 && reported() == 1 ? 0 : -1);
    sem_init(&leave, 0, 0);
    MUST(prctl(PR_SET_TIMERSLACK, 1234, 0, 0, 0));
    needs_leave = start(is_restrained);
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
}

static void check_restraints(void)
{
    SAME(reported() == 2);
    SAME(reported() == 0);
    int reaps = 0;
    SAME(prctl(PR_GET_CHILD_SUBREAPER, &reaps, 0, 0, 0) == 0 && reaps == 1);
    SAME(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    SAME(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
    int status = 0;
    SAME(waitpid(unusual, &status, WNOHANG) < 0 && errno == ECHILD);
    SAME(waitpid(unusual, &status, __WCLONE) == unusual && WEXITSTATUS(status) == 44);
    sem_post(&leave);
    join(needs_leave);
}

static void set_wishes(void)
{
    MUST(syscall(SYS_ioprio_set, 1, 0, CLASS_BEST_EFFORT | 6));
    MUST(personality(ADDR_NO_RANDOMIZE));
    MUST(setpriority(PRIO_PROCESS, 0, 7));
    MUST(prctl(PR_SET_PDEATHSIG, SIGWINCH));
    MUST(prctl(PR_SET_NAME, "keeper"));
    struct sched_param none = {0};
    MUST(sched_setscheduler(0, SCHED_BATCH, &none));
    struct rlimit limit = {1 << 28, 1 << 29};
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
}

static void check_wishes(void)
{
    SAME(syscall(SYS_ioprio_get, 1, 0) == (CLASS_BEST_EFFORT | 6));
    SAME(personality(0xffffffff) == ADDR_NO_RANDOMIZE);
    SAME(getpriority(PRIO_PROCESS, 0) == 7);
    int value = 0;
    SAME(prctl(PR_GET_PDEATHSIG, &value) == 0 && value == SIGWINCH);
    char name[32] = "";
    int file = open("/proc/self/comm", O_RDONLY);
    SAME(read(file, name, sizeof name) == 7 && memcmp(name, "keeper\n", 7) == 0);
    SAME(sched_getscheduler(0) == SCHED_BATCH);
    struct rlimit limit;
    SAME(getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == 1 << 28 &&
         limit.rlim_max == 1 << 29);
}

/* ---- Memory and waiting ------------------------------------------------------------------------ */

enum { PAGES = 64, WAITV = 449, WAKE = 1, FUTEX_WORD = 2 };

/* As <linux/futex.h> has it, where that knows of it. */
struct awaited {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static uint32_t doors[2];
static long opened = -1;
static int needs_door;

static void waits_at_doors(void)
{
    struct awaited list[2] = {{0, (uintptr_t)&doors[0], FUTEX_WORD, 0},
                              {0, (uintptr_t)&doors[1], FUTEX_WORD, 0}};
    sem_post(&ready);
    opened = syscall(WAITV, list, 2, 0, NULL, 0);
}

static long locked_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) {
        sscanf(line, "VmLck: %ld", &kib);
    }
    fclose(status);
    return kib;
}

static void *pages(void)
{
    void *begin = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(begin == MAP_FAILED ? -1 : 0);
    memset(begin, 1, PAGES * 4096);
    return begin;
}

static void set_memory(void)
{
    MUST(munmap(pages(), PAGES * 4096));
    needs_door = start(waits_at_doors);
    MUST(mlockall(MCL_FUTURE));
}

static void check_memory(void)
{
    long before = locked_kib();
    void *begin = pages();
    SAME(before >= 0 && locked_kib() - before == PAGES * 4);
    MUST(munmap(begin, PAGES * 4096));
    MUST(munlockall());
    doors[1] = 1;
    SAME(syscall(SYS_futex, &doors[1], WAKE, 1, NULL, NULL, 0) == 1);
    join(needs_door);
    SAME(opened == 1);
}

/* Datagrams that wait, of which somebody wants to know how they came. */
static int informed, informer;
static struct timespec sent_after, sent_before;

static void set_datagrams(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int on = 1, hops = 9, service = 0x20;
    MUST(informed = socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(informed, (struct sockaddr *)&address, length));
    MUST(getsockname(informed, (struct sockaddr *)&address, &length));
    MUST(informer = socket(AF_INET, SOCK_DGRAM, 0));
    address.sin_addr.s_addr = htonl(0x7f000001);
    MUST(sendto(informer, "early", 5, 0, (struct sockaddr *)&address, length));
    MUST(setsockopt(informed, SOL_IP, IP_PKTINFO, &on, sizeof on));
    MUST(setsockopt(informed, SOL_IP, IP_RECVTTL, &on, sizeof on));
    MUST(setsockopt(informed, SOL_IP, IP_RECVTOS, &on, sizeof on));
    MUST(setsockopt(informed, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
    MUST(setsockopt(informer, SOL_IP, IP_TTL, &hops, sizeof hops));
    MUST(setsockopt(informer, SOL_IP, IP_TOS, &service, sizeof service));
    address.sin_addr.s_addr = htonl(0x7f000007);
    MUST(clock_gettime(CLOCK_REALTIME, &sent_after));
    MUST(sendto(informer, "late", 4, 0, (struct sockaddr *)&address, length));
    MUST(clock_gettime(CLOCK_REALTIME, &sent_before));
}

static int earlier(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec < other->tv_sec ||
           (one->tv_sec == other->tv_sec && one->tv_nsec <= other->tv_nsec);
}

/* What a message says of how it came. */
static void take_datagram(const char *text, uint32_t to, int interface, int hops, int service)
{
    char bytes[16] = {0};
    _Alignas(8) char space[256];
    struct iovec room = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    MUST(recvmsg(informed, &message, MSG_DONTWAIT));
    SAME(strcmp(bytes, text) == 0);
    int told = 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    for (; header != NULL; header = CMSG_NXTHDR(&message, header)) {
        void *body = CMSG_DATA(header);
        struct in_pktinfo *info = body;
        struct timespec *when = body;
        told++;
        if (header->cmsg_level == SOL_IP && header->cmsg_type == IP_PKTINFO)
            SAME(info->ipi_ifindex == interface && ntohl(info->ipi_addr.s_addr) == to);
        else if (header->cmsg_level == SOL_IP && header->cmsg_type == IP_TTL)
            SAME(*(int *)body == hops);
        else if (header->cmsg_level == SOL_IP && header->cmsg_type == IP_TOS)
            SAME(*(unsigned char *)body == service);
        else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_TIMESTAMPNS)
            SAME(interface == 0 || (earlier(&sent_after, when) && earlier(when, &sent_before)));
    }
    SAME(told == 4);
}

static void check_datagrams(void)
{
    /* Of what came before anybody asked, the kernel has forgotten by which interface. */
    take_datagram("early", 0x7f000001, 0, 64, 0);
    take_datagram("late", 0x7f000007, 1, 9, 0x20);
}

static uint64_t work_a_little(void)
{
    uint64_t value = DIGEST_EMPTY;
    for (uint64_t step = 0; step < WORK_STEPS / 50; step++)
        value = digest_add_word(value, step);
    return value;
}

int main(void)
{
    set_signals();
    set_pipes();
    sem_init(&ready, 0, 0);
    set_terminals();
    set_files();
    set_system_v();
    set_queues();
    set_requests();
    set_wishes();
    set_restraints();
    set_timers();
    set_memory();
    set_datagrams();
    nap(3000);
    printf("everything is there to be kept\n");
    fflush(stdout);
    uint64_t result = work_a_little();
    /* In every epoch there is output that waits. */
    for (int round = 0; round < 4; round++) {
        printf("%d: nothing is asked for yet", round);
        for (int part = 0; part < 50; part++) {
            printf(".");
            fflush(stdout);
            MUST(result == work_a_little() ? 0 : -1);
        }
        printf("\n");
    }
    check_timers();
    check_terminals();
    check_system_v();
    check_queues();
    check_files();
    check_requests();
    check_wishes();
    check_restraints();
    check_memory();
    check_datagrams();
    MUST(close(tell[1]));
    check_undone();
    check_owner_died();
    printf(wrong ? "something was lost\n" : "everything was kept\n");
    return wrong ? 1 : DONE;
}
