#include "timeline/arguments.h"

#include <gradwire/status.h>

#include "trace/kinds.h"

void arguments_add_number(visit_event *e, visit_argument_name name, uint64_t number) {
    if (e->argument_count < VISIT_ARGUMENTS)
        e->arguments[e->argument_count++] = (visit_argument){ .name = name, .number = number };
}

void arguments_add_text(visit_event *e, visit_argument_name name, const char *text) {
    if (e->argument_count < VISIT_ARGUMENTS)
        e->arguments[e->argument_count++] = (visit_argument){ .name = name, .text = text };
}

static void add_status(visit_event *e, uint64_t value) {
    if (value == GW_OK) return;
    e->has_failed = true;
    arguments_add_text(e, VISIT_STATUS,
                       value <= INT32_MAX ? gw_status_name((gw_status)value) : "?");
}

static bool has_status(uint8_t kind) {
    return kind == TRACE_COLLECTIVE_ENDED || kind == TRACE_PASS_ENDED || kind == TRACE_STEP_ENDED ||
           kind == TRACE_CALL_ENDED || kind == TRACE_BODY_ENDED || kind == TRACE_CHECKPOINT_ENDED;
}

void arguments_add_end(visit_event *e, const image_record *end) {
    if (has_status(end->kind)) add_status(e, end->value);
}

void arguments_add_instant(visit_event *e, const image_record *r) {
    switch (r->kind) {
    case TRACE_JOINED:
    case TRACE_MEMBER_JOINED:
    case TRACE_MEMBER_SUSPECTED:
    case TRACE_MEMBER_RECOVERED:
    case TRACE_MEMBER_LEFT:
    case TRACE_MEMBER_DIED: arguments_add_number(e, VISIT_RANK, r->value); break;
    case TRACE_OVERTAKEN: arguments_add_number(e, VISIT_COUNT, r->value); break;
    case TRACE_GROUP_OPENED: arguments_add_number(e, VISIT_MEMBERS, r->value); break;
    case TRACE_ELASTIC_STEP:
        arguments_add_number(e, VISIT_STEP, r->id);
        arguments_add_number(e, VISIT_MEMBERS, r->value);
        break;
    case TRACE_SLOW_WAIT:
    case TRACE_SLOW_BODY: arguments_add_number(e, VISIT_DURATION, r->value); break;
    case TRACE_FENCED:
    case TRACE_FAILED:
    case TRACE_GROUP_BROKEN: add_status(e, r->value); break;
    default: break;
    }
}
