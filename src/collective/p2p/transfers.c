#include "collective/p2p/transfers.h"

#include "agent/bodies/observe.h"
#include "base/mem.h"
#include "base/value.h"

// The transfers of one sender, or of any, with one tag: sends that wait for a receive, and receives that wait.
typedef struct transfer_queue {
    uint64_t key;  // a hash, which other queues may share
    list_node sent, awaited;
} transfer_queue;

typedef struct transfers {
    list_node sent, awaited;  // in the order of arrival
    map queues;               // by key
    uint64_t count;           // of all that have arrived
    uint64_t ended;           // how many have ended early
} transfers;

const service_data transfers_data = { 0 };

static transfers *transfers_of(const agent *a) {
    return agent_state(a, &transfers_data);
}

// Calls |visit|, which may end the transfer, for all sends, then for all receives. The end of a transfer may post others,
// which may not be visited.
static void each_transfer(agent *a, void (*visit)(transfer *x, const void *data),
                          const void *data) {
    list_node *lists[] = { &transfers_of(a)->sent, &transfers_of(a)->awaited };
    for (int i = 0; i < 2; i++) {
        list_node all;
        list_init(&all);
        list_splice(&all, lists[i]);
        for (list_node *l; (l = list_take(&all));) {
            list_append(lists[i], l);
            visit(list_entry(l, transfer, link), data);
        }
    }
}

// ---- Matching -----------------------------------------------------------------------------------

static bool fits(const transfer *sent, const transfer *awaited) {
    return sent->group == awaited->group && sent->list == awaited->list &&
           sent->tag == awaited->tag &&
           (awaited->from == ANY_MEMBER || awaited->from == sent->from);
}

static uint64_t key_of(const transfer *x, int from) {
    uint64_t sender = hash_u64((uint64_t)(from - ANY_MEMBER));
    return hash_u64(x->group ^ hash_u64(x->list ^ hash_u64((uint64_t)x->tag ^ sender)));
}

static transfer_queue *queue_of(const transfer *x, int which) {
    return map_find(&transfers_of(x->agent)->queues,
                    key_of(x, which == OF_ANY ? ANY_MEMBER : x->from));
}

// The first receive of a queue that takes |sent|, or the first send that |awaited| takes.
static transfer *find_in(int which, const transfer *sent, const transfer *awaited) {
    transfer_queue *q = queue_of(sent ? sent : awaited, which);
    if (!q) return NULL;
    list_each(l, sent ? &q->awaited : &q->sent) {
        transfer *x = list_entry(l, transfer_link, link)->transfer;
        if (fits(sent ? sent : x, sent ? x : awaited)) return x;
    }
    return NULL;
}

static int queue_of_awaited(const transfer *x) {
    return x->from == ANY_MEMBER ? OF_ANY : OF_SENDER;
}

static transfer *find_sent(const transfer *awaited) {
    return find_in(queue_of_awaited(awaited), NULL, awaited);
}

static transfer *find_awaited(const transfer *sent) {
    transfer *a = find_in(OF_SENDER, sent, NULL), *b = find_in(OF_ANY, sent, NULL);
    return !a ? b : !b ? a : a->order < b->order ? a : b;
}

static transfer_queue *open_queue(transfers *all, uint64_t key) {
    transfer_queue *q = mem_take(sizeof *q);
    if (!q) return NULL;
    q->key = key;
    list_init(&q->sent);
    list_init(&q->awaited);
    if (map_put(&all->queues, key, q)) return q;
    mem_give(q, sizeof *q);
    return NULL;
}

static bool put_in(transfer *x, int which, bool is_sent) {
    transfer_queue *q = queue_of(x, which);
    if (!q)
        q = open_queue(transfers_of(x->agent), key_of(x, which == OF_ANY ? ANY_MEMBER : x->from));
    if (!q) return false;
    x->in[which].queue = q;
    x->in[which].transfer = x;
    list_append(is_sent ? &q->sent : &q->awaited, &x->in[which].link);
    return true;
}

