// Joining a job of known size: each worker publishes its name and addresses in the store, and reads those of all others.
#include "agent/joining/joining.h"

#include "agent/admission/join_store.h"
#include "agent/changes/member_changes.h"
#include "agent/members/member_table.h"
#include "agent/members/members.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/system_error.h"
#include "net/transport/exhausted.h"

#include <stdio.h>
#include <string.h>

// To publish that this worker gives up.
#define GIVE_UP_NS INT64_C(1000000000)

// The world size must be the same for all.
static gw_status compare_job(const joining *j, const bytes *found, gw_error *error) {
    uint32_t own = (uint32_t)j->agent->world_size, world_size;
    gw_status status = join_read_job(j, found, &world_size, error);
    if (status || world_size == own) return status;
    if (!world_size)
        return error_set(
            error, GW_MISMATCH,
            "this worker has world size %u, but the job is elastic and has no world size", own);
    return error_set(error, GW_MISMATCH, "this worker has world size %u, but the job has %u", own,
                     world_size);
}

// Without its rank in the job the worker has no key in the store, where others would read why it cannot join.
static bool has_own_rank(const joining *j, const bytes *found) {
    reader r = reader_of(found->data, found->size);
    return reader_u32(&r) > (uint32_t)j->agent->rank;
}

static gw_status read_member(const bytes *value, member *out, gw_error *error) {
    reader r = reader_of(value->data, value->size);
    char addresses[LIMIT_ADDRESSES_BYTES + 1] = "";
    reader_text(&r, out->name, sizeof out->name);
    if (!r.failed && !out->name[0]) {
        char why[GW_ERROR_TEXT_MAX];
        bool is_whole = reader_text(&r, why, sizeof why);
        if (is_whole && !reader_u64(&r)) return error_set(error, GW_DISCONNECTED, "%s", why);
        if (is_whole)
            return error_set(error, GW_MISMATCH, "rank %d could not join: %s", out->worker.rank,
                             why);
    }
    reader_text(&r, addresses, sizeof addresses);
    out->worker.incarnation = reader_u64(&r);
    if (r.failed || !options_is_name(out->name) || !out->worker.incarnation)
        return error_set(error, GW_PROTOCOL, "the store has a malformed value of rank %d",
                         out->worker.rank);
    mem_free(out->addresses);
    out->addresses = mem_strdup(addresses);
    return out->addresses ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for %s", out->name);
}

static gw_status report_over(const joining *j, gw_error *error) {
    if (strstr(j->options->path, "://"))
        return error_set(error, GW_DUPLICATE,
                         "the job \"%s\" at %s has ended, and is removed within a minute: wait a "
                         "minute, or set another GW_JOB_ID",
                         j->agent->protection.job, j->options->path);
    return error_set(error, GW_DUPLICATE,
                     "%s is the file of a job that has ended: remove it, or use another file",
                     j->options->path);
}

// The first step of a worker: one of another job sets no key.
static gw_status enter_job(joining *j, bytes *out_found, gw_error *error) {
    bool set;
    gw_status status = join_find_job(j, (uint32_t)j->agent->world_size, &set, out_found, error);
    if (status || set) return status;
    status = join_check_id(j, out_found, error);
    return status && j->options->path[0] && join_is_over(j) ? report_over(j, error) : status;
}

static gw_status take_rank(joining *j, gw_error *error) {
    agent *a = j->agent;
    char key[32], other[LIMIT_NAME_BYTES + 1];
    snprintf(key, sizeof key, "rank/%d", a->rank);
    bytes mine = { 0 }, found = { 0 };
    bytes_put_text(&mine, a->name);
    bool set = false;
    gw_status status = join_set(j, key, &mine, true, &set, &found, error);
    if (!status && set) store_attend(j->store);
    if (!status && !set && join_is_over(j)) {
        status = report_over(j, error);
    } else if (!status && !set) {
        reader r = reader_of(found.data, found.size);
        reader_text(&r, other, sizeof other);
        status = error_set(error, GW_DUPLICATE, "rank %d is taken by \"%s\"", a->rank, other);
    }
    bytes_fini(&mine);
    bytes_fini(&found);
    return status;
}

static gw_status take_name(joining *j, gw_error *error) {
    agent *a = j->agent;
    char key[LIMIT_NAME_BYTES + 8];
    snprintf(key, sizeof key, "name/%s", a->name);
    uint32_t rank = (uint32_t)a->rank;
    bytes found = { 0 };
    bool set = false;
    gw_status status =
        store_set_if_absent(j->store, key, &rank, sizeof rank, j->until_ns, &set, &found, error);
    if (!status && !set) {
        reader r = reader_of(found.data, found.size);
        status = error_set(error, GW_DUPLICATE, "the name \"%s\" is taken by rank %u", a->name,
                           reader_u32(&r));
    }
    bytes_fini(&found);
    return status;
}

