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
}

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    names_are_not_opened();
    pipes_have_no_positions();
    return 0;
}
