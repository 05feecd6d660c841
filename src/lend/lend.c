// The service of zero-copy sharing.
#include "lend/lending.h"

#include "base/mem.h"
#include "net/transport/transport.h"

#include <stdlib.h>
#include <string.h>

// GW_TRANSPORT=tcp was read by the env.
static const char *disabled_by(const env *e) {
    const char *text = getenv("GW_LEND");
    if (text && strcmp(text, "0") == 0) return "GW_LEND=0";
    return strcmp(e->transports[0]->name, "tcp") == 0 ? "GW_TRANSPORT=tcp" : NULL;
}

static bool only_reads(void) {
    const char *text = getenv("GW_LEND");
    return text && strcmp(text, "pull") == 0;
}

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)options;
    lending *l = mem_calloc(sizeof *l);
    if (!l) return error_set(error, GW_NO_MEMORY, "no memory for lending");
    l->agent = a;
    l->off = disabled_by(a->env);
    l->only_reads = only_reads();
    list_init(&l->orphans);
    pthread_mutex_init(&l->lock, NULL);
    *state = l;
    return GW_OK;
}

static gw_status recalled(agent *a, int from, reader *r, gw_error *error) {
    uint64_t last = reader_u64(r);
    if (r->failed || reader_left(r)) return error_set(error, GW_PROTOCOL, "malformed recall");
    receiver_keep_on_loop(a, from, last);
    return GW_OK;
}

static gw_status received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_status status = GW_OK;
    if (from == a->rank) {
        status = error_set(error, GW_PROTOCOL, "the worker has sent a lending message to itself");
    } else {
        switch (m->kind) {
        case LEND_KIND_OFFER: status = receiver_offered_on_loop(a, from, &r, error); break;
        case LEND_KIND_ANSWER: status = lender_answered_on_loop(a, from, &r, error); break;
        case LEND_KIND_RETURNS: status = lender_returned_on_loop(a, from, &r, error); break;
        case LEND_KIND_RECALL: status = recalled(a, from, &r, error); break;
        default: break;
        }
    }
    message_release(m);
    return status;
}

static void lost(agent *a, int rank) {
    receiver_lost_on_loop(a, rank);
    lender_lost_on_loop(a, rank);
}

static void release(agent *a) {
    lending_of(a)->is_leaving = true;
    for (int rank = 0; rank < a->member_count; rank++) {
        if (rank == a->rank) continue;
        receiver_keep_on_loop(a, rank, UINT64_MAX);
        lender_recall_on_loop(a, rank);
    }
}

static void list_pending(const agent *a, pending *out) {
    pending_add(out, "lends", lend_count_on_loop(a).lent_now, "tensor", "tensors");
}

static void stop(agent *a, const gw_error *why) {
    (void)why;
    lending *l = lending_of(a);
    receiver_stop_on_loop(l);
    lender_stop_on_loop(l);
}

static void close_lending(agent *a) {
    receiver_close(lending_of(a));
}

static void free_lending(void *state) {
    lending *l = state;
    receiver_free(l);
    lender_free(l);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

const attachment_class lend_attachment = {
    .type = LEND_ATTACHMENT,
    .kind = GW_KIND_COUNT,
    .write = lender_write,
    .undo = lender_undo,
    .read = receiver_read,
    .names_unknown = receiver_skip,
    .prepare_segment = lender_prepare,
    .fetch = remote_read_fetch,
    .sending = receiver_give_back_on_loop,
    .may_lend = lender_may_lend,
    .lend = lender_lend,
    .take_in = receiver_take_in,
    .drop = receiver_drop,
};

const service lend_service = {
    .name = "lend",
    .data = &lend_data,
    .kind_first = LEND_KIND_OFFER,
    .kind_last = LEND_KIND_RECALL,
    .attachment = &lend_attachment,
    .open = open,
    .received = received,
    .lost = lost,
    .release = release,
    .pending = list_pending,
    .stop = stop,
    .close = close_lending,
    .free = free_lending,
};
