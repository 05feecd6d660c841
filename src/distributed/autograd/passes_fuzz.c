// A hostile member of the job sends any messages about graphs and passes, while two honest members
// run passes through its sends and through their own. All passes end, the memory stays within the size of the
// received messages, and a pass of the two honest members alone gives the right gradients or an error.
#include "base/log.h"
#include "base/mem.h"
#include "distributed/autograd/graphs.h"
#include "call/protocol.h"
#include "reference/references.h"
#include "agent/bodies/context.h"
#include "agent/messages/message_io.h"
#include "tensor/dtype.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VICTIM, HOSTILE, FRIEND, WORKERS, OPERATIONS_MAX = 40, MEMORY_MAX = 4 << 20, MS = 1000000 };

static void pass_time(gw_scope *s, int64_t ns) {
    agent *a = s->agent;
    waiter wait = { .what = "nothing" };
    env_enter(a->env);
    env_wait(a->env, &wait, env_now_ns(a->env) + ns);
    env_leave(a->env);
}

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(passes_fuzz_double, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_full(s, GW_F32, 2.0)));
}

// Leaves time for a reply that the hostile member has made up.
GW_FUNCTION(passes_fuzz_late, GW_POOL, "tensor, any") {
    pass_time(s, 20 * MS);
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_full(s, GW_F32, 2.0)));
}

// The caller's graph continues at the friend, which gets some of the tensors that the caller tracked.
GW_FUNCTION(passes_fuzz_on, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    return gw_rpc_sync(s, FRIEND, "passes_fuzz_double", x);
}

GW_FUNCTION(passes_fuzz_back, GW_POOL, "tensor") {
    gw_backward(s, gw_sum(s, gw_arg_tensor(s, a, 0)));
    return gw_none();
}

typedef struct passes_fuzz_box {
    gw_tensor *w;
} passes_fuzz_box;

GW_CLASS(passes_fuzz_box, open_box);

static void open_box(gw_scope *own, passes_fuzz_box *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_ones(own, GW_F32, 2));
}

