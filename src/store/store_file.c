// The store in a file. docs/protocol/joining.md specifies its contents.
#include "store/store_internal.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS ((int64_t)1000000)

enum { POLL_FIRST_MS = 1, POLL_MAX_MS = 50, WATCH_MS = 100, HEADER_BYTES = 12 };

static const char magic[] = "GRADWIRE STORE 1";  // 16 bytes, without the NUL

typedef struct file {
    store store;
    char *path;
    int fd;
    store_table table;  // what has been read so far
    off_t read_to;      // the first byte behind the last whole record
    timer look;         // while it is watched
} file;

static gw_status system_failed(const file *f, const char *call, gw_error *error) {
    return error_set(error, GW_SYSTEM, "store %s: %s: %s", f->path, call,
                     system_error_text(errno).text);
}

// ---- The lock -----------------------------------------------------------------------------------
// Locks of the open file, not of the process: two agents of one process exclude each other too. One
// is on all records; one, far behind them, is shared by the workers that attend.
#define ATTENDED_AT ((off_t)1 << 62)

static int try_lock(const file *f, short type) {
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_len = ATTENDED_AT };
    return fcntl(f->fd, F_OFD_SETLK, &lock);
}

static struct flock attendance(short type) {
    return (
        struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = ATTENDED_AT, .l_len = 1 };
}

static void file_attend(store *st) {
    struct flock lock = attendance(F_RDLCK);
    (void)fcntl(((file *)st)->fd, F_OFD_SETLK, &lock);
}

