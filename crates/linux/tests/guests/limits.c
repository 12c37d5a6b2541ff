/* What `setrlimit` limits of descriptors and of the length of files. */
#include "facts.h"
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

static volatile int signals;
static void count(int signal) { signals += signal == SIGXFSZ ? 1 : 100; }

static void limit(int resource, rlim_t soft) {
    struct rlimit now;
    CALL(getrlimit(resource, &now));
    now.rlim_cur = soft;
    CALL(setrlimit(resource, &now));
    CALL(getrlimit(resource, &now));
    printf("%d: %ld\n", resource, (long)now.rlim_cur);
}

int main(void) {
    /* Descriptors are refused at the limit; those above it stay open. */
    int file = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CALL(dup2(file, 60));
    limit(RLIMIT_NOFILE, 20);
    int last = 0, next;
    while ((next = dup(file)) >= 0) last = next;
    printf("last %d %s\n", last, strerror(errno));
    CALL(open("f", O_RDONLY));
    int ends[2];
    CALL(pipe(ends));
    CALL(dup2(file, 20));
    CALL(dup2(file, 19));
    CALL(fcntl(file, F_DUPFD, 20));
    CALL(fcntl(file, F_DUPFD, 0));
    CALL(write(60, "x", 1));
    struct pollfd polled[21];
    memset(polled, -1, sizeof polled);
    CALL(poll(polled, 21, 0));
    CALL(poll(polled, 20, 0));
    close(last);
    CALL(pipe(ends));
    /* It can be raised again. */
    limit(RLIMIT_NOFILE, 300);
    CALL(fcntl(file, F_DUPFD, 299));
    struct rlimit wrong = {10, 5};
    CALL(setrlimit(RLIMIT_NOFILE, &wrong));
    CALL(setrlimit(99, &wrong));

    /* The length of files. */
    signal(SIGXFSZ, count);
    limit(RLIMIT_FSIZE, 1000);
    static char bytes[3000];
    CALL(ftruncate(file, 0));
    lseek(file, 0, SEEK_SET);
    CALL(write(file, bytes, 900));
    CALL(write(file, bytes, 900));
    printf("%d signals\n", signals);
    CALL(write(file, bytes, 900));
    printf("%d signals\n", signals);
    CALL(pwrite(file, bytes, 10, 995));
    CALL(pwrite(file, bytes, 10, 1000));
    CALL(pwrite(file, bytes, 10, 5000));
    CALL(pwrite(file, bytes, 0, 5000));
    printf("%d signals\n", signals);
    CALL(ftruncate(file, 1001));
    CALL(truncate("f", 2000));
    printf("%d signals\n", signals);
    CALL(ftruncate(file, 1000));
    CALL(fallocate(file, 0, 500, 600));
    CALL(fallocate(file, FALLOC_FL_KEEP_SIZE, 500, 100));
    printf("%d signals, %ld bytes\n", signals, (long)lseek(file, 0, SEEK_END));
    /* Pipes have no length; a file that is longer already may be cut. */
    int into[2];
    CALL(pipe(into));
    CALL(write(into[1], bytes, 3000));
    limit(RLIMIT_FSIZE, 100);
    CALL(ftruncate(file, 500));
    CALL(pwrite(file, bytes, 10, 90));
    CALL(pwrite(file, bytes, 20, 90));
    CALL(pwrite(file, bytes, 20, 300));
    printf("%d signals\n", signals);
    /* Ignored, it is an error; not handled, it is the end. */
    signal(SIGXFSZ, SIG_IGN);
    CALL(pwrite(file, bytes, 20, 300));
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_DFL);
        pwrite(file, bytes, 20, 300);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    return 0;
}
