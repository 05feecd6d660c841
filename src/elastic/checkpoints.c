// Checkpoints of the members: when, and of what. ELAS-15 and ELAS-16 of docs/protocol/elastic.md.
#include "elastic/elastic.h"

#include "base/log.h"
#include "base/system_error.h"
#include <gradwire/checkpoint.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool checkpoints_check(gw_scope *s, const char *folder) {
    struct stat status;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return scope_fail(s, GW_SYSTEM,
                          "gw_elastic_open: the folder of checkpoints, %.400s, cannot be made: %s",
                          folder, system_error_text(errno).text);
    if (stat(folder, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (access(folder, R_OK | W_OK | X_OK) == 0)
        return true;
    return scope_fail(s, GW_SYSTEM, "gw_elastic_open: checkpoints cannot be written in %.400s: %s",
                      folder, system_error_text(errno).text);
}

gw_map *checkpoints_find(gw_scope *s, const char *folder) {
    return gw_checkpoint_restore(s, folder, NULL);
}

// ---- What a checkpoint has ------------------------------------------------------------------------

static bool is_parameter(gw_scope *s, const gw_module *model, const char *name) {
    for (int i = 0; gw_ok(s) && i < gw_module_parameter_count(model); i++)
        if (!strcmp(gw_module_parameter_name(s, model, i), name)) return true;
    return false;
}

// What may differ between members: buffers, and the state of the program.
static gw_map *own_parts(gw_scope *s, const gw_elastic *j, gw_map *model) {
    const gw_elastic_options *o = &j->options;
    gw_map *parts = gw_map_open(s), *buffers = gw_map_open(s);
    for (int i = 0; gw_ok(s) && i < gw_map_count(model); i++) {
        const char *name = gw_map_key(s, model, i);
        if (!is_parameter(s, j->model, name))
            gw_map_put(s, buffers, name, gw_map_find(model, name));
    }
    gw_map_put(s, parts, "buffers", buffers);
    if (o->save && gw_group_rank(j->group) == 0)
        gw_map_put(s, parts, "program", o->save(s, o->context));
    return parts;
}

// Those of rank 0, on all members.
static gw_map *parts_of_rank_0(gw_scope *s, const gw_elastic *j, gw_map *own) {
    int buffers = gw_map_count(gw_map_of(s, gw_map_get(s, own, "buffers")));
    if (!buffers && !j->options.save) return own;
    return gw_map_of(s, gw_broadcast_value(s, j->group, gw_value_of(own), 0));
}

static gw_map *collect(gw_scope *s, const gw_elastic *j, int64_t step, bool *out_failed) {
    gw_map *all = gw_map_open(s), *model = gw_module_state_dict(s, j->model);
    gw_map *own = own_parts(s, j, model);
    *out_failed = !gw_ok(s);
    gw_map *given = parts_of_rank_0(s, j, own);
    gw_map *buffers = gw_map_of(s, gw_map_get(s, given, "buffers"));
    for (int i = 0; gw_ok(s) && i < gw_map_count(buffers); i++) {
        const char *name = gw_map_key(s, buffers, i);
        gw_map_put(s, model, name, gw_map_find(buffers, name));
    }
    gw_map_put(s, all, "step", step);
    gw_map_put(s, all, "generation", gw_group_generation(j->group));
    gw_map_put(s, all, "size", gw_group_size(j->group));
    gw_map_put(s, all, "model", model);
    gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, j->opt));
    if (j->options.save) gw_map_put(s, all, "program", gw_map_get(s, given, "program"));
    return all;
}

// ---- Writing --------------------------------------------------------------------------------------

// The next meeting handles it, as if it had ended a step.
static void note_loss(gw_elastic *j, const gw_error *why) {
    if (why->status != GW_DISCONNECTED) return;
    j->is_lost = true;
    j->loss = *why;
}

static void note_failure(const gw_elastic *j, int64_t step, const gw_error *why) {
    if (j->group && gw_group_rank(j->group) == 0)
        log_line("the checkpoint of step %" PRId64 " in %.300s was not written: %s", step,
                 j->options.checkpoint, why->text);
}

static gw_error await(gw_scope *root, gw_elastic *j) {
    gw_scope *t = scope_open_regardless(root);
    if (j->saving) gw_wait(t, j->saving);
    gw_error e = gw_scope_close(t);
    if (e.status) note_failure(j, j->saving_step, &e);
    if (j->saving) gw_set(j->own, &j->saving, NULL);
    return e;
}

// A loss that ends a checkpoint begun earlier was handled by a meeting, or is noticed by the next collective.
void checkpoints_await(gw_scope *root, gw_elastic *j) {
    gw_error e = await(root, j);
    (void)e;
}

// An error of the program's function is one of the root, on its member; the others get it as one of the checkpoint.
static bool begin(gw_scope *root, gw_elastic *j, int64_t step) {
    const gw_elastic_options *o = &j->options;
    gw_scope *t = gw_scope_open(root);
    bool has_failed;
    gw_map *all = collect(t, j, step, &has_failed);
    gw_future *f =
        gw_checkpoint_begin(t, o->checkpoint, j->group, all, .step = step, .keep = o->keep);
    if (gw_ok(t)) gw_set(j->own, &j->saving, f);
    gw_error e = gw_scope_close(t);
    if (has_failed) return scope_fail_with(root, &e);
    note_loss(j, &e);
    if (e.status) note_failure(j, step, &e);
    j->saving_step = j->saved_step = step;
    j->saved_ns = env_now_ns(j->agent->env);
    return gw_ok(root);
}

static bool begin_unless_done(gw_scope *root, gw_elastic *j) {
    int64_t step = gw_optimizer_steps(j->opt);
    j->saves = false;
    if (!j->options.checkpoint || step == j->saved_step) return true;
    checkpoints_await(root, j);  // one at a time: each may take as much memory as the state
    return begin(root, j, step);
}

bool checkpoints_are_due_by_time(const gw_elastic *j) {
    const gw_elastic_options *o = &j->options;
    int64_t age_ns = env_now_ns(j->agent->env) - j->saved_ns;
    return o->checkpoint && o->every_ms && age_ns / 1000000 >= o->every_ms &&
           gw_group_rank(j->group) == 0;
}

bool checkpoints_begin_if_due(gw_scope *root, gw_elastic *j) {
    const gw_elastic_options *o = &j->options;
    int64_t step = gw_optimizer_steps(j->opt);
    if (j->saving && gw_future_done(j->saving)) checkpoints_await(root, j);
    if (step >= o->steps) return checkpoints_write(root, j);
    bool is_due = j->saves || (o->every_steps && step && step % o->every_steps == 0);
    return !is_due || begin_unless_done(root, j);
}

bool checkpoints_write(gw_scope *root, gw_elastic *j) {
    if (!begin_unless_done(root, j)) return false;
    gw_error e = await(root, j);
    // Begun since the list of members has changed, so that it is one of them who was lost.
    note_loss(j, &e);
    return gw_ok(root);
}
