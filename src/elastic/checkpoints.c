// The files of checkpoints: step-N.safetensors in one folder. The newest is that with the largest N.
#include "elastic/elastic.h"

#include "base/log.h"
#include "base/system_error.h"

#include <gradwire/checkpoint.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool checkpoints_check(gw_scope *s, const char *folder) {
    struct stat status;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return scope_fail(s, GW_SYSTEM,
                          "gw_elastic_open: the folder of checkpoints, %.400s, cannot be made: %s",
                          folder, system_error_text(errno).text);
    if (stat(folder, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (access(folder, R_OK | W_OK | X_OK) == 0)
        return true;
    return scope_fail(s, GW_SYSTEM, "gw_elastic_open: checkpoints cannot be written in %.400s: %s",
                      folder, system_error_text(errno).text);
}

// The step of the checkpoint |name|; -1: it is none.
static int64_t step_of(const char *name) {
    static const char before[] = "step-", after[] = ".safetensors";
    if (strncmp(name, before, sizeof before - 1) != 0) return -1;
    const char *number = name + sizeof before - 1;
    char *end;
    errno = 0;
    int64_t step = strtoll(number, &end, 10);
    bool is_plain = *number >= '0' && *number <= '9' && end - number <= 18;
    return is_plain && !errno && !strcmp(end, after) ? step : -1;
}

// The newest checkpoint before |before|, of which *|out_count| are there; -1: there is none. Temporary files have other
// names.
static int64_t find_before(const char *folder, int64_t before) {
    DIR *d = opendir(folder);
    int64_t newest = -1;
    for (const struct dirent *e; d && (e = readdir(d));) {
        int64_t step = step_of(e->d_name);
        if (step > newest && step < before) newest = step;
    }
    if (d) closedir(d);
    return newest;
}

static const char *path_of(gw_scope *s, const char *folder, int64_t step) {
    return gw_format(s, "%s/step-%" PRId64 ".safetensors", folder, step);
}

gw_map *checkpoints_find(gw_scope *s, const char *folder) {
    int64_t step = INT64_MAX;
    while (gw_ok(s) && (step = find_before(folder, step)) >= 0) {
        gw_scope *t = gw_scope_open(s);
        gw_map *values = gw_keep(s, gw_checkpoint_load(t, path_of(t, folder, step)));
        gw_error why = gw_scope_close(t);
        if (!why.status) return values;
        log_line("the checkpoint of step %" PRId64 " in %.300s is skipped: %s", step, folder,
                 why.text);
    }
    return NULL;
}

// Files of later steps are not those of this training: they count for nothing.
static void delete_older(gw_scope *s, const char *folder, int64_t newest, int keep) {
    int64_t step = newest + 1;
    for (int count = 0; (step = find_before(folder, step)) >= 0; count++)
        if (count >= keep && unlink(path_of(s, folder, step)))
            log_line("the old checkpoint of step %" PRId64 " in %.300s cannot be deleted: %s", step,
                     folder, system_error_text(errno).text);
}

void checkpoints_write(gw_scope *s, const char *folder, int64_t step, int keep, gw_map *values) {
    gw_scope *t = gw_scope_open(s);
    gw_checkpoint_save(t, path_of(t, folder, step), values);
    if (gw_ok(t)) delete_older(t, folder, step, keep);
    gw_error why = gw_scope_close(t);
    if (why.status)
        log_line("the checkpoint of step %" PRId64 " in %.300s was not written: %s", step, folder,
                 why.text);
}
