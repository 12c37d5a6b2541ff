/* Corners of calls that programs rely on seldom. corners.txt has the facts as Linux itself states them, for
 * qemu-user keeps signals, and what is ready, by itself. */
#include "facts.h"
#include <linux/fs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static void file_with(const char *name, const char *text)
{
    int file = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    if (file < 0 || write(file, text, strlen(text)) < 0) exit(2);
    close(file);
}

/* Two that share a lock both want it for themselves: the one gives up what it has to wait for the other. */
static void locks_are_changed(void)
{
    int first = open("lock", O_RDWR | O_CREAT, 0644), second = open("lock", O_RDWR);
    CALL(flock(first, LOCK_SH));
    CALL(flock(second, LOCK_SH));
    CALL(flock(first, LOCK_EX | LOCK_NB)); /* It has lost its own by that. */
    CALL(flock(second, LOCK_EX | LOCK_NB));
    CALL(flock(second, LOCK_SH));
    CALL(flock(first, LOCK_SH));
    pid_t child = fork();
    if (child == 0) {
        flock(first, LOCK_EX);
        flock(first, LOCK_UN);
        _exit(0);
    }
    CALL(flock(second, LOCK_EX));
    CALL(flock(second, LOCK_UN));
    int status;
    waitpid(child, &status, 0);
    FACT(status);
    int name = open("lock", O_PATH);
    CALL(flock(name, LOCK_SH));
    CALL(fchmod(name, 0));
    CALL(fchown(name, getuid(), getgid()));
    CALL(fsync(name));
    CALL(lseek(name, 0, SEEK_SET));
    CALL(ioctl(name, FIONREAD, &status));
    CALL(fcntl(name, F_GETFD));
    close(first), close(second), close(name);
}

static volatile sig_atomic_t caught;

static void catch(int signal)
{
    caught = signal;
}

/* A signal that waits is forgotten when it is to be ignored. */
static void signals_are_forgotten(void)
{
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM), sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, catch);
    raise(SIGTERM), kill(getpid(), SIGTERM), raise(SIGCHLD);
    sigpending(&pending);
    FACT(sigismember(&pending, SIGTERM) && sigismember(&pending, SIGCHLD));
    signal(SIGTERM, SIG_IGN), signal(SIGCHLD, SIG_DFL);
    sigpending(&pending);
    FACT(sigismember(&pending, SIGTERM) || sigismember(&pending, SIGCHLD));
    signal(SIGTERM, SIG_DFL), signal(SIGCHLD, catch);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    FACT(caught);
    signal(SIGCHLD, SIG_DFL);
}

/* select says how much time is left. */
static void time_is_left(void)
{
    int ends[2];
    if (pipe(ends)) exit(2);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval short_time = {0, 20000}, long_time = {100, 0};
    CALL(select(ends[0] + 1, &set, NULL, NULL, &short_time));
    FACT(short_time.tv_sec == 0 && short_time.tv_usec == 0);
    if (write(ends[1], "x", 1) != 1) exit(2);
    FD_SET(ends[0], &set);
    CALL(select(ends[0] + 1, &set, NULL, NULL, &long_time));
    FACT(long_time.tv_sec <= 100 && long_time.tv_sec >= 90);
    close(ends[0]), close(ends[1]);
}

/* One of two pipes that does not wait is enough. What was taken before nobody reads any more is said. */
static void pipes_do_not_wait(void)
{
    int from[2], to[2];
    if (pipe(from) || pipe2(to, O_NONBLOCK)) exit(2);
    CALL(splice(from[0], NULL, to[1], NULL, 10, 0));
    CALL(tee(from[0], to[1], 10, 0));
    close(to[0]), close(to[1]);
    signal(SIGPIPE, catch);
    if (fork() == 0) {
        char bytes[1000];
        if (read(from[0], bytes, sizeof bytes) < 0) _exit(1);
        close(from[1]);
        usleep(20000);
        _exit(0);
    }
    close(from[0]);
    static char many[1 << 20];
    ssize_t written = write(from[1], many, sizeof many);
    FACT(written > 0 && written < (ssize_t)sizeof many);
    FACT(caught == SIGPIPE);
    CALL(write(from[1], many, 1));
    wait(NULL);
    close(from[1]);
}

