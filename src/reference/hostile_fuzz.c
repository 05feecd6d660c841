// A hostile member of the job sends any messages about calls, promises, references and leaving,
// while an honest one calls it and serves its calls: both end, and the memory stays within the size of the
// received messages.
#include "base/log.h"
#include "base/mem.h"
#include "reference/references.h"
#include "call/protocol.h"
#include "testing/cluster.h"

#include <gradwire.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KINDS_TRIED = 53, VICTIM = 0, HOSTILE = 1, OPERATIONS_MAX = 40, MEMORY_MAX = 4 << 20 };

GW_FUNCTION(hostile_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(hostile_nest, GW_POOL) {
    return gw_rpc_sync(s, HOSTILE, "hostile_echo", gw_arg_count(a));
}

typedef struct hostile_box {
    int64_t x;
} hostile_box;

GW_CLASS(hostile_box, hostile_box_open, hostile_box_close, NULL);

static void hostile_box_open(gw_scope *own, hostile_box *self, const gw_args *a) {
    (void)own;
    self->x = gw_arg_count(a);
}

static void hostile_box_close(hostile_box *self) {
    self->x = 0;
}

GW_METHOD(hostile_box, get, GW_INLINE) {
    return gw_value_of(self->x);
}

// ---- Its messages -------------------------------------------------------------------------------
// Numbers that are sometimes valid: calls, ids of references and forks of either member, and
// numbers at the limits.
static uint64_t draw_number(reader *in) {
    uint8_t what = reader_u8(in);
    uint64_t count = what % 16;
    switch (what / 64) {
    case 0: return count;
    case 1: return id_of(VICTIM, count);
    case 2: return id_of(HOSTILE, count);
    default: return what % 2 ? UINT64_MAX - count : (uint64_t)reader_u8(in) << 40;
    }
}

static void put_bytes(bytes *head, reader *in) {
    size_t size = reader_u8(in) % 64;
    if (size > reader_left(in)) size = reader_left(in);
    bytes_put(head, reader_take(in, size), size);
}

static uint32_t put_attachments(bytes *head, reader *in) {
    uint32_t at = (uint32_t)head->size;
    uint8_t count = reader_u8(in) % 4;
    bytes_put_u32(head, count);
    for (int i = 0; i < count; i++) {
        uint8_t what = reader_u8(in);
        bytes_put_u8(head, what % 4 ? 1 + what / 4 % 2 : what / 4);
        bytes_put_u32(head, what / 8 % 3);
        bytes_put_u64(head, draw_number(in));
        bytes_put_u64(head, draw_number(in));
        bytes_put_u8(head, what >> 7);
    }
    return count ? at : 0;
}

static void put_arguments(bytes *head, reader *in, int count) {
    for (int i = 0; i < count; i++) {
        uint8_t what = reader_u8(in);
        if (what < 64) {
            put_bytes(head, in);
        } else if (what < 160) {
            bytes_put_u8(head, what % 2 ? GW_RREF : GW_FUTURE);
            bytes_put_u32(head, what / 2 % 4);
        } else {
            bytes_put_u8(head, GW_INT);
            bytes_put_u64(head, what);
        }
    }
}

static void put_request(bytes *head, reader *in) {
    static const char *const functions[] = { "hostile_echo", "hostile_nest", "hostile_box",
                                             "get",          "gw.add",       "none" };
    uint8_t what = reader_u8(in);
    request_fixed f = { .call = draw_number(in), .scope = what % 3, .order = what % 3 };
    if (what & 16) f.target = draw_number(in), f.target_fork = draw_number(in);
    if (what & 32) f.result = draw_number(in), f.result_fork = draw_number(in);
    if (what & 64) f.time_left_ns = draw_number(in);
    if (what & 128) f.depth = reader_u8(in) % 80;
    int count = what / 4 % 4;
    request_write(head, &f, functions[reader_u8(in) % 6], NULL, (uint32_t)count);
    put_arguments(head, in, count);
    f.attachments_at = put_attachments(head, in);
    request_amend(head, &f);
}

static void put_reply(bytes *head, reader *in) {
    reply_fixed f = { .id = draw_number(in), .outcome = reader_u8(in) % 3 };
    f.forwarded = reader_u8(in) % 3;
    reply_write(head, &f);
    put_arguments(head, in, 1);
    f.attachments_at = put_attachments(head, in);
    if (!head->failed) memcpy(head->data, &f, sizeof f);
}

static message *draw_message(reader *in) {
    uint8_t what = reader_u8(in);
    message *m = message_open((uint8_t)(what % (KINDS_TRIED + 2) ? what % (KINDS_TRIED + 2) : 40));
    bytes *head = &m->head;
    if (what >= 224) {
        put_bytes(head, in);
    } else if (m->kind == KIND_REQUEST) {
        put_request(head, in);
    } else if (m->kind == KIND_REPLY || m->kind == KIND_PROMISE_VALUE) {
        put_reply(head, in);
    } else {
        if (m->kind == KIND_RELEASE) bytes_put_u32(head, reader_u8(in) % 4);
        for (int i = what / 32 % 4; i >= 0; i--) bytes_put_u64(head, draw_number(in));
        put_bytes(head, in);
    }
    return m;
}

static void send_any(gw_scope *root, reader *in) {
    agent *a = root->agent;
    for (int i = 0; i < OPERATIONS_MAX && reader_left(in) > 0 && gw_ok(root); i++) {
        if (reader_u8(in) % 4 == 0) {
            gw_rpc_sync(root, VICTIM, "hostile_echo", i);
            continue;
        }
        message *m = draw_message(in);
        env_enter(a->env);
        agent_send_on_loop(a, VICTIM, m, true, NULL);
        env_leave(a->env);
    }
    gw_scope_clear(root);
}

// ---- The honest member ------------------------------------------------------------------------
static void behave(gw_scope *root) {
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_rref *mine = gw_rref_open(s, i), *box = gw_remote(s, HOSTILE, "hostile_box");
        gw_future *f = gw_rpc_async(s, HOSTILE, "hostile_echo", mine);
        gw_rpc_async(s, HOSTILE, "gw.add", f, 1.0);
        gw_rpc_sync(s, box, "get");
        gw_scope_clear(s);
        gw_wait(s, f);
        gw_error error = gw_scope_close(s);
        (void)error;
    }
}

static void play(gw_scope *root, int rank, void *context) {
    if (rank == HOSTILE) {
        send_any(root, context);
    } else {
        behave(root);
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
                (cluster_options){ .world_size = 2,
                                   .threads = 2,
                                   .timeout_ms = 2000,
                                   .network = { .quiet = true },
                                   .fails = true },
                play, &in);
    mem_fail_hook = NULL;
    log_hook = NULL;
    return 0;
}
