// A hostile member of a group sends arbitrary messages about it, as its leader or not, and enters some collectives
// correctly, while two honest members call collectives: all calls end, and the memory is bounded by the received
// bytes.
#include "base/log.h"
#include "base/mem.h"
#include "collective/abort/abort.h"
#include "collective/group/roster.h"
#include "testing/cluster.h"
#include "testing/fuzz_input.h"

#include <gradwire.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MEMBERS = 3,
    OPERATIONS_MAX = 24,
    SMALL = 8,
    LARGE = 20000,  // elements; its data waits for the partner's enter
    TIMEOUT_MS = 2000,
    MEMORY_MAX = 8 << 20
};

typedef struct scene {
    fuzz_input in;
    int hostile;
} scene;

// ---- Collectives --------------------------------------------------------------------------------

// One of a few collectives, the same on all members for one |which|.
static void enter(gw_scope *s, gw_group *g, unsigned which) {
    gw_tensor *small = gw_ones(s, GW_F32, SMALL), *large = gw_ones(s, GW_F32, LARGE);
    int self = gw_group_rank(g);
    switch (which) {
    case 0: gw_all_reduce(s, g, small, GW_SUM); break;
    case 1: gw_all_reduce(s, g, large, GW_SUM); break;
    case 2: gw_broadcast(s, g, self == 1 ? large : NULL, 1); break;
    case 3: gw_all_gather(s, g, gw_ones(s, GW_I64, 1 + self, 2)); break;
    case 4: gw_all_gather_value(s, g, self); break;
    case 5: gw_all_reduce(s, g, small, GW_MAX, .key = 7); break;
    case 6: gw_reduce_scatter(s, g, gw_ones(s, GW_F32, MEMBERS, 2), GW_SUM); break;
    case 7: {
        int from;
        gw_recv_any(s, g, &from);
        break;
    }
    default: gw_barrier(s, g);
    }
}

enum { FORMS = 9 };

static void behave(gw_scope *root, gw_group *g) {
    for (unsigned i = 0; i < FORMS; i++) {
        gw_scope *s = gw_scope_open(root);
        enter(s, g, i);
        gw_scope_clear(s);
        gw_scope_close_up(s);
    }
}

// ---- Messages of the hostile member -------------------------------------------------------------

static uint64_t draw_number(fuzz_input *in) {
    unsigned what = fuzz_take(in, 256);
    return what < 240 ? what % 12 : what < 248 ? what : (uint64_t)fuzz_take_int(in);
}

static void put_error(bytes *head, fuzz_input *in) {
    gw_error error;
    error_set(&error, (gw_status)fuzz_take(in, GW_STATUS_COUNT), "group \"%s\": collective %u: x",
              fuzz_take(in, 2) ? "world" : "w0, w1, w2", fuzz_take(in, 16));
    encode_error(head, &error);
}

static void put_signature(bytes *head, fuzz_input *in) {
    collective_signature x = { .operation = (uint8_t)fuzz_take(in, OPERATION_COUNT + 1),
                               .op = (uint8_t)fuzz_take(in, GW_REDUCE_OP_COUNT + 1),
                               .dtype = (uint8_t)fuzz_take(in, GW_DTYPE_COUNT + 1),
                               .plan = (uint8_t)fuzz_take(in, PLAN_KIND_COUNT + 1),
                               .content = (uint8_t)fuzz_take(in, CONTENT_COUNT + 1),
                               .root = (int32_t)fuzz_take(in, MEMBERS + 1) - 1,
                               .factor = fuzz_take_real(in) };
    x.dims = (uint8_t)(fuzz_take(in, 4) ? fuzz_take(in, 4) : SIGNATURE_OPEN);
    for (int i = 0; x.dims != SIGNATURE_OPEN && i < x.dims; i++) {
        static const int64_t likely[] = { SMALL, LARGE, 1, 2, 3, 0 };
        unsigned which = fuzz_take(in, 8);
        x.sizes[i] = which < 6 ? likely[which] : fuzz_take_int(in);
    }
    unsigned last = fuzz_take(in, 2 * (GRADIENT_NEED_COUNT + 1));
    x.gradient = (uint8_t)(last / 2);
    signature_write(head, &x, last % 2);
    bytes_put_u64(head, fuzz_take(in, 4));
    bytes_put_text(head, "here");
}

