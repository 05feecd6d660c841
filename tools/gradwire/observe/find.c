#include "observe/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/clean.h"
#include "system/proc.h"

#define LINK_BEGINNING "/memfd:" TRACE_MEMORY_NAME

typedef struct seen {
    dev_t device;
    ino_t number;
    bool is_held;  // by the process that is wanted
    bool is_read;  // the next of the images is of it
} seen;

typedef bool image_taker(int fd, image *out, char *why, size_t why_size);

typedef struct finding {
    found *out;
    image_taker *take;
    seen *files;
    int file_count;
    pid_t wanted;  // 0: no process in particular
    bool failed;   // without memory
} finding;

// ---- Files --------------------------------------------------------------------------------------

static void *grow(finding *f, void *array, int count, size_t size) {
    if (count & (count - 1)) return array;  // it doubles at powers of two
    void *larger = realloc(array, (size_t)(count ? 2 * count : 1) * size);
    if (!larger) f->failed = true;
    return larger;
}

static void read_wchan(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = '\0';
    if (strcmp(out, "0") == 0) out[0] = '\0';
    clean_text(out);
}

// Where the threads of its bodies sleep.
static void read_wchans(const image *x, trace_table *t) {
    char path[64];
    for (int i = 0; t && i < t->activity_count; i++) {
        trace_activity *a = &t->activities[i];
        if (a->kind != TRACE_RUNS || !a->tid) continue;
        snprintf(path, sizeof path, "/proc/%d/task/%d/wchan", (int)x->pid, a->tid);
        read_wchan(path, a->in, sizeof a->in);
    }
}

void find_life(image *x) {
    proc p;
    char path[64];
    bool is_it = proc_read(x->pid, &p) && p.start_time == x->start_time && !proc_is_zombie(&p);
    x->life = !is_it                             ? IMAGE_HAS_ENDED
              : p.state == 'T' || p.state == 't' ? IMAGE_STOPPED
                                                 : IMAGE_RUNS;
    if (!is_it) return;
    snprintf(path, sizeof path, "/proc/%d/wchan", (int)x->pid);
    read_wchan(path, x->wchan, sizeof x->wchan);
    for (int i = 0; i < x->agent_count; i++) read_wchans(x, x->agents[i].table);
}

// Whether a process has taken the memory, and finished to open it.
static bool is_open(int fd) {
    trace_header h;
    return pread(fd, &h, sizeof h, 0) == sizeof h && h.owner > 0 && h.magic[0];
}

static bool take(finding *f, int fd, pid_t holder) {
    found *out = f->out;
    char why[IMAGE_WHY_SIZE];
    if (!is_open(fd)) return false;
    image *larger = grow(f, out->images, out->count, sizeof *larger);
    if (!larger) return false;
    out->images = larger;
    image *x = &out->images[out->count];
    if (f->take(fd, x, why, sizeof why)) {
        find_life(x);
        out->count++;
        return true;
    }
    if (!out->refused_count++)
        snprintf(out->refused, sizeof out->refused,
                 "the records of a worker, which process %d has open: %s", (int)holder, why);
    return false;
}

static seen *find_seen(finding *f, const struct stat *is) {
    for (int i = 0; i < f->file_count; i++)
        if (f->files[i].device == is->st_dev && f->files[i].number == is->st_ino)
            return &f->files[i];
    return NULL;
}

static void look_at(finding *f, int fd, pid_t holder) {
    struct stat is;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return;
    seen *file = find_seen(f, &is);
    if (!file) {
        seen *larger = grow(f, f->files, f->file_count, sizeof *larger);
        if (!larger) return;
        f->files = larger;
        file = &f->files[f->file_count++];
        *file = (seen){ .device = is.st_dev, .number = is.st_ino };
        file->is_read = take(f, fd, holder);
    }
    file->is_held |= holder == f->wanted;
}

// ---- Processes ----------------------------------------------------------------------------------

// Opens the next one of the memories among the descriptors in |folder|, /proc/PID/fd; -1: there are no more.
static int open_next_memory(DIR *folder, int flags) {
    for (struct dirent *e; (e = readdir(folder));) {
        char link[sizeof LINK_BEGINNING];
        ssize_t n = readlinkat(dirfd(folder), e->d_name, link, sizeof link - 1);
        if (n != sizeof link - 1 || memcmp(link, LINK_BEGINNING, sizeof link - 1) != 0) continue;
        // By now it may be something else: opening it must not wait.
        int fd = openat(dirfd(folder), e->d_name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0) return fd;
    }
    return -1;
}

static DIR *open_descriptors(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return opendir(path);
}

