// Letters: what one member of a group sends to another, matched by sender and tag. A letter is a call
// that returns once the receiver has taken it, so that bounds, deadlines and losses are those of calls.
#include "agent/awaits.h"
#include "base/args.h"
#include "base/mem.h"
#include "base/value.h"
#include "call/call.h"
#include "collective/collective.h"
#include "collective/group.h"
#include "future/future.h"

#include <gradwire/autograd.h>

enum { ANY_MEMBER = -1 };

// A letter that nobody has asked for yet, or a member that waits for one.
typedef struct letter {
    list_node link;
    await await;  // of who waits
    canceller gave_up;
    agent *agent;
    uint64_t group, list;
    int64_t tag;
    int from;  // a rank in the job, or ANY_MEMBER of who waits
    gw_group
        *told_in;  // of who waits, one count: the result is a list of the sender's rank in it and
                   // the tensor; NULL: the tensor
    gw_future *future;  // one count: of the call, or of who waits
    result *value;      // of a letter
} letter;

typedef struct letters {
    list_node sent, awaited;  // in the order in which they came
} letters;

static letters *letters_of(const agent *a) {
    return agent_state(a, &letter_service);
}

// ---- Matching -----------------------------------------------------------------------------------

static bool fits(const letter *sent, const letter *awaited) {
    return sent->group == awaited->group && sent->list == awaited->list &&
           sent->tag == awaited->tag &&
           (awaited->from == ANY_MEMBER || awaited->from == sent->from);
}

static letter *find(list_node *list, const letter *other, bool other_is_sent) {
    list_each(l, list) {
        letter *x = list_entry(l, letter, link);
        if (other_is_sent ? fits(other, x) : fits(x, other)) return x;
    }
    return NULL;
}

static void free_letter(letter *x) {
    list_remove(&x->link);
    awaits_close_on_loop(&x->await);
    if (x->told_in) group_release_on_loop(x->told_in);
    x->future->makers--;
    future_release_on_loop(x->future);
    if (x->value) result_release_on_loop(x->agent, x->value);
    mem_free(x);
}

static void complete(letter *x, result *value) {
    x->future->on_cancel = NULL;
    list_remove(&x->link);
    future_complete_on_loop(x->future, value);
    free_letter(x);
}

static result *with_source(const letter *sent, const gw_group *g) {
    gw_list *list = list_open();
    bool full = list && list_add(list, gw_value_of_int(group_index_of(g, sent->from))) &&
                list_add(list, sent->value->value);
    result *r = full ? result_of_value(gw_value_of_list(list)) : NULL;
    handle_release(list);  // with the loop lock: what it held lives on in |sent|
    return r;
}

