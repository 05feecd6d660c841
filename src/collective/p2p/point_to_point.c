// Point-to-point messages: a tensor that one member of a group sends to another, matched by sender and tag. A send is
// a call that returns once the receiver has taken the tensor, so that bounds, deadlines and losses are those of
// calls.
//
// The n-th send of a tag is received by the n-th receive. So a send or receive that is refused, fails or is given up
// keeps its place, as an ended transfer, and the transfer that is matched with it fails. A receive from any member has
// no place among those of one sender: it takes nothing if it ends early.
#include "agent/awaits.h"
#include "base/args.h"
#include "base/mem.h"
#include "base/value.h"
#include "call/call.h"
#include "collective/group/groups_state.h"
#include "collective/p2p/point_to_point.h"
#include "future/future.h"

#include <gradwire/autograd.h>

enum { ANY_MEMBER = -1 };

// The transfers of one sender, or of any, with one tag: sends that wait for a receive, and receives that wait.
typedef struct transfer_queue {
    uint64_t key;  // a hash, which other queues may share
    list_node sent, awaited;
} transfer_queue;

enum { OF_SENDER, OF_ANY, QUEUES };

typedef struct transfer_link {
    list_node link;
    transfer_queue *queue;  // NULL: it is in no queue
    struct transfer *transfer;
} transfer_link;

// A tensor that was sent and not received yet, or a waiting receive.
typedef struct transfer {
    list_node link;
    transfer_link in[QUEUES];  // a receive uses one of them
    uint64_t order;            // the order of arrival
    await await;               // of a receive
    canceller gave_up;
    agent *agent;
    uint64_t group, list;
    int64_t tag;
    int from;  // a rank in the job; of a receive also ANY_MEMBER
    gw_group
        *source_in;  // of a receive, one count: the result is a list of the sender's rank in it and
                     // the tensor; NULL: the tensor
    gw_future *future;  // one count: of the call, or of the receive; NULL: it has ended
    result *value;      // of a send: the tensor, or the error with which it has ended
} transfer;

typedef struct transfers {
    list_node sent, awaited;  // in the order of arrival
    map queues;               // by key
    uint64_t count;           // of all that have arrived
    uint64_t ended;           // how many have ended early
} transfers;

static const service_data data = { 0 };

