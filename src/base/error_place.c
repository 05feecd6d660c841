// The current line of the program, for GW_TRACE_ERRORS, found by addr2line;
// it is run once for each first error and takes some 20 ms.
#include "base/error_place.h"

#include <execinfo.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 32 };

static int take_bias(struct dl_phdr_info *info, size_t size, void *out) {
    (void)size;
    *(uintptr_t *)out = info->dlpi_addr;
    return 1;  // the program is the first
}

// The folder of the library's sources, as addr2line writes it: the innermost call is in this file. Empty without line
// information.
typedef struct folder {
    char text[512];
} folder;

static folder folder_of(const char *line) {
    folder f = { "" };
    const char *own = strstr(line, "base/error_place.c:");
    if (own) snprintf(f.text, sizeof f.text, "%.*s", (int)(own - line), line);
    return f;
}

// Whether the line is of the library, except for the tests in its folders.
static bool is_ours(const folder *sources, const char *line) {
    size_t size = strlen(sources->text);
    if (strstr(line, "/gradwire/detail/")) return true;
    return size && strncmp(line, sources->text, size) == 0 && !strstr(line, "_test.c:");
}

// "/home/me/train.c:12 (discriminator 3)"
static void take_location(char *out, size_t size, const char *line) {
    const char *slash = strrchr(line, '/');
    const char *name = slash ? slash + 1 : line;
    snprintf(out, size, "%.*s", (int)strcspn(name, " \n"), name);
}

bool error_place(char *out, size_t size) {
    void *frames[FRAMES];
    uintptr_t bias = 0;
    char command[1024];
    int count = backtrace(frames, FRAMES);
    dl_iterate_phdr(take_bias, &bias);
    int at = snprintf(command, sizeof command, "addr2line -i -e /proc/%d/exe", (int)getpid());
    // One less: the address of the call, not of the next instruction.
    for (int i = 0; i < count; i++)
        at += snprintf(command + at, sizeof command - (size_t)at, " %lx",
                       (unsigned long)((uintptr_t)frames[i] - 1 - bias));
    snprintf(command + at, sizeof command - (size_t)at, " 2>/dev/null");
    FILE *f = popen(command, "re");
    if (!f) return false;
    char line[512];
    folder sources = { "" };
    bool found = false;
    while (fgets(line, sizeof line, f)) {  // to its end, or addr2line would be killed by SIGPIPE
        if (!sources.text[0]) sources = folder_of(line);
        if (found || line[0] == '?' || is_ours(&sources, line)) continue;
        take_location(out, size, line);
        found = true;
    }
    pclose(f);
    return found;
}
