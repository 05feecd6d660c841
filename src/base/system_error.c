#include "base/system_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

typedef struct limit {
    int resource;
    const char *flag;  // of ulimit
    unsigned unit;     // of ulimit, in bytes
} limit;

static const limit descriptors = { RLIMIT_NOFILE, "-n", 1 }, processes = { RLIMIT_NPROC, "-u", 1 },
                   space = { RLIMIT_AS, "-v", 1024 }, data = { RLIMIT_DATA, "-d", 1024 },
                   files = { RLIMIT_FSIZE, "-f", 1024 };

// Writes those of |all| that are set; a NULL ends |all|.
static void name_limits(char *out, size_t size, const limit *const *all) {
    size_t at = 0;
    out[0] = '\0';
    for (; *all; all++) {
        struct rlimit is;
        if (getrlimit((*all)->resource, &is) || is.rlim_cur == RLIM_INFINITY) continue;
        int n = snprintf(out + at, size - at, "%sulimit %s is %llu", at ? ", " : " (", (*all)->flag,
                         (unsigned long long)(is.rlim_cur / (*all)->unit));
        if (n < 0 || (size_t)n >= size - at) break;
        at += (size_t)n;
    }
    if (at) snprintf(out + at, size - at, ")");
}

static system_text text_of(int error, const limit *const *all) {
    system_text x;
    char limits[96] = "";
    if (all) name_limits(limits, sizeof limits, all);
    snprintf(x.text, sizeof x.text, "%.60s%s", strerror(error), limits);
    return x;
}

static const limit *const of_descriptors[] = { &descriptors, NULL };
static const limit *const of_memory[] = { &space, &data, NULL };
static const limit *const of_threads[] = { &processes, &space, &data, NULL };
static const limit *const of_files[] = { &files, NULL };

system_text system_error_text(int error) {
    return text_of(error, error == EMFILE   ? of_descriptors
                          : error == ENOMEM ? of_memory
                          : error == EFBIG  ? of_files
                                            : NULL);
}

system_text system_thread_error_text(int error) {
    return error == EAGAIN ? text_of(error, of_threads) : system_error_text(error);
}
