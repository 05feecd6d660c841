// Checkpoints in files: a file is written to a temporary name in the same folder, and renamed once all of
// it is on the disk.
#include "checkpoint/checkpoint.h"

#include "base/system_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file {
    gw_scope *scope;
    int fd;
} file;

static bool failed(gw_scope *s, const char *call) {
    return scope_fail(s, errno == ENOENT ? GW_NOT_FOUND : GW_SYSTEM, "%s: %s", call,
                      system_error_text(errno).text);
}

// ---- Saving -------------------------------------------------------------------------------------
static bool write_file(void *context, const void *bytes, size_t size) {
    file *f = context;
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(f->fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(f->scope, "write");
        at += n;
        size -= (size_t)n;
    }
    return true;
}

// Opens a file with a new name in the same folder, so that renaming it is atomic.
static int open_temporary(gw_scope *s, const char *path, const char **out_path) {
    for (int i = 0; gw_ok(s); i++) {
        *out_path = gw_format(s, "%s.%d-%d.tmp", path, (int)getpid(), i);
        int fd = gw_ok(s)
                     ? open(*out_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666)
                     : -1;
        if (fd >= 0) return fd;
        if (errno != EEXIST) failed(s, "open");
    }
    return -1;
}

// Syncs the folder, because the new name is on the disk only once the folder is.
static void sync_folder(gw_scope *s, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : gw_format(s, "%.*s", (int)(slash - path), path);
    int fd = gw_ok(s) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    // Some file systems cannot sync a folder.
    if (fd < 0 || (fsync(fd) && errno != EINVAL)) failed(s, "sync of the folder");
    if (fd >= 0) close(fd);
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
    checkpoint_encode(s, values, (checkpoint_sink){ write_file, &f });
    if (gw_ok(s) && fsync(f.fd)) failed(s, "sync");
    if (close(f.fd) && gw_ok(s)) failed(s, "close");
    if (gw_ok(s) && rename(temporary, path)) failed(s, "rename");
    if (gw_ok(s)) {
        sync_folder(s, path);
    } else {
        unlink(temporary);
    }
}

void gw_checkpoint_save(gw_scope *s, const char *path, gw_map *values) {
    if (gw_ok(s) && (!path || !values))
        scope_fail(s, GW_INVALID, "gw_checkpoint_save: no %s", path ? "map" : "path");
    if (!gw_ok(s)) return;
    gw_scope *t = scope_open_unrecorded(s);
    gw_scope_label(t, "%s", path);
    if (gw_ok(t)) save(t, path, values);
    gw_scope_close_up(t);
}

// ---- Loading ------------------------------------------------------------------------------------
static bool read_file(void *context, void *out, size_t size, uint64_t at) {
    file *f = context;
    char *to = out;
    while (size > 0) {
        ssize_t n = pread(f->fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(f->scope, "read");
        if (n == 0)
            return scope_fail(f->scope, GW_INVALID, "the file became shorter while it was read");
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static void load(gw_scope *s, const char *path, gw_map **out, gw_scope *out_scope) {
    // O_NONBLOCK: opening a pipe must not wait for its writer.
    file f = { .scope = s, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    struct stat about;
    if (f.fd < 0) {
        failed(s, "open");
    } else if (fstat(f.fd, &about)) {
        failed(s, "open");
    } else if (!S_ISREG(about.st_mode)) {
        scope_fail(s, GW_INVALID, "not a regular file");
    } else {
        checkpoint_source from = { read_file, &f, (uint64_t)about.st_size };
        checkpoint_decode(s, out, out_scope, from);
    }
    if (f.fd >= 0) close(f.fd);
}

gw_map *gw_checkpoint_load(gw_scope *s, const char *path) {
    gw_map *out = NULL;
    if (gw_ok(s) && !path) scope_fail(s, GW_INVALID, "gw_checkpoint_load: no path");
    if (gw_ok(s)) {
        gw_scope *t = gw_scope_open(s);
        gw_scope_label(t, "%s", path);
        if (gw_ok(t)) load(t, path, &out, s);
        gw_scope_close_up(t);
    }
    return gw_ok(s) && out ? out : gw_map_open(s);
}
