// Code that a program writes itself: into files, memory that becomes executable, and in place.
// A processor that goes on with what it fetched before shows here.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef long function(void);

// `li a0, value; ret`.
static void compose(uint32_t *code, unsigned value)
{
    code[0] = 0x00000513 | value << 20;
    code[1] = 0x00008067;
}

static long call(const void *code)
{
    function *entry;
    memcpy(&entry, &code, sizeof entry);
    return entry();
}

static void check(const char *what, unsigned value, long result)
{
    if (result != (long)value)
        printf("%s: %ld instead of %u\n", what, result, value);
}

static void in_a_file(void)
{
    int fd = open("code", O_RDWR | O_CREAT | O_TRUNC, 0700);
    uint32_t code[2];
    for (unsigned i = 1; i <= 40; i++) {
        compose(code, i);
        if (pwrite(fd, code, sizeof code, 0) != sizeof code)
            exit(1);
        int flags = i % 2 ? MAP_PRIVATE : MAP_SHARED;
        void *place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, flags, fd, 0);
        check("a file", i, call(place));
        munmap(place, 4096);
    }
    close(fd);
    unlink("code");
    puts("in a file: done");
}

static void in_memory(void)
{
    for (unsigned i = 1; i <= 40; i++) {
        uint32_t *place =
            mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        compose(place, i);
        compose(place + 1024, i + 100);
        mprotect(place, 8192, PROT_READ | PROT_EXEC);
        check("memory", i, call(place));
        check("memory", i + 100, call(place + 1024));
        munmap(place, 8192);
    }
    puts("in memory: done");
}

static void in_place(void)
{
    uint32_t *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 1; i <= 40; i++) {
        compose(place, i);
        __builtin___clear_cache((char *)place, (char *)(place + 2));
        check("in place", i, call(place));
    }
    // A child changes its own copy.
    fflush(stdout);
    for (unsigned i = 1; i <= 10; i++) {
        compose(place, 200 + i);
        __builtin___clear_cache((char *)place, (char *)(place + 2));
        if (fork() == 0) {
            compose(place, i);
            __builtin___clear_cache((char *)place, (char *)(place + 2));
            _exit((int)call(place));
        }
        check("the parent's", 200 + i, call(place));
        int status;
        wait(&status);
        check("the child's", i, WEXITSTATUS(status));
    }
    munmap(place, 4096);
    puts("in place: done");
}

int main(void)
{
    in_a_file();
    in_memory();
    in_place();
    return 0;
}