GW_METHOD(passes_fuzz_box, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(passes_fuzz_box, grad, GW_INLINE, "") {
    return gw_value_of(gw_grad(s, self->w));
}

// ---- The hostile messages -----------------------------------------------------------------------

// Numbers of sends and passes: small, or at the limits.
static uint64_t draw_number(reader *in) {
    uint8_t what = reader_u8(in);
    return what < 240 ? what % 12 : UINT64_MAX >> (what % 16 * 4);
}

// Ids of scopes, calls and references: the rank of the worker that made it, and a count.
static uint64_t draw_id(reader *in) {
    uint8_t what = reader_u8(in);
    return what < 240 ? id_of(what % WORKERS, what / WORKERS % 20) : draw_number(in);
}

static void put_bytes(bytes *head, reader *in) {
    size_t size = reader_u8(in) % 64;
    if (size > reader_left(in)) size = reader_left(in);
    bytes_put(head, reader_take(in, size), size);
}

static mark draw_mark(reader *in) {
    uint8_t what = reader_u8(in);
    return (mark){ .rank = what % WORKERS, .slot = what / WORKERS % 3, .send = 1 + what / 9 % 12 };
}

// Mostly valid ones.
static void draw_marks(reader *in, marks *out) {
    int count = reader_u8(in) % 6;
    for (int i = 0; i < count; i++) marks_add(out, draw_mark(in));
    marks_sort(out);
    if (out->count && reader_u8(in) >= 250) out->items[0].rank = reader_u8(in);
}

static void put_marks(bytes *head, reader *in) {
    marks all = { 0 };
    draw_marks(in, &all);
    marks_write(&all, head);
    marks_fini(&all);
}

static bool put_track(void *user, encoder *e, gw_tensor *x, gw_error *error) {
    (void)x, (void)error;
    uint8_t what = reader_u8(user);
    bytes_put_u32(&e->message->head, what % 16 == 15);
    bytes_put_u32(&e->message->head, what / 16 % 5);
    return true;
}

static gw_tensor *draw_tensor(gw_scope *s, reader *in) {
    uint8_t what = reader_u8(in);
    gw_dtype dtype = what >= 240 ? GW_I64 : what >= 220 ? GW_F64 : GW_F32;
    switch (what % 8) {
    case 0: return gw_ones(s, dtype, 3);
    case 1: return gw_ones(s, dtype, 1);
    case 2: return gw_full(s, dtype, 3.0);
    case 3: return gw_ones(s, dtype, 2, 2);
    case 4: return gw_ones(s, dtype, 0);
    default: return gw_ones(s, dtype, 2);
    }
}

static void put_value(gw_scope *s, message *m, reader *in, bool tracks) {
    uint8_t what = reader_u8(in);
    encoder e = { .message = m, .user = in, .track = tracks ? put_track : NULL };
    gw_value v = gw_none();
    if (what < 128) {
        gw_tensor *x = draw_tensor(s, in);
        v = gw_value_of(tracks && dtype_is_float((gw_dtype)x->dtype) ? gw_requires_grad(s, x) : x);
    } else if (what < 160) {
        v = gw_value_of(what % 2 == 0);
    } else if (what < 176) {
        bytes_put_u8(&m->head, GW_RREF);
        bytes_put_u32(&m->head, what % 3);
        return;
    } else if (what >= 250) {
        put_bytes(&m->head, in);
        return;
    }
    encode_value(&e, v, NULL);
}

static void put_graph(bytes *head, reader *in) {
    uint32_t slots = 1 + reader_u8(in) % 4;
    bytes_put_u8(head, graph_attachment.type);
    bytes_put_u64(head, draw_number(in));
    bytes_put_u64(head, draw_id(in));
    bytes_put_u32(head, slots);
    for (uint32_t i = 0; i < slots; i++) {
        bytes_put_u8(head, reader_u8(in) < 160);
        put_marks(head, in);
    }
}

static uint32_t put_attachments(bytes *head, reader *in) {
    uint32_t at = (uint32_t)head->size;
    uint8_t what = reader_u8(in), count = 1 + what % 2;
    bytes_put_u32(head, count);
    for (int i = 0; i < count; i++) {
        if (what < 192 || i != what % 3) {
            put_graph(head, in);
            continue;
        }
        bytes_put_u8(head, reference_attachment.type);
        bytes_put_u32(head, what % WORKERS);
        bytes_put_u64(head, draw_id(in));
        bytes_put_u64(head, draw_id(in));
        bytes_put_u8(head, what / 8 % 2);
    }
    return at;
}

static void put_requested_marks(gw_scope *s, message *m, reader *in) {
    (void)s;
    marks requested = { 0 };
    encoder e = { .message = m };
    int count = reader_u8(in) % 8;
    for (int i = 0; i < count; i++) marks_add(&requested, draw_mark(in));
    size_t cut = reader_u8(in) >= 250, size = requested.count * sizeof(mark);
    encode_value(&e, gw_value_of_bytes(requested.items, size > cut ? size - cut : 0), NULL);
    marks_fini(&requested);
}

static void put_request(gw_scope *s, message *m, reader *in) {
    static const char *const names[] = { "passes_fuzz_double",
                                         "passes_fuzz_on",
                                         "passes_fuzz_back",
                                         "gw.marks",
                                         "gw.grad",
                                         "passes_fuzz_box",
                                         "forward",
                                         "grad",
                                         "gw.sum",
                                         "gw.stack" };
    uint8_t what = reader_u8(in), function = reader_u8(in) % 10, count = function == 9 ? 2 : 1;
    request_fixed f = { .call = 1000 + what, .scope = draw_id(in), .order = 1 + what % 3 };
    f.untracked = what % 4 == 3;
    if (function > 5 && function < 8) f.target = draw_id(in), f.target_fork = draw_id(in);
    request_write(&m->head, &f, names[function], NULL, count);
    for (int i = 0; i < count; i++)
        function == 3 ? put_requested_marks(s, m, in) : put_value(s, m, in, true);
    f.attachments_at = put_attachments(&m->head, in);
    request_amend(&m->head, &f);
}

static void put_reply(gw_scope *s, message *m, reader *in) {
    reply_fixed f = { .id = draw_number(in) };
    reply_write(&m->head, &f);
    put_value(s, m, in, true);
    f.attachments_at = put_attachments(&m->head, in);
    if (!m->head.failed) memcpy(m->head.data, &f, sizeof f);
}

// A reply of gw.marks: twice a count and marks, as bytes.
static void put_marks_reply(message *m, reader *in) {
    bytes reply = { 0 };
    encoder e = { .message = m };
    reply_fixed f = { .id = draw_number(in) };
    reply_write(&m->head, &f);
    put_marks(&reply, in);
    put_marks(&reply, in);
    encode_value(&e, gw_value_of_bytes(reply.data, reply.size), NULL);
    bytes_fini(&reply);
}

static void put_ended(bytes *head, reader *in) {
    uint8_t what = reader_u8(in);
    bytes_put_u64(head, what < 64 ? draw_number(in) : what % 2);
    bytes_put_u64(head, what < 64 ? draw_number(in) : 0);
}

static void put_gradient(gw_scope *s, message *m, reader *in) {
    uint8_t what = reader_u8(in), flags = reader_u8(in) % 16, count = what / 32 % 4;
    bytes_put_u32(&m->head, what == 255 ? 7 : what % WORKERS);
    bytes_put_u64(&m->head, draw_number(in));
    bytes_put_u64(&m->head, draw_id(in));
    put_ended(&m->head, in);
    bytes_put_u8(&m->head, flags);
    if (flags & 8) put_marks(&m->head, in);
    bytes_put_u64(&m->head, draw_number(in));
    bytes_put_u32(&m->head, count);
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_u32(&m->head, i);
        put_value(s, m, in, false);
    }
}

