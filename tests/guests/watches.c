/*
 * End-to-end test: being told of what happens to files.
 *
 *   watches
 *
 * Always true: what is printed is fixed: every event by its name, in order, in a tree of its own.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static const struct {
    uint32_t bit;
    const char *name;
} names[] = {
    {IN_ACCESS, "ACCESS"},           {IN_MODIFY, "MODIFY"},
    {IN_ATTRIB, "ATTRIB"},           {IN_CLOSE_WRITE, "CLOSE_WRITE"},
    {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {IN_OPEN, "OPEN"},
    {IN_MOVED_FROM, "MOVED_FROM"},   {IN_MOVED_TO, "MOVED_TO"},
    {IN_CREATE, "CREATE"},           {IN_DELETE, "DELETE"},
    {IN_DELETE_SELF, "DELETE_SELF"}, {IN_MOVE_SELF, "MOVE_SELF"},
    {IN_IGNORED, "IGNORED"},         {IN_Q_OVERFLOW, "Q_OVERFLOW"},
    {IN_ISDIR, "ISDIR"},
};

/* Everything that waits; the halves of a move are numbered by their pairs. */
static void show(int file)
{
    static uint32_t last;
    static int pairs;
    char bytes[8192] __attribute__((aligned(8)));
    ssize_t count = read(file, bytes, sizeof bytes);
    if (count < 0) {
        printf("  %s\n", strerror(errno));
        return;
    }
    for (ssize_t at = 0; at < count;) {
        struct inotify_event *event = (struct inotify_event *)(bytes + at);
        printf("  %d", event->wd);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (event->mask & names[i].bit) {
                printf(" %s", names[i].name);
            }
        }
        if (event->cookie) {
            pairs += event->cookie != last;
            last = event->cookie;
            printf(" pair %d", pairs);
        }
        printf("%s%s\n", event->len ? " " : "", event->len ? event->name : "");
        at += (ssize_t)(sizeof *event + event->len);
    }
}

static void make(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) {
        perror(path);
        exit(2);
    }
    close(file);
}

int main(void)
{
    char byte;
    mkdir("w", 0700);
    mkdir("w/sub", 0700);
    mkdir("elsewhere", 0700);
    make("w/old", "old text");
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    EXPECT(watch >= 0);
    CALL(inotify_add_watch(watch, "w", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "w/old", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "w", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "nowhere", IN_ALL_EVENTS));
    CALL(inotify_add_watch(watch, "w/old", IN_OPEN | IN_ONLYDIR));
    CALL(inotify_add_watch(watch, "w", 0));
    CALL(inotify_add_watch(watch, "w", IN_OPEN | IN_MASK_CREATE));
    CALL(inotify_add_watch(0, "w", IN_OPEN) < 0);
    show(watch);

    puts("a file is made");
    make("w/new", "new");
    show(watch);
    puts("read, changed");
    int file = open("w/old", O_RDWR);
    CALL(read(file, &byte, 1));
    CALL(write(file, &byte, 1));
    CALL(write(file, &byte, 1));
    CALL(ftruncate(file, 3));
    CALL(fchmod(file, 0640));
    close(file);
    show(watch);
    puts("names");
    CALL(link("w/old", "w/second"));
    CALL(symlink("old", "w/soft"));
    CALL(mkdir("w/dir", 0700));
    CALL(mkfifo("w/fifo", 0600));
    show(watch);
    CALL(rename("w/new", "w/newer"));
    CALL(rename("w/newer", "elsewhere/away"));
    CALL(rename("elsewhere/away", "w/back"));
    CALL(rename("w/sub", "w/submarine"));
    show(watch);
    CALL(rename("w/back", "w/old"));
    show(watch);
    CALL(unlink("w/second"));
    show(watch);
    CALL(rmdir("w/dir"));
    CALL(unlink("w/soft"));
    CALL(unlink("w/fifo"));
    CALL(truncate("w/old", 1));
    CALL(chmod("w/old", 0600));
    show(watch);

    puts("what is open and has no name");
    file = open("w/old", O_RDONLY);
    CALL(inotify_add_watch(watch, "w/old", IN_DELETE_SELF | IN_ATTRIB));
    CALL(unlink("w/old"));
    CALL(read(file, &byte, 1));
    close(file);
    show(watch);
    int quiet = inotify_init1(IN_NONBLOCK);
    make("w/open", "text");
    CALL(inotify_add_watch(quiet, "w", IN_ALL_EVENTS | IN_EXCL_UNLINK));
    file = open("w/open", O_RDONLY);
    CALL(unlink("w/open"));
    CALL(read(file, &byte, 1));
    close(file);
    show(quiet);
    close(quiet);
    CALL(inotify_rm_watch(watch, 1));
    CALL(inotify_rm_watch(watch, 1));
    show(watch);

    puts("once, more, and the end of a directory");
    CALL(inotify_add_watch(watch, "w", IN_CREATE | IN_ONESHOT));
    make("w/one", "1");
    make("w/two", "2");
    show(watch);
    CALL(inotify_add_watch(watch, "elsewhere", IN_OPEN));
    CALL(inotify_add_watch(watch, "elsewhere", IN_DELETE_SELF | IN_MASK_ADD));
    CALL(open("elsewhere", O_RDONLY | O_DIRECTORY) >= 0);
    CALL(rmdir("elsewhere"));
    show(watch);

    puts("waiting");
    fcntl(watch, F_SETFL, 0);
    CALL(inotify_add_watch(watch, "w/one", IN_MODIFY));
    pid_t child = fork();
    if (child == 0) {
        struct timespec time = {0, 5000000};
        nanosleep(&time, NULL);
        make("w/one", "");
        _exit(0);
    }
    struct pollfd entry = {watch, POLLIN, 0};
    CALL(poll(&entry, 1, -1));
    int waits = 0;
    CALL(ioctl(watch, FIONREAD, &waits));
    EXPECT(waits == sizeof(struct inotify_event));
    CALL(read(watch, &byte, 1));
    show(watch);
    waitpid(child, NULL, 0);

    puts("too many");
    fcntl(watch, F_SETFL, O_NONBLOCK);
    CALL(inotify_add_watch(watch, "w", IN_CREATE | IN_DELETE));
    for (int i = 0; i < 8200; i++) {
        if (mkfifo("w/p", 0600) || unlink("w/p")) {
            perror("p");
        }
    }
    long events = 0, over = 0;
    char bytes[4096] __attribute__((aligned(8)));
    ssize_t count;
    while ((count = read(watch, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0; at < count; events++) {
            struct inotify_event *event = (struct inotify_event *)(bytes + at);
            over += event->mask & IN_Q_OVERFLOW && event->wd == -1;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    EXPECT(events == 16385 && over == 1);
    return 0;
}
