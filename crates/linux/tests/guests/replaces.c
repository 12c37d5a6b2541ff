/* Removes a file, and a directory with a file in it, and makes something else of their names. */
#include "facts.h"

#include <sys/socket.h>
#include <sys/un.h>

static int make(const char *what, const char *place) {
    if (!strcmp(what, "directory")) return mkdir(place, 0755);
    if (!strcmp(what, "link")) return symlink("elsewhere", place);
    if (!strcmp(what, "fifo")) return mkfifo(place, 0644);
    if (!strcmp(what, "socket")) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        strcpy(name.sun_path, place);
        return bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name);
    }
    int file = open(place, O_CREAT | O_EXCL | O_WRONLY, 0644);
    return file < 0 || write(file, "new", 3) != 3 || close(file);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *what = arguments[1];
    if (unlink("a") || unlink("d/e/a") || rmdir("d/e")) return 3;
    int result = make(what, "a") || make(what, "d/e");
    printf("%s: %d\n", what, result);
    return result;
}
