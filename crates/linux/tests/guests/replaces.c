/* Removes a file, and a directory with a file in it, and makes something else of their names. */
#include "facts.h"
#include "named.h"

static int make(const char *what, const char *place) {
    if (!strcmp(what, "directory")) return mkdir(place, 0755);
    if (!strcmp(what, "link")) return symlink("elsewhere", place);
    if (!strcmp(what, "fifo")) return mkfifo(place, 0644);
    if (!strcmp(what, "socket")) return named_socket(SOCK_STREAM, place) < 0;
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
