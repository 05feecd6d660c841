// The functions of gradwire/trace.h.
#include <gradwire/trace.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/scope.h"
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 128 };

struct gw_span {
    gw_handle handle;
    uint64_t number;
    uint32_t name;
    bool is_closed;
};

static uint32_t name_of(const char *text) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s", text ? text : "");
    return trace_name(name);
}

static void close_span(gw_span *x) {
    if (!x->is_closed && trace_is_on(TRACE_USER))
        trace_record(TRACE_SPAN_CLOSED, -1, x->number, 0, x->name);
    x->is_closed = true;
}

static void destroy(gw_handle *h) {
    gw_span *x = (gw_span *)h;
    close_span(x);
    mem_give(x, sizeof *x);
}

static const handle_class span_class = { .name = "span", .destroy = destroy };
static gw_span poison = { .handle = { &span_class, HANDLE_IMMORTAL }, .is_closed = true };

gw_span *gw_span_open(gw_scope *s, const char *name) {
    static _Atomic uint64_t last;
    if (s->error) return &poison;
    gw_span *x = mem_take_zeros(sizeof *x);
    if (!x) {
        scope_fail(s, GW_NO_MEMORY, "gw_span_open: no memory for a span");
        return &poison;
    }
    handle_init(&x->handle, &span_class);
    x->number = atomic_fetch_add(&last, 1) + 1;
    x->name = name_of(name);
    if (trace_is_on(TRACE_USER)) trace_record(TRACE_SPAN_OPENED, -1, x->number, 0, x->name);
    return scope_own_or(s, x, &poison);
}

void gw_span_close(gw_span *x) {
    if (x == &poison) return;
    if (x->is_closed && check_enabled) check_die("gw_span_close: the span is closed already");
    close_span(x);
}

void gw_mark(gw_scope *s, const char *text) {
    if (!s->error && trace_is_on(TRACE_USER)) trace_record(TRACE_MARK, -1, 0, 0, name_of(text));
}

void gw_counter(gw_scope *s, const char *name, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!s->error && trace_is_on(TRACE_USER))
        trace_record(TRACE_COUNTER, -1, 0, bits, name_of(name));
}
