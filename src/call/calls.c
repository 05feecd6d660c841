// Calling: the functions of gradwire/rpc.h.
#include "call/call.h"

#include "future/result.h"

gw_value call_sync(call *c, gw_scope *s) {
    agent *a = c->agent;
    env_enter(a->env);
    call_await_flow_on_loop(c);
    if (call_send_on_loop(c) == GW_OK && !future_wait_on_loop(c->future, s, c->deadline_ns))
        call_expire_on_loop(c->future);
    env_leave(a->env);
    if (c->error.status) {
        scope_fail_with(s, &c->error);
        return gw_none();
    }
    return result_give(future_result(c->future), s);
}

gw_value gw_rpc_sync_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return gw_none();
    gw_error error;
    if (context_check_wait(s, &error)) {
        error.outcome = GW_NOT_DELIVERED;
        scope_fail_with(s, &error);
        return gw_none();
    }
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, true);
    if (c.future) c.future->once = true;
    gw_value v = call_sync(&c, s);
    call_fini(&c);
    return v;
}

// Its error, if there is one, is found by whoever waits.
void call_start(call *c) {
    agent *a = c->agent;
    env_enter(a->env);
    call_await_flow_on_loop(c);
    if (call_send_on_loop(c)) {
        future_fail_on_loop(c->future, &c->error);
    } else if (c->deadline_ns != ENV_NEVER) {
        env_set_timer(a->env, &c->future->deadline, c->deadline_ns);
    }
    env_leave(a->env);
}

gw_future *gw_rpc_async_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                             gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &future_poison;
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, true);
    gw_future *f = c.future;
    if (f) {
        call_start(&c);
        f = scope_own(s, handle_retain(f));
    } else {
        scope_fail_with(s, &c.error);
    }
    call_fini(&c);
    return f ? f : &future_poison;
}

void gw_rpc_notify_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                        gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return;
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, false);
    c.fixed.one_way = 1;
    env_enter(a->env);
    call_await_flow_on_loop(&c);
    call_send_on_loop(&c);
    env_leave(a->env);
    if (c.error.status) scope_fail_with(s, &c.error);
    call_fini(&c);
}
