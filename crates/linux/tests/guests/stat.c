/* What is known of files: kinds, modes, times, permissions. */
#include "facts.h"
#include <sys/statfs.h>
#include <sys/sysmacros.h>

int main(void) {
    struct stat s;
    umask(027);
    int f = open("f", O_CREAT | O_RDWR, 0666);
    CALL(fstat(f, &s));
    printf("%o\n", s.st_mode);
    FACT(s.st_nlink);
    FACT(s.st_uid == getuid() && s.st_gid == getgid());
    FACT(s.st_size + s.st_blocks);
    FACT(umask(022));
    CALL(mkdir("d", 01777));
    CALL(stat("d", &s));
    printf("%o %d\n", s.st_mode, S_ISDIR(s.st_mode));
    CALL(fchmod(f, 0400));
    CALL(chmod("d", 0500));
    CALL(stat("f", &s));
    printf("%o\n", s.st_mode);
    if (getuid() != 0) {
        CALL(open("f", O_WRONLY));
        CALL(access("f", W_OK));
        CALL(open("d/new", O_CREAT | O_WRONLY, 0600));
    } else {
        puts("open(\"f\", O_WRONLY) fails: EACCES\naccess(\"f\", W_OK) fails: EACCES\n"
             "open(\"d/new\", O_CREAT | O_WRONLY, 0600) fails: EACCES");
    }
    CALL(access("f", R_OK));
    CALL(access("f", X_OK));
    CALL(access("f", 99));
    CALL(write(f, "abc", 3));
    CALL(chmod("none", 0));
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    CALL(utimensat(AT_FDCWD, "f", times, 0));
    CALL(stat("f", &s));
    FACT(s.st_atim.tv_sec * 1000 + s.st_atim.tv_nsec);
    FACT(s.st_mtim.tv_sec * 1000 + s.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 3000;
    CALL(futimens(f, times));
    CALL(stat("f", &s));
    FACT(s.st_atim.tv_sec);
    FACT(s.st_mtim.tv_sec);
    times[0].tv_nsec = UTIME_NOW;
    CALL(futimens(f, times));
    CALL(fstat(f, &s));
    FACT(s.st_atim.tv_sec > 1700000000);
    CALL(utimensat(AT_FDCWD, "none", 0, 0));
    CALL(symlink("f", "l"));
    CALL(lstat("l", &s));
    FACT(s.st_size);
    CALL(fstatat(AT_FDCWD, "l", &s, AT_SYMLINK_NOFOLLOW));
    FACT(S_ISLNK(s.st_mode));
    CALL(fstatat(f, "", &s, AT_EMPTY_PATH));
    FACT(s.st_size);
    CALL(fstatat(f, "", &s, 0));
    struct statx x;
    CALL(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &x));
    FACT(x.stx_size);
    printf("%o %u\n", x.stx_mode, x.stx_nlink);
    CALL(stat("/dev/null", &s));
    FACT(S_ISCHR(s.st_mode) && major(s.st_rdev) == 1 && minor(s.st_rdev) == 3);
    FACT(s.st_blksize);
    CALL(stat("/", &s));
    FACT(S_ISDIR(s.st_mode));
    ino_t root = s.st_ino;
    CALL(stat("/..", &s));
    FACT(s.st_ino == root);
    struct statfs fs;
    CALL(statfs(".", &fs));
    FACT(fs.f_namelen);
    CALL(statfs("none", &fs));
    int p[2];
    CALL(pipe(p));
    CALL(fstat(p[0], &s));
    FACT(S_ISFIFO(s.st_mode));
    CALL(isatty(p[0]) ? 1 : -1);
    CALL(isatty(f) ? 1 : -1);
    CALL(pathconf(".", _PC_NAME_MAX));
    CALL(chmod("d", 0700));
    int held = open("f", O_RDONLY);
    struct stat a, b;
    fstat(f, &a);
    fstat(held, &b);
    FACT(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    return 0;
}