static void meet(letter *sent, letter *awaited) {
    gw_error error;
    result *value =
        awaited->told_in ? with_source(sent, awaited->told_in) : result_retain(sent->value);
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

static void gave_up(canceller *c) {
    free_letter(list_entry(c, letter, gave_up));
}

// ---- Waiting for a program ----------------------------------------------------------------------

static int next_sender(const await *w, int *at) {
    const letter *x = list_entry(w, const letter, await);
    return (*at)++ ? -1 : x->from;
}

static int next_of_any(const await *w, int *at) {
    const gw_group *g = list_entry(w, const letter, await)->told_in;
    if (*at == g->self) ++*at;  // a letter to oneself is sent by whoever waits, or has been
    return *at < g->count ? g->members[(*at)++].rank : -1;
}

static void end_await(await *w, int rank, const gw_error *why) {
    gw_error error = *why;
    (void)rank;
    error_prefix(&error,
                 list_entry(w, letter, await)->from == ANY_MEMBER ? "gw_recv_any" : "gw_recv");
    complete(list_entry(w, letter, await), result_of_error(&error));
}

static const await_class await_of_one = { .next = next_sender, .end = end_await };
static const await_class await_of_any = { .any = true, .next = next_of_any, .end = end_await };

// Takes |x|, whose future is new.
static void post(letter *x, bool is_sent) {
    letters *all = letters_of(x->agent);
    letter *other = find(is_sent ? &all->awaited : &all->sent, x, is_sent);
    x->gave_up.run = gave_up;
    x->future->makers = 1;
    x->future->on_cancel = &x->gave_up;
    list_append(is_sent ? &all->sent : &all->awaited, &x->link);
    if (other) meet(is_sent ? x : other, is_sent ? other : x);
}

// ---- Sending ------------------------------------------------------------------------------------

static gw_value letter_body(gw_scope *s, const gw_args *args) {
    agent *a = s->agent;
    letter *x = mem_calloc(sizeof *x);
    gw_future *f = x ? scope_own(s, future_open(a, "")) : NULL;
    if (x) {
        x->agent = a;
        x->group = (uint64_t)gw_arg_int(s, args, 0);
        x->list = (uint64_t)gw_arg_int(s, args, 1);
        x->tag = gw_arg_int(s, args, 2);
        x->from = args->caller.rank;
        x->value = result_of_value(gw_arg(s, args, 3));
    }
    if (!x || !f || !x->value || s->error) {
        if (x && x->value) result_release(x->value);
        mem_free(x);
        if (gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a message");
        return gw_none();
    }
    x->future = handle_retain(f);
    env_enter(a->env);
    post(x, true);
    env_leave(a->env);
    return gw_value_of(f);
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

static int64_t timeout_of(const gw_group *g, gw_message_options options) {
    return options.timeout_ms == GW_GROUP_TIMEOUT ? g->timeout_ms : options.timeout_ms;
}

// Says whom |s| has awaited in vain, which a call or a future does not know. |member| -1: anybody.
static void name_who_is_late(gw_scope *s, const gw_group *g, const char *what, int member,
                             int64_t tag) {
    const gw_error *e = scope_error(s);
    if (!e || e->status != GW_TIMEOUT) return;
    const char *name =
        member < 0 ? "any member" : agent_member(g->agent, (int)g->members[member].rank)->name;
    gw_scope_clear(s);
    scope_fail(s, GW_TIMEOUT, "%s %s of group \"%s\", tag %lld: it has not come in time", what,
               name, g->name, (long long)tag);
}

gw_future *gw_isend_with(gw_scope *s, gw_group *g, gw_tensor *x, int to,
                         gw_message_options options) {
    if (!check_peer(s, "gw_send", g, to) || !tensor_is_given(s, "gw_send", x))
        return &future_poison;
    gw_tensor *brought = gw_detach(s, x);
    const gw_value args[] = { gw_value_of_int((int64_t)g->id), gw_value_of_int((int64_t)g->list),
                              gw_value_of_int(options.tag), gw_value_of_tensor(brought) };
    gw_call_options how = { .timeout_ms = timeout_of(g, options), .origin = options.origin };
    gw_future *f = gw_rpc_async_with(s, gw_to_rank(g->members[to].rank), "gw.send",
                                     (gw_values){ 4, args }, how);
    gw_drop(s, brought);
    call_needs_program(s, f, false);
    return f;
}

void gw_send_with(gw_scope *s, gw_group *g, gw_tensor *x, int to, gw_message_options options) {
    gw_future *f = gw_isend_with(s, g, x, to, options);
    if (f == &future_poison) return;
    gw_wait(s, f);
    name_who_is_late(s, g, "gw_send to", to, options.tag);
    gw_drop(s, f);
}

// ---- Receiving ----------------------------------------------------------------------------------

static gw_status check_source(const gw_group *g, int from, gw_error *error) {
    const agent *a = g->agent;
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a message", error);
    if (from == ANY_MEMBER || !agent_member(a, from)->lost) return GW_OK;
    *error = *agent_member(a, from)->why;
    error_prefix(error, agent_member(a, from)->name);
    return error->status;
}

static gw_future *receive(gw_scope *s, gw_group *g, int from, gw_message_options options) {
    agent *a = g->agent;
    gw_error error;
    letter *x = mem_calloc(sizeof *x);
    gw_future *f = x ? scope_own(s, future_open(a, "gw_recv")) : NULL;
    if (!f) {
        mem_free(x);
        if (gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a message");
        return &future_poison;
    }
    *x = (letter){ .agent = a,
                   .group = g->id,
                   .list = g->list,
                   .tag = options.tag,
                   .from = from,
                   .told_in = from == ANY_MEMBER ? handle_retain(g) : NULL,
                   .future = handle_retain(f) };
    env_enter(a->env);
    gw_status status = check_source(g, from, &error);
    if (!status) {
        awaits_open_on_loop(a, &x->await, from == ANY_MEMBER ? &await_of_any : &await_of_one,
                            a->rank, awaits_caller_on_loop(a, s));
        post(x, false);
    } else
        future_release_on_loop(x->future);
    env_leave(a->env);
    if (!status) return f;
    handle_release(x->told_in);
    mem_free(x);
    scope_fail_with(s, &error);
    return &future_poison;
}

gw_future *gw_irecv_with(gw_scope *s, gw_group *g, int from, gw_message_options options) {
    if (!check_peer(s, "gw_recv", g, from)) return &future_poison;
    return receive(s, g, g->members[from].rank, options);
}

// At most as long as the options say. |what| NULL: for several, of which it is not known who is late.
static gw_value wait_for(gw_scope *s, const gw_group *g, gw_future *f, gw_message_options options,
                         const char *what, int from) {
    if (f == &future_poison) return gw_none();
    gw_scope *t = gw_scope_open(s);
    if (timeout_of(g, options)) gw_scope_set_timeout(t, timeout_of(g, options));
    gw_value v = gw_wait(t, f);
    if (!gw_ok(t)) gw_cancel(t, f);
    if (what) name_who_is_late(t, g, what, from, options.tag);
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

// ---- Several ------------------------------------------------------------------------------------

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

gw_future *gw_batch_async_with(gw_scope *s, gw_group *g, const gw_message *messages, int count,
                               gw_message_options options) {
    if (!check_batch(s, g, messages, count, options)) return &future_poison;
    gw_future **all = gw_alloc(s, ((size_t)count + 1) * sizeof *all);
    for (int i = 0; all && i < count && gw_ok(s); i++)
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

static const function letter_functions[] = {
    { .name = (char *)"gw.send",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_INT, 1 << GW_INT, 1 << GW_INT, 1 << GW_TENSOR),
      .body = letter_body },
    { 0 },
};

static const function *const functions[] = { letter_functions, NULL };

// What ends may post other letters, so each search begins again.
static letter *find_of(list_node *list, int rank) {
    list_each(l, list) {
        letter *x = list_entry(l, letter, link);
        if (rank < 0 || x->from == rank) return x;
    }
    return NULL;
}

static void fail_of(list_node *list, int rank, const gw_error *why) {
    for (letter *x; (x = find_of(list, rank));) complete(x, result_of_error(why));
}

static void lost(agent *a, int rank) {
    gw_error error = *agent_member(a, rank)->why;
    error_prefix(&error, agent_member(a, rank)->name);
    fail_of(&letters_of(a)->sent, rank, &error);
    fail_of(&letters_of(a)->awaited, rank, &error);
}

static void stop(agent *a, const gw_error *why) {
    fail_of(&letters_of(a)->sent, -1, why);
    fail_of(&letters_of(a)->awaited, -1, why);
}

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    letters *x = mem_alloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for letters");
    list_init(&x->sent);
    list_init(&x->awaited);
    *state = x;
    return GW_OK;
}

static void free_state(void *state) {
    mem_free(state);
}

const service letter_service = { .name = "letter",
                                 .functions = functions,
                                 .open = open,
                                 .lost = lost,
                                 .stop = stop,
                                 .free = free_state };
