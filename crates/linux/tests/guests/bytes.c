// Names that are no UTF-8, wherever they are told.
#include "facts.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static void show(const char *what, const char *bytes, long length)
{
    printf("%s:", what);
    for (long at = 0; at < length; at++)
        printf(" %02x", (unsigned char)bytes[at]);
    printf("\n");
}

int main(int count, char **arguments)
{
    char text[8192], longest[300];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1) {
        show("argument", arguments[1], (long)strlen(arguments[1]));
        return 0;
    }
    CALL(access("none\xff", F_OK));
    CALL(mkdir("f\xe9", 0755));
    CALL(chdir("f\xe9"));
    getcwd(text, sizeof text);
    const char *own = strrchr(text, '/');
    show("getcwd", own, (long)strlen(own));
    int watch = inotify_init1(IN_NONBLOCK);
    CALL(inotify_add_watch(watch, ".", IN_CREATE));

    /* What stands for such bytes inside, and its own bytes. */
    static const char *const names[] = {"\xff", "\xc3\xbc", "\xc3", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbe\x80", "a\x80z"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        CALL(open(names[at], O_CREAT | O_EXCL | O_WRONLY, 0600) > 0);
    CALL(open("\xff", O_CREAT | O_EXCL | O_WRONLY, 0600));
    CALL(rename("\xc3", "\xc3\xc3"));
    CALL(symlink("to\xfe\xc3\xa9", "l\xfe"));
    long length = readlink("l\xfe", text, sizeof text);
    show("readlink", text, length);
    struct stat status;
    CALL(lstat("l\xfe", &status));
    FACT(status.st_size);
    struct dirent **listed;
    int entries = scandir(".", &listed, NULL, alphasort);
    for (int at = 0; at < entries; at++)
        show("listed", listed[at]->d_name, (long)strlen(listed[at]->d_name));

    length = read(watch, text, sizeof text);
    FACT(length);
    for (long at = 0; at < length;) {
        const struct inotify_event *event = (void *)(text + at);
        show("told", event->name, event->len);
        at += 16 + event->len;
    }

    memset(longest, 0xe9, sizeof longest);
    longest[255] = 0;
    CALL(mkdir(longest, 0755));
    CALL(rmdir(longest));
    longest[255] = (char)0xe9, longest[256] = 0;
    CALL(mkdir(longest, 0755));

    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {AF_UNIX, "s\xe9"};
    CALL(bind(one, (void *)&address, sizeof address));
    socklen_t room = sizeof address;
    CALL(getsockname(one, (void *)&address, &room));
    FACT(room);
    show("name", address.sun_path, (long)room - 2);

    CALL(prctl(PR_SET_NAME, "name of \xc3\xa9\xff\xc3\xa9\xc3\xa9\xc3\xa9"));
    CALL(prctl(PR_GET_NAME, text));
    show("thread", text, 16);
    fflush(stdout);
    execl("/proc/self/exe", "again", "\xff\xc3", NULL);
    return 1;
}