static void files_are_copied(void)
{
    file_with("text", "0123456789");
    int file = open("text", O_RDWR), behind = open("behind", O_CREAT | O_APPEND | O_WRONLY, 0644);
    loff_t in = 0, out = 5;
    CALL(copy_file_range(file, &in, file, &out, 7, 0));
    CALL(copy_file_range(file, &in, file, &out, 5, 0));
    CALL(sendfile(behind, file, NULL, 3));
    char text[16] = {0};
    CALL(pread(file, text, 15, 0));
    puts(text);
    close(file), close(behind);
}

/* Devices give what they have, by whatever call; a stream of TCP drops what is not to be seen. */
static void devices_and_streams_give(void)
{
    int zeros = open("/dev/zero", O_RDONLY), nothing = open("/dev/null", O_RDWR), ends[2];
    int file = open("zeros", O_CREAT | O_RDWR, 0644);
    if (pipe(ends)) exit(2);
    CALL(sendfile(file, zeros, NULL, 100));
    CALL(lseek(file, 0, SEEK_END));
    CALL(splice(zeros, NULL, ends[1], NULL, 50, 0));
    CALL(splice(nothing, NULL, ends[1], NULL, 50, 0));
    CALL(splice(ends[0], NULL, nothing, NULL, 70, 0));
    CALL(copy_file_range(zeros, NULL, file, NULL, 10, 0));
    close(zeros), close(nothing), close(file), close(ends[0]), close(ends[1]);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1)) exit(2);
    if (getsockname(listener, (struct sockaddr *)&address, &length)) exit(2);
    if (connect(client, (struct sockaddr *)&address, length)) exit(2);
    int server = accept(listener, NULL, NULL);
    char text[] = "....";
    if (write(client, "0123456789", 10) != 10) exit(2);
    CALL(recv(server, text, 4, MSG_TRUNC));
    puts(text);
    CALL(recv(server, text, 4, 0));
    puts(text);
    CALL(recv(server, NULL, 10, MSG_TRUNC));
    close(listener), close(client), close(server);
}

static const char *seen_at(const char *path)
{
    static char text[64];
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    close(file);
    return length < 0 ? "fails" : text;
}

/* /dev/stdin and its like are the descriptors of whoever opens them. */
static void streams_are_one_s_own(void)
{
    int ends[2], kept[2] = {dup(0), dup(1)};
    char text[64] = "";
    struct stat found;
    file_with("input", "from a file\n");
    int input = open("input", O_RDONLY), output = open("output", O_CREAT | O_RDWR, 0644);
    dup2(input, 0);
    printf("%s", seen_at("/dev/stdin"));
    if (pipe(ends) || write(ends[1], "from a pipe\n", 12) != 12) exit(2);
    dup2(ends[0], 0);
    printf("%s", seen_at("/dev/stdin"));
    fflush(stdout);
    dup2(output, 1);
    int again = open("/dev/stdout", O_WRONLY);
    int written = again >= 0 && write(again, "to a file", 9) == 9;
    dup2(kept[1], 1);
    FACT(written && pread(output, text, 9, 0) == 9);
    puts(text);
    CALL(readlink("/dev/stdin", text, sizeof text));
    CALL(lstat("/dev/stderr", &found));
    FACT(S_ISLNK(found.st_mode) && found.st_size == 15);
    /* By a link of one's own, too. */
    if (symlink("/dev/stdin", "mine") || lseek(input, 5, SEEK_SET) != 5) exit(2);
    dup2(input, 0);
    printf("%s", seen_at("mine"));
    CALL(stat("mine", &found));
    FACT(S_ISREG(found.st_mode));
    fflush(stdout);
    dup2(kept[0], 0);
    close(input), close(output), close(again), close(ends[0]), close(ends[1]);
    close(kept[0]), close(kept[1]);
}