// The group in a report: sometimes empty, or wrong.
static void put_roster(bytes *head, const gw_group *g, fuzz_input *in) {
    unsigned odd = fuzz_take(in, 16);
    if (odd == 0) {
        roster_put_none(head);
    } else if (odd > 3) {
        roster_put(head, g);
    } else {
        bytes_put_text(head, odd == 1 ? "group \"\n\"" : g->title);
        bytes_put_u32(head, (uint32_t)g->count);
        for (int i = 0; i < g->count; i++) {
            unsigned which = fuzz_take(in, 8);
            bytes_put_u32(head, which == 1 ? (uint32_t)draw_number(in) : (uint32_t)i);
            bytes_put_u64(head, which == 2 ? draw_number(in) : g->members[i].incarnation);
        }
    }
}

// What a report or a query about |number| is about; mostly one that a member accepts.
static void put_about(bytes *head, uint64_t number, fuzz_input *in) {
    report_cause cause = (report_cause)fuzz_take(in, REPORT_CAUSE_COUNT + 1);
    bool has_left = cause == REPORT_LEFT, fits = fuzz_take(in, 8);
    abort_put_about(head,
                    &(report_about){ .cause = cause,
                                     .next = fits ? number + (has_left ? 0 : 1 + fuzz_take(in, 3))
                                                  : draw_number(in),
                                     .failed = has_left ? 1 + fuzz_take(in, 12) : 0,
                                     .level = (uint8_t)fuzz_take(in, SCOPE_PATH_CALL + 2) });
}

static void put_abort(bytes *head, uint64_t number, fuzz_input *in) {
    uint64_t next = number + fuzz_take(in, 4), ahead = next + fuzz_take(in, 4);
    bytes_put_u64(head, next);
    bytes_put_u64(head, fuzz_take(in, 8) ? number : draw_number(in));  // all
    bytes_put_u64(head, ahead);
    bytes_put_u64(head, next == number ? 1 + fuzz_take(in, 12) : draw_number(in));  // failed
    bytes_put_u8(head, (uint8_t)fuzz_take(in, SCOPE_PATH_CALL + 2));
    put_error(head, in);
}

static void put_fields(bytes *head, const gw_group *g, uint8_t kind, uint64_t number,
                       fuzz_input *in) {
    switch (kind) {
    case KIND_ENTER: put_signature(head, in); break;
    case KIND_PART: bytes_put_u32(head, (uint32_t)draw_number(in)); break;
    case KIND_QUERY: put_about(head, number, in); break;
    case KIND_ANSWER:
        bytes_put_u64(head, draw_number(in));           // next
        bytes_put_u64(head, draw_number(in));           // last
        bytes_put_u64(head, draw_number(in));           // call
        bytes_put_u8(head, (uint8_t)fuzz_take(in, 4));  // attendance
        bytes_put_text(head, "computes");
        break;
    case KIND_ABORT: put_abort(head, number, in); break;
    case KIND_REPORT: put_about(head, number, in); put_roster(head, g, in);  // fall through
    case KIND_BREAK: put_error(head, in); break;
    default: break;
    }
}

static gw_value draw_value(gw_scope *s, fuzz_input *in) {
    in->scope = s;
    switch (fuzz_take(in, 6)) {
    case 0: return gw_value_of(gw_ones(s, GW_F32, SMALL));
    case 1: return gw_value_of(gw_ones(s, GW_F32, LARGE));
    case 2: return gw_value_of(gw_ones(s, GW_F32, LARGE / MEMBERS + (int)fuzz_take(in, 2)));
    case 3: return fuzz_take_value(in, (fuzz_kind)fuzz_take(in, FUZZ_KIND_COUNT));
    case 4: return gw_value_of((int64_t)draw_number(in));
    default: return gw_none();
    }
}

// A stall query, or an answer to a possible one.
static void put_inquiry(bytes *head, const gw_group *g, uint8_t kind, fuzz_input *in) {
    bytes_put_u64(head, kind == KIND_STALL_QUERY ? draw_number(in)
                                                 : 64 * draw_number(in) + fuzz_take(in, 4));
    if (kind == KIND_STALL_QUERY) {
        bytes_put_u64(head, fuzz_take(in, 4) ? g->id : draw_number(in));
        bytes_put_u64(head, fuzz_take(in, 4) ? 0 : draw_number(in));
        bytes_put_u64(head, draw_number(in));
        return;
    }
    bytes_put_u8(head, (uint8_t)fuzz_take(in, 3));
    bytes_put_text(head, "computes");
    unsigned count = fuzz_take(in, 10);
    bytes_put_u8(head, (uint8_t)count);
    for (unsigned i = 0; i < count; i++) {
        bytes_put_u64(head, fuzz_take(in, 4) ? g->id : draw_number(in));
        bytes_put_u64(head, 0);
        bytes_put_u64(head, draw_number(in));
        bytes_put_text(head, "world");
        unsigned ranks = fuzz_take(in, 18);
        bytes_put_u8(head, (uint8_t)ranks);
        for (unsigned j = 0; j < ranks; j++) bytes_put_u32(head, (uint32_t)draw_number(in));
    }
}