static transfers *transfers_of(const agent *a) {
    return agent_state(a, &data);
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
              "%s has refused, or no longer waits for, this message of tag %lld", a->name,
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

static void forget_closed(agent *a, list_node *list) {
    list_node all;
    list_init(&all);
    list_splice(&all, list);
    for (list_node *l; (l = list_take(&all));) {
        list_append(list, l);
        transfer *x = list_entry(l, transfer, link);
        bool is_closed = !group_find_on_loop(a, x->group) && groups_has_met_on_loop(a, x->group);
        if (!x->future && is_closed) free_transfer(x);
    }
}

// Of groups that are closed here those that have ended early are matched no more.
static void note_ended(agent *a) {
    enum { EACH = 256 };
    transfers *all = transfers_of(a);
    if (++all->ended % EACH) return;
    forget_closed(a, &all->sent);
    forget_closed(a, &all->awaited);
}

static result *given_up(const transfer *sent) {
    gw_error error;
    error_set(&error, GW_CANCELLED, "%s has given up this message of tag %lld",
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

// Takes |x|, whose future is new. False if allocation fails; then |x| is still the caller's.
static bool post(transfer *x, bool is_sent) {
    if (!x->future) note_ended(x->agent);
    transfer *other = is_sent ? find_awaited(x) : find_sent(x);
    if (!other && !put(x, is_sent)) return false;
    x->gave_up.run = gave_up;
    if (x->future) {
        x->future->makers = 1;
        x->future->on_cancel = &x->gave_up;
    }
    if (other) match(is_sent ? x : other, is_sent ? other : x);
    return true;
}

// ---- Sending ------------------------------------------------------------------------------------

// The sender has refused the message with an error, and does not wait.
static result *result_to_send(gw_value v) {
    return v.kind == GW_ERROR ? result_of_error(v.as.error) : result_of_value(v);
}

static gw_value send_body(gw_scope *s, const gw_args *args) {
    agent *a = s->agent;
    gw_value sent = gw_arg(s, args, 3);
    bool is_refused = gw_ok(s) && sent.kind == GW_ERROR;
    transfer *x = mem_calloc(sizeof *x);
    gw_future *f = x && !is_refused ? scope_own(s, future_open(a, "")) : NULL;
    if (x) {
        x->agent = a;
        x->group = (uint64_t)gw_arg_int(s, args, 0);
        x->list = (uint64_t)gw_arg_int(s, args, 1);
        x->tag = gw_arg_int(s, args, 2);
        x->from = args->caller.rank;
        x->value = result_to_send(sent);
    }
    if (!x || !(f || is_refused) || !x->value || s->error) {
        if (x && x->value) result_release(x->value);
        mem_free(x);
        if (gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a message");
        return gw_none();
    }
    if (f) x->future = handle_retain(f);
    env_enter(a->env);
    bool ok = post(x, true);
    env_leave(a->env);
    if (ok) return f ? gw_value_of(f) : gw_none();
    handle_release(x->future);
    result_release(x->value);
    mem_free(x);
    scope_fail(s, GW_NO_MEMORY, "no memory for a message");
    return gw_none();
}

static bool check_peer(gw_scope *s, const char *what, const gw_group *g, int rank) {
    group_check_live(g);
    awaits_note_root(s);
    if (s->error) return false;
    if (!g || g == &group_poison)
        scope_fail(s, GW_INVALID, "%s: %s", what,
                   g ? "a group that could not be opened" : "the group is NULL");
    else if (s->agent != g->agent)
        scope_fail(s, GW_INVALID, "%s: the group is of another agent than the scope", what);
    else if (rank < 0 || rank >= g->count)
        scope_fail(s, GW_INVALID, "%s: rank %d of group \"%s\", which has %d", what, rank, g->name,
                   g->count);
    return gw_ok(s);
}

// Whether messages of this member and |rank| have an order, which a refused one keeps.
static bool has_order(const gw_group *g, int rank) {
    return g && g != &group_poison && rank >= 0 && rank < g->count && !agent_is_closed(g->agent) &&
           !is_process_fork(g->agent->mark);
}

// |s| has failed: the receive of that message gets the error.
static gw_future *refuse_send(gw_scope *s, const gw_group *g, int to, int64_t tag) {
    if (!has_order(g, to)) return &future_poison;
    gw_error error = *scope_error(s);
    error_prefix(&error, group_member_name(g, g->self));
    gw_scope *t = agent_scope_open(g->agent, 0, 0, ENV_NEVER);
    const gw_value args[] = { gw_value_of_int((int64_t)g->id),
                              gw_value_of_int((int64_t)g->list),
                              gw_value_of_int(tag),
                              { .kind = GW_ERROR, .as.error = &error } };
    gw_rpc_async_with(t, gw_to_rank(g->members[to].rank), "gw.send", (gw_values){ 4, args },
                      GW_OPTIONS(gw_call_options));
    scope_discard(t);
    return &future_poison;
}

// |s| has failed: the message of this receive fails.
static gw_future *refuse_recv(const gw_group *g, int from, int64_t tag) {
    transfer *x = has_order(g, from) ? mem_calloc(sizeof *x) : NULL;
    if (!x) return &future_poison;
    agent *a = g->agent;
    *x = (transfer){
        .agent = a, .group = g->id, .list = g->list, .tag = tag, .from = g->members[from].rank
    };
    env_enter(a->env);
    bool may_arrive = a->phase != AGENT_LEFT && !agent_member(a, x->from)->lost;
    if (!may_arrive || !post(x, false)) mem_free(x);
    env_leave(a->env);
    return &future_poison;
}

static int64_t timeout_of(const gw_group *g, gw_message_options options) {
    return options.timeout_ms == GW_GROUP_TIMEOUT ? g->timeout_ms : options.timeout_ms;
}

// Adds the missing member to the timeout of |s|: a call or a future does not have its name. |member| -1: any member.
static void name_late_member(gw_scope *s, const gw_group *g, const char *what, int member,
                             int64_t tag) {
    const gw_error *e = scope_error(s);
    if (!e || e->status != GW_TIMEOUT) return;
    const char *name =
        member < 0 ? "any member" : agent_member(g->agent, (int)g->members[member].rank)->name;
    gw_scope_clear(s);
    scope_fail(s, GW_TIMEOUT, "%s %s of group \"%s\", tag %lld: it has not arrived in time", what,
               name, g->name, (long long)tag);
}

gw_future *gw_isend_with(gw_scope *s, gw_group *g, gw_tensor *x, int to,
                         gw_message_options options) {
    if (!check_peer(s, "gw_send", g, to) || !tensor_is_given(s, "gw_send", x))
        return refuse_send(s, g, to, options.tag);
    gw_tensor *input = gw_detach(s, x);
    const gw_value args[] = { gw_value_of_int((int64_t)g->id), gw_value_of_int((int64_t)g->list),
                              gw_value_of_int(options.tag), gw_value_of_tensor(input) };
    gw_call_options how = { .timeout_ms = timeout_of(g, options), .origin = options.origin };
    gw_future *f = gw_rpc_async_with(s, gw_to_rank(g->members[to].rank), "gw.send",
                                     (gw_values){ 4, args }, how);
    if (s->error) return refuse_send(s, g, to, options.tag);
    gw_drop(s, input);
    call_needs_program(s, f, false);
    return f;
}

void gw_send_with(gw_scope *s, gw_group *g, gw_tensor *x, int to, gw_message_options options) {
    gw_future *f = gw_isend_with(s, g, x, to, options);
    if (f == &future_poison) return;
    gw_wait(s, f);
    name_late_member(s, g, "gw_send to", to, options.tag);
    gw_drop(s, f);
}

// ---- Receiving ----------------------------------------------------------------------------------

static gw_status check_source(const gw_group *g, int from, gw_error *error) {
    const agent *a = g->agent;
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a message", error);
    if (from == ANY_MEMBER || !agent_member(a, from)->lost) return GW_OK;
    *error = *agent_member(a, from)->why;
    error_prefix_worker(error, agent_member(a, from)->name);
    return error->status;
}

static gw_future *receive(gw_scope *s, gw_group *g, int from, gw_message_options options) {
    agent *a = g->agent;
    gw_error error;
    transfer *x = mem_calloc(sizeof *x);
    gw_future *f = x ? scope_own(s, future_open(a, "gw_recv")) : NULL;
    if (!f) {
        mem_free(x);
        if (gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a message");
        return &future_poison;
    }
    *x = (transfer){ .agent = a,
                     .group = g->id,
                     .list = g->list,
                     .tag = options.tag,
                     .from = from,
                     .source_in = from == ANY_MEMBER ? handle_retain(g) : NULL,
                     .future = handle_retain(f) };
    env_enter(a->env);
    gw_status status = check_source(g, from, &error);
    if (!status) {
        awaits_open_on_loop(a, &x->await, from == ANY_MEMBER ? &await_of_any : &await_of_one,
                            a->rank, awaits_caller_on_loop(a, s));
        if (!post(x, false)) status = error_set(&error, GW_NO_MEMORY, "no memory for a message");
    }
    if (status) {
        awaits_close_on_loop(&x->await);
        future_release_on_loop(x->future);
    }
    env_leave(a->env);
    if (!status) return f;
    handle_release(x->source_in);
    mem_free(x);
    scope_fail_with(s, &error);
    return &future_poison;
}

gw_future *gw_irecv_with(gw_scope *s, gw_group *g, int from, gw_message_options options) {
    gw_future *f = check_peer(s, "gw_recv", g, from) ? receive(s, g, g->members[from].rank, options)
                                                     : &future_poison;
    return f == &future_poison ? refuse_recv(g, from, options.tag) : f;
}

// Waits as long as the options allow. |what| NULL: for several messages, of which the late one is unknown.
static gw_value wait_for(gw_scope *s, const gw_group *g, gw_future *f, gw_message_options options,
                         const char *what, int from) {
    if (f == &future_poison) return gw_none();
    gw_scope *t = gw_scope_open(s);
    if (timeout_of(g, options)) gw_scope_set_timeout(t, timeout_of(g, options));
    gw_value v = gw_wait(t, f);
    if (!gw_ok(t)) gw_cancel(t, f);
    if (what) name_late_member(t, g, what, from, options.tag);
    gw_scope_close_up(t);
    if (gw_ok(s) && v.kind != GW_NONE) v = gw_future_value(s, f);
    gw_drop(s, f);
    return s->error ? gw_none() : v;
}

gw_tensor *gw_recv_with(gw_scope *s, gw_group *g, int from, gw_message_options options) {
    gw_future *f = gw_irecv_with(s, g, from, options);
    return gw_tensor_of(s, wait_for(s, g, f, options, "gw_recv from", from));
}

gw_future *gw_irecv_any_with(gw_scope *s, gw_group *g, gw_message_options options) {
    if (!check_peer(s, "gw_recv_any", g, 0)) return &future_poison;
    return receive(s, g, ANY_MEMBER, options);
}

gw_tensor *gw_recv_any_with(gw_scope *s, gw_group *g, int *out_from, gw_message_options options) {
    gw_future *f = gw_irecv_any_with(s, g, options);
    const gw_list *both = gw_list_of(s, wait_for(s, g, f, options, "gw_recv_any from", -1));
    if (s->error) return tensor_poison_of(s);
    if (out_from) *out_from = (int)gw_int_of(s, gw_list_get(s, both, 0));
    gw_tensor *out = gw_keep(s, gw_tensor_of(s, gw_list_get(s, both, 1)));
    gw_drop(s, both);
    return out;
}

// ---- Batches ------------------------------------------------------------------------------------

static bool check_batch(gw_scope *s, const gw_group *g, const gw_message *messages, int count,
                        gw_message_options options) {
    const char *what = "gw_batch";
    if (!check_peer(s, what, g, 0)) return false;
    if (options.tag)
        scope_fail(s, GW_INVALID,
                   "%s: .tag is of gw_send and gw_recv; here each message has its own", what);
    else if (count < 0 || (count && !messages))
        scope_fail(s, GW_INVALID, "%s: %d messages%s", what, count, messages ? "" : " at NULL");
    for (int i = 0; gw_ok(s) && i < count; i++)
        if (check_peer(s, what, g, messages[i].peer) && messages[i].send)
            tensor_is_given(s, what, messages[i].send);
    return gw_ok(s);
}

static gw_future *post_one(gw_scope *s, gw_group *g, const gw_message *x,
                           gw_message_options options) {
    options.tag = x->tag;
    return x->send ? gw_isend_with(s, g, x->send, x->peer, options)
                   : gw_irecv_with(s, g, x->peer, options);
}

static gw_future *refuse_one(gw_scope *s, gw_group *g, const gw_message *x) {
    return x->send ? refuse_send(s, g, x->peer, x->tag) : refuse_recv(g, x->peer, x->tag);
}

// Of a batch that is refused all messages are, also those that are valid.
static gw_future *refuse_batch(gw_scope *s, gw_group *g, const gw_message *messages, int count) {
    for (int i = 0; messages && i < count; i++) refuse_one(s, g, &messages[i]);
    return &future_poison;
}

gw_future *gw_batch_async_with(gw_scope *s, gw_group *g, const gw_message *messages, int count,
                               gw_message_options options) {
    if (!check_batch(s, g, messages, count, options)) return refuse_batch(s, g, messages, count);
    gw_future **all = gw_alloc(s, ((size_t)count + 1) * sizeof *all);
    if (!all) return refuse_batch(s, g, messages, count);
    for (int i = 0; i < count; i++)  // after a failure the others are refused
        all[i] = post_one(s, g, &messages[i], options);
    if (s->error) return &future_poison;
    gw_future *out = gw_collect_all(s, all, count);
    for (int i = 0; i < count; i++) gw_drop(s, all[i]);  // cancelled with |out|
    return out;
}

gw_list *gw_batch_with(gw_scope *s, gw_group *g, const gw_message *messages, int count,
                       gw_message_options options) {
    gw_future *f = gw_batch_async_with(s, g, messages, count, options);
    gw_value v = wait_for(s, g, f, options, NULL, -1);
    return s->error ? gw_list_open(s) : gw_list_of(s, v);
}

// ---- The service --------------------------------------------------------------------------------

static const function point_to_point_functions[] = {
    { .name = (char *)"gw.send",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_INT, 1 << GW_INT, 1 << GW_INT, 1 << GW_TENSOR | 1 << GW_ERROR),
      .body = send_body },
    { 0 },
};

static const function *const functions[] = { point_to_point_functions, NULL };

static void fail_all(list_node *list, const gw_error *why) {
    while (!list_is_empty(list))
        complete(list_entry(list->next, transfer, link), result_of_error(why));
}

// The end of a transfer may post others, but none of a member that is lost.
static void fail_of(list_node *list, int rank, const gw_error *why) {
    list_node all;
    list_init(&all);
    list_splice(&all, list);
    for (list_node *l; (l = list_take(&all));) {
        list_append(list, l);
        transfer *x = list_entry(l, transfer, link);
        if (x->from == rank) complete(x, result_of_error(why));
    }
}

static void lost(agent *a, int rank) {
    gw_error error = *agent_member(a, rank)->why;
    error_prefix_worker(&error, agent_member(a, rank)->name);
    fail_of(&transfers_of(a)->sent, rank, &error);
    fail_of(&transfers_of(a)->awaited, rank, &error);
}

static void stop(agent *a, const gw_error *why) {
    fail_all(&transfers_of(a)->sent, why);
    fail_all(&transfers_of(a)->awaited, why);
}

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    transfers *x = mem_calloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for messages");
    list_init(&x->sent);
    list_init(&x->awaited);
    *state = x;
    return GW_OK;
}

static void free_state(void *state) {
    transfers *x = state;
    map_fini(&x->queues);
    mem_free(x);
}

const service point_to_point_service = { .name = "point_to_point",
                                         .data = &data,
                                         .functions = functions,
                                         .open = open,
                                         .lost = lost,
                                         .stop = stop,
                                         .free = free_state };
