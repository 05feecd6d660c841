#include "checkpoint/home.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "base/system_error.h"
#include "checkpoint/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AGAIN_MAX = 1000000, DIGITS_MAX = 18 };

// ---- Names --------------------------------------------------------------------------------------

const char *home_path(gw_scope *s, const char *home, home_name name) {
    const char *step = gw_format(s, "%s/step-%" PRId64, home, name.step);
    return name.again ? gw_format(s, "%s.%" PRId64, step, name.again) : step;
}

const char *home_file(gw_scope *s, const char *checkpoint, const char *file) {
    return gw_format(s, "%s/%s", checkpoint, file);
}

// A number without sign, space or leading zeros, up to the character |end|. NULL: there is none.
static const char *read_number(const char *text, int64_t *out) {
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > DIGITS_MAX || (digits > 1 && *text == '0')) return NULL;
    *out = strtoll(text, NULL, 10);
    return text + digits;
}

static home_name read_name(const char *text) {
    static const char before[] = "step-";
    home_name name = { 0 };
    const char *at = strncmp(text, before, sizeof before - 1) ? NULL : text + sizeof before - 1;
    if (at) at = read_number(at, &name.step);
    if (at && *at == '.') at = read_number(at + 1, &name.again);
    return at && !*at && name.again <= AGAIN_MAX ? name : (home_name){ .step = -1 };
}

static bool is_newer(home_name a, home_name b) {
    return a.step != b.step ? a.step > b.step : a.again > b.again;
}

static bool has_index(const char *home, const char *folder) {
    char path[HOME_PATH_BYTES];
    int size = snprintf(path, sizeof path, "%s/%s/" HOME_INDEX, home, folder);
    return size < (int)sizeof path && access(path, F_OK) == 0;
}

home_name home_find_newest(const char *home, home_name before) {
    home_name newest = { .step = -1 };
    DIR *d = opendir(home);
    for (const struct dirent *e; d && (e = readdir(d));) {
        home_name name = read_name(e->d_name);
        bool is_older = before.step < 0 || is_newer(before, name);
        if (name.step >= 0 && is_older && is_newer(name, newest) && has_index(home, e->d_name))
            newest = name;
    }
    if (d) closedir(d);
    return newest;
}

bool home_check(gw_scope *s, const char *home) {
    DIR *d = opendir(home);
    bool is_fine = d || errno == ENOENT;
    if (!is_fine) file_failed(s, "opendir");
    if (d) closedir(d);
    return is_fine;
}

// ---- Removing -----------------------------------------------------------------------------------

static bool is_part(const char *name) {
    static const char *const kinds[] = { "part-", "own-" };
    int64_t rank, count;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t size = strlen(kinds[i]);
        const char *at = strncmp(name, kinds[i], size) ? NULL : read_number(name + size, &rank);
        at = at && !strncmp(at, "-of-", 4) ? read_number(at + 4, &count) : NULL;
        if (at && !strcmp(at, ".safetensors")) return true;
    }
    return false;
}

static bool is_ours(const char *name) {
    return !strcmp(name, HOME_INDEX) || !strcmp(name, HOME_INDEX_TEMPORARY) ||
           !strcmp(name, HOME_MARK) || is_part(name);
}

void home_remove(gw_scope *s, const char *checkpoint) {
    // The index first: no folder has one without its parts.
    if (!unlink(home_file(s, checkpoint, HOME_INDEX))) {
        gw_scope *t = gw_scope_open(s);
        file_sync_folder(t, checkpoint);
        scope_close_unread(t);
        failpoint("checkpoint_removing");
    }
    DIR *d = opendir(checkpoint);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_ours(e->d_name)) unlink(home_file(s, checkpoint, e->d_name));
    if (d) closedir(d);
    if (rmdir(checkpoint) && errno != ENOENT)
        log_line("the folder %.400s, which is no longer a checkpoint, cannot be removed: %s",
                 checkpoint, system_error_text(errno).text);
}

void home_remove_older(gw_scope *s, const char *home, int64_t step, int keep) {
    home_name at = { .step = step };
    for (int left = keep - 1; keep && gw_ok(s); left--) {
        at = home_find_newest(home, at);
        if (at.step < 0) break;
        if (left <= 0) home_remove(s, home_path(s, home, at));
    }
}

// CKPT-8. The mark is locked while its writer lives.
static bool is_abandoned(gw_scope *s, const char *checkpoint) {
    int fd = open(home_file(s, checkpoint, HOME_MARK), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool is_so = fd < 0 ? errno == ENOENT : flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) close(fd);
    return is_so;
}

static void remove_abandoned(gw_scope *s, const char *home) {
    DIR *d = opendir(home);
    for (const struct dirent *e; d && (e = readdir(d));) {
        home_name name = read_name(e->d_name);
        if (name.step < 0 || has_index(home, e->d_name)) continue;
        const char *path = home_path(s, home, name);
        if (gw_ok(s) && is_abandoned(s, path)) home_remove(s, path);
    }
    if (d) closedir(d);
}

// ---- Making -------------------------------------------------------------------------------------

static bool make_folder(gw_scope *s, const char *home, home_draft *out) {
    for (; out->name.again < AGAIN_MAX; out->name.again++) {
        const char *path = home_path(s, home, out->name);
        if (!gw_ok(s)) return false;
        if (!mkdir(path, 0777)) return true;
        if (errno != EEXIST) return file_failed(s, "mkdir");
    }
    return scope_fail(s, GW_LIMIT, "there are %d checkpoints of step %" PRId64, AGAIN_MAX,
                      out->name.step);
}

static bool mark(gw_scope *s, const char *home, home_draft *out) {
    const char *path = home_path(s, home, out->name);
    const char *at = home_file(s, path, HOME_MARK);
    out->lock_fd = open(at, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (out->lock_fd < 0) return file_failed(s, "open");
    // Where a file system has no locks, a writer that is under way may be taken for a lost one.
    if (flock(out->lock_fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return scope_fail(
            s, GW_SYSTEM,
            "another process removes %s, because it regards it as an abandoned checkpoint", path);
    file f = { s, out->lock_fd };
    return file_write(&f, &out->token, sizeof out->token);
}

bool home_make(gw_scope *s, const char *home, int64_t step, uint64_t token, home_draft *out) {
    *out = (home_draft){ .name.step = step, .lock_fd = -1, .token = token };
    if (mkdir(home, 0777) && errno != EEXIST) return file_failed(s, "mkdir");
    remove_abandoned(s, home);
    if (step < 0) out->name.step = home_find_newest(home, (home_name){ .step = -1 }).step + 1;
    return gw_ok(s) && make_folder(s, home, out) && mark(s, home, out);
}

bool home_has_mark(gw_scope *s, const char *checkpoint, uint64_t token) {
    uint64_t found = 0;
    int fd = open(home_file(s, checkpoint, HOME_MARK), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_read = fd >= 0 && read(fd, &found, sizeof found) == sizeof found;
    if (fd >= 0) close(fd);
    return is_read && found == token;
}

void home_unmark(gw_scope *s, const char *checkpoint, home_draft *d) {
    unlink(home_file(s, checkpoint, HOME_MARK));
    if (d->lock_fd >= 0) close(d->lock_fd);
    d->lock_fd = -1;
}
