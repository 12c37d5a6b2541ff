// A program to run beside others: `programs WHAT [COUNT]`.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    unsigned number = count > 2 ? (unsigned)atoi(arguments[2]) : 0;
    if (!strcmp(what, "count")) {
        // Work of a given length, with a line after each tenth.
        volatile unsigned long sum = 0;
        for (unsigned tenth = 1; tenth <= 10; tenth++) {
            for (unsigned i = 0; i < number * 100; i++)
                sum = sum + i % tenth;
            printf("%u %lu\n", tenth, sum);
            fflush(stdout);
        }
        return 0;
    }
    if (!strcmp(what, "numbers")) {
        // What the kernel hands out.
        for (unsigned i = 0; i < number; i++) {
            unsigned random;
            if (getrandom(&random, sizeof random, 0) != sizeof random)
                return 1;
            fflush(stdout);
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            int status;
            waitpid(child, &status, 0);
            printf("%x %d %d\n", random, (int)child, (int)getpid());
        }
        return 0;
    }
    if (!strcmp(what, "echo")) {
        char line[256];
        while (fgets(line, sizeof line, stdin))
            printf("%d %s", (int)getpid() < 0, line);
        return 3;
    }
    if (!strcmp(what, "dies")) {
        raise(SIGSEGV);
        return 1;
    }
    if (!strcmp(what, "leaves")) {
        // The shell's `&`: children go on after their parent.
        for (unsigned i = 0; i < number; i++)
            if (fork() == 0)
                for (;;)
                    pause();
        return 0;
    }
    return 2;
}
