// Point-to-point messages: a tensor that one member of a group sends to another, matched by sender and tag. A send is
// a call that returns once the receiver has taken the tensor, so that bounds, deadlines and losses are those of
// calls.
#include "base/args.h"
#include "base/mem.h"
#include "call/call.h"
#include "collective/p2p/transfers.h"

#include <gradwire/autograd.h>

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
    bool ok = transfer_post_on_loop(x, true);
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
                   g ? "the group could not be opened" : "the group is NULL");
    else if (s->agent != g->agent)
        scope_fail(s, GW_INVALID, "%s: the group belongs to another agent than the scope", what);
    else if (rank < 0 || rank >= g->count)
        scope_fail(s, GW_INVALID, "%s: rank %d is out of range for group \"%s\" of %d members",
                   what, rank, g->name, g->count);
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
    gw_error error = group_error_of_self(g, scope_error(s));
    gw_scope *t = agent_scope_open(g->agent, 0, 0, ENV_NEVER);
    const gw_value args[] = { gw_value_of_int((int64_t)g->id),
                              gw_value_of_int((int64_t)g->list),
                              gw_value_of_int(tag),
                              { .kind = GW_ERROR, .as.error = &error } };
    gw_rpc_async_with(t, gw_to_rank(g->members[to].rank), "gw.send", (gw_values){ 4, args },
                      GW_OPTIONS(gw_call_options));
    scope_close_unread(t);
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
    if (!may_arrive || !transfer_post_on_loop(x, false)) mem_free(x);
    env_leave(a->env);
    return &future_poison;
}

// Adds the missing member to the timeout of |s|: a call or a future does not have its name. |member| -1: any member.
static void name_late_member(gw_scope *s, const gw_group *g, const char *what, int member,
                             int64_t tag) {
    const gw_error *e = scope_error(s);
    if (!e || e->status != GW_TIMEOUT) return;
    const char *name =
        member < 0 ? "any member" : agent_member(g->agent, (int)g->members[member].rank)->name;
    gw_scope_clear(s);
    scope_fail(s, GW_TIMEOUT, "%s %s of group \"%s\", tag %lld: has not ended before the deadline",
               what, name, g->name, (long long)tag);
}

gw_future *gw_isend_with(gw_scope *s, gw_group *g, gw_tensor *x, int to,
                         gw_message_options options) {
    if (!check_peer(s, "gw_send", g, to) || !tensor_is_given(s, "gw_send", x))
        return refuse_send(s, g, to, options.tag);
    gw_tensor *input = gw_detach(s, x);
    const gw_value args[] = { gw_value_of_int((int64_t)g->id), gw_value_of_int((int64_t)g->list),
                              gw_value_of_int(options.tag), gw_value_of_tensor(input) };
    gw_call_options how = { .timeout_ms = group_timeout_ms(g, options.timeout_ms),
                            .origin = options.origin };
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
    *error = agent_why_lost(agent_member(a, from));
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
        transfer_await_on_loop(x, s);
        if (!transfer_post_on_loop(x, false))
            status = error_set(&error, GW_NO_MEMORY, "no memory for a message");
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
    if (group_timeout_ms(g, options.timeout_ms))
        gw_scope_set_timeout(t, group_timeout_ms(g, options.timeout_ms));
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
                   "%s: .tag can be used with gw_send and gw_recv only; each message of a batch "
                   "has a .tag of its own",
                   what);
    else if (count < 0 || (count && !messages))
        scope_fail(s, GW_INVALID, "%s: %d messages were given%s", what, count,
                   messages ? "" : ", but the list is NULL");
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
      .body = send_body,
      .starts_unserved = true },
    { 0 },
};

static const function *const functions[] = { point_to_point_functions, NULL };

const service point_to_point_service = { .name = "point_to_point",
                                         .data = &transfers_data,
                                         .functions = functions,
                                         .open = transfers_open,
                                         .lost = transfers_lost_on_loop,
                                         .stop = transfers_stop_on_loop,
                                         .free = transfers_free };