/* Links are not followed where that is not wanted, and flags that nobody knows are refused. */
static void links_are_not_followed(void)
{
    enum { NOT_FOLLOWED = AT_SYMLINK_NOFOLLOW, UNKNOWN = 0x8000, FCHMODAT2 = 452 };
    struct stat found;
    char text[16] = "";
    file_with("target", "");
    if (chmod("target", 0600) || symlink("target", "link")) exit(2);
    CALL(syscall(FCHMODAT2, AT_FDCWD, "link", 0777, NOT_FOLLOWED));
    CALL(syscall(FCHMODAT2, AT_FDCWD, "link", 0640, 0));
    CALL(syscall(FCHMODAT2, AT_FDCWD, "target", 0600, UNKNOWN));
    CALL(stat("target", &found));
    FACT(found.st_mode & 0777);
    CALL(fchownat(AT_FDCWD, "target", -1, -1, UNKNOWN));
    CALL(utimensat(AT_FDCWD, "target", NULL, UNKNOWN));
    CALL(syscall(SYS_newfstatat, AT_FDCWD, "target", &found, UNKNOWN));
    int link = open("link", O_PATH | O_NOFOLLOW), target = open("target", O_PATH);
    CALL(readlinkat(link, "", text, sizeof text));
    puts(text);
    CALL(readlinkat(target, "", text, sizeof text));
    CALL(syscall(FCHMODAT2, target, "", 0604, AT_EMPTY_PATH));
    CALL(stat("target", &found));
    FACT(found.st_mode & 0777);
    close(link), close(target);
}

/* A process that waits sleeps, and a thread has files of its own. */
static void waiting_is_seen(void)
{
    char path[64], name[64], text[256];
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    usleep(50000);
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", child, child);
    snprintf(name, sizeof name, "%d (corners", child);
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    FACT(strncmp(text, name, strlen(name)) == 0);
    FACT(strstr(text, ") S ") != NULL);
    snprintf(path, sizeof path, "/proc/%d/task/1/stat", child);
    CALL(open(path, O_RDONLY));
    kill(child, SIGKILL);
    wait(NULL);
    close(file);
}

/* Who has opened a file to read it cannot come to write it through its memory. */
static void memory_stays_as_it_was_opened(void)
{
    file_with("shown", "old");
    int file = open("shown", O_RDONLY), both = open("shown", O_RDWR);
    char *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    char *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    char *written = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, both, 0);
    CALL(mprotect(shared, PAGE, PROT_READ | PROT_WRITE));
    CALL(mprotect(own, PAGE, PROT_READ | PROT_WRITE));
    CALL(mprotect(written, PAGE, PROT_READ | PROT_WRITE));
    written[0] = 'c';
    CALL(mprotect(written, PAGE, PROT_READ));
    CALL(mprotect(written, PAGE, PROT_READ | PROT_WRITE));
    written[1] = 'o';
    own[2] = 'w';
    printf("%.3s %.3s\n", shared, own);
    char *moved = mremap(shared, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    CALL(mprotect(moved, PAGE, PROT_WRITE));
    int segment = shmget(IPC_PRIVATE, PAGE, 0600);
    char *attached = shmat(segment, NULL, SHM_RDONLY);
    CALL(mprotect(attached, PAGE, PROT_READ | PROT_WRITE));
    CALL(shmctl(segment, IPC_RMID, NULL));
    int memory = memfd_create("memory", MFD_ALLOW_SEALING);
    CALL(ftruncate(memory, PAGE));
    CALL(fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    char *sealed = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, memory, 0);
    CALL(mprotect(sealed, PAGE, PROT_READ | PROT_WRITE));
    char *anonymous = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CALL(mprotect(anonymous, PAGE, PROT_READ | PROT_WRITE));
    anonymous[0] = 1;
    close(file), close(both), close(memory);
}

/* Nobody executes what somebody writes. */
static void programs_are_not_written(void)
{
    file_with("program", "#!/nowhere/at-all\n");
    int file = open("program", O_WRONLY);
    char *const none[] = {NULL};
    CALL(execve("program", none, none));
    close(file);
    CALL(execve("program", none, none));
}

