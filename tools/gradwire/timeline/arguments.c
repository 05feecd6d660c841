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
           kind == TRACE_CALL_ENDED || kind == TRACE_BODY_ENDED || kind == TRACE_CHECKPOINT_ENDED ||
           kind == TRACE_FETCH_ENDED || kind == TRACE_QUEUE_HAS_ROOM || kind == TRACE_MODULE_ENDED;
}

static void add_op(visit_event *e, uint64_t value) {
    arguments_add_number(e, VISIT_BYTES, trace_op_bytes(value));
    if (trace_op_device(value)) arguments_add_number(e, VISIT_DEVICE, trace_op_device(value));
}

void arguments_add_begin(visit_event *e, const image_record *begin) {
    if (begin->kind == TRACE_FETCH_BEGUN || begin->kind == TRACE_QUEUE_FULL)
        arguments_add_number(e, VISIT_RANK, begin->value);
}

void arguments_add_end(visit_event *e, const image_record *end) {
    if (has_status(end->kind)) add_status(e, end->value);
    if (end->kind == TRACE_OP_ENDED) add_op(e, end->value);
}

void arguments_add_instant(visit_event *e, const image_record *r) {
    switch (r->kind) {
    case TRACE_JOINED:
    case TRACE_MEMBER_JOINED:
    case TRACE_MEMBER_SUSPECTED:
    case TRACE_MEMBER_RECOVERED:
    case TRACE_MEMBER_LEFT:
    case TRACE_MEMBER_DIED:
    case TRACE_REFERENCE_MADE:
    case TRACE_REFERENCE_FORKED:
    case TRACE_REFERENCE_RELEASED:
    case TRACE_RECONNECTING: arguments_add_number(e, VISIT_RANK, r->value); break;
    case TRACE_MESSAGE_SENT:
    case TRACE_MESSAGE_RECEIVED:
        arguments_add_number(e, VISIT_RANK, (uint64_t)trace_message_rank(r->id));
        arguments_add_number(e, VISIT_BYTES, r->value);
        break;
    case TRACE_RESENT: arguments_add_number(e, VISIT_COUNT, r->value); break;
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
