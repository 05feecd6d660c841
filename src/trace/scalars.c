// The functions of gradwire/scalars.h.
#include <gradwire/scalars.h>

#include "base/mem.h"
#include "base/scope.h"
#include "base/system_error.h"
#include "base/utf8.h"
#include "trace/clock.h"
#include "trace/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 255, FILES_TRIED = 1000 };

struct gw_scalars {
    gw_handle handle;
    pthread_mutex_t lock;  // a leaf; guards |size|, and writing
    int fd;
    pid_t process;  // that has opened it: a child of fork would overwrite its records
    off_t size;     // of the file: whole records
    char path[PATH_MAX];
};

static void destroy(gw_handle *h) {
    gw_scalars *x = (gw_scalars *)h;
    if (x->fd >= 0) close(x->fd);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

static const handle_class scalars_class = { .name = "scalars", .destroy = destroy };
static gw_scalars poison = { .handle = { &scalars_class, HANDLE_IMMORTAL }, .fd = -1 };

static double wall_s(void) {
    return (double)trace_read_ns(CLOCK_REALTIME) * 1e-9;
}

// ---- The file -----------------------------------------------------------------------------------

// False with errno; |path| is the same afterwards.
static bool make_folders(char *path) {
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        bool is_made = !mkdir(path, 0777) || errno == EEXIST;
        *at = '/';
        if (!is_made) return false;
    }
    return true;
}

// False with errno.
static bool write_at(int fd, const bytes *b, off_t at) {
    ssize_t n = 0;
    for (size_t done = 0; done < b->size; done += (size_t)n) {
        n = pwrite(fd, b->data + done, b->size - done, at + (off_t)done);
        if (n < 0 && errno == EINTR) n = 0;
        if (n < 0) return false;
    }
    return true;
}

// Writes the record, or nothing of it, and frees it.
static bool add_record(gw_scope *s, gw_scalars *x, bytes *record, const char *function) {
    bool is_written = !record->failed && write_at(x->fd, record, x->size);
    if (is_written)
        x->size += (off_t)record->size;
    else if (record->failed)
        scope_fail(s, GW_NO_MEMORY, "%s: no memory to write to %.400s", function, x->path);
    else
        scope_fail(s, GW_SYSTEM, "%s: %.400s: write: %s", function, x->path,
                   system_error_text(errno).text);
    // Where it cannot be cut, the next record replaces its beginning.
    int cut = is_written ? 0 : ftruncate(x->fd, x->size);
    (void)cut;
    bytes_fini(record);
    return is_written;
}

static bool make_file(gw_scope *s, gw_scalars *x, const char *folder) {
    static _Atomic unsigned number;
    char host[65] = "";
    size_t end = (size_t)snprintf(x->path, sizeof x->path, "%s/", folder);
    if (!make_folders(x->path))
        return scope_fail(s, GW_SYSTEM, "gw_scalars_open: the folder %.400s cannot be made: %s",
                          folder, system_error_text(errno).text);
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < FILES_TRIED && x->fd < 0 && (!i || errno == EEXIST); i++) {
        snprintf(x->path + end, sizeof x->path - end, "events.out.tfevents.%010lld.%s.%d.%u",
                 (long long)time(NULL), host, (int)getpid(), number++);
        x->fd = open(x->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    }
    if (x->fd >= 0) return true;
    return scope_fail(s, GW_SYSTEM, "gw_scalars_open: %.400s cannot be made: %s", x->path,
                      system_error_text(errno).text);
}

// ---- The interface ------------------------------------------------------------------------------

static bool check_folder(gw_scope *s, const char *folder) {
    size_t size = folder ? strlen(folder) : 0;
    if (size == 0 || size > PATH_MAX - NAME_BYTES_MAX)
        scope_fail(s, GW_INVALID, "gw_scalars_open: the name of the folder has 1 to %d bytes",
                   PATH_MAX - NAME_BYTES_MAX);
    return gw_ok(s);
}

gw_scalars *gw_scalars_open(gw_scope *s, const char *folder) {
    if (!gw_ok(s) || !check_folder(s, folder)) return &poison;
    gw_scalars *x = mem_calloc(sizeof *x);
    if (!x) {
        scope_fail(s, GW_NO_MEMORY, "gw_scalars_open: no memory");
        return &poison;
    }
    handle_init(&x->handle, &scalars_class);
    x->fd = -1;
    x->process = getpid();
    pthread_mutex_init(&x->lock, NULL);
    if (make_file(s, x, folder)) {
        bytes record = { 0 };
        event_file_put_version(&record, wall_s());
        if (!add_record(s, x, &record, "gw_scalars_open")) unlink(x->path);
    }
    if (gw_ok(s)) return scope_own_or(s, x, &poison);
    handle_release(&x->handle);
    return &poison;
}

static bool check_name(gw_scope *s, const char *name) {
    size_t size = name ? strlen(name) : 0;
    if (size == 0 || size > NAME_BYTES_MAX)
        return scope_fail(s, GW_INVALID, "gw_scalars_add: the name of a curve has 1 to %d bytes",
                          NAME_BYTES_MAX);
    if (!utf8_is_printable(name))
        return scope_fail(
            s, GW_INVALID,
            "gw_scalars_add: the name of a curve has control characters, or is not UTF-8");
    return true;
}

void gw_scalars_add(gw_scope *s, gw_scalars *to, const char *name, double value, int64_t step) {
    if (!gw_ok(s) || !check_name(s, name) || !to || to == &poison) return;
    if (to->process != getpid()) {
        scope_fail(s, GW_WRONG_STATE,
                   "gw_scalars_add: %.400s is a file of the parent of this process, which was "
                   "forked: call gw_scalars_open in this process",
                   to->path);
        return;
    }
    bytes record = { 0 };
    event_file_put_scalar(&record, wall_s(), name, (float)value, step);
    pthread_mutex_lock(&to->lock);
    add_record(s, to, &record, "gw_scalars_add");
    pthread_mutex_unlock(&to->lock);
}
