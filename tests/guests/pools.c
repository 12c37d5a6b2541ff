/*
 * End-to-end test: pools, the files of a directory that may lie in persistent memory.
 *
 *   pools [DIRECTORY [again]]     default: the current directory
 *
 * Always true: what it prints does not depend on whether the directory is in persistent memory
 * (/pmem) or an ordinary one; there it maps without MAP_SYNC, and synchronises where it would flush.
 * qemu-user 7.2 has another error for that (EINVAL), because it does not know MAP_SHARED_VALIDATE.
 * The first run leaves the files `bank` and `log`; `again` reads them back, in another process or on a
 * machine that was started anew.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "digest.h"
#include "perdure.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

enum { PAGE = 4096, BANK = 16 * PAGE };

static int failures;

static void expect(int condition, const char *what)
{
    if (!condition) {
        printf("pools: WRONG: %s (errno %d)\n", what, errno);
        failures++;
    }
}

/* Whether the directory's files are mapped so that stores become durable by flushes alone. */
static int synchronous;

static unsigned char *map(int file, size_t bytes)
{
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
    synchronous = place != MAP_FAILED;
    if (!synchronous) {
        expect(errno == EOPNOTSUPP || errno == EINVAL, "MAP_SYNC of an ordinary file");
        place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    expect(place != MAP_FAILED, "mmap");
    return place;
}

static void persist(void *start, size_t bytes)
{
    if (synchronous) {
        perdure_persist(start, bytes);
        perdure_persist_fence_full();
    } else {
        const uintptr_t page = (uintptr_t)start & ~(uintptr_t)(PAGE - 1);
        expect(msync((void *)page, (uintptr_t)start + bytes - page, MS_SYNC) == 0, "msync");
    }
}

static uint64_t digest_of(const unsigned char *bytes, size_t length)
{
    return digest_add(DIGEST_EMPTY, bytes, length);
}

static long long size_of(const char *name)
{
    struct stat told;
    return stat(name, &told) == 0 ? (long long)told.st_size : -1;
}

static void list(void)
{
    struct dirent **names;
    const int count = scandir(".", &names, NULL, alphasort);
    printf("files:");
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            printf(" %s=%lld", names[i]->d_name, size_of(names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    printf("\n");
}

static sigjmp_buf back;

static void leap(int signal)
{
    siglongjmp(back, signal);
}

static int signal_of_load(const volatile unsigned char *address)
{
    const int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        (void)*address;
    }
    return signal;
}

static void test_bank(void)
{
    const int file = open("bank", O_RDWR | O_CREAT | O_EXCL, 0644);
    expect(file >= 0, "create");
    expect(open("bank", O_RDWR | O_CREAT | O_EXCL, 0644) < 0 && errno == EEXIST, "create twice");
    expect(posix_fallocate(file, 0, BANK) == 0, "fallocate");
    unsigned char *bank = map(file, BANK);
    for (size_t i = 0; i < BANK; i++) {
        expect(bank[i] == 0, "a new page is zero");
        bank[i] = (unsigned char)(i * 7 + (i >> 9));
    }
    persist(bank, BANK);

    unsigned char *copy = malloc(BANK);
    expect(pread(file, copy, BANK, 0) == BANK, "pread");
    expect(memcmp(copy, bank, BANK) == 0, "a read sees what was stored");
    expect(pwrite(file, "written", 7, 3 * PAGE - 3) == 7, "pwrite");
    expect(memcmp(bank + 3 * PAGE - 3, "written", 7) == 0, "a load sees what was written");

    const pid_t child = fork();
    if (child == 0) {
        const int own = open("bank", O_RDWR);
        unsigned char *other = map(own, BANK);
        memcpy(other + PAGE, "child", 5);
        persist(other + PAGE, 5);
        _exit(other[2] == bank[2] && failures == 0 ? 0 : 1);
    }
    int status = -1;
    expect(waitpid(child, &status, 0) == child && status == 0, "the child");
    expect(memcmp(bank + PAGE, "child", 5) == 0, "what a child stored");
    expect(fsync(file) == 0, "fsync");
    printf("bank: %016" PRIx64 "\n", digest_of(bank, BANK));

    unsigned char *own = mmap(NULL, BANK, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    own[5] ^= 0xff;
    expect(own[5] != bank[5] && own[6] == bank[6], "a private mapping");
    munmap(own, BANK);
    munmap(bank, BANK);
    free(copy);
    close(file);
}

static void test_lengths(void)
{
    const int file = open("log", O_RDWR | O_CREAT, 0600);
    expect(ftruncate(file, 5 * PAGE) == 0, "ftruncate");
    unsigned char *log = map(file, 5 * PAGE);
    memset(log, 0x5a, 5 * PAGE);
    persist(log, 5 * PAGE);
    expect(ftruncate(file, PAGE + 100) == 0, "cutting off");
    expect(signal_of_load(log + PAGE + 4000) == 0, "within the last page");
    printf("past the end: %s\n", signal_of_load(log + 2 * PAGE) == SIGBUS ? "SIGBUS" : "a load");
    expect(ftruncate(file, 4 * PAGE) == 0, "growing");
    expect(log[PAGE + 99] == 0x5a && log[PAGE + 100] == 0 && log[3 * PAGE] == 0, "zeros behind");
    log[3 * PAGE + 1] = 1;
    persist(log + 3 * PAGE, 2);
    expect(fsync(file) == 0, "fsync");
    printf("log: %016" PRIx64 "\n", digest_of(log, 4 * PAGE));
    munmap(log, 5 * PAGE);
    close(file);
}

static void test_names(void)
{
    const int file = open("first", O_RDWR | O_CREAT, 0644);
    expect(write(file, "0123456789", 10) == 10, "write");
    expect(rename("first", "second") == 0, "rename");
    expect(open("first", O_RDWR) < 0 && errno == ENOENT, "the old name");
    unsigned char *bytes = map(file, PAGE);
    expect(unlink("second") == 0 && size_of("second") == -1, "unlink");
    bytes[9] = '!';
    char text[11] = "";
    expect(pread(file, text, 10, 0) == 10, "a file without a name");
    printf("without a name: %s\n", text);
    munmap(bytes, PAGE);
    close(file);
    expect(open("missing", O_RDWR) < 0 && errno == ENOENT, "a missing pool");

    const int place = open(".", O_RDONLY | O_DIRECTORY);
    const int temporary = open("temporary", O_RDWR | O_CREAT, 0644);
    expect(write(temporary, "new", 3) == 3 && fsync(temporary) == 0, "a new version");
    expect(rename("temporary", "version") == 0 && fsync(place) == 0, "in place of an old one");
    close(temporary);
    close(place);
}

static void read_again(const char *name)
{
    const int file = open(name, O_RDWR);
    const long long size = size_of(name);
    if (file < 0 || size <= 0) {
        printf("%s: %s\n", name, file < 0 ? strerror(errno) : "empty");
        return;
    }
    unsigned char *bytes = map(file, (size_t)size);
    printf("%s: %016" PRIx64 "\n", name, digest_of(bytes, (size_t)size));
    munmap(bytes, (size_t)size);
    close(file);
}

int main(int count, char **words)
{
    if (count > 3 || (count == 3 && strcmp(words[2], "again") != 0)) {
        fprintf(stderr, "usage: pools [DIRECTORY [again]]\n");
        return 2;
    }
    if (count > 1 && chdir(words[1]) != 0) {
        perror(words[1]);
        return 2;
    }
    if (count == 3) {
        read_again("bank");
        read_again("log");
        list();
        return failures != 0;
    }
    struct sigaction action = {.sa_handler = leap};
    sigaction(SIGBUS, &action, NULL);
    test_bank();
    test_lengths();
    test_names();
    list();
    return failures != 0;
}
