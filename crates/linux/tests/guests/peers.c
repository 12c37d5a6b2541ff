// Files without names, locks of open files, circles of locks, seals, descriptors of processes.
#include "facts.h"
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static struct flock range(short kind, off_t start, off_t length)
{
    return (struct flock){.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

static int lock(int fd, int command, short kind, off_t start, off_t length)
{
    struct flock wished = range(kind, start, length);
    return fcntl(fd, command, &wished);
}

static void nameless_files(void)
{
    char path[64], text[16] = "";
    int file;
    CALL((file = open(".", O_TMPFILE | O_RDWR, 0640)) < 0 ? -1 : 0);
    struct stat status;
    fstat(file, &status);
    FACT(status.st_nlink);
    CALL(write(file, "kept", 4));
    sprintf(path, "/proc/self/fd/%d", file);
    CALL(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    fstat(file, &status);
    FACT(status.st_nlink);
    int again = open("named", O_RDONLY);
    CALL(read(again, text, sizeof text));
    printf("%s\n", text);
    close(again);
    close(file);
    CALL(unlink("named"));
    file = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    sprintf(path, "/proc/self/fd/%d", file);
    CALL(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    close(file);
    CALL(open(".", O_TMPFILE | O_RDONLY, 0600));
}

static void locks_of_open_files(void)
{
    int one = open("locked", O_RDWR | O_CREAT, 0600), two = open("locked", O_RDWR);
    CALL(lock(one, F_OFD_SETLK, F_WRLCK, 0, 10));
    CALL(lock(two, F_OFD_SETLK, F_WRLCK, 5, 10));
    CALL(lock(two, F_SETLK, F_RDLCK, 9, 1));
    CALL(lock(two, F_OFD_SETLK, F_WRLCK, 10, 10));
    struct flock asked = range(F_RDLCK, 0, 0);
    CALL(fcntl(two, F_OFD_GETLK, &asked));
    FACT(asked.l_type);
    FACT(asked.l_start);
    FACT(asked.l_len);
    FACT(asked.l_pid);
    asked.l_pid = 7;
    CALL(fcntl(two, F_OFD_GETLK, &asked));
    int copy = dup(one);
    close(one);
    CALL(lock(two, F_OFD_SETLK, F_WRLCK, 0, 1));
    close(copy);
    CALL(lock(two, F_OFD_SETLK, F_WRLCK, 0, 1));
    pid_t child = fork();
    if (child == 0) {
        int own = open("locked", O_RDWR);
        lock(own, F_OFD_SETLKW, F_WRLCK, 0, 1);
        _exit(5);
    }
    usleep(1000);
    CALL(lock(two, F_OFD_SETLK, F_UNLCK, 0, 0));
    close(two);
    int how;
    waitpid(child, &how, 0);
    FACT(WEXITSTATUS(how));
}

static void circles(void)
{
    int file = open("locked", O_RDWR), ready[2], go[2];
    char byte = 0;
    if (pipe(ready) || pipe(go))
        return;
    CALL(lock(file, F_SETLK, F_WRLCK, 0, 1));
    pid_t child = fork();
    if (child == 0) {
        lock(file, F_SETLK, F_WRLCK, 1, 1);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        // Waits for the parent, which will not wait for this one.
        _exit(lock(file, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 6 : 7);
    }
    CALL(read(ready[0], &byte, 1));
    // Long enough for the child to wait, on a host on which much else runs, too.
    usleep(500000);
    CALL(lock(file, F_SETLKW, F_WRLCK, 1, 1));
    CALL(lock(file, F_SETLK, F_UNLCK, 0, 0));
    int how;
    waitpid(child, &how, 0);
    FACT(WEXITSTATUS(how));
    CALL(fcntl(file, F_GETLEASE));
    close(file);
    unlink("locked");
}

static void seals(void)
{
    int file = memfd_create("plain", 0);
    FACT(fcntl(file, F_GET_SEALS));
    CALL(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
    close(file);
    file = memfd_create("sealed", MFD_ALLOW_SEALING);
    FACT(fcntl(file, F_GET_SEALS));
    CALL(ftruncate(file, 8192));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CALL(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
    munmap(map, 8192);
    CALL(fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK));
    CALL(ftruncate(file, 4096));
    CALL(ftruncate(file, 16384));
    CALL(pwrite(file, "x", 1, 8191));
    CALL(pwrite(file, "x", 1, 8192));
    CALL(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL));
    CALL(pwrite(file, "x", 1, 0));
    WORKS(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    WORKS(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    CALL(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
    FACT(fcntl(file, F_GET_SEALS));
    close(file);
    file = open(".", O_RDONLY);
    CALL(fcntl(file, F_GET_SEALS));
    close(file);
}

static void processes(void)
{
    int hold[2];
    if (pipe(hold))
        return;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 9 : 8);
    }
    int descriptor = syscall(SYS_pidfd_open, child, 0);
    FACT(descriptor >= 0);
    FACT(fcntl(descriptor, F_GETFD));
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    CALL(poll(&entry, 1, 0));
    CALL(syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0));
    close(hold[1]);
    CALL(poll(&entry, 1, -1));
    FACT(entry.revents);
    siginfo_t info = {0};
    CALL(waitid(P_PIDFD, descriptor, &info, WEXITED));
    FACT(info.si_status);
    FACT(info.si_pid == child);
    CALL(syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, NULL, 0));
    CALL(waitid(P_PIDFD, descriptor, &info, WEXITED));
    CALL(syscall(SYS_pidfd_open, child, 0));
    CALL(syscall(SYS_pidfd_open, -1, 0));
    CALL(read(descriptor, &info, 1));
    close(descriptor);
    close(hold[0]);
}

int main(void)
{
    nameless_files();
    locks_of_open_files();
    circles();
    seals();
    processes();
    return 0;
}
