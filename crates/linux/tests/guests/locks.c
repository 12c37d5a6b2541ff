/* Descriptors: duplicating, flags, locks. */
#include "facts.h"
#include <sys/file.h>
#include <sys/ioctl.h>

int main(void) {
    int f = open("f", O_CREAT | O_RDWR, 0600);
    CALL(fcntl(f, F_DUPFD, 20));
    CALL(fcntl(f, F_DUPFD, 20));
    CALL(fcntl(f, F_DUPFD_CLOEXEC, 30));
    CALL(fcntl(30, F_GETFD));
    CALL(fcntl(20, F_GETFD));
    CALL(fcntl(20, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(20, F_GETFD));
    CALL(fcntl(21, F_GETFD));
    CALL(dup2(f, 40));
    CALL(dup2(f, f));
    CALL(dup2(99, 5));
    CALL(dup3(f, f, 0));
    CALL(dup3(f, 41, O_CLOEXEC));
    CALL(fcntl(41, F_GETFD));
    FACT(fcntl(f, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    CALL(fcntl(f, F_SETFL, O_APPEND | O_NONBLOCK));
    FACT((fcntl(40, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) ==
         (O_RDWR | O_APPEND | O_NONBLOCK));
    CALL(fcntl(f, F_SETFL, 0));
    CALL(fcntl(99, F_GETFL));
    CALL(fcntl(f, 12345));
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    CALL(fcntl(f, F_SETLK, &l));
    CALL(fcntl(f, F_GETLK, &l));
    FACT(l.l_type == F_UNLCK);
    l.l_type = F_UNLCK;
    CALL(fcntl(f, F_SETLKW, &l));
    l.l_type = 77;
    CALL(fcntl(f, F_SETLK, &l));
    int r = open("f", O_RDONLY);
    l.l_type = F_WRLCK;
    CALL(fcntl(r, F_SETLK, &l));
    CALL(flock(f, LOCK_EX));
    CALL(flock(40, LOCK_EX | LOCK_NB));
    CALL(flock(r, LOCK_SH | LOCK_NB));
    CALL(flock(f, LOCK_SH));
    CALL(flock(r, LOCK_SH | LOCK_NB));
    CALL(flock(r, LOCK_EX | LOCK_NB));
    CALL(flock(f, LOCK_UN));
    CALL(flock(r, LOCK_EX | LOCK_NB));
    CALL(close(r));
    CALL(flock(f, LOCK_EX | LOCK_NB));
    CALL(flock(f, 16));
    CALL(flock(99, LOCK_EX));
    int n;
    CALL(write(f, "12345", 5));
    CALL(lseek(f, 1, SEEK_SET));
    CALL(ioctl(f, FIONREAD, &n));
    FACT(n);
    CALL(ioctl(f, TIOCGWINSZ, &n));
    CALL(ioctl(99, TIOCGWINSZ, &n));
    CALL(close_range(20, 45, 0));
    CALL(fcntl(40, F_GETFD));
    CALL(fcntl(f, F_GETFD));
    CALL(close_range(10, 5, 0));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    int again = open(path, O_RDONLY);
    char b[8] = {0};
    CALL(read(again, b, 8));
    puts(b);
    CALL(write(again, b, 1));
    CALL(open("/proc/self/fd/99", O_RDONLY));
    struct stat s, t;
    CALL(stat(path, &s));
    CALL(fstat(f, &t));
    FACT(s.st_ino == t.st_ino);
    int many = 0;
    while (open("f", O_RDONLY) >= 0) many++;
    FACT(many > 900);
    FACT(errno == EMFILE);
    return 0;
}
