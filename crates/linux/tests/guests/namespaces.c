/* What a process is told of its namespaces, of locks, of threads by their numbers, and of what it could be
 * allowed. namespaces.txt has the facts as Linux itself states them. */
#include "facts.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { GET_USERNS = 0xb701, GET_PARENT, GET_NSTYPE, GET_OWNER_UID };

static char text[1 << 16];

static const char *content(const char *path)
{
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    close(file);
    return text;
}

static const char *target(const char *path)
{
    ssize_t size = readlink(path, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    return text;
}

static void namespaces(void)
{
    static const char *const names[] = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children",
                                        "time", "time_for_children", "user", "uts"};
    struct stat link, behind;
    unsigned owner = 7;
    CALL(lstat("/proc/self/ns", &link));
    FACT(link.st_mode);
    for (int at = 0; at < 10; at++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[at]);
        printf("%s:\n", names[at]);
        CALL(lstat(path, &link));
        CALL(stat(path, &behind));
        FACT(link.st_mode == 0120777 && link.st_size == 0);
        FACT(behind.st_mode == 0100444 && behind.st_nlink == 1);
        const char *number = strchr(target(path), '[');
        FACT(number != NULL && strtoull(number + 1, NULL, 10) == behind.st_ino);
        *strchr(text, '[') = 0;
        puts(text);
        int space = open(path, O_RDONLY);
        FACT(ioctl(space, GET_NSTYPE));
        WORKS(ioctl(space, GET_USERNS));
        CALL(ioctl(space, GET_PARENT));
        CALL(ioctl(space, GET_OWNER_UID, &owner));
        close(space);
    }
    int listed = 0;
    DIR *all = opendir("/proc/self/ns");
    for (struct dirent *entry; (entry = readdir(all));)
        listed += entry->d_type == DT_LNK;
    closedir(all);
    FACT(listed);
    FACT(owner);
    int net = open("/proc/self/ns/net", O_RDONLY);
    CALL(read(net, text, 1));
    CALL(lseek(net, 0, SEEK_CUR));
    FACT(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, net, 0) == MAP_FAILED && errno == ENODEV);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", net);
    FACT(strncmp(target(path), "net:[", 5));
    int users = ioctl(net, GET_USERNS);
    CALL(fstat(users, &link));
    CALL(stat("/proc/thread-self/ns/user", &behind));
    FACT(link.st_ino == behind.st_ino);
    FACT(fcntl(users, F_GETFD));
    stat(".", &link);
    FACT(link.st_dev != behind.st_dev);
    CALL(ioctl(open(".", O_RDONLY), GET_NSTYPE));
    CALL(open("/proc/self/ns/net", O_RDONLY | O_NOFOLLOW));
    CALL(open("/proc/self/ns/net/x", O_RDONLY));
    CALL(open("/proc/self/ns/none", O_RDONLY));
    CALL(unlink("/proc/self/ns/net"));
}

/* What /proc/locks says of a file, without the numbers that differ. */
static void locks_of(int file)
{
    struct stat status;
    char inode[32];
    fstat(file, &status);
    snprintf(inode, sizeof inode, ":%llu ", (unsigned long long)status.st_ino);
    content("/proc/locks");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *place = strstr(line, inode);
        int from, to, pid;
        if (place && sscanf(line, "%*d: %n%*s %*s %*s %n%d", &from, &to, &pid) == 1)
            printf("%.*s%s %s\n", to - from, line + from, pid == getpid() ? "own" : pid < 0 ? "none" : "other",
                   place + strlen(inode));
    }
}

static void locks(void)
{
    int whole = open("whole", O_CREAT | O_RDWR, 0600), part = open("part", O_CREAT | O_RDWR, 0600);
    int owned = open("owned", O_CREAT | O_RDWR, 0600), held[2];
    struct flock lock = {.l_type = F_WRLCK, .l_start = 10, .l_len = 20}, rest = {.l_start = 100};
    flock(whole, LOCK_SH), fcntl(part, F_SETLK, &lock), fcntl(owned, F_OFD_SETLK, &lock);
    locks_of(whole), locks_of(part), locks_of(owned);
    flock(whole, LOCK_EX);
    locks_of(whole);
    flock(whole, LOCK_UN);
    locks_of(whole);
    if (pipe(held)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        rest.l_type = F_RDLCK;
        if (fcntl(part, F_SETLK, &rest) || write(held[1], "", 1) != 1) _exit(2);
        pause();
    }
    if (read(held[0], text, 1) != 1) exit(2);
    lock.l_type = F_UNLCK;
    fcntl(part, F_SETLK, &lock);
    locks_of(part);
    kill(child, SIGKILL);
    wait(NULL);
}

static int ends[2];
static volatile pid_t number;

static void *told_of(void *unused)
{
    prctl(PR_SET_NAME, "the other");
    number = gettid();
    char byte;
    return read(ends[0], &byte, 1) == 1 ? unused : NULL;
}

static void threads(void)
{
    pthread_t thread;
    char path[64];
    struct stat status;
    if (pipe(ends)) exit(2);
    pthread_create(&thread, NULL, told_of, NULL);
    while (number == 0) sched_yield();
    snprintf(path, sizeof path, "/proc/%d", number);
    CALL(stat(path, &status));
    snprintf(path, sizeof path, "/proc/%d/comm", number);
    printf("%s", content(path));
    snprintf(path, sizeof path, "/proc/%d/status", number);
    content(path);
    FACT(atoi(strstr(text, "Tgid:") + 5) == getpid());
    FACT(atoi(strstr(text, "\nPid:") + 5) == number);
    snprintf(path, sizeof path, "/proc/%d/stat", number);
    FACT(atoi(content(path)) == number);
    snprintf(path, sizeof path, "/proc/%d/task", number);
    int listed = 0;
    DIR *all = opendir(path);
    for (struct dirent *entry; (entry = readdir(all));)
        listed += entry->d_name[0] != '.';
    closedir(all);
    FACT(listed);
    listed = 0;
    all = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(all));)
        listed += atoi(entry->d_name) == number;
    closedir(all);
    FACT(listed);
    FACT(write(ends[1], "", 1));
    pthread_join(thread, NULL);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    namespaces();
    threads();
    CALL(prctl(PR_CAPBSET_READ, 63));
    CALL(prctl(PR_CAPBSET_DROP, 0));
    FACT(strstr(content("/proc/self/status"), "CapEff:\t0000000000000000") != NULL);
    locks();
    return 0;
}
