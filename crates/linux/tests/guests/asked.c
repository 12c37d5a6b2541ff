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

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    names_are_not_opened();
    return 0;
}