static bool is_memory_of(int fd, const image *x) {
    trace_header h;
    return pread(fd, &h, sizeof h, 0) == sizeof h && h.owner == x->pid &&
           h.start_time == x->start_time;
}

int find_open(const image *x, int flags) {
    DIR *folder = open_descriptors(x->pid);
    int fd = -1;
    while (folder && (fd = open_next_memory(folder, flags)) >= 0 && !is_memory_of(fd, x)) close(fd);
    if (folder) closedir(folder);
    return fd;
}

static void look_at_descriptors(finding *f, pid_t pid, DIR *folder) {
    for (int fd; !f->failed && (fd = open_next_memory(folder, O_RDONLY)) >= 0;) {
        look_at(f, fd, pid);
        close(fd);
    }
}

static bool is_ours(pid_t pid) {
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &is) == 0 && is.st_uid == geteuid();
}

static void look_at_process(finding *f, pid_t pid) {
    DIR *folder = is_ours(pid) ? open_descriptors(pid) : NULL;
    if (!folder) return;
    look_at_descriptors(f, pid, folder);
    closedir(folder);
}

static bool look_everywhere(finding *f) {
    proc *all = NULL;
    int count = proc_list(&all);
    for (int i = 0; i < count && !f->failed; i++) look_at_process(f, all[i].pid);
    free(all);
    return count >= 0;
}

// ---- Which are wanted ---------------------------------------------------------------------------

void find_key(const image *x, char out[FIND_KEY_SIZE]) {
    proc p;
    if (x->job[0] || x->mark[0])
        snprintf(out, FIND_KEY_SIZE, "%s", x->job[0] ? x->job : x->mark);
    else if (x->life != IMAGE_HAS_ENDED && x->life != IMAGE_LIFE_UNKNOWN && proc_read(x->pid, &p))
        snprintf(out, FIND_KEY_SIZE, "parent-%d", (int)p.parent);
    else
        snprintf(out, FIND_KEY_SIZE, "?");
}

static int first_rank(const image *x) {
    return x->agent_count ? x->agents[0].rank : -1;
}

static int by_job_and_rank(const void *a, const void *b) {
    const image *x = a, *y = b;
    char key_x[FIND_KEY_SIZE], key_y[FIND_KEY_SIZE];
    find_key(x, key_x);
    find_key(y, key_y);
    int order = strcmp(key_x, key_y);
    if (order) return order;
    if (first_rank(x) != first_rank(y)) return first_rank(x) < first_rank(y) ? -1 : 1;
    return (x->opened.monotonic_ns > y->opened.monotonic_ns) -
           (x->opened.monotonic_ns < y->opened.monotonic_ns);
}

static bool is_of_job(const image *x, const char *wanted) {
    char key[FIND_KEY_SIZE];
    find_key(x, key);
    return strcmp(key, wanted) == 0 || strcmp(x->job, wanted) == 0 ||
           strncmp(x->mark, wanted, strlen(wanted)) == 0;
}

// A worker by its number, else all that its launcher has open, else a job.
typedef enum choice { BY_WORKER, BY_LAUNCHER, BY_JOB, CHOICES } choice;

static bool is_chosen(const finding *f, const image *x, bool is_held, choice how,
                      const char *wanted) {
    if (how == BY_WORKER) return f->wanted && x->pid == f->wanted;
    if (how == BY_LAUNCHER) return is_held;
    return is_of_job(x, wanted);
}

// Leaves only the chosen ones.
static void choose(const finding *f, const char *wanted) {
    found *out = f->out;
    bool *is_held = calloc((size_t)out->count + 1, sizeof *is_held), any = false;
    int kept = 0;
    for (int i = 0, image_index = 0; is_held && i < f->file_count; i++)
        if (f->files[i].is_read) is_held[image_index++] = f->files[i].is_held;
    choice how = BY_WORKER;
    for (; is_held && how < CHOICES && !any; how++)
        for (int i = 0; i < out->count && !any; i++)
            any = is_chosen(f, &out->images[i], is_held[i], how, wanted);
    for (int i = 0; i < out->count; i++) {
        if (any && is_chosen(f, &out->images[i], is_held[i], how - 1, wanted))
            out->images[kept++] = out->images[i];
        else
            image_free(&out->images[i]);
    }
    out->count = kept;
    free(is_held);
}

