/* Directories, links and names. */
#include "facts.h"
#include <dirent.h>

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) {
        printf("%s: %s\n", path, strerrorname_np(errno));
        return;
    }
    char *names[64];
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(directory)) && count < 64) {
        char line[300];
        snprintf(line, sizeof line, "%s (%d)", entry->d_name, entry->d_type);
        names[count++] = strdup(line);
    }
    closedir(directory);
    qsort(names, count, sizeof *names, compare);
    printf("%s:", path);
    for (int i = 0; i < count; i++) printf(" %s", names[i]);
    printf("\n");
}

static void make(const char *path) { close(open(path, O_CREAT | O_WRONLY, 0644)); }

int main(void) {
    char b[256];
    list(".");
    CALL(mkdir("d", 0755));
    CALL(mkdir("d", 0755));
    CALL(mkdir("d/e", 0700));
    CALL(mkdir("x/y", 0700));
    make("d/one");
    make("d/two");
    list("d");
    list("d/one");
    list("none");
    CALL(rmdir("d"));
    CALL(rmdir("d/one"));
    CALL(unlink("d/e"));
    CALL(rmdir("d/e"));
    CALL(rename("d/one", "d/three"));
    CALL(rename("d/one", "d/four"));
    CALL(rename("d/two", "d/three"));
    list("d");
    CALL(mkdir("d2", 0755));
    CALL(rename("d2", "d/inside"));
    CALL(rename("d", "d/inside/d"));
    CALL(rename("d/three", "d/inside"));
    CALL(rename("d/inside", "d/three"));
    CALL(renameat2(AT_FDCWD, "d/three", AT_FDCWD, "d/inside", RENAME_NOREPLACE));
#define EXCHANGE(one, two) CALL(renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE))
    EXCHANGE("d/three", "d/inside");
    list("d");
    list("d/three");
    EXCHANGE("d/three", "d/inside");
    EXCHANGE("d/three", "d/three");
    EXCHANGE("d/three", "d/nothing");
    EXCHANGE("d/nothing", "d/three");
    EXCHANGE("d/three", "d/inside/");
    EXCHANGE("d/three/", "d/inside");
    EXCHANGE("d", "d/inside");
    EXCHANGE("d/inside", "d");
    EXCHANGE("d/.", "d/three");
    EXCHANGE("d/three", "d/inside/..");
    CALL(renameat2(AT_FDCWD, "d/three", AT_FDCWD, "d/inside", RENAME_NOREPLACE | RENAME_EXCHANGE));
    list("d");
    CALL(symlink("three", "d/link"));
    memset(b, 0, sizeof b);
    CALL(readlink("d/link", b, sizeof b));
    puts(b);
    CALL(readlink("d/three", b, sizeof b));
    CALL(open("d/link", O_RDONLY | O_NOFOLLOW));
    WORKS(open("d/link", O_RDONLY));
    CALL(symlink("loop2", "loop1"));
    CALL(symlink("loop1", "loop2"));
    CALL(access("loop1", F_OK));
    CALL(symlink("target", "dangling"));
    CALL(access("dangling", F_OK));
    WORKS(open("dangling", O_CREAT | O_WRONLY, 0600));
    CALL(access("target", F_OK));
    CALL(link("target", "hard"));
    struct stat s;
    CALL(stat("hard", &s));
    FACT(s.st_nlink);
    CALL(link("target", "hard"));
    CALL(link("d", "dhard"));
    CALL(unlink("target"));
    CALL(stat("hard", &s));
    FACT(s.st_nlink);
    CALL(lstat("dangling", &s));
    FACT(S_ISLNK(s.st_mode) && s.st_size == 6);
    CALL(stat("dangling", &s));
    CALL(access("d/three/x", F_OK));
    CALL(access("", F_OK));
    memset(b, 'n', 255);
    b[255] = 0;
    WORKS(open(b, O_CREAT | O_WRONLY, 0600));
    CALL(unlink(b));
    char longer[300];
    memset(longer, 'n', 299);
    longer[299] = 0;
    CALL(open(longer, O_CREAT | O_WRONLY, 0600));
    CALL(chdir("d/inside"));
    FACT(strcmp(strrchr(getcwd(b, sizeof b), '/'), "/inside"));
    CALL(access("../three", F_OK));
    CALL(chdir("../three"));
    CALL(chdir("../.."));
    int directory = open("d", O_RDONLY | O_DIRECTORY);
    CALL(openat(directory, "none", O_RDONLY));
    WORKS(openat(directory, "three", O_RDONLY));
    CALL(mkdirat(directory, "made", 0755));
    CALL(unlinkat(directory, "made", 0));
    CALL(unlinkat(directory, "made", AT_REMOVEDIR));
    CALL(fchdir(directory));
    CALL(access("three", F_OK));
    CALL(chdir(".."));
    CALL(open("d", O_WRONLY));
    CALL(open("d/three", O_RDONLY | O_DIRECTORY));
    CALL(read(directory, b, 1));
    list("d");
    CALL(open("new/", O_CREAT | O_WRONLY, 0600));
    CALL(open("hard/", O_RDONLY));
    CALL(mkdir("slash/", 0755));
    CALL(rmdir("slash/"));
    CALL(rmdir("d/."));
    CALL(rmdir("/"));
    /* Remove while listing. */
    mkdir("many", 0755);
    for (int i = 0; i < 300; i++) {
        snprintf(b, sizeof b, "many/%d", i);
        make(b);
    }
    DIR *many = opendir("many");
    struct dirent *entry;
    int removed = 0;
    while ((entry = readdir(many)))
        if (entry->d_name[0] != '.') removed += unlinkat(dirfd(many), entry->d_name, 0) == 0;
    FACT(removed);
    rewinddir(many);
    int left = 0;
    while (readdir(many)) left++;
    FACT(left);
    closedir(many);
    CALL(rmdir("many"));
    list(".");
    return 0;
}