static bool file_is_attended(store *st) {
    struct flock lock = attendance(F_WRLCK);
    return fcntl(((file *)st)->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static void unlock(const file *f) {
    (void)try_lock(f, F_UNLCK);
}

// Waits before the next read, twice as long each time.
static bool pause_before(const file *f, const char *what, int64_t until_ns, int64_t *delay_ms) {
    int64_t pause_ms = *delay_ms;
    if (*delay_ms < POLL_MAX_MS) *delay_ms *= 2;
    return store_pause(&f->store, what, until_ns, pause_ms);
}

static gw_status lock(file *f, short type, const char *key, int64_t until_ns, gw_error *error) {
    int64_t delay_ms = POLL_FIRST_MS;
    while (try_lock(f, type)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return system_failed(f, "lock", error);
        if (!pause_before(f, key, until_ns, &delay_ms))
            return error_set(error, GW_TIMEOUT, "store %s: locked by another process", f->path);
    }
    return GW_OK;
}

// ---- Reading ------------------------------------------------------------------------------------
static bool read_all(int fd, void *out, size_t size, off_t at) {
    uint8_t *to = out;
    while (size > 0) {
        ssize_t n = pread(fd, to, size, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        to += n;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

typedef struct record_sizes {
    uint32_t key, value, check;
} record_sizes;

static uint32_t check_of(const record_sizes *r) {
    return frame_check(r->key | (uint64_t)r->value << 32);
}

static bool is_record(const record_sizes *r) {
    return r->check == check_of(r) && r->key > 0 && r->key <= LIMIT_STORE_KEY_BYTES &&
           r->value <= LIMIT_STORE_VALUE_BYTES;
}

// Adds the record at |read_to| to the table. *out_is_whole is false at the end, and at the rest of a killed writer's record.
static gw_status read_record(file *f, bool *out_is_whole, gw_error *error) {
    record_sizes sizes;
    *out_is_whole = false;
    if (!read_all(f->fd, &sizes, sizeof sizes, f->read_to) || !is_record(&sizes)) return GW_OK;
    uint8_t *both = mem_alloc(sizes.key + sizes.value + 1);
    if (!both) return error_set(error, GW_NO_MEMORY, "store %s: no memory", f->path);
    gw_status status = GW_OK;
    size_t size = sizes.key + sizes.value;
    if (read_all(f->fd, both, size, f->read_to + HEADER_BYTES)) {
        char key[LIMIT_STORE_KEY_BYTES + 1];
        memcpy(key, both, sizes.key);
        key[sizes.key] = '\0';
        if (!store_table_find(&f->table, key))
            status = store_table_set(&f->table, key, both + sizes.key, sizes.value, 0, error);
        if (!status) {
            f->read_to += HEADER_BYTES + (off_t)size;
            *out_is_whole = true;
            store_notify(&f->store, key, both + sizes.key, sizes.value);
        }
    }
    mem_free(both);
    return status;
}

static gw_status read_new(file *f, gw_error *error) {
    bool is_whole = true;
    gw_status status = GW_OK;
    while (is_whole && !status) status = read_record(f, &is_whole, error);
    return status;
}

// ---- Writing ------------------------------------------------------------------------------------
static bool write_all(int fd, const void *data, size_t size, off_t at) {
    const uint8_t *from = data;
    while (size > 0) {
        ssize_t n = pwrite(fd, from, size, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        from += n;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

// Cuts off the partial record of a killed writer behind the last whole record (STORE-4).
static gw_status append(file *f, const char *key, const void *value, size_t size, gw_error *error) {
    bytes record = { 0 };
    record_sizes sizes = { .key = (uint32_t)strlen(key), .value = (uint32_t)size };
    sizes.check = check_of(&sizes);
    bytes_put(&record, &sizes, sizeof sizes);
    bytes_put(&record, key, sizes.key);
    bytes_put(&record, value, size);
    gw_status status = GW_OK;
    if (record.failed) {
        status = error_set(error, GW_NO_MEMORY, "store %s: no memory", f->path);
    } else if (ftruncate(f->fd, f->read_to) ||
               !write_all(f->fd, record.data, record.size, f->read_to)) {
        status = system_failed(f, "write", error);
    }
    bytes_fini(&record);
    return status;
}

static gw_status set_locked(file *f, const char *key, const void *value, size_t size, bool *out_set,
                            bytes *out_found, gw_error *error) {
    gw_status status = read_new(f, error);
    if (status) return status;
    const store_entry *entry = store_table_find(&f->table, key);
    *out_set = !entry;
    if (entry) return out_found ? store_give_value(entry, out_found, error) : GW_OK;
    status = append(f, key, value, size, error);
    return status ? status : read_new(f, error);
}

static gw_status file_set(store *st, const char *key, const void *value, size_t size,
                          int64_t until_ns, bool registers, bool *out_set, bytes *out_found,
                          gw_error *error) {
    file *f = (file *)st;
    (void)registers;
    gw_status status = lock(f, F_WRLCK, key, until_ns, error);
    if (status) return status;
    status = set_locked(f, key, value, size, out_set, out_found, error);
    unlock(f);
    return status;
}

static gw_status file_wait(store *st, const char *key, int64_t until_ns, bytes *out,
                           gw_error *error) {
    file *f = (file *)st;
    int64_t delay_ms = POLL_FIRST_MS;
    for (;;) {
        gw_status status = lock(f, F_RDLCK, key, until_ns, error);
        if (status) return status;
        status = read_new(f, error);
        unlock(f);
        if (status) return status;
        const store_entry *entry = store_table_find(&f->table, key);
        if (entry) return store_give_value(entry, out, error);
        if (!pause_before(f, key, until_ns, &delay_ms))
            return error_set(error, GW_TIMEOUT, "store %s: no worker has set %s", f->path, key);
    }
}

// ---- Watching -----------------------------------------------------------------------------------
// A record that another process is writing now is found at the next read.
static void look(timer *t) {
    file *f = (file *)((char *)t - offsetof(file, look));
    if (!try_lock(f, F_RDLCK)) {
        read_new(f, NULL);
        unlock(f);
    }
    env_set_timer(f->store.env, t, env_now_ns(f->store.env) + WATCH_MS * MS);
}

// Reads the file again, to report the values in the order in which they were written.
static gw_status file_watch(store *st, gw_error *error) {
    file *f = (file *)st;
    (void)error;
    store_table_fini(&f->table);
    store_table_init(&f->table);
    f->read_to = sizeof magic - 1;
    f->look.fire = look;
    env_set_timer(st->env, &f->look, env_now_ns(st->env));
    return GW_OK;
}

// ---- Life ---------------------------------------------------------------------------------------
static void file_close(store *st) {
    file *f = (file *)st;
    env_set_timer(st->env, &f->look, ENV_NEVER);
    if (f->fd >= 0) close(f->fd);
    store_table_fini(&f->table);
    mem_free(f->path);
    mem_free(f);
}

static const store_class file_class = { .set = file_set,
                                        .wait = file_wait,
                                        .watch = file_watch,
                                        .attend = file_attend,
                                        .is_attended = file_is_attended,
                                        .close = file_close };

// The first process writes the magic; half of it is what a killed process has left.
static gw_status check_magic(file *f, gw_error *error) {
    char found[sizeof magic - 1] = { 0 };
    ssize_t n = pread(f->fd, found, sizeof found, 0);
    if (n < 0) return system_failed(f, "read", error);
    f->read_to = sizeof found;
    if (memcmp(found, magic, (size_t)n) != 0)
        return error_set(error, GW_INVALID,
                         "%s is not the file of a job, but a file of another kind", f->path);
    if ((size_t)n == sizeof found || write_all(f->fd, magic, sizeof found, 0)) return GW_OK;
    return system_failed(f, "write", error);
}

static gw_status open_file(file *f, gw_error *error) {
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (f->fd < 0) return system_failed(f, "open", error);
    struct stat about;
    if (fstat(f->fd, &about)) return system_failed(f, "open", error);
    if (!S_ISREG(about.st_mode))
        return error_set(error, GW_INVALID, "%s is not the file of a job: it is not a regular file",
                         f->path);
    int64_t until_ns = env_now_ns(f->store.env) + LIMIT_HANDSHAKE_MS * MS;
    gw_status status = lock(f, F_WRLCK, f->path, until_ns, error);
    if (status) return status;
    status = check_magic(f, error);
    unlock(f);
    return status;
}

gw_status store_open_file(env *e, const char *path, store **out, gw_error *error) {
    file *f = mem_calloc(sizeof *f);
    if (!f) return error_set(error, GW_NO_MEMORY, "no memory for the store");
    f->store = (store){ .class = &file_class, .env = e };
    f->fd = -1;
    store_table_init(&f->table);
    f->path = mem_strdup(path);
    gw_status status =
        f->path ? open_file(f, error) : error_set(error, GW_NO_MEMORY, "no memory for the store");
    if (status) {
        file_close(&f->store);
        return status;
    }
    *out = &f->store;
    return GW_OK;
}
