// System V's shared memory, semaphores and message queues.
#include "facts.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

union argument {
    int value;
    struct semid_ds *status;
    unsigned short *all;
};

static int reap(pid_t child)
{
    int how;
    waitpid(child, &how, 0);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void memory(void)
{
    int id = shmget(IPC_PRIVATE, 5000, IPC_CREAT | 0600);
    char *here = shmat(id, NULL, 0), *again = shmat(id, NULL, SHM_RDONLY);
    FACT(here != (char *)-1 && again != here);
    strcpy(here, "written");
    FACT(strcmp(again, "written"));
    struct shmid_ds status;
    CALL(shmctl(id, IPC_STAT, &status));
    FACT(status.shm_nattch);
    FACT(status.shm_segsz);
    FACT(status.shm_perm.mode & 0777);
    FACT(status.shm_cpid == getpid());
    FACT(status.shm_lpid == getpid());
    FACT(status.shm_dtime);
    pid_t child = fork();
    if (child == 0) {
        shmctl(id, IPC_STAT, &status);
        strcpy(here + 4096, "by the child");
        _exit(status.shm_nattch + 8 * (status.shm_lpid == getppid()));
    }
    FACT(reap(child));
    CALL(shmctl(id, IPC_STAT, &status));
    FACT(status.shm_nattch);
    FACT(status.shm_lpid == child);
    FACT(status.shm_dtime >= status.shm_atime);
    FACT(strcmp(again + 4096, "by the child"));
    CALL(shmctl(id, IPC_RMID, NULL));
    CALL(shmdt(again));
    CALL(shmdt(again));
    FACT(strcmp(here, "written"));
    CALL(shmctl(id, IPC_STAT, &status));
    FACT(status.shm_nattch);
    CALL(shmdt(here));
    CALL(shmctl(id, IPC_STAT, &status));
    CALL(shmget(0x5045, 100, 0600));
    id = shmget(0x5045, 100, IPC_CREAT | IPC_EXCL | 0600);
    FACT(id >= 0);
    FACT(shmget(0x5045, 100, 0) == id);
    CALL(shmget(0x5045, 100, IPC_CREAT | IPC_EXCL));
    CALL(shmget(0x5045, 200, 0));
    CALL(shmget(IPC_PRIVATE, 0, IPC_CREAT));
    struct shminfo limits;
    WORKS(shmctl(0, IPC_INFO, (void *)&limits));
    CALL(shmget(IPC_PRIVATE, limits.shmmax + 1, IPC_CREAT));
    WORKS(shmat(id, (void *)1, 0));
    CALL(shmctl(id, IPC_RMID, NULL));
}

static int change(int id, int place, int by, int flags)
{
    struct sembuf one = {.sem_num = place, .sem_op = by, .sem_flg = flags};
    return semop(id, &one, 1);
}

static void handler(int signal)
{
    (void)signal;
}

static void semaphores(void)
{
    int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
    FACT(id >= 0);
    CALL(semctl(id, 0, SETVAL, (union argument){.value = 2}));
    unsigned short all[3] = {9, 9, 9};
    CALL(semctl(id, 0, GETALL, (union argument){.all = all}));
    printf("%d %d %d\n", all[0], all[1], all[2]);
    CALL(change(id, 0, -2, 0));
    CALL(change(id, 0, -1, IPC_NOWAIT));
    CALL(change(id, 0, 0, 0));
    CALL(change(id, 3, 1, 0));
    CALL(change(id, 1, 32767, 0));
    CALL(change(id, 1, 1, 0));
    CALL(semctl(id, 1, SETVAL, (union argument){.value = 32768}));
    struct sembuf both[2] = {{0, 5, 0}, {2, -1, IPC_NOWAIT}};
    CALL(semop(id, both, 2));
    FACT(semctl(id, 0, GETVAL));
    CALL(semop(id, both, 0));
    // A child waits; then it takes with SEM_UNDO and ends.
    pid_t child = fork();
    if (child == 0) {
        change(id, 0, -1, 0);
        change(id, 2, 4, SEM_UNDO);
        _exit(semctl(id, 2, GETVAL));
    }
    while (semctl(id, 0, GETNCNT) == 0)
        usleep(100);
    CALL(change(id, 0, 1, 0));
    FACT(reap(child));
    FACT(semctl(id, 2, GETVAL));
    FACT(semctl(id, 2, GETPID) == child);
    struct timespec soon = {.tv_nsec = 100000};
    struct sembuf one = {0, -1, 0};
    CALL(semtimedop(id, &one, 1, &soon));
    signal(SIGALRM, handler);
    ualarm(1000, 0);
    CALL(change(id, 0, -1, 0));
    child = fork();
    if (child == 0)
        _exit(change(id, 0, -1, 0) == -1 && errno == EIDRM);
    while (semctl(id, 0, GETNCNT) == 0)
        usleep(100);
    struct semid_ds status;
    CALL(semctl(id, 0, IPC_STAT, (union argument){.status = &status}));
    FACT(status.sem_nsems);
    CALL(semctl(id, 0, IPC_RMID));
    FACT(reap(child));
    CALL(change(id, 0, 1, 0));
    CALL(semget(IPC_PRIVATE, 0, IPC_CREAT));
}

struct message {
    long kind;
    char text[64];
};

static void send(int id, long kind, const char *text)
{
    struct message message = {.kind = kind};
    strcpy(message.text, text);
    if (msgsnd(id, &message, strlen(text), 0))
        printf("msgsnd fails\n");
}

static void receive(int id, long kind, int flags)
{
    struct message message = {.text = ""};
    long bytes = msgrcv(id, &message, sizeof message.text, kind, flags);
    if (bytes < 0)
        printf("receive %ld: %s\n", kind, strerrorname_np(errno));
    else
        printf("receive %ld: %ld %.*s\n", kind, message.kind, (int)bytes, message.text);
}

static void messages(void)
{
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    FACT(id >= 0);
    send(id, 3, "three");
    send(id, 1, "one");
    send(id, 2, "two");
    send(id, 3, "three again");
    struct msqid_ds status;
    CALL(msgctl(id, IPC_STAT, &status));
    FACT(status.msg_qnum);
    FACT(status.msg_qbytes);
    receive(id, 3, 0);
    receive(id, -2, 0);
    receive(id, 0, 0);
    receive(id, 7, IPC_NOWAIT);
    receive(id, 7, MSG_EXCEPT);
    receive(id, 0, IPC_NOWAIT);
    struct message message = {.kind = 0};
    CALL(msgsnd(id, &message, 1, 0));
    send(id, 1, "too long for it");
    CALL(msgrcv(id, &message, 3, 0, 0));
    CALL(msgrcv(id, &message, 3, 0, MSG_NOERROR));
    // A child fills the queue, and waits until there is room.
    pid_t child = fork();
    if (child == 0) {
        static struct { long kind; char text[8192]; } large = {.kind = 5};
        for (int i = 0; i < 4; i++)
            msgsnd(id, &large, sizeof large.text, 0);
        _exit(msgsnd(id, &large, sizeof large.text, IPC_NOWAIT) == -1 && errno == EAGAIN ? 3 : 4);
    }
    static struct { long kind; char text[8192]; } large;
    CALL(msgrcv(id, &large, sizeof large.text, 5, 0));
    CALL(msgrcv(id, &large, sizeof large.text, 5, 0));
    FACT(reap(child));
    CALL(msgctl(id, IPC_RMID, NULL));
    CALL(msgctl(id, IPC_RMID, NULL));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    memory();
    semaphores();
    messages();
    return 0;
}