// The empty name is for a worker that does not join, and |incarnation| 0 if another worker has set the key.
static gw_status publish_as(joining *j, int rank, const char *name, const char *text,
                            uint64_t incarnation, gw_error *error) {
    char key[32];
    snprintf(key, sizeof key, "worker/%d", rank);
    bytes value = { 0 };
    bytes_put_text(&value, name);
    bytes_put_text(&value, text);
    bytes_put_u64(&value, incarnation);
    bool set;
    gw_status status = join_set(j, key, &value, false, &set, NULL, error);
    bytes_fini(&value);
    return status;
}

// Publishes the addresses of this worker; or why it cannot join, since the others would wait in vain.
static gw_status publish(joining *j, const gw_error *refusal, gw_error *error) {
    const agent *a = j->agent;
    return publish_as(j, a->rank, refusal ? "" : a->name, refusal ? refusal->text : a->addresses,
                      a->incarnation, error);
}

// The others wait for a worker that has stopped waiting, each until its timeout, unless it sets a key (JOIN-8): the key of
// the rank that all wait for, which is this worker's own until it has published its addresses. It waits for the answer:
// a *set* that is under way when a connection closes may be lost. A signal ends all waits until it is released.
static void give_up(joining *j, int awaited, const gw_error *reason) {
    agent *a = j->agent;
    if (has_mutation(MUTATION_GIVES_UP_UNREPORTED)) return;
    if (!a->interrupted) a->interrupted = env_release_signals(a->env);
    j->until_ns = env_now_ns(a->env) + GIVE_UP_NS;
    gw_error why = a->absence;
    if (!why.status && awaited != a->rank)
        error_set(&why, GW_CANCELLED, "%s (rank %d) has stopped waiting for rank %d of %d%s%.500s",
                  a->name, a->rank, awaited, a->world_size, reason ? ": " : "",
                  reason ? reason->text : "");
    if (!why.status)
        error_set(&why, GW_CANCELLED, "%s (rank %d) was interrupted while it joined", a->name,
                  a->rank);
    publish_as(j, awaited, "", why.text, 0, NULL);
}

// ---- Reading ------------------------------------------------------------------------------------

static gw_status wait_for_member(joining *j, int rank, int64_t until_ns, gw_error *error) {
    char key[32];
    snprintf(key, sizeof key, "worker/%d", rank);
    bytes value = { 0 };
    gw_status status = store_wait(j->store, key, until_ns, &value, error);
    if (!status) {
        status = read_member(&value, agent_member(j->agent, rank), error);
        j->is_ended_by_other = status != GW_OK;
    }
    bytes_fini(&value);
    return status;
}

// "ranks 3, 7": not all of them, if they are many.
static gw_status name_missing(joining *j, int from, gw_error *error) {
    char list[256] = "";
    size_t at = 0;
    int count = 0;
    int64_t until_ns = env_now_ns(j->agent->env) + JOIN_GRACE_NS;
    for (int rank = from; rank < j->agent->world_size && at + 16 < sizeof list; rank++) {
        if (rank != from && wait_for_member(j, rank, until_ns, NULL) != GW_TIMEOUT) continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", count ? ", " : "", rank);
        count++;
    }
    return error_set(error, GW_TIMEOUT, "rank%s %s of %d did not join within %lld s",
                     count == 1 ? "" : "s", list, j->agent->world_size,
                     (long long)(j->options->join_timeout_ms + 999) / 1000);
}

// A worker without descriptors for the connections of the workers that it waits for would wait in vain.
static gw_status refuses_others(gw_error *error) {
    int lack = exhausted_for_long();
    if (!lack) return GW_OK;
    return error_set(error, GW_SYSTEM, "this worker cannot accept connections: %s",
                     system_error_text(lack).text);
}

static gw_status wait_for_one(joining *j, int rank, gw_error *error) {
    const agent *a = j->agent;
    for (;;) {
        gw_status status = wait_for_member(j, rank, join_piece_end_ns(j), error);
        if (!join_is_line_due(j, status)) return status;
        if ((status = refuses_others(error))) return status;
        log_info("%s waits for rank %d of %d to join", a->name, rank, a->world_size);
    }
}

static gw_status wait_for_all(joining *j, int *out_awaited, gw_error *error) {
    for (int rank = 0; rank < j->agent->member_count; rank++) {
        *out_awaited = rank;
        gw_status status = wait_for_one(j, rank, error);
        if (status == GW_TIMEOUT) return name_missing(j, rank, error);
        if (status) return status;
    }
    return GW_OK;
}

