#include "collective/run/activity.h"

#include "agent/bodies/context.h"
#include "call/calls.h"
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"
#include "collective/run/history.h"
#include "collective/group/text.h"

#include <stdio.h>

static bool is_awaited(const gw_future *f) {
    return !future_result(f) && !list_is_empty(&f->waits);
}

// A pass uses the results of its collectives as they arrive; its thread waits for all of them.
static bool waits_for_a_pass(const agent *a) {
    list_each(l, &a->waits) {
        const waiter *w = list_entry(l, context_wait, link)->waiter;
        if (!w->woken && w->runs_pass) return true;
    }
    return false;
}

bool activity_waits_for(const run *r) {
    const gw_future *f = r->future;
    if (r->state != RUN_UNDER_WAY) return false;
    return is_awaited(f) || (!list_is_empty(&f->nexts) && waits_for_a_pass(r->group->agent));
}

// ---- In collectives -----------------------------------------------------------------------------

// Members that have entered end no wait. Collectives whose key is used once are not listed: after they are over no
// member can determine which members entered them.
static void add_wait(const run *r, activity *out) {
    const gw_group *g = r->group;
    if (out->wait_count == ACTIVITY_WAITS_MAX || !r->enters_missing ||
        key_is_once(r->sequence->key))
        return;
    activity_wait *w = &out->waits[out->wait_count++];
    *w = (activity_wait){ .in = { g->id, r->sequence->key, r->number } };
    snprintf(w->group_name, sizeof w->group_name, "%s", g->name);
    for (int i = 0; i < g->count && w->count < ACTIVITY_RANKS_MAX; i++)
        if (r->partners[i].is_partner && !r->partners[i].entered)
            w->ranks[w->count++] = g->members[i].rank;
}

// "waits in group "b" for w0 (collective 7, all_reduce sum f32 10 (train.c:40))".
static void put_run(const run *r, text_builder *out) {
    char what[SIGNATURE_TEXT_MAX], missing[256];
    signature_text(&r->signature, r->detail, r->origin, what);
    run_name_missing(r, missing, sizeof missing);
    text_put(out, missing[0] ? "waits in group \"%s\" for %s (" : "is in group \"%s\"%s (",
             r->group->name, missing);
    final_put_collective(r->group, (run_place){ r->sequence->key, r->number }, out);
    text_put(out, ", %s)", what);
}

static bool find_runs(const agent *a, activity *out, text_builder *t) {
    bool found = false;
    map_cursor at = { 0 };
    for (const gw_group *g; (g = groups_next_on_loop(a, &at));) {
        list_each(l, &g->runs) {
            const run *r = list_entry(l, run, link);
            if (!activity_waits_for(r)) continue;
            if (!found) put_run(r, t);
            found = true;
            add_wait(r, out);
        }
    }
    return found;
}

// ---- Elsewhere ----------------------------------------------------------------------------------

static bool find_agreement(const agent *a, text_builder *t) {
    map_cursor at = { 0 };
    for (const gw_group *g; (g = groups_next_on_loop(a, &at));) {
        const agreement_call *c = g->agreements ? agree_first_call(g->agreements) : NULL;
        if (!c || !c->waiting) continue;
        text_put(t, "%s group \"%s\"", c->own.what == AGREE_REFORM ? "re-forms" : "agrees in",
                 g->name);
        return true;
    }
    return false;
}

static bool find_call(const agent *a, text_builder *t) {
    const calls *x = calls_of(a);
    for (map_cursor e = { 0 }; x && map_next(&x->out, &e);) {
        const gw_future *f = e.value;
        if (!is_awaited(f)) continue;
        text_put(t, "waits for %s of %s", f->function[0] ? f->function : "a call",
                 agent_member(a, f->to)->name);
        if (f->called_at) text_put(t, " (%s)", origin_base(f->called_at));
        return true;
    }
    return false;
}

// Any other wait of its threads.
static bool find_wait(const agent *a, text_builder *t) {
    list_each(l, &a->waits) {
        const context_wait *w = list_entry(l, context_wait, link);
        const char *what = w->waiter->what;
        if (w->waiter->woken) continue;  // its thread continues
        text_put(t, "waits for %s", what && what[0] ? what : "a future");
        return true;
    }
    return false;
}

// " (its collective 40 ended 61 s ago)".
static void put_last(const gw_group *g, const agent *a, const collective_id *about,
                     text_builder *t) {
    const history_record *last = history_last_ended_on_loop(g, about->key);
    if (last) {
        text_put(t, " (its collective %llu", (unsigned long long)last->number);
        if (key_is_final_sequence(last->key)) final_put_key(g, last->key, t);
        text_put(t, " ended ");
        text_put_time(t, env_now_ns(a->env) - last->ended_ns);
        text_put(t, " ago)");
    }
}

static bool has_entered(const agent *a, const collective_id *about) {
    gw_group *g = group_find_on_loop(a, about->group);
    const sequence *t = g ? group_find_sequence_on_loop(g, about->key) : NULL;
    return g && (final_is_over_on_loop(g, about->key) || (t && t->next > about->number));
}

void activity_read_on_loop(const agent *a, const collective_id *about, activity *out) {
    *out = (activity){ .has_entered = has_entered(a, about) };
    text_builder t = { out->text, 0, sizeof out->text };
    const gw_group *g = group_find_on_loop(a, about->group);
    bool waits = find_runs(a, out, &t);
    if (!waits && !find_agreement(a, &t) && !find_call(a, &t) && !find_wait(a, &t))
        text_put(&t, "computes");
    if (!g)
        text_put(&t, " (it has not opened the group)");
    else if (!waits)
        put_last(g, a, about, &t);
}

// ---- Bytes --------------------------------------------------------------------------------------

void activity_encode(bytes *out, const activity *x) {
    bytes_put_u8(out, x->has_entered);
    bytes_put_text(out, x->text);
    bytes_put_u8(out, (uint8_t)x->wait_count);
    for (int i = 0; i < x->wait_count; i++) {
        const activity_wait *w = &x->waits[i];
        bytes_put_u64(out, w->in.group);
        bytes_put_u64(out, w->in.key);
        bytes_put_u64(out, w->in.number);
        bytes_put_text(out, w->group_name);
        bytes_put_u8(out, (uint8_t)w->count);
        for (int j = 0; j < w->count; j++) bytes_put_u32(out, (uint32_t)w->ranks[j]);
    }
}

bool activity_decode(reader *in, activity *out) {
    uint8_t entered = reader_u8(in);
    *out = (activity){ .has_entered = entered };
    if (entered > 1 || !reader_text(in, out->text, sizeof out->text)) return false;
    int count = reader_u8(in);
    if (count > ACTIVITY_WAITS_MAX) return false;
    for (int i = 0; i < count; i++) {
        activity_wait *w = &out->waits[out->wait_count++];
        w->in.group = reader_u64(in);
        w->in.key = reader_u64(in);
        w->in.number = reader_u64(in);
        bool named = reader_text(in, w->group_name, sizeof w->group_name);
        w->count = reader_u8(in);
        if (!named || w->count > ACTIVITY_RANKS_MAX) return false;
        for (int j = 0; j < w->count; j++) {
            uint32_t rank = reader_u32(in);
            if (rank >= LIMIT_WORKERS) return false;
            w->ranks[j] = (int)rank;
        }
    }
    return !in->failed;
}
