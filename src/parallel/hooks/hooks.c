// Setting a hook: its description, which all members must have alike, its state, and what it excludes.
#include "parallel/hooks/hooks.h"

#include "parallel/hooks/power_sgd.h"

static const char *describe_power_sgd(gw_scope *s, const char *name, const gw_power_sgd *p) {
    if (!p) return name;
    const gw_power_sgd_options *o = &p->options;
    return gw_format(s,
                     "%s .rank = %d .start = %lld .min_rate = %g .feedback = %d .warm_start = %d "
                     ".epsilon = %g .seed = %llu",
                     name, o->rank, (long long)o->start, o->min_rate, o->feedback, o->warm_start,
                     o->epsilon, (unsigned long long)o->seed);
}

static const char *describe_quantize(gw_scope *s, const gw_quantize_options *o) {
    return gw_format(s, "gw_hook_quantize_channel .channel = %lld",
                     o ? (long long)o->channel : 512);
}

// The group of near members may differ between members.
static const char *describe_local_sgd(gw_scope *s, const gw_local_sgd *l) {
    if (!l) return "gw_hook_local_sgd";
    return gw_format(s, "gw_hook_local_sgd .start = %lld .done = %lld, %s", (long long)l->start,
                     (long long)l->done, l->near ? "in groups" : "alone");
}

static const char *describe_around(gw_scope *s, const char *name, const gw_hook_around *a) {
    if (!a || !a->hook) return name;
    return gw_format(s, "%s %s", name, hook_describe(s, a->hook, a->context));
}

const char *hook_describe(gw_scope *s, gw_comm_hook *hook, const void *context) {
    if (!hook) return "no hook";
    if (hook == gw_hook_all_reduce) return "gw_hook_all_reduce";
    if (hook == gw_hook_f16) return "gw_hook_f16";
    if (hook == gw_hook_bf16) return "gw_hook_bf16";
    if (hook == gw_hook_none) return "gw_hook_none";
    if (hook == gw_hook_quantize_tensor) return "gw_hook_quantize_tensor";
    if (hook == gw_hook_quantize_channel) return describe_quantize(s, context);
    if (hook == gw_hook_local_sgd) return describe_local_sgd(s, context);
    if (hook == gw_hook_f16_around) return describe_around(s, "gw_hook_f16_around", context);
    if (hook == gw_hook_bf16_around) return describe_around(s, "gw_hook_bf16_around", context);
    if (hook == gw_hook_power_sgd) return describe_power_sgd(s, "gw_hook_power_sgd", context);
    if (hook == gw_hook_batched_power_sgd)
        return describe_power_sgd(s, "gw_hook_batched_power_sgd", context);
    return "a hook of its own";
}

hook_state hook_state_of(gw_comm_hook *hook, void *context) {
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return (hook_state){ power_sgd_save, power_sgd_load, context };
    const gw_hook_around *around = context;
    if ((hook == gw_hook_f16_around || hook == gw_hook_bf16_around) && around)
        return hook_state_of(around->hook, around->context);
    return (hook_state){ 0 };
}

// Why gradients cannot be shared out with it; NULL: they can.
static const char *keeps_whole(gw_comm_hook *hook, const void *context) {
    const gw_hook_around *around = context;
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return "PowerSGD keeps the differences of all gradients on each member";
    if (hook == gw_hook_local_sgd) return "with local SGD each member has gradients of its own";
    bool is_around = hook == gw_hook_f16_around || hook == gw_hook_bf16_around;
    return is_around && around ? keeps_whole(around->hook, around->context) : NULL;
}

// Whether |context| is |d|'s from here on: not if it remembers for another one.
static bool claim(gw_comm_hook *hook, void *context, const gw_ddp *d) {
    gw_hook_around *around = context;
    if (!context) return true;
    if (hook == gw_hook_power_sgd || hook == gw_hook_batched_power_sgd)
        return power_sgd_claim(context, d);
    bool is_around = hook == gw_hook_f16_around || hook == gw_hook_bf16_around;
    return !is_around || claim(around->hook, around->context, d);
}

static bool may_set(gw_scope *s, gw_ddp *d, gw_comm_hook *hook, void *context) {
    if (!hook)
        scope_fail(s, GW_INVALID, "gw_ddp_set_hook: the hook is NULL");
    else if (buffers_ride(d))
        scope_fail(s, GW_INVALID,
                   "gw_ddp_set_hook: a hook cannot be set, because buffers are sent with gradients "
                   "(.buffers)");
    else if (d->sharing && !ddp_may_share(s, keeps_whole(hook, context)))
        return false;
    else if (!d->hook && !claim(hook, context, d))
        scope_fail(s, GW_WRONG_STATE,
                   "gw_ddp_set_hook: the gw_power_sgd is used by another gw_ddp");
    return gw_ok(s);
}

void gw_ddp_set_hook(gw_scope *s, gw_ddp *d, gw_comm_hook *hook, void *context) {
    if (!ddp_is_usable(s, "gw_ddp_set_hook", d) || !may_set(s, d, hook, context)) return;
    const char *text = hook_describe(d->own, hook, context);
    if (!gw_ok(d->own)) {
        scope_fail_with(s, scope_error(d->own));
        gw_scope_clear(d->own);
        return;
    }
    env_enter(d->agent->env);
    bool late = d->stats.passes || d->hook;
    if (!late) {
        d->stats.has_hook = true;
        d->hook = hook;
        d->hook_context = context;
        d->hook_text = text;
        d->hook_keeps_whole = keeps_whole(hook, context);
    }
    env_leave(d->agent->env);
    if (!late)
        ddp_note_hook(d);
    else
        scope_fail(s, GW_WRONG_STATE,
                   "gw_ddp_set_hook: a hook can be set only once, before the first backward pass");
}

void gw_ddp_set_hook_state(gw_scope *s, gw_ddp *d, gw_hook_save *save, gw_hook_load *load) {
    if (!ddp_is_usable(s, "gw_ddp_set_hook_state", d)) return;
    if (!save || !load) {
        scope_fail(s, GW_INVALID, "gw_ddp_set_hook_state: %s is NULL", save ? "load" : "save");
    } else if (!d->hook) {
        scope_fail(s, GW_WRONG_STATE, "gw_ddp_set_hook_state: there is no hook");
    } else {
        d->save_hook = save;
        d->load_hook = load;
    }
}
