// What /proc says of open files and of System V's objects, and how those are listed.
#include "facts.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <dirent.h>

// The lines of a text that begin as one of those that are the same everywhere.
static void lines(const char *path)
{
    static const char *const same[] = {"pos:", "flags:", "mnt_id", "ino", "eventfd-count", "sigmask", "tfd"};
    char line[256];
    FILE *text = fopen(path, "re");
    if (!text) {
        printf("%s: %s\n", path, strerrorname_np(errno));
        return;
    }
    while (fgets(line, sizeof line, text))
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            if (strncmp(line, same[i], strlen(same[i])) == 0) {
                char *end = strstr(line, "pos:0 ino");
                int whole = i != 2 && i != 3;
                printf("%s", whole ? (end ? strcpy(end, "...\n"), line : line) : same[i]);
                printf("%s", whole ? "" : "\n");
            }
    fclose(text);
}

static void info(int file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
    lines(path);
}

// The line of a table that begins with a key, less the number.
static void row(const char *path, int key)
{
    char line[512];
    FILE *text = fopen(path, "r");
    while (text && fgets(line, sizeof line, text))
        if (atoi(line) == key || !strchr("0123456789-", line[strspn(line, " ")])) {
            int last = 0;
            for (char *at = line; *at; at++) {
                // Times, processes and numbers differ.
                int digits = (int)strspn(at, "0123456789");
                if (digits > 9)
                    memset(at, 'T', (size_t)digits);
                last = *at == '\n';
            }
            line[22] ? memset(line + 10, '#', 11) : NULL;
            printf("%.50s%s\n", line, last ? "" : "?");
        }
    if (text)
        fclose(text);
}

int main(void)
{
    int file = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CALL(write(file, "twelve bytes", 12));
    info(file);
    int event = eventfd(0x123, EFD_NONBLOCK);
    info(event);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    info(signalfd(-1, &set, 0));
    int poller = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN, .data.u64 = 0xabc};
    epoll_ctl(poller, EPOLL_CTL_ADD, event, &interest);
    info(poller);
    info(99);
    CALL(close(poller));
    info(poller);
    DIR *directory = opendir("/proc/self/fdinfo");
    for (struct dirent *entry; (entry = readdir(directory));)
        if (atoi(entry->d_name) > 2 && atoi(entry->d_name) < poller)
            printf("%s %d\n", entry->d_name, entry->d_type);
    closedir(directory);

    struct shm_info segments;
    struct shmid_ds segment;
    int first = shmget(1234567, 5000, IPC_CREAT | 0640);
    void *at = shmat(first, NULL, 0);
    *(char *)at = 1;
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&segments);
    FACT(segments.used_ids), FACT(segments.shm_tot), FACT(segments.shm_rss >= 1);
    FACT(shmctl(last, SHM_STAT, &segment) == first);
    FACT(segment.shm_segsz), FACT(segment.shm_nattch);
    FACT(shmctl(last, 15, &segment) == first);
    CALL(shmctl(last + 1, SHM_STAT, &segment));
    row("/proc/sysvipc/shm", 1234567);
    shmctl(first, IPC_RMID, NULL);

    struct seminfo semaphores;
    struct semid_ds one;
    first = semget(1234568, 7, IPC_CREAT | 0600);
    last = semctl(0, 0, SEM_INFO, &semaphores);
    FACT(semaphores.semusz), FACT(semaphores.semaem), FACT(semaphores.semvmx), FACT(semaphores.semopm);
    FACT(semctl(last, 0, SEM_STAT, &one) == first), FACT(one.sem_nsems);
    semctl(0, 0, IPC_INFO, &semaphores);
    FACT(semaphores.semmsl), FACT(semaphores.semaem);
    row("/proc/sysvipc/sem", 1234568);
    semctl(first, 0, IPC_RMID);

    struct msginfo queues;
    struct msqid_ds queue;
    first = msgget(1234569, IPC_CREAT | 0600);
    struct { long kind; char text[9]; } message = {1, "a message"};
    CALL(msgsnd(first, &message, 9, 0));
    last = msgctl(0, MSG_INFO, (struct msqid_ds *)&queues);
    FACT(queues.msgpool), FACT(queues.msgmap), FACT(queues.msgtql), FACT(queues.msgmax), FACT(queues.msgmnb);
    FACT(msgctl(last, MSG_STAT, &queue) == first), FACT(queue.msg_qnum), FACT(queue.msg_qbytes);
    row("/proc/sysvipc/msg", 1234569);
    msgctl(first, IPC_RMID, NULL);

    // Where everybody has files.
    struct stat status;
    FACT(stat("/tmp", &status)), FACT(status.st_mode & 07777);
    struct { unsigned bytes; int kind; char handle[128]; } handle = {128, 0, ""};
    int mount;
    CALL(syscall(SYS_name_to_handle_at, AT_FDCWD, "/proc/self/status", &handle, &mount, 0));
    CALL(syscall(SYS_pivot_root, ".", "."));
    return 0;
}
