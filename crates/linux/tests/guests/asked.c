/* What is asked for in a way that only its answer tells from one that works. asked.txt has the facts as Linux
 * itself states them. */
#include "facts.h"
#include <linux/openat2.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* A descriptor that names a file is no open file. */
static void names_are_not_opened(void)
{
    int directory = open(".", O_PATH), file, instance = epoll_create1(0);
    close(open("named", O_RDWR | O_CREAT, 0600));
    file = open("named", O_PATH);
    struct epoll_event event = {.events = EPOLLIN};
    char bytes[256];
    CALL(epoll_ctl(instance, EPOLL_CTL_ADD, file, &event));
    CALL(accept(file, NULL, NULL));
    CALL(listen(file, 1));
    CALL(ftruncate(file, 0));
    CALL(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0));
    CALL(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 999, 0));
    CALL(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, instance, 0));
    CALL(syscall(SYS_getdents64, directory, bytes, sizeof bytes));
    close(directory), close(file), close(instance);
}

/* Nobody reads or writes a pipe at a position, whichever end it is. */
static void pipes_have_no_positions(void)
{
    int ends[2];
    char byte = 0;
    struct iovec one = {&byte, 1};
    if (pipe(ends) != 0) return;
    CALL(pwrite(ends[0], &byte, 1, 0));
    CALL(pread(ends[1], &byte, 1, 0));
    CALL(pwritev(ends[0], &one, 1, 0));
    CALL(preadv(ends[1], &one, 1, 0));
    CALL(pread(ends[1], &byte, 1, -1));
    CALL(write(ends[0], &byte, 1));
    CALL(read(ends[1], &byte, 1));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    CALL(write(ends[1], &byte, 0));
    CALL(write(ends[1], &byte, 1));
    close(ends[1]);
    mkfifo("fifo", 0600);
    CALL(open("fifo", O_ACCMODE));
    CALL(open("fifo", O_ACCMODE | O_NONBLOCK));
}

/* A message that is looked at stays, and is named by its place. */
static void messages_are_copied(void)
{
    struct { long kind; char text[8]; } message = {3, "three"};
    int queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    CALL(msgsnd(queue, &message, 6, 0));
    message.kind = 4;
    CALL(msgsnd(queue, &message, 8, 0));
    CALL(msgrcv(queue, &message, 8, 0, MSG_COPY | IPC_NOWAIT));
    FACT(message.kind);
    CALL(msgrcv(queue, &message, 8, 1, MSG_COPY | IPC_NOWAIT));
    FACT(message.kind);
    CALL(msgrcv(queue, &message, 4, 1, MSG_COPY | IPC_NOWAIT));
    CALL(msgrcv(queue, &message, 4, 1, MSG_COPY | IPC_NOWAIT | MSG_NOERROR));
    CALL(msgrcv(queue, &message, 8, 2, MSG_COPY | IPC_NOWAIT));
    CALL(msgrcv(queue, &message, 8, 9, MSG_COPY));
    CALL(msgrcv(queue, &message, 8, 0, MSG_COPY | IPC_NOWAIT | MSG_EXCEPT));
    CALL(msgrcv(queue, &message, 8, 0, IPC_NOWAIT));
    CALL(msgrcv(queue, &message, 8, 0, IPC_NOWAIT));
    CALL(msgrcv(queue, &message, 8, 0, IPC_NOWAIT));
    CALL(msgctl(queue, IPC_RMID, NULL));
}

/* What is locked is there. */
static void pages_are_locked(void)
{
    enum { PAGE = 4096 };
    unsigned char there[4] = {9, 9, 9, 9};
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(mlock(memory + PAGE, 2 * PAGE));
    CALL(mincore(memory, 4 * PAGE, there));
    for (int page = 0; page < 4; page++) FACT(there[page]);
    munmap(memory, 4 * PAGE);
}

static int open_as(const char *path, uint64_t flags, uint64_t resolve, size_t bytes, char last)
{
    char how[8192] = {0};
    memcpy(how, &(struct open_how){.flags = flags, .resolve = resolve}, sizeof(struct open_how));
    if (bytes > sizeof(struct open_how)) how[bytes - 1] = last;
    int file = (int)syscall(SYS_openat2, AT_FDCWD, path, how, bytes);
    if (file >= 0) close(file);
    return file < 0 ? -1 : 0;
}

