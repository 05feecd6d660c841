#include "checkpoint/writing.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/file.h"
#include "tensor/tensor.h"
#include <gradwire/collective.h>
#include <gradwire/ops.h>
#include "trace/record.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_checkpoint_begin"  // of the calls in this file, in errors

// ---- Exchanges ---------------------------------------------------------------------------------- What a member does
// alone may fail. It gives the error to the next collective, in place of a value, so that all members have the same
// error, and none closes the group before the others have it. Members write at different speeds, so no deadline ends
// these collectives.

// Closes |t|, the scope of such work; |*error| is its error, which names this member.
static bool end_work(const writing *w, gw_scope *t, gw_error *error) {
    *error = gw_scope_close(t);
    if (error->status) error_prefix(error, w->agent->name);
    return !error->status;
}

static bool is_error(gw_scope *s, gw_value v) {
    if (gw_ok(s) && v.kind == GW_ERROR) scope_fail_with(s, v.as.error);
    return !gw_ok(s);
}

// The value of rank 0. A failure is one of the scope, on all members.
static gw_value broadcast(writing *w, gw_value own) {
    gw_scope *s = w->scope;
    gw_value v = own;
    if (w->group) v = gw_broadcast_value(s, w->group, own, 0, .timeout_ms = GW_NO_TIMEOUT);
    return is_error(s, v) ? gw_none() : v;
}

// A list of the values of all members, by rank. A failure is one of the scope, on all members.
static gw_list *gather(writing *w, gw_value own) {
    gw_scope *s = w->scope;
    gw_list *all = gw_list_open(s);
    if (w->group)
        all = gw_all_gather_value(s, w->group, own, .timeout_ms = GW_NO_TIMEOUT);
    else
        gw_list_add_with(s, all, own);
    for (int rank = 0; gw_ok(s) && rank < w->members; rank++)
        is_error(s, gw_list_get(s, all, rank));
    return all;
}

// ---- The folder ---------------------------------------------------------------------------------

static bool make_folder(writing *w, gw_error *error) {
    gw_scope *t = gw_scope_open(w->scope);
    uint64_t token = env_random_u64(w->agent->env);
    gw_scope_label(t, "%s", w->home);
    home_make(t, w->home, w->step, token, &w->draft);
    failpoint("checkpoint_folder");
    return end_work(w, t, error);
}

// All members receive where the folder is: path, mark, step.
static void share_folder(writing *w) {
    gw_scope *s = w->scope;
    gw_error error;
    gw_value own = gw_none();
    if (w->rank == 0 && make_folder(w, &error)) {
        gw_list *about = gw_list_open(s);
        gw_list_add(s, about, home_path(s, w->home, w->draft.name));
        gw_list_add(s, about, (int64_t)w->draft.token);
        gw_list_add(s, about, w->draft.name.step);
        own = gw_value_of(about);
    } else if (w->rank == 0) {
        own = gw_value_of(&error);
    }
    gw_list *all = gw_list_of(s, broadcast(w, own));
    if (!gw_ok(s)) return;
    w->path = gw_string_of(s, gw_list_get(s, all, 0));
    w->draft.token = (uint64_t)gw_int_of(s, gw_list_get(s, all, 1));
    w->draft.name.step = gw_int_of(s, gw_list_get(s, all, 2));
}

// CKPT-3.
static void choose_writers(writing *w) {
    gw_scope *s = w->scope;
    gw_error error = { 0 };
    bool is_writer = home_has_mark(s, w->path, w->draft.token);
    if (w->has_own && !is_writer)
        error_set(&error, GW_INVALID,
                  "%s has values of its own (.own), but cannot access the folder %.400s",
                  w->agent->name, w->path);
    gw_list *all = gather(w, error.status ? gw_value_of(&error) : gw_value_of(is_writer));
    w->writers = gw_alloc(s, (size_t)w->members * sizeof *w->writers);
    for (int rank = 0; gw_ok(s) && rank < w->members; rank++)
        if (gw_bool_of(s, gw_list_get(s, all, rank))) w->writers[w->writer_count++] = rank;
}

// ---- Parts --------------------------------------------------------------------------------------

static int own_number(const writing *w) {
    for (int i = 0; i < w->writer_count; i++)
        if (w->writers[i] == w->rank) return i;
    return -1;
}

// The numbers of |at|, as they are in the memory of its tensor.
static gw_tensor *range_of(gw_scope *s, const checkpoint_entry *e, const share *at) {
    if (at->is_whole) return e->x;
    int64_t width = (int64_t)gw_dtype_size(e->dtype), first = (int64_t)at->first / width;
    int64_t count = (int64_t)at->end / width - first;
    gw_tensor *flat = gw_reshape(s, e->x, e->x->numel);
    return gw_slice(s, flat, 0, first, first + count, 1);
}

