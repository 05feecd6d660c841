#include "checkpoint/file.h"

#include "base/system_error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_failed(gw_scope *s, const char *call) {
    return scope_fail(s, errno == ENOENT ? GW_NOT_FOUND : GW_SYSTEM, "%s: %s", call,
                      system_error_text(errno).text);
}

file file_make(gw_scope *s, const char *path) {
    file f = { s, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666) };
    if (f.fd < 0) file_failed(s, "open");
    return f;
}

file file_open(gw_scope *s, const char *path, uint64_t *out_size) {
    // O_NONBLOCK: opening a pipe must not wait for its writer.
    file f = { s, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    struct stat about = { 0 };
    if (f.fd < 0 || fstat(f.fd, &about)) {
        file_failed(s, "open");
    } else if (!S_ISREG(about.st_mode)) {
        scope_fail(s, GW_INVALID, "not a regular file");
    } else {
        *out_size = (uint64_t)about.st_size;
        return f;
    }
    file_close(&f);
    return f;
}

void file_close(file *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

bool file_write(void *context, const void *bytes, size_t size) {
    file *f = context;
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(f->fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return file_failed(f->scope, "write");
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool file_read(void *context, void *out, size_t size, uint64_t at) {
    file *f = context;
    char *to = out;
    while (size > 0) {
        ssize_t n = pread(f->fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_failed(f->scope, "read");
        if (n == 0)
            return scope_fail(f->scope, GW_INVALID, "the file became shorter while it was read");
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool file_sync_folder(gw_scope *s, const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Some file systems cannot sync a folder.
    bool is_synced = fd >= 0 && (!fsync(fd) || errno == EINVAL);
    if (!is_synced) file_failed(s, "sync of the folder");
    if (fd >= 0) close(fd);
    return is_synced;
}

const char *file_folder_of(gw_scope *s, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : gw_format(s, "%.*s", (int)(slash - path), path);
}