static void take_out(transfer *x) {
    for (int i = 0; i < QUEUES; i++) {
        transfer_queue *q = x->in[i].queue;
        if (!q) continue;
        x->in[i].queue = NULL;
        list_remove(&x->in[i].link);
        if (!list_is_empty(&q->sent) || !list_is_empty(&q->awaited)) continue;
        map_take(&transfers_of(x->agent)->queues, q->key);
        mem_give(q, sizeof *q);
    }
    list_remove(&x->link);
}

// False if allocation fails.
static bool put(transfer *x, bool is_sent) {
    transfers *all = transfers_of(x->agent);
    bool ok = is_sent ? put_in(x, OF_SENDER, true) && put_in(x, OF_ANY, true)
                      : put_in(x, queue_of_awaited(x), false);
    x->order = ++all->count;
    list_append(is_sent ? &all->sent : &all->awaited, &x->link);
    if (!ok) take_out(x);
    return ok;
}

static void free_transfer(transfer *x) {
    take_out(x);
    awaits_close_on_loop(&x->await);
    if (x->source_in) group_release_on_loop(x->source_in);
    if (x->future) {
        x->future->makers--;
        future_release_on_loop(x->future);
    }
    if (x->value) result_release_on_loop(x->agent, x->value);
    mem_free(x);
}

static void complete(transfer *x, result *value) {
    if (!x->future) {
        result_release_on_loop(x->agent, value);
        free_transfer(x);
        return;
    }
    x->future->on_cancel = NULL;
    take_out(x);
    future_complete_on_loop(x->future, value);
    free_transfer(x);
}

static result *with_source(const transfer *sent, const gw_group *g) {
    gw_list *list = list_open();
    bool full = list && list_add(list, gw_value_of_int(group_index_of(g, sent->from))) &&
                list_add(list, sent->value->value);
    result *r = full ? result_of_value(gw_value_of_list(list)) : NULL;
    handle_release(list);  // with the loop lock: |sent| still holds its values
    return r;
}

// The receive of |sent| has ended before.
static result *not_received(const transfer *sent) {
    gw_error error;
    const agent *a = sent->agent;
    error_set(&error, GW_CANCELLED,
              "%s has refused the message with tag %lld, or no longer waits for it", a->name,
              (long long)sent->tag);
    return result_of_error(&error);
}

static void match(transfer *sent, transfer *awaited) {
    gw_error error;
    if (!awaited->future) {
        complete(sent, not_received(sent));
        free_transfer(awaited);
        return;
    }
    bool has_source = awaited->source_in && sent->future;
    result *value = has_source ? with_source(sent, awaited->source_in) : result_retain(sent->value);
    if (!value) {
        error_set(&error, GW_NO_MEMORY, "no memory for a message");
        value = result_of_error(&error);
    }
    complete(awaited, value);
    result *taken = result_of_value(gw_none());
    if (!taken) {
        error_set(&error, GW_NO_MEMORY, "no memory for a message");
        taken = result_of_error(&error);
    }
    complete(sent, taken);
}

static void forget_if_closed(transfer *x, const void *none) {
    bool is_closed =
        !group_find_on_loop(x->agent, x->group) && groups_has_met_on_loop(x->agent, x->group);
    (void)none;
    if (!x->future && is_closed) free_transfer(x);
}

// Of groups that are closed here those that have ended early are matched no more.
static void note_ended(agent *a) {
    enum { EACH = 256 };
    if (++transfers_of(a)->ended % EACH == 0) each_transfer(a, forget_if_closed, NULL);
}

static result *given_up(const transfer *sent) {
    gw_error error;
    error_set(&error, GW_CANCELLED, "%s has cancelled this message with tag %lld",
              agent_member(sent->agent, sent->from)->name, (long long)sent->tag);
    return result_of_error(&error);
}