static int apply(int (*function)(int), int number)
{
    return function(number);
}

/* The address of a nested function that uses its surroundings is code on the stack. */
static int nested(int by)
{
    int add(int number)
    {
        return number + by;
    }
    return apply(add, 40);
}

/* Where there is no room for all that are ready, everybody has a turn. */
static void ready_ones_have_turns(void)
{
    int instance = epoll_create1(0), files[3];
    struct epoll_event event = {EPOLLIN, {0}}, found[3];
    for (int i = 0; i < 3; i++) {
        event.data.u32 = (unsigned)i;
        files[i] = eventfd(1, 0);
        epoll_ctl(instance, EPOLL_CTL_ADD, files[i], &event);
    }
    for (int room = 1; room <= 2; room++) {
        printf("room for %d:", room);
        for (int turn = 0; turn < 5; turn++)
            for (int i = 0, count = epoll_wait(instance, found, room, 0); i < count; i++)
                printf("%s%u", i ? "," : " ", found[i].data.u32);
        printf("\n");
    }
    uint64_t one;
    CALL(read(files[1], &one, sizeof one));
    CALL(epoll_wait(instance, found, 1, 0));
    CALL(epoll_wait(instance, found, 3, 0));
    CALL(epoll_wait(instance, found, 1, 0));
    close(instance);
    for (int i = 0; i < 3; i++)
        close(files[i]);
}

/* An epoll instance watches another one; no row of them is longer than five, or closed. */
static void instances_are_watched(void)
{
    int row[6], ends[2];
    for (int i = 0; i < 6; i++) row[i] = epoll_create1(0);
    if (pipe(ends)) exit(2);
    struct epoll_event event = {EPOLLIN, {0}}, edge = {EPOLLIN | EPOLLET, {0}}, found;
    CALL(epoll_ctl(row[1], EPOLL_CTL_ADD, ends[0], &event));
    CALL(epoll_ctl(row[0], EPOLL_CTL_ADD, row[1], &edge));
    CALL(epoll_ctl(row[1], EPOLL_CTL_ADD, row[0], &event));
    CALL(epoll_ctl(row[0], EPOLL_CTL_ADD, row[0], &event));
    CALL(epoll_wait(row[0], &found, 1, 0));
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(write(ends[1], "x", 1) != 1);
    }
    CALL(epoll_wait(row[0], &found, 1, 10000)); /* It waits for what the inner one will have. */
    waitpid(child, NULL, 0);
    CALL(epoll_wait(row[0], &found, 1, 0));
    struct pollfd both[2] = {{row[0], POLLIN, 0}, {row[1], POLLIN, 0}};
    CALL(write(ends[1], "y", 1));
    CALL(poll(both, 2, 0));
    CALL(epoll_wait(row[0], &found, 1, 0));
    CALL(epoll_wait(row[1], &found, 1, 0));
    for (int i = 1; i < 5; i++) CALL(epoll_ctl(row[i], EPOLL_CTL_ADD, row[i + 1], &event));
    CALL(epoll_ctl(row[5], EPOLL_CTL_ADD, row[0], &event));
    for (int i = 0; i < 6; i++) close(row[i]);
    close(ends[0]), close(ends[1]);
}

/* What a child sees of memory that it does not get, or gets empty: 0 if that faults. */
static int seen_by_a_child(char *memory)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(1 + *memory);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
}

