#include "timeline/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH_BYTES = 256 * 1024 };

void writer_fail(writer *w, int error) {
    if (!w->failed) w->error = error;
    w->failed = true;
}

static void write_all(writer *w) {
    if (!w->failed && w->size && fwrite(w->data, 1, w->size, w->to) != w->size)
        writer_fail(w, errno);
    w->size = 0;
}

void writer_flush(writer *w) {
    if (w->size >= FLUSH_BYTES) write_all(w);
}

uint8_t *writer_extend(writer *w, size_t size) {
    while (w->size + size > w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 256;
        uint8_t *larger = realloc(w->data, capacity);
        if (!larger) {
            writer_fail(w, ENOMEM);
            return NULL;
        }
        w->data = larger;
        w->capacity = capacity;
    }
    w->size += size;
    return w->data + w->size - size;
}

void writer_put(writer *w, const void *data, size_t size) {
    uint8_t *out = writer_extend(w, size);
    if (out && size) memcpy(out, data, size);
}

void writer_put_text(writer *w, const char *text) {
    writer_put(w, text, strlen(text));
}

bool writer_close(writer *w) {
    write_all(w);
    if (!w->failed && fflush(w->to) != 0) writer_fail(w, errno);
    free(w->data);
    errno = w->error;
    return !w->failed;
}
