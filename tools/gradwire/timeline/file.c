#include "timeline/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/dump.h"
#include "timeline/format.h"
#include "timeline/timeline.h"

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

bool trace_file_open(trace_file *f, const char *path, bool is_json) {
    *f = (trace_file){ .path = path };
    if (is_json || ends_with(path, ".json")) f->format = TRACE_JSON;
    if (!is_json && ends_with(path, ".gwt")) f->format = TRACE_RECORDS_THEMSELVES;
    if (asprintf(&f->temporary, "%s.XXXXXX", path) < 0) {
        f->temporary = NULL;
        return errno = ENOMEM, false;
    }
    int fd = mkostemp(f->temporary, O_CLOEXEC);
    f->to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f->to) return true;
    int error = errno;
    if (fd >= 0) close(fd);
    if (fd >= 0) unlink(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
    errno = error;
    return false;
}

static bool write_timeline(const trace_file *f, const image *images, int count,
                           const clocks *clocks) {
    format x;
    bool is_open = f->format == TRACE_JSON ? chrome_open(f->to, &x) : perfetto_open(f->to, &x);
    bool has_memory = is_open && timeline_visit(images, count, clocks, &x.to);
    bool ok = is_open && x.close(x.to.state);
    if (!has_memory) errno = ENOMEM;
    return ok && has_memory;
}

static bool write_records(const trace_file *f, const image *images, int count) {
    bytes content = { 0 };
    dump_encode(images, count, DUMP_READ_BYTES_MAX, &content);
    if (content.failed) errno = ENOMEM;
    bool ok = !content.failed && fwrite(content.data, 1, content.size, f->to) == content.size;
    int error = errno;
    bytes_fini(&content);
    errno = error;
    return ok;
}

bool trace_file_write(trace_file *f, const image *images, int count, const clocks *clocks) {
    bool ok = f->format == TRACE_RECORDS_THEMSELVES ? write_records(f, images, count)
                                                    : write_timeline(f, images, count, clocks);
    int error = errno;
    if (fclose(f->to) != 0 && ok) {
        ok = false;
        error = errno;
    }
    f->to = NULL;
    errno = error;
    if (!ok || rename(f->temporary, f->path) != 0) return false;
    free(f->temporary);
    f->temporary = NULL;
    return true;
}

void trace_file_close(trace_file *f) {
    if (f->to) fclose(f->to);
    if (f->temporary) unlink(f->temporary);
    free(f->temporary);
    *f = (trace_file){ 0 };
}