static void advice_is_followed(void)
{
    int all = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(NULL, 4 * PAGE, all, own, -1, 0);
    char *shared = mmap(NULL, 2 * PAGE, all, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(memory, 7, 4 * PAGE);
    memset(shared, 7, 2 * PAGE);
    CALL(madvise(memory, PAGE, MADV_WIPEONFORK));
    CALL(madvise(memory + PAGE, PAGE, MADV_DONTFORK));
    CALL(madvise(shared, PAGE, MADV_WIPEONFORK));
    FACT(seen_by_a_child(memory));
    FACT(seen_by_a_child(memory + PAGE));
    FACT(seen_by_a_child(memory + 2 * PAGE));
    FACT(memory[0] + memory[PAGE]);
    CALL(madvise(memory, PAGE, MADV_KEEPONFORK));
    CALL(madvise(memory, 2 * PAGE, MADV_DOFORK));
    FACT(seen_by_a_child(memory));
    FACT(seen_by_a_child(memory + PAGE));
    CALL(madvise(shared, PAGE, MADV_REMOVE));
    FACT(shared[0] * 10 + shared[PAGE]);
    CALL(madvise(memory, PAGE, MADV_REMOVE));
    CALL(madvise(shared, PAGE, MADV_FREE));
    CALL(munmap(memory + 2 * PAGE, PAGE));
    CALL(madvise(memory + PAGE, 3 * PAGE, MADV_DONTNEED));
    FACT(memory[0] * 100 + memory[PAGE] * 10 + memory[3 * PAGE]);
    CALL(mlock(memory, PAGE));
    CALL(madvise(memory, PAGE, MADV_DONTNEED));
    CALL(madvise(memory, PAGE, 24)); /* MADV_DONTNEED_LOCKED */
    FACT(memory[0]);
}

/* Who has it in memory at once is told what cannot be there. */
static void pages_are_there_at_once(void)
{
    enum { READ = 22, WRITE = 23 }; /* MADV_POPULATE_READ, MADV_POPULATE_WRITE */
    int all = PROT_READ | PROT_WRITE, file = open("pages", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *own = mmap(NULL, 4 * PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(madvise(own, 2 * PAGE, READ));
    CALL(madvise(own, 2 * PAGE, WRITE));
    CALL(munmap(own + 2 * PAGE, PAGE));
    CALL(madvise(own, 4 * PAGE, WRITE));
    CALL(mprotect(own + PAGE, PAGE, PROT_READ));
    CALL(madvise(own, 2 * PAGE, READ));
    CALL(madvise(own, 2 * PAGE, WRITE));
    CALL(mprotect(own + PAGE, PAGE, PROT_NONE));
    CALL(madvise(own, 2 * PAGE, READ));
    CALL(ftruncate(file, PAGE + 1));
    char *shared = mmap(NULL, 4 * PAGE, all, MAP_SHARED, file, 0);
    char *copied = mmap(NULL, 4 * PAGE, all, MAP_PRIVATE, file, PAGE);
    CALL(madvise(shared, 2 * PAGE, WRITE));
    CALL(madvise(shared, 3 * PAGE, READ));
    CALL(madvise(copied, PAGE, WRITE));
    CALL(madvise(copied, 2 * PAGE, WRITE));
    close(file);
}

/* Two names that change their places are two moves for whoever watches. */
static void exchanges_are_watched(void)
{
    int watch = inotify_init1(IN_NONBLOCK);
    mkdir("here", 0755), mkdir("there", 0755), mkdir("there/two", 0755);
    file_with("here/one", "one");
    CALL(inotify_add_watch(watch, "here", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "there", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "here/one", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "there/two", IN_ALL_EVENTS));
    CALL(renameat2(AT_FDCWD, "here/one", AT_FDCWD, "there/two", RENAME_EXCHANGE));
    char bytes[1024];
    ssize_t count = read(watch, bytes, sizeof bytes);
    uint32_t cookie = 0;
    for (ssize_t at = 0; at < count;) {
        struct inotify_event event;
        memcpy(&event, bytes + at, sizeof event);
        printf("%d %#x %s %d\n", event.wd, event.mask, event.len ? bytes + at + sizeof event : "",
               event.cookie != 0 && event.cookie == cookie);
        cookie = event.cookie;
        at += sizeof event + event.len;
    }
    CALL(rmdir("here/one"));
    CALL(unlink("there/two"));
    close(watch);
}

/* How long what is written to a file will live is remembered with the file. */
static void hints_are_kept(void)
{
    int file = open("hinted", O_RDWR | O_CREAT, 0644), again = open("hinted", O_RDWR);
    uint64_t hint = 7;
    CALL(fcntl(file, F_GET_RW_HINT, &hint));
    FACT(hint);
    hint = RWH_WRITE_LIFE_SHORT;
    CALL(fcntl(file, F_SET_RW_HINT, &hint));
    hint = 6;
    CALL(fcntl(file, F_SET_RW_HINT, &hint));
    CALL(fcntl(file, F_SET_RW_HINT, NULL));
    CALL(fcntl(again, F_GET_RW_HINT, &hint));
    FACT(hint);
    hint = RWH_WRITE_LIFE_NOT_SET;
    CALL(fcntl(again, F_SET_RW_HINT, &hint));
    CALL(fcntl(file, F_GET_RW_HINT, &hint));
    FACT(hint);
    CALL(fcntl(file, F_GET_FILE_RW_HINT, &hint));
    CALL(ioctl(file, FICLONE, again));
    close(file), close(again);
}

/* Whoever wants no large pages hands that down, to other programs, too. */
static void pages_are_small(void)
{
    CALL(prctl(PR_GET_THP_DISABLE, 1, 0, 0, 0));
    CALL(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 5));
    CALL(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    CALL(prctl(PR_SET_THP_DISABLE, 2, 0, 0, 0));
    int result = 0;
    if (fork() == 0) {
        if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) != 1) _exit(9);
        execl("/proc/self/exe", "corners", "small", (char *)NULL);
        _exit(8);
    }
    wait(&result);
    FACT(WEXITSTATUS(result));
    CALL(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
    CALL(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
}

/* What has no path is at its beginning wherever one looks, and says nothing of large files. */
static void there_is_no_place(void)
{
    sigset_t none;
    sigemptyset(&none);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    int files[] = {timer, eventfd(0, 0), epoll_create1(0), inotify_init(), signalfd(-1, &none, 0)};
    for (int index = 0; index < 5; index++) {
        CALL(lseek(files[index], 5, SEEK_SET));
        CALL(lseek(files[index], -5, SEEK_CUR));
        CALL(lseek(files[index], 0, 9));
        FACT(syscall(SYS_fcntl, files[index], F_GETFL));
    }
    /* An interval is kept, whether or not the timer runs. */
    struct itimerspec set = {{3, 5}, {0, 0}}, got;
    for (int round = 0; round < 2; round++) {
        CALL(timerfd_settime(timer, 0, &set, &got));
        FACT(got.it_interval.tv_sec * 10 + got.it_interval.tv_nsec);
        CALL(timerfd_gettime(timer, &got));
        FACT(got.it_interval.tv_sec * 10 + got.it_interval.tv_nsec);
        FACT(got.it_value.tv_sec + got.it_value.tv_nsec);
    }
    for (int index = 0; index < 5; index++)
        close(files[index]);
}

/* A directory that is gone lists nothing, not even what was looked at before. */
static void directories_are_gone(void)
{
    char names[100];
    CALL(mkdir("gone", 0755));
    int gone = open("gone", O_RDONLY | O_DIRECTORY);
    CALL(syscall(SYS_getdents64, gone, names, 30));
    CALL(rmdir("gone"));
    CALL(syscall(SYS_getdents64, gone, names, 30));
    CALL(syscall(SYS_getdents64, gone, NULL, 0));
    CALL(lseek(gone, 0, SEEK_SET));
    CALL(syscall(SYS_getdents64, gone, names, 100));
    close(gone);
}

int main(int count, char **arguments)
{
    if (count > 1 && !strcmp(arguments[1], "small"))
        return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    locks_are_changed();
    signals_are_forgotten();
    time_is_left();
    pipes_do_not_wait();
    files_are_copied();
    devices_and_streams_give();
    streams_are_one_s_own();
    links_are_not_followed();
    waiting_is_seen();
    memory_stays_as_it_was_opened();
    programs_are_not_written();
    instances_are_watched();
    ready_ones_have_turns();
    advice_is_followed();
    pages_are_there_at_once();
    exchanges_are_watched();
    hints_are_kept();
    pages_are_small();
    there_is_no_place();
    directories_are_gone();
    volatile int by = 2;
    FACT(nested(by));
    return 0;
}