static void paths_are_restricted(void)
{
    CALL(open_as(".", O_RDONLY, 0, 24, 0));
    CALL(open_as(".", O_RDONLY, 0, 32, 0));
    CALL(open_as(".", O_RDONLY, 0, 25, 1));
    CALL(open_as(".", O_RDONLY, 0, 4096, 1));
    CALL(open_as(".", O_RDONLY, 0, 4096, 0));
    CALL(open_as(".", O_RDONLY, 0, 4097, 0));
    CALL(open_as(".", O_RDONLY, 0, 23, 0));
    CALL(open_as(".", 1 << 30, 0, 24, 0));
    CALL(open_as(".", 1ULL << 40, 0, 24, 0));
    CALL(open_as(".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 24, 0));
    CALL(open_as(".", O_PATH | O_APPEND, 0, 24, 0));
    CALL(open_as(".", O_RDONLY | O_LARGEFILE | O_NONBLOCK | O_NOCTTY, 0, 24, 0));
    CALL(open_as(".", O_WRONLY | O_TMPFILE | O_SYNC | O_APPEND, 0, 24, 0));
    CALL(open_as("/proc/self/exe", O_RDONLY, 0, 24, 0));
    CALL(open_as("/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS, 24, 0));
    CALL(open_as("/proc/self/cwd/.", O_RDONLY, RESOLVE_NO_MAGICLINKS, 24, 0));
    CALL(open_as("/proc/self/stat", O_RDONLY, RESOLVE_NO_MAGICLINKS, 24, 0));
    CALL(open_as("/proc/thread-self/stat", O_RDONLY, RESOLVE_NO_MAGICLINKS, 24, 0));
}

static void capabilities_are_named(void)
{
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 1, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 999, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 1, 1, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 1, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, 1, 0, 0));
    CALL(prctl(PR_CAP_AMBIENT, 9, 1, 0, 0));
    CALL(sched_get_priority_max(6));
    CALL(sched_get_priority_min(6));
}

static void sockets_are_asked(void)
{
    int stream = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0), mark;
    char byte, name[64];
    struct iovec one = {&byte, 1};
    struct msghdr header = {.msg_name = name, .msg_namelen = -1, .msg_iov = &one, .msg_iovlen = 1};
    socklen_t length = 16, none = 0;
    CALL(getsockname(stream, NULL, &length));
    CALL(getsockname(stream, NULL, &none));
    CALL(ioctl(datagram, SIOCATMARK, &mark));
    CALL(ioctl(stream, SIOCATMARK, &mark));
    CALL(recvmsg(datagram, &header, MSG_DONTWAIT));
    CALL(sendmsg(datagram, &header, MSG_DONTWAIT));
    header.msg_name = NULL;
    CALL(recvmsg(datagram, &header, MSG_DONTWAIT));
    close(stream), close(datagram);
}

static volatile int number, told;

static void *stays(void *barrier)
{
    number = (int)syscall(SYS_gettid);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void tell(int signal) { (void)signal, told++; }

static int task_is_there(int process, int thread, const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task/%d%s", process, thread, name);
    return access(path, F_OK);
}

/* A thread's number stands for its process, and is gone when it is. */
static void threads_have_numbers(void)
{
    pthread_barrier_t barrier;
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    signal(SIGUSR1, tell);
    pthread_create(&thread, NULL, stays, &barrier);
    pthread_barrier_wait(&barrier);
    int own = getpid();
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE, .si_pid = own};
    CALL(task_is_there(own, number, ""));
    CALL(task_is_there(own, number, "/stat"));
    CALL(task_is_there(getppid(), number, ""));
    CALL(syscall(SYS_rt_sigqueueinfo, number, 0, &info));
    CALL(kill(number, 0));
    CALL(syscall(SYS_rt_sigqueueinfo, number, SIGUSR1, &info));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    FACT(told);
    for (int tries = 0; tries < 1000 && kill(number, 0) == 0; tries++) usleep(1000);
    CALL(task_is_there(own, number, ""));
    CALL(task_is_there(own, number, "/stat"));
    CALL(task_is_there(own, own, ""));
    CALL(syscall(SYS_rt_sigqueueinfo, number, 0, &info));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    names_are_not_opened();
    pipes_have_no_positions();
    messages_are_copied();
    pages_are_locked();
    paths_are_restricted();
    capabilities_are_named();
    sockets_are_asked();
    threads_have_numbers();
    return 0;
}
