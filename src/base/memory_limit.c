#include "base/memory_limit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { PATH_BYTES = 1024 };

static uint64_t read_number(const char *path) {
    char text[32] = "";
    FILE *file = fopen(path, "re");
    if (!file) return UINT64_MAX;
    bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    return is_read && end > text ? n : UINT64_MAX;  // "max"
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

// The least limit of the group |path| in |tree| and its ancestors, up to the visible root.
static uint64_t least_above(const char *tree, const char *path, const char *file) {
    char at[PATH_BYTES];
    uint64_t limit = UINT64_MAX;
    for (size_t size = strlen(path);;) {
        int n = snprintf(at, sizeof at, "%s%.*s/%s", tree, (int)size, path, file);
        if (n > 0 && n < PATH_BYTES) limit = least(limit, read_number(at));
        if (size == 0) return limit;
        while (size > 0 && path[--size] != '/') {
        }
    }
}

uint64_t memory_limit_of_groups(const char *folder, const char *groups) {
    uint64_t limit = UINT64_MAX;
    char line[PATH_BYTES], tree[PATH_BYTES];
    for (const char *at = groups; *at;) {
        size_t size = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : 0), at);
        at += size + (at[size] == '\n');
        // "4:memory:/a/b" of version 1, "0::/a/b" of version 2.
        const char *kind = strchr(line, ':'), *path = kind ? strchr(kind + 1, ':') : NULL;
        if (!path) continue;
        if (strncmp(kind, ":memory:", 8) == 0) {
            snprintf(tree, sizeof tree, "%s/memory", folder);
            limit = least(limit, least_above(tree, path + 1, "memory.limit_in_bytes"));
        } else if (path == kind + 1) {
            limit = least(limit, least_above(folder, path + 1, "memory.max"));
        }
    }
    return limit;
}

static uint64_t limit;

static void find_limit(void) {
    struct sysinfo machine;
    char groups[4096] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    size_t size = file ? fread(groups, 1, sizeof groups - 1, file) : 0;
    if (file) fclose(file);
    groups[size] = '\0';
    limit = memory_limit_of_groups("/sys/fs/cgroup", groups);
    if (sysinfo(&machine)) return;
    limit = least(limit, (uint64_t)machine.totalram * machine.mem_unit);
    limit += (uint64_t)machine.totalswap * machine.mem_unit;
}

uint64_t memory_limit(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_limit);
    return limit;
}