// Returns the number in it.
static uint64_t put_header(bytes *head, const gw_group *g, uint8_t kind, unsigned odd,
                           fuzz_input *in) {
    bytes_put_u64(head, odd == 1 ? g->id + 1 : g->id);
    bytes_put_u64(head, odd == 2 ? g->list + 1 : g->list);
    bytes_put_u64(head, fuzz_take(in, 4) ? 0 : draw_number(in));
    uint64_t number = kind == KIND_BREAK && odd ? 0 : draw_number(in);
    bytes_put_u64(head, number);
    bytes_put_u32(head, odd == 3 ? (uint32_t)draw_number(in) * 8 : 0);
    return number;
}

static void call_one(gw_scope *s, gw_group *g, fuzz_input *in) {
    agent *a = s->agent;
    gw_error error;
    outgoing x;
    uint8_t kind = (uint8_t)(KIND_ENTER + (int)fuzz_take(in, GROUP_KIND_LAST - KIND_ENTER + 1));
    int to = (g->self + 1 + (int)fuzz_take(in, MEMBERS - 1)) % MEMBERS;
    unsigned odd = fuzz_take(in, 64);
    if (outgoing_init(&x, a, kind, &error)) return;
    bytes *head = &x.message->head;
    if (kind >= KIND_STALL_QUERY) {
        put_inquiry(head, g, kind, in);
    } else {
        uint64_t number = put_header(head, g, kind, odd, in);
        put_fields(head, g, kind, number, in);
    }
    if (kind == KIND_ENTER || kind == KIND_PART) outgoing_put(&x, draw_value(s, in), &error);
    if (odd == 4 && head->size > GROUP_HEADER_BYTES) head->size -= fuzz_take(in, 16);
    env_enter(a->env);
    outgoing_send_on_loop(&x, g->members[to].rank, GROUP_ATTACHMENTS_FIELD, true, &error);
    env_leave(a->env);
    outgoing_fini(&x);
}

// A point-to-point message with arbitrary fields.
static void write_message(gw_scope *s, gw_group *g, fuzz_input *in) {
    int to = (g->self + 1 + (int)fuzz_take(in, MEMBERS - 1)) % MEMBERS;
    int64_t id = fuzz_take(in, 4) ? (int64_t)g->id : fuzz_take_int(in);
    int64_t list = fuzz_take(in, 4) ? (int64_t)g->list : fuzz_take_int(in);
    gw_rpc_async(s, to, "gw.send", id, list, (int64_t)draw_number(in), draw_value(s, in));
}

static void misbehave(gw_scope *root, gw_group *g, fuzz_input *in) {
    for (int i = 0; i < OPERATIONS_MAX && in->at < in->end; i++) {
        gw_scope *s = gw_scope_open(root);
        unsigned what = fuzz_take(in, 8);
        if (what < 5)
            call_one(s, g, in);
        else if (what == 5)
            write_message(s, g, in);
        else
            enter(s, g, fuzz_take(in, FORMS + 1));
        gw_scope_clear(s);
        gw_scope_close_up(s);
    }
}

// ---- A run --------------------------------------------------------------------------------------

static void play(gw_scope *root, int rank, void *context) {
    scene *c = context;
    gw_group *g = gw_group_world(root, .timeout_ms = TIMEOUT_MS);
    if (!gw_ok(root)) {  // the hostile member is lost already
        gw_scope_clear(root);
    } else if (rank == c->hostile) {
        misbehave(root, g, &c->in);
        gw_scope_clear(root);
    } else {
        behave(root, g);
    }
}

static int fail_if_large(size_t size) {
    if (size > MEMORY_MAX) abort();
    return 0;
}

static void be_silent(const char *line) {
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    scene c = { .in = { .at = data, .end = data + size } };
    c.hostile = (int)fuzz_take(&c.in, 2);  // 0: the leader
    log_hook = be_silent;
    mem_fail_hook = fail_if_large;
    cluster_run(1,
                (cluster_options){ .world_size = MEMBERS,
                                   .threads = 2,
                                   .timeout_ms = TIMEOUT_MS,
                                   .network = { .quiet = true },
                                   .fails = true },
                play, &c);
    mem_fail_hook = NULL;
    log_hook = NULL;
    return 0;
}
