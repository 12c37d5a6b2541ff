/* Removes a directory with a file in it, and makes something else of its name. */
#include "facts.h"

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *what = arguments[1], *place = "d/e";
    if (unlink("d/e/a") || rmdir(place)) return 3;
    int result = 2;
    if (!strcmp(what, "directory")) result = mkdir(place, 0755);
    if (!strcmp(what, "link")) result = symlink("a", place);
    if (!strcmp(what, "file")) {
        int file = open(place, O_CREAT | O_EXCL | O_WRONLY, 0644);
        result = file < 0 || write(file, "new", 3) != 3 || close(file);
    }
    printf("%s: %d\n", what, result);
    return result;
}
