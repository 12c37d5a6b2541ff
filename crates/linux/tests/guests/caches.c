// What the system tells of the caches, found by listing their directories.
#include "facts.h"
#include <dirent.h>

static const char *content(const char *directory, const char *name)
{
    static char text[200];
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (size < 1)
        return "absent";
    text[size - (text[size - 1] == '\n')] = 0;
    close(file);
    return text;
}

int main(void)
{
    static const char *const names[] = {
        "level", "type", "size", "coherency_line_size", "ways_of_associativity", "number_of_sets",
        "shared_cpu_list", "shared_cpu_map", "id",
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int hart = 0; hart < 4; hart++) {
        char path[200];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache", hart);
        DIR *caches = opendir(path);
        if (!caches) {
            printf("cpu%d: none\n", hart);
            continue;
        }
        int count = 0;
        while (readdir(caches))
            count++;
        closedir(caches);
        printf("cpu%d: %d\n", hart, count - 2);
        for (int index = 0; index < count - 2; index++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d", hart, index);
            for (size_t at = 0; at < sizeof names / sizeof *names; at++)
                printf(" %s", content(path, names[at]));
            puts("");
        }
    }
    CALL(open("/sys/devices/system/cpu/cpu0/cache/index0/size", O_WRONLY));
    CALL(open("/sys/devices/system/cpu/cpu0/cache/index4", O_RDONLY));
    CALL(open("/sys/devices/system/cpu/cache", O_RDONLY));
    CALL(open("/tmp/cache", O_RDONLY));
    static const char *const places[] = {
        "core_id", "physical_package_id", "thread_siblings", "thread_siblings_list", "core_cpus",
        "core_cpus_list", "core_siblings", "core_siblings_list", "package_cpus", "package_cpus_list",
        "nothing",
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        printf("%s: %s\n", places[i], content("/sys/devices/system/cpu/cpu1/topology", places[i]));
    return 0;
}