static gw_status add_all_members(agent *a, gw_error *error) {
    gw_status status = member_table_add_self_on_loop(a, a->addresses, error);
    if (!status) status = member_changes_open_on_loop(a, false, error);
    for (int rank = 0; rank < a->world_size && !status; rank++) {
        const member *m = agent_member(a, rank);
        char name[sizeof m->name];
        memcpy(name, m->name, sizeof name);
        const gw_worker w = { name, rank, m->worker.incarnation };
        status = member_table_add_on_loop(a, &w, m->addresses, error);
    }
    if (!status) members_start(a->membership);
    return status;
}

// The text has the last error.
static void explain_absence(joining *j, gw_error *error) {
    char last[GW_ERROR_TEXT_MAX];
    memcpy(last, error->text, sizeof last);
    error_set(error, GW_TIMEOUT, "it did not join within %lld s: %.500s",
              (long long)(j->options->join_timeout_ms + 999) / 1000, last);
}

// Workers that have not reached rank 0 when a signal ends it would keep trying; its store has the reason to stop.
static void serve_last(joining *j) {
    agent *a = j->agent;
    waiter w = { .what = "workers that look for rank 0" };
    bool is_host = a->rank == 0 && !j->options->path[0];
    if (is_host && a->interrupted && !a->absence.status) env_wait(a->env, &w, j->until_ns);
}

// This worker has published nothing yet. If its rank is taken, another worker has it.
static void give_up_unpublished(joining *j, bool is_client) {
    agent *a = j->agent;
    a->interrupted = env_release_signals(a->env);
    if (!a->interrupted && !j->has_rank) return;
    j->until_ns = env_now_ns(a->env) + GIVE_UP_NS;
    gw_error ignored;
    bytes found = { 0 };
    bool can_say = j->store || (is_client && !join_open_store(j, false, &ignored));
    if (can_say && !j->has_rank) can_say = !enter_job(j, &found, NULL) && !take_rank(j, NULL);
    if (can_say) give_up(j, a->rank, NULL);
    bytes_fini(&found);
}

// Rank 0 may have ended since another rank cannot join, which the launcher reports to this worker, too.
static void await_reason(agent *a) {
    waiter w = { .what = "the launcher" };
    if (!a->absence.status) env_wait(a->env, &w, env_now_ns(a->env) + JOIN_GRACE_NS);
}

// Publishes the name and addresses of this worker, or why it cannot join.
static gw_status enter(joining *j, gw_error *error) {
    bytes found = { 0 };
    gw_status status = enter_job(j, &found, error);
    if (!status && !has_own_rank(j, &found)) status = compare_job(j, &found, error);
    if (!status) status = take_rank(j, error);
    j->has_rank = !status;
    failpoint("join");
    if (!status) status = compare_job(j, &found, error);
    if (!status) status = take_name(j, error);
    if (!status) status = pool_add_thread_on_loop(&j->agent->pool, error);
    bool is_refused = status && status != GW_TIMEOUT && j->has_rank;
    if (is_refused) publish(j, error, NULL);
    if (!status) status = publish(j, NULL, error);
    bytes_fini(&found);
    failpoint("join_published");
    return status;
}

static gw_status await_all(joining *j, gw_error *error) {
    int awaited;
    gw_status status = wait_for_all(j, &awaited, error);
    if (!status || status == GW_DISCONNECTED) return status;
    give_up(j, awaited, status == GW_TIMEOUT ? NULL : error);
    serve_last(j);
    return status;
}

gw_status join_on_loop(agent *a, const join_options *options, gw_error *error) {
    joining j = join_begin(a, options);
    bool is_client = a->rank != 0 && !options->path[0];
    gw_status status = join_open_store(&j, a->rank == 0, error);
    if (status == GW_TIMEOUT && is_client) explain_absence(&j, error);
    if (status && is_client) error_prefix(error, "meeting rank 0");
    bool has_store = !status;
    if (!status) status = enter(&j, error);
    if (status == GW_TIMEOUT) give_up_unpublished(&j, is_client);
    if (!status) status = await_all(&j, error);
    if (has_store && status == GW_DISCONNECTED && is_client && !j.is_ended_by_other) {
        error_prefix(error, "rank 0 has ended before all workers had joined");
        if (options->is_launched) await_reason(a);
    }
    if (!status) status = add_all_members(a, error);
    // The host serves those that are still reading; a file is attended.
    if (!status && (a->rank == 0 || options->path[0])) {
        a->store = j.store;
        a->hosts_store = !options->path[0];
    } else {
        peers_serve_store(a->peers, NULL, NULL);
        store_close(j.store);
    }
    return status;
}
