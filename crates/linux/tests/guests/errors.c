/* Calls that must fail, and how. */
#include "facts.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/wait.h>

int main(void) {
    char *nowhere = (char *)16;
    char *gone = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone + 4096, 4096);
    int f = open("f", O_CREAT | O_RDWR, 0600);
    CALL(syscall(SYS_write, f, nowhere, 5));
    CALL(syscall(SYS_write, f, gone + 4090, 5));
    CALL(write(f, "some text", 9));
    CALL(syscall(SYS_pread64, f, nowhere, 5, 0));
    CALL(syscall(SYS_openat, AT_FDCWD, nowhere, O_RDONLY));
    CALL(syscall(SYS_newfstatat, AT_FDCWD, "f", nowhere, 0));
    CALL(syscall(SYS_clock_gettime, 0, nowhere));
    CALL(syscall(SYS_pipe2, nowhere, 0));
    CALL(syscall(SYS_uname, nowhere));
    CALL(syscall(SYS_rt_sigaction, SIGUSR1, nowhere, 0, 8));
    CALL(syscall(SYS_rt_sigprocmask, 0, nowhere, 0, 8));
    CALL(syscall(SYS_rt_sigprocmask, 9, &f, 0, 8));
    CALL(syscall(SYS_rt_sigprocmask, 0, &f, 0, 4));
    CALL(syscall(SYS_getcwd, nowhere, 100));
    CALL(syscall(SYS_getcwd, gone, 1));
    CALL(syscall(SYS_readlinkat, AT_FDCWD, "f", gone, 10));
    CALL(syscall(SYS_getdents64, f, gone, 100));
    CALL(syscall(SYS_writev, f, nowhere, 1));
    strcpy(gone + 4096 - 2, "f");
    CALL(access(gone + 4096 - 2, F_OK));
    gone[4095] = 'g';
    CALL(syscall(SYS_faccessat, AT_FDCWD, gone + 4095, F_OK));
    CALL(read(-1, gone, 1));
    CALL(read(1000, gone, 1));
    CALL(close(-1));
    CALL(lseek(99, 0, SEEK_SET));
    CALL(fstat(99, (struct stat *)gone));
    CALL(fsync(99));
    CALL(dup(99));
    CALL(openat(99, "f", O_RDONLY));
    CALL(openat(f, "f", O_RDONLY));
    CALL(open("f/f", O_RDONLY));
    CALL(open("none/f", O_RDONLY));
    CALL(open(".", O_RDWR));
    CALL(open("", O_RDONLY));
    char *path = malloc(5000);
    memset(path, 'a', 4999);
    path[4999] = 0;
    CALL(open(path, O_RDONLY));
    for (int i = 0; i < 4999; i += 2) path[i] = '/';
    CALL(open(path, O_RDONLY));
    CALL(syscall(SYS_ftruncate, f, -5L));
    CALL(mprotect((void *)1, 4096, PROT_READ));
    CALL(mprotect(gone, 8192, PROT_READ));
    CALL(msync(gone, 4096, 99));
    CALL(munmap(gone, -4096UL));
    struct rlimit l;
    CALL(getrlimit(99, &l));
    l.rlim_cur = 20;
    l.rlim_max = 10;
    CALL(setrlimit(RLIMIT_NOFILE, &l));
    int status;
    CALL(waitpid(-1, &status, 0));
    CALL(getpriority(PRIO_PROCESS, 0));
    CALL(syscall(SYS_sched_getaffinity, 0, 1, &status));
    CALL(syscall(SYS_sched_getaffinity, 99999, 128, path));
    CALL(syscall(SYS_futex, nowhere, 128, 0, 0, 0, 0));
    CALL(syscall(SYS_futex, &status, 99, 0, 0, 0, 0));
    CALL(syscall(SYS_set_robust_list, 0, 1) == 12345);
    CALL(syscall(SYS_getrandom, path, 10, 99));
    CALL(syscall(SYS_getrandom, path, 10, 0));
    CALL(syscall(SYS_getrandom, nowhere, 10, 0));
    CALL(syscall(SYS_epoll_ctl, f, 1, f, path));
    CALL(syscall(SYS_eventfd2, 0, 99));
    CALL(syscall(9999));
    CALL(symlink("", "s"));
    CALL(rename("none", "x"));
    CALL(rename("f", "none/x"));
    CALL(link("none", "x"));
    CALL(rmdir("f"));
    CALL(rmdir("none"));
    CALL(unlink("."));
    CALL(mkdir(".", 0755));
    CALL(chdir("f"));
    CALL(fchdir(f));
    CALL(syscall(SYS_unlinkat, AT_FDCWD, "f", 12345));
    CALL(syscall(SYS_dup3, f, 10, 77));
    CALL(syscall(SYS_pipe2, &status, 0777777));
    CALL(syscall(SYS_lseek, f, 0, 77));
    CALL(connect(f, (struct sockaddr *)path, 16));
    return 0;
}
