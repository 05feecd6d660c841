#include "timeline/format.h"

#include <errno.h>
#include <stdlib.h>

#include "timeline/writer.h"

bool format_open(const format *of, size_t state_size, FILE *to, format *out) {
    writer *w = calloc(1, state_size);
    if (!w) return false;
    w->to = to;
    *out = *of;
    out->to.state = w;
    return true;
}

bool format_close(void *state, void (*fini)(void *state)) {
    bool ok = writer_close(state);
    int error = errno;
    fini(state);
    free(state);
    errno = error;
    return ok;
}
