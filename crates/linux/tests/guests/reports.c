// What the system tells of itself: mappings in full, mounts, limits, processors.
#include "facts.h"
#include <dirent.h>
#include <sys/wait.h>

static char text[1 << 16];

static const char *content(const char *path)
{
    int file = open(path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (size < 0)
        return "absent";
    text[size] = 0;
    close(file);
    return text;
}

/* The sum of a line's numbers over all mappings. */
static long sum(const char *path, const char *name)
{
    long all = 0;
    content(path);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, name, strlen(name)) == 0)
            all += atol(line + strlen(name));
    return all;
}

static int lines(const char *path)
{
    int count = 0;
    for (const char *at = content(path); *at; at++)
        count += *at == '\n';
    return count;
}

static void mappings(void)
{
    char *private = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    content("/proc/self/smaps"); // The pages for that are there now.
    long before = sum("/proc/self/smaps", "Rss:"), dirty = sum("/proc/self/smaps", "Private_Dirty:");
    memset(private, 1, 10 * 4096);
    FACT(sum("/proc/self/smaps", "Rss:") - before);
    FACT(sum("/proc/self/smaps", "Private_Dirty:") - dirty);
    FACT(sum("/proc/self/smaps", "Rss:") == sum("/proc/self/smaps_rollup", "Rss:"));
    FACT(sum("/proc/self/smaps", "Rss:") == sum("/proc/self/status", "VmRSS:"));
    FACT(sum("/proc/self/smaps", "Size:") == sum("/proc/self/status", "VmSize:"));
    FACT(lines("/proc/self/smaps") == 17 * lines("/proc/self/maps"));
    FACT(sum("/proc/self/smaps", "Pss:") == sum("/proc/self/smaps", "Rss:"));
    if (fork() == 0) {
        FACT(sum("/proc/self/smaps", "Shared_Dirty:") >= 40);
        FACT(sum("/proc/self/smaps", "Pss:") < sum("/proc/self/smaps", "Rss:"));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

/* What of a process is bytes, and no text. */
static int bytes_of_a_process(char **arguments)
{
    char **end = environ;
    while (*end++) {
    }
    content("/proc/self/auxv");
    FACT(memcmp(text, end, 64) == 0);
    FACT(memcmp(text, end, 280) == 0);
    content("/proc/self/cmdline");
    FACT(memcmp(text, arguments[0], 12) == 0);
    content("/proc/self/environ");
    FACT(strcmp(text, "A=\xfe"));
    return 0;
}

int main(int count, char **arguments)
{
    static const char *const paths[] = {
        "/proc/self/mountinfo", "/proc/self/io", "/proc/self/cgroup", "/proc/self/oom_score_adj",
        "/proc/cmdline", "/proc/diskstats", "/proc/filesystems", "/proc/sys/fs/file-max",
        "/proc/sys/fs/nr_open", "/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/pid_max",
        "/proc/sys/vm/max_map_count", "/sys/devices/system/node/online",
        "/sys/devices/system/node/possible", "/proc/self/iox", "/proc/sys/fs/none",
        "/sys/devices/system/cpu/cpu0/cache/index0/size", "/tmp/io", "/proc/io",
        "/proc/self/uid_map", "/proc/self/net/if_inet6", "/proc/net/if_inet6", "/proc/modules",
        "/proc/sys/net/core/somaxconn", "/proc/sys/net/none", "/proc/sys/kernel/domainname",
        "/proc/sys/fs/pipe-max-size", "/sys/class/net/lo/mtu", "/sys/class/net/lo/none",
        "/proc/sys/kernel/overflowuid", "/proc/sys/kernel/random/poolsize",
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1)
        return bytes_of_a_process(arguments);
    struct stat status;
    CALL(stat("/sys/devices/system/node", &status));
    FACT(S_ISDIR(status.st_mode));
    DIR *nodes = opendir("/sys/devices/system/node");
    for (struct dirent *entry; (entry = readdir(nodes));)
        printf("node: %s\n", entry->d_name);
    closedir(nodes);
    for (size_t at = 0; at < sizeof paths / sizeof *paths; at++)
        printf("%s:\n%s\n", paths[at], content(paths[at]));
    static char online[100];
    strcpy(online, content("/sys/devices/system/cpu/online"));
    FACT(strcmp(online, content("/sys/devices/system/node/node0/cpulist")));
    FACT(sum("/proc/vmstat", "nr_free_pages ") > 0);
    FACT(sum("/proc/vmstat", "pgfault ") > 0);
    CALL(open("/proc/self/io", O_WRONLY));
    CALL(chdir("/proc/sys/fs"));
    FACT(strcmp(content("nr_open"), "4096\n"));
    mappings();
    fflush(stdout);
    char *const again[] = {"reports", "\xff\xc3\xff", NULL}, *const environment[] = {"A=\xfe", NULL};
    CALL(execve("/proc/self/exe", again, environment));
    return 1;
}