static void gave_up(canceller *c) {
    transfer *x = list_entry(c, transfer, gave_up);
    if (x->from == ANY_MEMBER || agent_member(x->agent, x->from)->lost) {
        free_transfer(x);
        return;
    }
    awaits_close_on_loop(&x->await);
    x->future->makers--;
    future_release_on_loop(x->future);
    x->future = NULL;
    if (x->value) {
        result *tensor = x->value;
        x->value = given_up(x);
        result_release_on_loop(x->agent, tensor);
    }
    note_ended(x->agent);
}

// ---- Waiting for the sender's program -----------------------------------------------------------

static int next_sender(const await *w, int *at) {
    const transfer *x = list_entry(w, const transfer, await);
    return (*at)++ ? -1 : x->from;
}

static int next_of_any(const await *w, int *at) {
    const gw_group *g = list_entry(w, const transfer, await)->source_in;
    if (*at == g->self) ++*at;  // the waiting thread itself would have to send to its own rank
    return *at < g->count ? g->members[(*at)++].rank : -1;
}

static void end_await(await *w, int rank, const gw_error *why) {
    gw_error error = *why;
    (void)rank;
    error_prefix(&error,
                 list_entry(w, transfer, await)->from == ANY_MEMBER ? "gw_recv_any" : "gw_recv");
    complete(list_entry(w, transfer, await), result_of_error(&error));
}

static const await_class await_of_one = { .next = next_sender, .end = end_await };
static const await_class await_of_any = { .any = true, .next = next_of_any, .end = end_await };

void transfer_await_on_loop(transfer *x, gw_scope *s) {
    agent *a = x->agent;
    awaits_open_on_loop(a, &x->await, x->from == ANY_MEMBER ? &await_of_any : &await_of_one,
                        a->rank, awaits_caller_on_loop(a, s));
}

// A receive that has ended waits for no member.
static void describe(const gw_future *f, trace_activity *out) {
    if (f->on_cancel) activity_add_await(out, &list_entry(f->on_cancel, transfer, gave_up)->await);
}

static const future_source receive_source = { .describe = describe };

// ---- Posting ------------------------------------------------------------------------------------

bool transfer_post_on_loop(transfer *x, bool is_sent) {
    if (!x->future) note_ended(x->agent);
    transfer *other = is_sent ? find_awaited(x) : find_sent(x);
    if (!other && !put(x, is_sent)) return false;
    x->gave_up.run = gave_up;
    if (x->future) {
        x->future->makers = 1;
        x->future->on_cancel = &x->gave_up;
        if (!is_sent) x->future->source = &receive_source;
    }
    if (other) match(is_sent ? x : other, is_sent ? other : x);
    return true;
}

// ---- Ends, and the state ------------------------------------------------------------------------

static void fail(transfer *x, const void *why) {
    complete(x, result_of_error(why));
}

typedef struct loss {
    int rank;
    gw_error why;
} loss;

static void fail_if_lost(transfer *x, const void *data) {
    const loss *l = data;
    if (x->from == l->rank) fail(x, &l->why);
}

// A lost member posts no others.
void transfers_lost_on_loop(agent *a, int rank) {
    const loss l = { rank, agent_why_lost(agent_member(a, rank)) };
    each_transfer(a, fail_if_lost, &l);
}

void transfers_stop_on_loop(agent *a, const gw_error *why) {
    const transfers *all = transfers_of(a);
    while (!list_is_empty(&all->sent) || !list_is_empty(&all->awaited)) each_transfer(a, fail, why);
}

gw_status transfers_open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    transfers *x = mem_calloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for messages");
    list_init(&x->sent);
    list_init(&x->awaited);
    *state = x;
    return GW_OK;
}

void transfers_free(void *state) {
    transfers *x = state;
    map_fini(&x->queues);
    mem_free(x);
}
