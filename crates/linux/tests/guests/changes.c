/* Changes a directory tree at random, with what the seed says; prints what each change gave. With a third
 * argument, there are FIFOs and sockets in it, too. */
#include "facts.h"
#include "named.h"

static uint64_t state;

static uint32_t next(uint32_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 33) % bound;
}

static const char *name(void) {
    static const char *names[] = {"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a",
                                  "l", "h", "d/l", "f/b", "f/g", "f/g/a"};
    return names[next(sizeof names / sizeof *names)];
}

static void report(int step, const char *what, const char *one, const char *two, long result) {
    printf("%d %s %s %s: %s\n", step, what, one, two, result < 0 ? strerrorname_np(errno) : "ok");
}

/* Nobody is at the other end: to open it may wait. */
static int waits(const char *place) {
    struct stat s;
    return stat(place, &s) == 0 && S_ISFIFO(s.st_mode);
}

/* A directory of a lower layer may refuse to move: not a difference that matters. */
static int stays(const char *place) {
    struct stat s;
    return (!strcmp(place, "d") || !strcmp(place, "d/e")) && lstat(place, &s) == 0 &&
           S_ISDIR(s.st_mode);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    state = strtoull(arguments[1], 0, 0);
    uint32_t kinds = count > 3 ? 16 : 14;
    int steps = atoi(arguments[2]);
    char b[20000];
    for (int step = 0; step < steps; step++) {
        const char *one = name(), *two = name();
        errno = 0;
        switch (next(kinds)) {
        case 0:
        case 1:
        case 2: {
            if (waits(one)) break;
            int flags[] = {0, O_CREAT, O_CREAT | O_TRUNC, O_CREAT | O_APPEND, O_CREAT | O_EXCL};
            int f = open(one, O_RDWR | flags[next(5)], 0600 + 0100 * next(2));
            long written = f;
            if (f >= 0) {
                size_t length = next(next(4) ? 200 : sizeof b);
                memset(b, 'a' + next(26), length);
                lseek(f, next(12000), SEEK_SET);
                written = write(f, b, length);
                if (next(4) == 0) fsync(f);
                close(f);
            }
            report(step, "write", one, "", written);
            break;
        }
        case 3: report(step, "mkdir", one, "", mkdir(one, 0755)); break;
        case 4: report(step, "unlink", one, "", unlink(one)); break;
        case 5: report(step, "rmdir", one, "", rmdir(one)); break;
        case 6:
        case 7: {
            if (next(3) == 0) {
                if (stays(one) || stays(two)) break;
                int result = renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE);
                report(step, "exchange", one, two, result);
                break;
            }
            struct stat s;
            if (lstat(one, &s) == 0 && S_ISDIR(s.st_mode)) break;
            report(step, "rename", one, two, rename(one, two));
            break;
        }
        case 8: report(step, "link", one, two, link(one, two)); break;
        case 9: report(step, "symlink", "a", two, symlink("a", two)); break;
        case 10: report(step, "truncate", one, "", truncate(one, next(15000))); break;
        case 11: {
            if (waits(one)) break;
            int f = open(one, O_RDWR);
            long result = f;
            struct stat s;
            if (f >= 0 && fstat(f, &s) == 0 && s.st_size > 0) {
                char *m = mmap(0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
                m[next((uint32_t)s.st_size)] = 'M';
                if (next(2)) msync(m, s.st_size, MS_SYNC);
                m[next((uint32_t)s.st_size)] = 'N';
                munmap(m, s.st_size);
            }
            if (f >= 0) close(f);
            report(step, "map", one, "", result);
            break;
        }
        case 12: {
            struct stat s;
            long result = stat(one, &s);
            report(step, "stat", one, "", result);
            if (result == 0 && S_ISREG(s.st_mode))
                printf("  %o %lld %d\n", s.st_mode, (long long)s.st_size, (int)s.st_nlink);
            break;
        }
        case 13: {
            if (waits(one)) break;
            int f = open(one, O_RDONLY);
            long sum = 0, n;
            while (f >= 0 && (n = read(f, b, 1000)) > 0)
                for (int i = 0; i < n; i++) sum = sum * 31 + b[i];
            if (f >= 0) close(f);
            report(step, "read", one, "", f);
            printf("  %lx\n", sum);
            break;
        }
        case 14: report(step, "mkfifo", one, "", mkfifo(one, 0644)); break;
        case 15: {
            int s = named_socket(SOCK_STREAM, one);
            report(step, "bind", one, "", s);
            if (s >= 0) close(s);
            break;
        }
        }
        if (next(30) == 0) sync();
    }
    return 0;
}
