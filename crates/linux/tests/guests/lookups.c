// What paths lead to below /proc, how far openat2 lets them lead, and what processes are told of
// each other and of themselves.
#include "facts.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <linux/openat2.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char text[4096];

static const char *target(const char *path)
{
    ssize_t size = readlink(path, text, sizeof text - 1);
    if (size < 0)
        return strerrorname_np(errno);
    text[size] = 0;
    return text;
}

static void descriptors(void)
{
    char path[64];
    struct stat status;
    int file = open("file", O_RDWR | O_CREAT, 0600);
    int copy = fcntl(file, F_DUPFD, 50);
    FACT(write(copy, "content", 7));
    FACT(lstat("/proc/self/fd/50", &status) == 0 && S_ISLNK(status.st_mode));
    FACT(stat("/proc/self/fd/50", &status) == 0 && S_ISREG(status.st_mode));
    FACT(status.st_size);
    FACT(stat("/proc/self/fd/.", &status) == 0 && S_ISDIR(status.st_mode));
    CALL(lstat("/proc/self/fd/51", &status));
    CALL(open("/proc/self/fd/50", O_RDONLY | O_NOFOLLOW));
    char here[256];
    CALL(getcwd(here, sizeof here) == here);
    FACT(strcmp(target("/proc/self/cwd"), here));
    FACT(strcmp(target("/proc/self/fd/50") + strlen(here), "/file"));
    int together[2];
    CALL(pipe(together));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CALL(dup2(open("/", O_RDONLY), 60));
        CALL(close(50));
        CALL(chdir("/tmp"));
        fflush(stdout);
        CALL(write(together[1], "!", 1));
        pause();
    }
    CALL(read(together[0], text, 1));
    for (const char *const *name = (const char *[]){"fd/50", "fd/60", "cwd", NULL}; *name; name++) {
        snprintf(path, sizeof path, "/proc/%d/%s", child, *name);
        printf("a child's %s: %s\n", *name, target(path));
    }
    snprintf(path, sizeof path, "/proc/%d/fd", child);
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    FACT(fstatat(directory, "60", &status, 0) == 0 && S_ISDIR(status.st_mode));
    CALL(fstatat(directory, "50", &status, 0));
    int listed = 0;
    DIR *names = fdopendir(directory);
    for (struct dirent *name; (name = readdir(names));)
        listed += strcmp(name->d_name, "60") == 0 || strcmp(name->d_name, "50") == 0;
    FACT(listed);
    CALL(closedir(names));
    CALL(kill(child, SIGKILL));
    wait(NULL);
}

static long resolved(int directory, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_RDONLY, .resolve = resolve};
    long file = syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (file >= 0)
        close((int)file);
    return file >= 0 ? 0 : -1;
}

static void beneath(void)
{
    CALL(mkdir("top", 0700));
    CALL(mkdir("top/below", 0700));
    CALL(close(open("top/below/file", O_CREAT | O_RDWR, 0600)));
    CALL(symlink("below/file", "top/inside"));
    CALL(symlink("../file", "top/outside"));
    CALL(symlink("/below/file", "top/absolute"));
    int top = open("top", O_RDONLY | O_DIRECTORY);
    static const uint64_t ways[] = {
        0, RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS,
    };
    static const char *const paths[] = {
        "below/file", "below/../inside", "../file", "outside", "absolute", "/below/file", "..",
        "/proc/self/fd/50",
    };
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (size_t path = 0; path < sizeof paths / sizeof *paths; path++) {
            printf("resolve %#llx, %s: ", (unsigned long long)ways[way], paths[path]);
            WORKS(resolved(top, paths[path], ways[way]));
        }
    CALL(resolved(top, "below", RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    CALL(resolved(top, "below", 1 << 20));
}

static void niceness(void)
{
    FACT(getpriority(PRIO_PROCESS, 0));
    CALL(setpriority(PRIO_PROCESS, 0, 5));
    CALL(nice(3));
    CALL(setpriority(PRIO_PROCESS, 0, 2));
    fflush(stdout);
    if (fork() == 0) {
        FACT(getpriority(PRIO_PROCESS, 0));
        CALL(setpriority(PRIO_PROCESS, 0, 100));
        FACT(getpriority(PRIO_PROCESS, 0));
        FACT(getpriority(PRIO_PGRP, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    CALL(getpriority(PRIO_PROCESS, 99999));
    CALL(getpriority(7, 0));
    FACT(prctl(PR_CAPBSET_READ, 40) >= 0);
    CALL(prctl(PR_CAPBSET_READ, 64));
}

static void datagrams(void)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in6 four = {.sin6_family = AF_INET6, .sin6_port = htons(9)}, own;
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    socklen_t size = sizeof own;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &four.sin6_addr);
    int socket_ = socket(AF_INET6, SOCK_DGRAM, 0);
    CALL(connect(socket_, (void *)&six, sizeof six));
    CALL(connect(socket_, &nobody, sizeof nobody));
    CALL(connect(socket_, (void *)&four, sizeof four));
    CALL(getsockname(socket_, (void *)&own, &size));
    FACT(IN6_IS_ADDR_V4MAPPED(&own.sin6_addr));
}

static void objects(void)
{
    struct shm_info segments;
    struct shmid_ds segment;
    struct seminfo semaphores;
    struct msginfo queues;
    int number = shmget(IPC_PRIVATE, 5000, 0600), set = semget(IPC_PRIVATE, 3, 0600);
    int queue = msgget(IPC_PRIVATE, 0600);
    FACT(shmctl(0, SHM_INFO, (void *)&segments) >= 0);
    FACT(segments.used_ids);
    FACT(shmctl(number, SHM_STAT, &segment) == number);
    FACT(segment.shm_segsz);
    FACT(semctl(0, 0, SEM_INFO, &semaphores) >= 0);
    FACT(semaphores.semusz);
    FACT(semaphores.semaem);
    FACT(msgctl(0, MSG_INFO, (void *)&queues) >= 0);
    FACT(queues.msgpool);
    FILE *table = fopen("/proc/sysvipc/sem", "r");
    int lines = 0, columns[4] = {0};
    while (fgets(text, sizeof text, table))
        if (lines++ == 1)
            sscanf(text, "%d %d %o %d", columns, columns + 1, (unsigned *)columns + 2, columns + 3);
    FACT(lines);
    FACT(columns[1] == set);
    FACT(columns[3]);
    CALL(shmctl(number, IPC_RMID, NULL));
    CALL(semctl(set, 0, IPC_RMID));
    CALL(msgctl(queue, IPC_RMID, NULL));
}

/* Somebody ends in a group that has a stopped member, and that nobody outside looked after. */
static void stopped_neighbour(void)
{
    int status;
    fflush(stdout);
    pid_t stopped = fork();
    if (stopped == 0) {
        pause();
        _exit(0);
    }
    CALL(kill(stopped, SIGSTOP));
    FACT(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
    fflush(stdout);
    pid_t ends = fork();
    if (ends == 0)
        _exit(3);
    FACT(waitpid(ends, &status, 0) == ends && WEXITSTATUS(status) == 3);
    CALL(waitpid(stopped, &status, WNOHANG | WCONTINUED));
    CALL(kill(stopped, SIGKILL));
    FACT(waitpid(stopped, &status, 0) == stopped && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    descriptors();
    beneath();
    niceness();
    datagrams();
    objects();
    stopped_neighbour();
    return 0;
}
