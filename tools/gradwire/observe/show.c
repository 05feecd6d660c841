#include "observe/show.h"

#include <gradwire/status.h>

#include <stdio.h>
#include <string.h>

#include "observe/clean.h"
#include "trace/kinds.h"

show_time show_duration(int64_t ns) {
    show_time out;
    if (ns < 0) ns = 0;
    if (ns < INT64_C(10000000000))
        snprintf(out.text, sizeof out.text, "%.1f s", (double)ns * 1e-9);
    else
        snprintf(out.text, sizeof out.text, "%lld s", (long long)(ns / 1000000000));
    return out;
}

show_bytes show_size(uint64_t size) {
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    show_bytes out;
    double x = (double)size;
    int unit = 0;
    for (; x >= 999.5; unit++) x /= 1000;
    snprintf(out.text, sizeof out.text, unit && x < 9.95 ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return out;
}

const char *show_life(image_life life) {
    static const char *const names[] = { "unknown", "runs", "stopped", "ended" };
    return names[life];
}

const char *show_phase(trace_phase_of_worker phase) {
    static const char *const names[] = { "joining", "serving", "leaving", "left", "fenced" };
    return names[phase];
}

const char *show_kind(trace_activity_kind kind) {
    static const char *const names[] = { "runs", "queued", "reply",    "collective",
                                         "pass", "turn",   "shutdown", "other" };
    return names[kind];
}

_Static_assert(TRACE_WORKER_PHASES == 5 && TRACE_ACTIVITY_KINDS == 8 && IMAGE_LIFE_COUNT == 4,
               "the names above");

// What the value of a record means, ", 4096 bytes"; "": nothing.
static void show_value(const image_record *r, char *out, size_t size) {
    unsigned long long value = r->value;
    double number;
    out[0] = '\0';
    switch (r->kind) {
    case TRACE_COLLECTIVE_ENTERED:
    case TRACE_CHECKPOINT_BEGUN: snprintf(out, size, ", %llu bytes", value); break;
    case TRACE_JOINED:
    case TRACE_MEMBER_JOINED:
    case TRACE_MEMBER_SUSPECTED:
    case TRACE_MEMBER_RECOVERED:
    case TRACE_MEMBER_LEFT:
    case TRACE_MEMBER_DIED: snprintf(out, size, ", rank %llu", value); break;
    case TRACE_REFERENCE_MADE: snprintf(out, size, ", of rank %llu", value); break;
    case TRACE_REFERENCE_FORKED:
    case TRACE_REFERENCE_RELEASED: snprintf(out, size, ", held by rank %llu", value); break;
    case TRACE_FETCH_BEGUN: snprintf(out, size, ", from rank %llu", value); break;
    case TRACE_QUEUE_FULL:
    case TRACE_RECONNECTING: snprintf(out, size, ", to rank %llu", value); break;
    case TRACE_RESENT: snprintf(out, size, ", %llu", value); break;
    case TRACE_MESSAGE_SENT:
    case TRACE_MESSAGE_RECEIVED:
        snprintf(out, size, ", %s rank %d, %llu bytes",
                 r->kind == TRACE_MESSAGE_SENT ? "to" : "from", trace_message_rank(r->id), value);
        break;
    case TRACE_OP_ENDED:
        snprintf(out, size, ", %llu bytes", (unsigned long long)trace_op_bytes(value));
        break;
    case TRACE_CALL_MADE: snprintf(out, size, ", to rank %llu", value); break;
    case TRACE_BODY_BEGUN: snprintf(out, size, ", for rank %llu", value); break;
    case TRACE_OVERTAKEN: snprintf(out, size, ", %llu", value); break;
    case TRACE_GROUP_OPENED:
    case TRACE_ELASTIC_STEP: snprintf(out, size, ", %llu members", value); break;
    case TRACE_SLOW_WAIT:
    case TRACE_SLOW_BODY: snprintf(out, size, ", %.3f s", (double)value * 1e-9); break;
    case TRACE_COUNTER:
        memcpy(&number, &value, sizeof number);
        snprintf(out, size, " = %g", number);
        break;
    case TRACE_FENCED:
    case TRACE_FAILED:
    case TRACE_GROUP_BROKEN:
    case TRACE_CHECKPOINT_ENDED:
    case TRACE_COLLECTIVE_ENDED:
    case TRACE_PASS_ENDED:
    case TRACE_PART_ENDED:
    case TRACE_STEP_ENDED:
    case TRACE_CALL_ENDED:
    case TRACE_BODY_ENDED:
    case TRACE_FETCH_ENDED:
    case TRACE_QUEUE_HAS_ROOM:
    case TRACE_MODULE_ENDED:
        if (value <= INT32_MAX) snprintf(out, size, ", %s", gw_status_name((gw_status)value));
        break;
    default: break;
    }
}

void show_record(const image *x, const image_record *r, char *out, size_t size) {
    const trace_kind_info *k = &trace_kinds[r->kind];
    const char *name = image_name(x, r);
    const char *phase = k->phase == TRACE_BEGIN ? "begin " : k->phase == TRACE_END ? "end " : "";
    char value[64], id[32] = "";
    show_value(r, value, sizeof value);
    if (k->phase == TRACE_BEGIN || k->phase == TRACE_END)
        snprintf(id, sizeof id, ", %llx", (unsigned long long)r->id);
    snprintf(out, size, "%s%s%s%.300s%s%s", phase, k->text, *name ? ": " : "", name, value, id);
    clean_text(out);  // it may be cut inside a character
}