static pid_t process_of(const char *wanted) {
    char *end;
    errno = 0;
    long pid = strtol(wanted, &end, 10);
    return *wanted >= '1' && *wanted <= '9' && !*end && !errno && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static bool refuse_none(const finding *f, const char *wanted, char *why, size_t why_size) {
    char shown[FIND_KEY_SIZE];
    snprintf(shown, sizeof shown, "%s", wanted);
    clean_text(shown);
    proc p;
    if (f->wanted && proc_read(f->wanted, &p) && !is_ours(f->wanted))
        snprintf(why, why_size, "process %d belongs to another user", (int)f->wanted);
    else if (f->wanted)
        snprintf(why, why_size, "%d is no worker or launcher of this user on this host, and no job",
                 (int)f->wanted);
    else
        snprintf(why, why_size, "there is no job %s of this user on this host; see gradwire ps",
                 shown);
    size_t used = strlen(why);
    if (f->out->refused_count && used < why_size)
        snprintf(why + used, why_size - used, "; %d of the memories cannot be read; the first: %s",
                 f->out->refused_count, f->out->refused);
    return false;
}

static bool find(const char *wanted, image_taker *take, found *out, char *why, size_t why_size) {
    *out = (found){ 0 };
    finding f = { .out = out, .take = take, .wanted = wanted ? process_of(wanted) : 0 };
    bool ok = look_everywhere(&f);
    if (!ok)
        snprintf(why, why_size, "/proc cannot be read: %s", strerror(errno));
    else if (f.failed)
        snprintf(why, why_size, "no memory");
    ok = ok && !f.failed;
    if (ok && wanted) choose(&f, wanted);
    if (ok && wanted && !out->count) ok = refuse_none(&f, wanted, why, why_size);
    free(f.files);
    if (!ok) find_free(out);
    if (ok && out->count)
        qsort(out->images, (size_t)out->count, sizeof *out->images, by_job_and_rank);
    return ok;
}

bool find_images(const char *wanted, found *out, char *why, size_t why_size) {
    return find(wanted, image_take, out, why, why_size);
}

bool find_tables(const char *wanted, found *out, char *why, size_t why_size) {
    return find(wanted, image_take_tables, out, why, why_size);
}

void find_free(found *f) {
    image_free_all(f->images, f->count);
    *f = (found){ 0 };
}

// ---- One job ------------------------------------------------------------------------------------

// The names of the jobs of |f|, which are sorted, "a, b". Returns how many.
static int list_jobs(const found *f, char *out, size_t size) {
    char last[FIND_KEY_SIZE] = "", key[FIND_KEY_SIZE];
    int count = 0;
    size_t used = 0;
    for (int i = 0; i < f->count; i++) {
        find_key(&f->images[i], key);
        if (count && strcmp(key, last) == 0) continue;
        if (used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", count ? ", " : "", key);
        snprintf(last, sizeof last, "%s", key);
        count++;
    }
    return count;
}

// Two jobs may have the same id: then a live worker has the rank of another one, with another mark.
static const image *find_second_job(const found *f, const image **out_first) {
    for (int i = 0; i + 1 < f->count; i++) {
        const image *x = &f->images[i], *y = &f->images[i + 1];
        bool is_same_rank = first_rank(x) >= 0 && first_rank(x) == first_rank(y);
        *out_first = x;
        if (is_same_rank && x->life != IMAGE_HAS_ENDED && y->life != IMAGE_HAS_ENDED &&
            strcmp(x->mark, y->mark) != 0)
            return y;
    }
    return NULL;
}

static bool find_one(const char *wanted, image_taker *take, found *out, char *why,
                     size_t why_size) {
    char list[FIND_WHY_SIZE / 2] = "", key[FIND_KEY_SIZE];
    const image *first = NULL, *second;
    if (!find(wanted, take, out, why, why_size)) return false;
    int count = list_jobs(out, list, sizeof list);
    if (count == 1 && wanted && process_of(wanted)) {
        find_key(&out->images[0], key);
        find_free(out);
        if (!find(key, take, out, why, why_size)) return false;
    }
    second = find_second_job(out, &first);
    if (count == 1 && !second) return true;
    if (count > 1)
        snprintf(why, why_size, "there are several jobs; choose one of %s", list);
    else if (count == 0)
        snprintf(why, why_size, "no worker of this user runs on this host");
    else
        snprintf(why, why_size, "two jobs have the id %s; choose one by its mark: %s, %s", list,
                 first->mark, second->mark);
    find_free(out);
    return false;
}

bool find_job(const char *wanted, found *out, char *why, size_t why_size) {
    return find_one(wanted, image_take, out, why, why_size);
}

bool find_job_tables(const char *wanted, found *out, char *why, size_t why_size) {
    return find_one(wanted, image_take_tables, out, why, why_size);
}