static void collect_part(writing *w, int number, checkpoint *out) {
    gw_scope *s = out->scope;
    for (int i = 0; i < w->shares.count && gw_ok(s); i++) {
        const share *at = &w->shares.items[i];
        if (at->writer != number) continue;
        const checkpoint_entry *from = &w->values.items[at->entry];
        gw_tensor *x = range_of(s, from, at);
        checkpoint_entry *e = gw_ok(s) ? checkpoint_add(out, shares_name(s, &w->values, at)) : NULL;
        if (e) e->x = x;
    }
}

static void write_part(writing *w, part_options options, part_facts *out) {
    int number = own_number(w);
    if (number < 0) return;
    checkpoint part;
    gw_scope *t = scope_open_unrecorded(w->snapshot);
    const char *path = home_file(t, w->path, checkpoint_index_part_name(t, w->rank, w->members));
    gw_scope_label(t, "%s", path);
    checkpoint_init(&part, t);
    if (gw_ok(t)) collect_part(w, number, &part);
    if (gw_ok(t)) part_write(&part, path, options, out);
    checkpoint_fini(&part);
    gw_scope_close_up(t);
}

static void write_own(writing *w, part_options options, part_facts *out) {
    gw_scope *s = w->snapshot;
    if (!w->has_own || !gw_ok(s)) return;
    const char *path = home_file(s, w->path, checkpoint_index_own_name(s, w->rank, w->members));
    if (!part_write(&w->own, path, options, out)) scope_explain_error(s, path);
}

static bool release_values(writing *w, gw_error *error) {
    gw_scope *t = w->snapshot;
    *error = (gw_error){ 0 };
    if (!t) return true;
    checkpoint_fini(&w->own);
    w->snapshot = NULL;
    return end_work(w, t, error);
}

// Writes the files of this member, and releases the values.
static bool write_files(writing *w, part_facts *part, part_facts *own, gw_error *error) {
    writings *all = agent_state(w->agent, &writings_data);
    part_options options = { w->bytes_per_second, &all->stops };
    if (!shares_divide(&w->values, w->writer_count, SHARES_SPLIT_BYTES, &w->shares))
        scope_fail(w->snapshot, GW_NO_MEMORY, "no memory for the shares of the writers");
    if (gw_ok(w->snapshot)) write_part(w, options, part);
    write_own(w, options, own);
    return release_values(w, error);
}

static gw_value value_of(gw_scope *s, part_facts part, part_facts own) {
    gw_list *all = gw_list_open(s);
    gw_list_add(s, all, (int64_t)part.size);
    gw_list_add(s, all, (int64_t)part.header);
    gw_list_add(s, all, (int64_t)own.size);
    gw_list_add(s, all, (int64_t)own.header);
    return gw_value_of(all);
}

static part_facts facts_at(gw_scope *s, gw_list *all, int i) {
    return (part_facts){ (uint64_t)gw_int_of(s, gw_list_get(s, all, i)),
                         (uint32_t)gw_int_of(s, gw_list_get(s, all, i + 1)) };
}

static void write_parts(writing *w) {
    gw_scope *s = w->scope;
    gw_error error;
    part_facts part = { 0 }, own = { 0 };
    bool is_written = write_files(w, &part, &own, &error);
    gw_list *all = gather(w, is_written ? value_of(s, part, own) : gw_value_of(&error));
    size_t size = (size_t)w->members * sizeof *w->parts;
    w->parts = gw_alloc(s, size);
    w->owns = gw_alloc(s, size);
    for (int rank = 0; gw_ok(s) && rank < w->members; rank++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, rank));
        w->parts[rank] = facts_at(s, theirs, 0);
        w->owns[rank] = facts_at(s, theirs, 2);
    }
}

// ---- Committing ---------------------------------------------------------------------------------

static void check_file(gw_scope *s, const writing *w, const char *name, part_facts facts,
                       int rank) {
    struct stat about;
    const char *path = home_file(s, w->path, name);
    if (!gw_ok(s)) return;
    if (stat(path, &about))
        scope_fail(s, GW_SYSTEM, "%s, which rank %d has written, is missing", path, rank);
    else if ((uint64_t)about.st_size != facts.size)
        scope_fail(s, GW_SYSTEM, "%s has %lld bytes, but rank %d has written %llu", path,
                   (long long)about.st_size, rank, (unsigned long long)facts.size);
}

static void check_files(gw_scope *s, const writing *w) {
    for (int i = 0; i < w->writer_count && gw_ok(s); i++)
        check_file(s, w, checkpoint_index_part_name(s, w->writers[i], w->members),
                   w->parts[w->writers[i]], w->writers[i]);
    for (int rank = 0; w->has_own && rank < w->members && gw_ok(s); rank++)
        check_file(s, w, checkpoint_index_own_name(s, rank, w->members), w->owns[rank], rank);
}

