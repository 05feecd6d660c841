// Note [Writing without the library's locks]
//
// The thread that reads the numbers and writes them to the file has the lowest priority, so that training continues at
// its speed. When the processors are busy, it stands still for long, and must not hold anything that other threads
// need: it allocates no memory, and takes no lock of the library. It reads all numbers once: for their checksums and
// for the file. So the header, which has the checksums, is written behind them, by another thread; its size does not
// depend on them.
#include "checkpoint/part.h"

#include "base/crc32c.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/system_error.h"
#include "checkpoint/file.h"
#include "tensor/pack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, LOWEST_PRIORITY = 19 };

// Numbers of one entry, and their place in the file.
typedef struct stretch {
    packed numbers;
    size_t size;
    uint64_t at;
} stretch;

typedef struct low_writer {
    int fd;
    const stretch *items;
    int count;
    part_options options;
    int64_t began_ns;
    uint64_t written;
    uint32_t *sums;    // by item; results
    int error_number;  // 0: none
} low_writer;

// ---- The thread ---------------------------------------------------------------------------------

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void keep_to_rate(const low_writer *w) {
    if (!w->options.bytes_per_second) return;
    double due_s = (double)w->written / (double)w->options.bytes_per_second;
    int64_t left_ns = w->began_ns + (int64_t)(due_s * 1e9) - now_ns();
    // In short sleeps, so that the end of the agent does not wait for a long one.
    for (; left_ns > 0 && !*w->options.stops;
         left_ns = w->began_ns + (int64_t)(due_s * 1e9) - now_ns()) {
        struct timespec nap = { .tv_nsec = left_ns < 10000000 ? left_ns : 10000000 };
        nanosleep(&nap, NULL);
    }
}

static bool write_piece(low_writer *w, const uint8_t *from, size_t size, uint64_t at) {
    while (size > 0) {
        ssize_t n = pwrite(w->fd, from, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->error_number = n ? errno : EIO;
            return false;
        }
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_stretch(low_writer *w, int i) {
    const stretch *x = &w->items[i];
    for (size_t done = 0; done < x->size;) {
        size_t size = x->size - done < PIECE_BYTES ? x->size - done : PIECE_BYTES;
        if (*w->options.stops) w->error_number = ECANCELED;
        if (w->error_number) return false;
        w->sums[i] = crc32c(w->sums[i], x->numbers.bytes + done, size);
        if (!write_piece(w, x->numbers.bytes + done, size, x->at + done)) return false;
        done += size;
        w->written += size;
        keep_to_rate(w);
    }
    return true;
}

static void *run(void *argument) {
    low_writer *w = argument;
    // Of this thread alone, on Linux. Without it the numbers are written all the same.
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_PRIORITY);
    w->began_ns = now_ns();
    for (int i = 0; i < w->count && write_stretch(w, i); i++) continue;
    return NULL;
}

// Signals are the program's own: its handlers do not run on this thread.
static bool run_thread(gw_scope *s, low_writer *w) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return scope_fail(s, GW_SYSTEM, "pthread_create: %s",
                          system_thread_error_text(failed).text);
    pthread_join(thread, NULL);
    if (w->error_number == ECANCELED)
        return scope_fail(s, GW_CANCELLED,
                          "this worker left the job before its part of the checkpoint was written");
    if (!w->error_number) return true;
    errno = w->error_number;
    return file_failed(s, "write");
}

// ---- The file -----------------------------------------------------------------------------------

static void release(stretch *items, int count) {
    for (int i = 0; i < count; i++) packed_release(&items[i].numbers);
    mem_free(items);
}

static stretch *pack(checkpoint *c, size_t header_size) {
    stretch *items = mem_calloc(((size_t)c->count + 1) * sizeof *items);
    for (int i = 0; items && i < c->count; i++) {
        const checkpoint_entry *e = &c->items[i];
        items[i].size = (size_t)(e->end - e->begin);
        items[i].at = header_size + e->begin;
        if (tensor_pack(e->x, &items[i].numbers)) continue;
        release(items, i);
        items = NULL;
    }
    if (!items) scope_fail(c->scope, GW_NO_MEMORY, "no memory for a list of %d tensors", c->count);
    return items;
}

static bool write_numbers(checkpoint *c, const file *f, size_t header_size, part_options options,
                          uint32_t *sums) {
    stretch *items = pack(c, header_size);
    if (!items) return false;
    low_writer w = {
        .fd = f->fd, .items = items, .count = c->count, .options = options, .sums = sums
    };
    bool is_written = run_thread(c->scope, &w);
    release(items, c->count);
    return is_written;
}

static bool encode(checkpoint *c, const uint32_t *sums, bytes *out) {
    checkpoint_put_checks(c, sums);
    if (gw_ok(c->scope)) checkpoint_encode_header(c, out);
    return gw_ok(c->scope);
}

static void write_all(checkpoint *c, file *f, part_options options, part_facts *out) {
    uint32_t *sums = gw_alloc(c->scope, ((size_t)c->count + 1) * sizeof *sums);
    bytes first = { 0 }, header = { 0 };
    for (int i = 0; sums && i < c->count; i++) sums[i] = 0;
    if (sums && encode(c, NULL, &first) && write_numbers(c, f, first.size, options, sums) &&
        encode(c, sums, &header) && file_write(f, header.data, header.size)) {
        assert(header.size == first.size);
        failpoint("checkpoint_part");
        out->header = crc32c(0, header.data, header.size);
        out->size = header.size;
        for (int i = 0; i < c->count; i++) out->size += c->items[i].end - c->items[i].begin;
        if (fsync(f->fd)) file_failed(c->scope, "sync");
    }
    bytes_fini(&first);
    bytes_fini(&header);
}

bool part_write(checkpoint *c, const char *path, part_options options, part_facts *out) {
    file f = file_make(c->scope, path);
    if (f.fd < 0) return false;
    checkpoint_lay_out(c);
    write_all(c, &f, options, out);
    if (close(f.fd) && gw_ok(c->scope)) file_failed(c->scope, "close");
    return gw_ok(c->scope);
}
