// Checkpoints in files: a file is written to a temporary name in the same folder, and renamed once all of
// it is on the disk.
#include "checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Saving -------------------------------------------------------------------------------------
// Opens a file with a new name in the same folder, so that renaming it is atomic.
static int open_temporary(gw_scope *s, const char *path, const char **out_path) {
    for (int i = 0; gw_ok(s); i++) {
        *out_path = gw_format(s, "%s.%d-%d.tmp", path, (int)getpid(), i);
        int fd = gw_ok(s)
                     ? open(*out_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666)
                     : -1;
        if (fd >= 0) return fd;
        if (errno != EEXIST) file_failed(s, "open");
    }
    return -1;
}

// Fails if |path| is a folder, a pipe or the like, which renaming would replace.
static bool check_path(gw_scope *s, const char *path) {
    struct stat about;
    if (lstat(path, &about) || S_ISREG(about.st_mode) || S_ISLNK(about.st_mode)) return true;
    return scope_fail(s, GW_INVALID, "not a regular file");
}

static void save(gw_scope *s, const char *path, gw_map *values) {
    if (!check_path(s, path)) return;
    const char *temporary;
    file f = { .scope = s, .fd = open_temporary(s, path, &temporary) };
    if (f.fd < 0) return;
    checkpoint_encode(s, values, (checkpoint_sink){ file_write, &f });
    if (gw_ok(s) && fsync(f.fd)) file_failed(s, "sync");
    if (close(f.fd) && gw_ok(s)) file_failed(s, "close");
    if (gw_ok(s) && rename(temporary, path)) file_failed(s, "rename");
    if (gw_ok(s)) {
        file_sync_folder(s, file_folder_of(s, path));
    } else {
        unlink(temporary);
    }
}

void gw_checkpoint_save(gw_scope *s, const char *path, gw_map *values) {
    if (gw_ok(s) && (!path || !values))
        scope_fail(s, GW_INVALID, "gw_checkpoint_save: the %s is NULL", path ? "map" : "path");
    if (!gw_ok(s)) return;
    gw_scope *t = scope_open_unrecorded(s);
    gw_scope_label(t, "%s", path);
    if (gw_ok(t)) save(t, path, values);
    gw_scope_close_up(t);
}

// ---- Loading ------------------------------------------------------------------------------------
static void load(gw_scope *s, const char *path, gw_map **out, gw_scope *out_scope) {
    uint64_t size = 0;
    file f = file_open(s, path, &size);
    if (f.fd >= 0) checkpoint_decode(s, out, out_scope, (checkpoint_source){ file_read, &f, size });
    file_close(&f);
}

gw_map *gw_checkpoint_load(gw_scope *s, const char *path) {
    gw_map *out = NULL;
    if (gw_ok(s) && !path) scope_fail(s, GW_INVALID, "gw_checkpoint_load: the path is NULL");
    if (gw_ok(s)) {
        gw_scope *t = gw_scope_open(s);
        gw_scope_label(t, "%s", path);
        if (gw_ok(t)) load(t, path, &out, s);
        gw_scope_close_up(t);
    }
    return gw_ok(s) && out ? out : gw_map_open(s);
}