static bool write_index(gw_scope *s, const writing *w, const char *path) {
    bytes text = { 0 };
    checkpoint_index_contents x = {
        .values = &w->values,
        .shares = &w->shares,
        .writers = w->writers,
        .step = w->draft.name.step,
        .members = w->members,
        .has_own = w->has_own,
        .parts = w->parts,
        .owns = w->owns,
    };
    if (checkpoint_index_encode(s, &x, &text)) {
        file f = file_make(s, path);
        if (f.fd >= 0 && file_write(&f, text.data, text.size) && fsync(f.fd))
            file_failed(s, "sync");
        file_close(&f);
    }
    bytes_fini(&text);
    return gw_ok(s);
}

// CKPT-6.
static void commit(gw_scope *s, writing *w) {
    const char *temporary = home_file(s, w->path, HOME_INDEX_TEMPORARY);
    const char *path = home_file(s, w->path, HOME_INDEX);
    check_files(s, w);
    if (!gw_ok(s) || !write_index(s, w, temporary) || !file_sync_folder(s, w->path)) return;
    failpoint("checkpoint_index");
    if (rename(temporary, path)) {
        file_failed(s, "rename");
        return;
    }
    w->is_whole = true;
    failpoint("checkpoint_renamed");
    if (file_sync_folder(s, w->path)) file_sync_folder(s, w->home);
}

static void commit_on_one(writing *w) {
    gw_error error = { 0 };
    if (w->rank == 0) {
        gw_scope *t = gw_scope_open(w->scope);
        commit(t, w);
        end_work(w, t, &error);
    }
    broadcast(w, error.status ? gw_value_of(&error) : gw_none());
}

// ---- All of it ----------------------------------------------------------------------------------

static void write_all(writing *w) {
    share_folder(w);
    if (gw_ok(w->scope)) choose_writers(w);
    if (gw_ok(w->scope)) write_parts(w);
    if (gw_ok(w->scope)) commit_on_one(w);
}

// On rank 0: also after a failure, with what is left of the folder.
static void tidy_up(writing *w) {
    if (w->rank != 0 || w->draft.lock_fd < 0) return;
    gw_scope *t = agent_scope_open(w->agent, 0, 0, ENV_NEVER);
    const char *path = home_path(t, w->home, w->draft.name);
    if (!w->is_whole) home_remove(t, path);
    home_unmark(t, path, &w->draft);
    if (w->is_whole) home_remove_older(t, w->home, w->draft.name.step, w->keep);
    scope_close_unread(t);
}

static result *result_of(const char *path, const gw_error *e) {
    gw_error error = *e;
    result *r = e->status ? NULL : result_of_value(gw_value_of(path));
    if (r) return r;
    if (!e->status) error_set(&error, GW_NO_MEMORY, "no memory for the path of a checkpoint");
    return result_of_error(&error);
}

static void finish(writing *w) {
    char path[HOME_PATH_BYTES] = "";
    gw_error ignored;
    release_values(w, &ignored);
    tidy_up(w);
    if (gw_ok(w->scope)) snprintf(path, sizeof path, "%s", w->path);
    shares_fini(&w->shares);
    checkpoint_fini(&w->values);
    gw_error e = gw_scope_close(w->scope);
    trace_record_text(TRACE_CHECKPOINT_ENDED, w->agent->observer.row, (uint64_t)w->draft.name.step,
                      e.status, path);
    if (e.status) error_prefix(&e, "gw_checkpoint_begin");
    result *r = result_of(path, &e);
    writings *all = agent_state(w->agent, &writings_data);
    env_enter(w->agent->env);
    future_complete_on_loop(w->future, r);
    all->count--;
    leaving_check_on_loop(w->agent);
    env_leave(w->agent->env);
}

// The thread waits for the disk and for others, so it needs no slot.
static void change_slot(writing *w, void (*change)(pool *p)) {
    env_enter(w->agent->env);
    change(&w->agent->pool);
    env_leave(w->agent->env);
}

static void run(pool_job *j) {
    writing *w = list_entry(j, writing, job);
    agent *a = w->agent;
    change_slot(w, pool_give_place_on_loop);
    write_all(w);
    finish(w);
    change_slot(w, pool_regain_place_on_loop);
    handle_release(w->future);
    mem_free(w);
    agent_release(a);
}

static bool taken(pool_job *j) {
    (void)j;
    return true;
}

void writing_start(writing *w) {
    writings *all = agent_state(w->agent, &writings_data);
    w->scope->deadline_ns = ENV_NEVER;
    w->job = (pool_job){ .depth = 1, .taken = taken, .run = run };
    env_enter(w->agent->env);
    all->count++;
    pool_submit_on_loop(&w->agent->pool, &w->job);
    env_leave(w->agent->env);
}

void writing_free(writing *w) {
    checkpoint_fini(&w->values);
    checkpoint_fini(&w->own);
    scope_close_unread(w->scope);
    handle_release(w->future);
    agent_release(w->agent);
    mem_free(w);
}