static void put_other(message *m, reader *in) {
    bytes *head = &m->head;
    gw_error why;
    error_set(&why, GW_INVALID, "it likes to");
    switch (m->kind) {
    case KIND_PASS_DONE: bytes_put_u64(head, draw_number(in)); break;
    case KIND_PASS_ABORT:
        bytes_put_u32(head, reader_u8(in) % WORKERS);
        bytes_put_u64(head, draw_number(in));
        encode_error(head, &why);
        break;
    case KIND_SCOPE_CLOSED:
        bytes_put_u64(head, draw_id(in));
        put_ended(head, in);
        break;
    default:
        bytes_put_u32(head, 2);
        bytes_put_u64(head, draw_number(in));
        bytes_put_u64(head, draw_number(in));
    }
}

static message *draw_message(gw_scope *s, reader *in) {
    static const uint8_t kinds[] = { KIND_REQUEST,       KIND_REPLY,      KIND_REPLY,
                                     KIND_GRADIENT,      KIND_GRADIENT,   KIND_GRADIENT,
                                     KIND_PASS_DONE,     KIND_PASS_ABORT, KIND_SCOPE_CLOSED,
                                     KIND_SENDS_RELEASED };
    uint8_t what = reader_u8(in);
    message *m = message_open(kinds[what % 10]);
    if (what >= 248) {
        put_bytes(&m->head, in);
    } else if (m->kind == KIND_REQUEST) {
        put_request(s, m, in);
    } else if (m->kind == KIND_REPLY) {
        what % 10 == 1 ? put_reply(s, m, in) : put_marks_reply(m, in);
    } else if (m->kind == KIND_GRADIENT) {
        put_gradient(s, m, in);
    } else {
        put_other(m, in);
    }
    return m;
}

static void send_any(gw_scope *root, reader *in) {
    agent *a = root->agent;
    for (int i = 0; i < OPERATIONS_MAX && reader_left(in) > 0; i++) {
        gw_scope *s = gw_scope_open(root);
        uint8_t what = reader_u8(in);
        if (what % 8 == 7) {
            pass_time(s, what / 8 * MS / 4);
        } else if (what % 8 == 6) {
            gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
            gw_value y = gw_rpc_sync(s, what & 8 ? VICTIM : FRIEND, "passes_fuzz_on", x);
            gw_backward(s, gw_sum(s, gw_tensor_of(s, y)));
        } else {
            message *m = draw_message(s, in);
            env_enter(a->env);
            agent_send_on_loop(a, what % 8 < 5 ? VICTIM : FRIEND, m, true, NULL);
            env_leave(a->env);
        }
        gw_error error = gw_scope_close(s);
        (void)error;
    }
}

// ---- The honest members -------------------------------------------------------------------------

static gw_tensor *call(gw_scope *s, int to, const char *function, gw_tensor *x) {
    return gw_tensor_of(s, gw_rpc_sync(s, to, function, x));
}

static void close_scope(gw_scope *s) {
    gw_error error = gw_scope_close(s);
    (void)error;
}

static void walk_through_all(gw_scope *root, int i) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 2000);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_rref *mine = gw_rref_open(s, x);
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, HOSTILE, "passes_fuzz_late", x, mine));
    if (i) y = call(s, FRIEND, "passes_fuzz_double", y);
    if (i % 2) y = call(s, HOSTILE, "passes_fuzz_on", y);
    gw_backward(s, gw_sum(s, y), .retain_graph = i == 2);
    if (gw_ok(s)) gw_grad(s, x);
    if (i == 2) gw_backward(s, gw_sum(s, y));
    close_scope(s);
}

static void walk_through_two(gw_scope *root, int other) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 2000);
    gw_rref *box = gw_remote(s, other, "passes_fuzz_box");
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *y = call(s, other, "passes_fuzz_double", x);
    y = gw_tensor_of(s, gw_rpc_sync(s, box, "forward", gw_mul(s, y, y)));
    gw_backward(s, gw_sum(s, y));
    gw_tensor *w = gw_tensor_of(s, gw_rpc_sync(s, box, "grad"));
    double dx = gw_item(s, gw_sum(s, gw_ok(s) ? gw_grad(s, x) : x)), dw = gw_item(s, gw_sum(s, w));
    if (gw_ok(s) && (dx != 16 || dw != 8)) fail_msg("gradients of %g and %g", dx, dw);
    close_scope(s);
}

static void behave(gw_scope *root, int rank) {
    for (int i = 0; i < 3; i++) {
        walk_through_all(root, i);
        walk_through_two(root, rank == VICTIM ? FRIEND : VICTIM);
    }
}

static void play(gw_scope *root, int rank, void *context) {
    if (rank == HOSTILE) {
        send_any(root, context);
    } else {
        behave(root, rank);
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
    reader in = reader_of(data, size);
    log_hook = be_silent;
    mem_fail_hook = fail_if_large;
    cluster_run(1,
                (cluster_options){ .world_size = WORKERS,
                                   .threads = 2,
                                   .timeout_ms = 2000,
                                   .network = { .quiet = true },
                                   .fails = true },
                play, &in);
    mem_fail_hook = NULL;
    log_hook = NULL;
    return 0;
}
