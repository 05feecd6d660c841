// Work grows with the number of objects, not with its square: for every kind of object, twice as many take about twice
// the steps. Steps are counted, time is not measured.
#include "steps.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// n log n grows by 2.2 from 1,000 to 2,000, the square by 4.
#define RATIO_MAX 2.6

enum { MANY = 1000 };

typedef void work(gw_scope *s, int count);

typedef struct subject {
    const char *name;
    work *work;
} subject;

// ---- Without a job ------------------------------------------------------------------------------

static gw_tensor *identity(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static const char *name_of(gw_scope *s, int i) {
    return gw_format(s, "p%d", i);
}

static gw_module *module_of(gw_scope *s, int count) {
    gw_module *m = gw_module_open(s, "many", identity, NULL);
    for (int i = 0; i < count; i++)
        gw_module_register_parameter(s, m, name_of(s, i), gw_zeros(s, GW_F32, 3));
    return m;
}

static void register_parameters(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    for (int i = 0; i < count; i++) gw_module_parameter_get(s, m, name_of(s, i));
    for (int i = 0; i < count; i++) gw_module_parameter_find(m, name_of(s, i));
}

static void register_modules(gw_scope *s, int count) {
    gw_module *m = gw_module_open(s, "many", identity, NULL);
    for (int i = 0; i < count; i++) {
        gw_module *child = i % 2 ? gw_nn_relu(s) : module_of(s, 1);
        gw_module_register_module(s, m, name_of(s, i), child);
    }
    for (int i = 0; i < count; i++) gw_module_child(s, m, name_of(s, i));
    gw_module_eval(s, m);
    gw_module_load_state_dict(s, m, gw_module_state_dict(s, m));
}

static void list_parameters(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    gw_parameters(s, m, m);
    gw_module_named_parameters(s, m);
}

static void number_parameters(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    for (int i = 0; i < gw_module_parameter_count(m); i++) {
        gw_module_parameter_at(s, m, i);
        gw_nn_linear(s, 1, 1);
    }
    for (int i = gw_module_buffer_count(m); i-- > 0;) gw_module_buffer_at(s, m, i);
}

static void load_states(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    gw_module_load_state_dict(s, m, gw_module_state_dict(s, m));
    gw_optimizer *o = gw_adam(s, gw_parameters(s, m));
    gw_optimizer_load_state_dict(s, o, gw_optimizer_state_dict(s, o));
}

static void open_parameter_groups(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    gw_list *all = gw_parameters(s, m);
    gw_optimizer *o = NULL;
    for (int i = 0; i < count; i++) {
        gw_list *one = gw_list_open(s);
        gw_list_add(s, one, gw_list_get(s, all, i));
        if (o)
            gw_optimizer_add_parameter_group(s, o, one, .lr = 0.1);
        else
            o = gw_sgd(s, one, .lr = 0.1);
    }
    for (int i = 0; i < gw_optimizer_parameter_group_count(o); i++)
        gw_optimizer_set_parameter_group_lr(s, o, i, 0.2);
}

static void train_once(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    gw_list *all = gw_parameters(s, m);
    gw_optimizer *o = gw_sgd(s, all, .lr = 0.1);
    gw_tensor *sum = gw_zeros(s, GW_F32, 3);
    for (int i = 0; i < count; i++)
        sum = gw_add(s, sum, gw_mul(s, gw_tensor_of(s, gw_list_get(s, all, i)), 2.0));
    gw_backward(s, gw_sum(s, sum));
    gw_clip_grad_norm(s, all, 1.0);
    gw_optimizer_step(s, o);
    for (int i = 0; i < gw_grads_count(s); i++) gw_grads_get(s, i);
    for (int i = 0; i < count; i++) gw_grad(s, gw_tensor_of(s, gw_list_get(s, all, i)));
}

static void open_sibling_scopes(gw_scope *s, int count) {
    gw_scope **all = gw_alloc(s, (size_t)count * sizeof(gw_scope *));
    for (int i = 0; i < count; i++) all[i] = gw_scope_open(s);
    for (int i = 0; i < count; i++) gw_scope_close_up(all[i]);
}

static void open_scopes_in_each_other(gw_scope *s, int count) {
    for (int i = 0; i < count; i++) s = gw_scope_open(s);
    gw_zeros(s, GW_F32, 3);
}

static void drop_handles(gw_scope *s, int count, int step) {
    gw_tensor **all = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; i < count; i++) all[i] = gw_zeros(s, GW_F32, 3);
    for (int i = 0; i < count; i++) gw_drop(s, all[(int64_t)i * step % count]);
}

static void drop_handles_in_order(gw_scope *s, int count) {
    drop_handles(s, count, 1);
}

static void drop_handles_in_reverse(gw_scope *s, int count) {
    drop_handles(s, count, count - 1);
}

static void drop_handles_in_any_order(gw_scope *s, int count) {
    drop_handles(s, count, 7);
}

static void keep_the_last(gw_scope *s, int count) {
    gw_tensor *last = NULL;
    for (int i = 0; i < count; i++) gw_set(s, &last, gw_zeros(s, GW_F32, 3));
}

// A window that moves, with many handles that stay.
static void move_a_window(gw_scope *s, int count) {
    gw_tensor *window[100] = { NULL };
    for (int i = 0; i < count; i++) gw_ones(s, GW_F32);
    for (int i = 0; i < count; i++) gw_set(s, &window[i % 100], gw_ones(s, GW_F32));
}

static void keep_one_handle_often(gw_scope *s, int count) {
    gw_tensor *x = gw_ones(s, GW_F32), *y = gw_ones(s, GW_F32);
    for (int i = 0; i < count; i++) gw_keep(s, i % 2 ? x : y);
    for (int i = 0; i < count; i++) gw_drop(s, i % 3 ? x : y);
}

static void keep_what_inner_scopes_made(gw_scope *s, int count) {
    for (int i = 0; i < count; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_keep(s, gw_zeros(t, GW_F32, 3));
        gw_scope_close_up(t);
    }
}

static void fill_lists_and_maps(gw_scope *s, int count) {
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    for (int i = 0; i < count; i++) {
        gw_list_add(s, list, i);
        gw_map_put(s, map, name_of(s, i), i);
    }
    for (int i = 0; i < count; i++) {
        gw_list_get(s, list, i);
        gw_map_get(s, map, name_of(s, i));
        gw_map_put(s, map, name_of(s, i), i + 1);
    }
}

// Lists inside other lists are searched for the values that are put into them.
static void put_lists_into_lists(gw_scope *s, int count) {
    gw_list *list = gw_list_open(s), *holder = gw_list_open(s);
    gw_list_add(s, holder, list);
    for (int i = 0; i < count; i++) {
        gw_list *inner = gw_list_open(s);
        gw_list_add(s, list, inner);
        if (i % 2) list = inner;
    }
}

// Each list is in the next one twice: there are 2^count paths to the innermost.
static void put_lists_twice_into_lists(gw_scope *s, int count) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < count / 32; i++) {
        gw_list *outer = gw_list_open(s);
        gw_list_add(s, outer, list);
        gw_list_add(s, outer, list);
        list = outer;
    }
    gw_list *holder = gw_list_open(s), *other = gw_list_open(s);
    gw_list_add(s, other, holder);
    gw_list_add(s, holder, list);
}

static gw_value answer(gw_scope *s, const gw_args *a) {
    (void)s, (void)a;
    return gw_none();
}

static void register_functions(gw_scope *s, int count) {
    gw_registry *r = gw_registry_open(s);
    for (int i = 0; i < count; i++) {
        gw_registry_add_function(s, r, name_of(s, i), GW_INLINE, "int, tensor?", answer);
        gw_registry_allow(s, r, name_of(s, i), "trainer%d");
    }
}

static void *no_state;

static void open_object(gw_scope *own, void *self, const gw_args *a) {
    (void)own, (void)self, (void)a;
}

static gw_value answer_of_object(gw_scope *s, void *self, const gw_args *a) {
    (void)s, (void)self, (void)a;
    return gw_none();
}

static void register_classes(gw_scope *s, int count) {
    gw_registry *r = gw_registry_open(s);
    const gw_class_options options = { .size = 8, .open = open_object, .signature = "int" };
    for (int i = 0; i < count; i++) gw_registry_add_class(s, r, name_of(s, i), options);
    for (int i = 0; i < count; i++)
        gw_registry_add_method(s, r, "p0", name_of(s, i), GW_INLINE, "int", answer_of_object);
}

static gw_tensor *leave_gradient(gw_scope *s, gw_tensor *gradient, void *context) {
    (void)s, (void)gradient, (void)context;
    return NULL;
}

// Every second hook is removed again, in any order, before they run.
static void register_hooks(gw_scope *s, int count) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32));
    int *numbers = gw_alloc(s, (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) numbers[i] = gw_register_hook(s, x, leave_gradient, no_state);
    for (int i = 1; i < count; i += 2) gw_remove_hook(s, x, numbers[(int64_t)i * 7 % count]);
    gw_backward(s, gw_mul(s, x, 2.0));
    for (int i = 0; i < count; i += 2) gw_remove_hook(s, x, numbers[i]);
}

static gw_tensor *leave_input(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)s, (void)m, (void)x, (void)context;
    return NULL;
}

static void register_module_hooks(gw_scope *s, int count) {
    gw_module *m = gw_nn_relu(s);
    int *numbers = gw_alloc(s, (size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        numbers[i] = gw_module_register_forward_pre_hook(s, m, leave_input, no_state);
    gw_module_call(s, m, gw_ones(s, GW_F32));
    for (int i = count; i-- > 0;) gw_module_remove_hook(s, m, numbers[i]);
}

static gw_module *tree_of_modules(gw_scope *s, int count) {
    gw_module *m = gw_module_open(s, "tree", identity, NULL);
    if (count < 2) return m;
    gw_module_register_module(s, m, "a", tree_of_modules(s, count / 2));
    gw_module_register_module(s, m, "b", tree_of_modules(s, count - count / 2));
    return m;
}

static void nest_modules(gw_scope *s, int count) {
    gw_module_eval(s, tree_of_modules(s, count));
}

static void save_entries(gw_scope *s, int count) {
    char path[] = "/tmp/gw-growth-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gw_map *all = gw_map_open(s);
    for (int i = 0; i < count; i++) {
        if (i % 3)
            gw_map_put(s, all, name_of(s, i), gw_ones(s, GW_F32));
        else
            gw_map_put(s, all, name_of(s, i), name_of(s, i));
    }
    gw_checkpoint_save(s, path, all);
    gw_checkpoint_load(s, path);
    unlink(path);
}

static gw_value item_of(gw_scope *s, void *state, int64_t index) {
    (void)s, (void)state;
    return gw_value_of(index);
}

static void read_all(gw_scope *s, gw_dataset *d, int64_t batch_size) {
    gw_data_loader *l = gw_data_loader_open(s, d, .batch_size = batch_size, .shuffle = true);
    while (gw_data_loader_next(s, l)) gw_data_loader_batch(s, l);
}

static void read_items(gw_scope *s, int count) {
    gw_dataset *d = gw_dataset_open(s, "items", count, item_of, NULL);
    read_all(s, gw_subset(s, d, gw_arange(s, GW_I64, 0, count, 1)), 4);
    read_all(s, d, count);
    read_all(s, gw_tensor_dataset(s, "rows", gw_zeros(s, GW_F32, count, 2)), 4);
}

static void schedule_rates(gw_scope *s, int count) {
    gw_optimizer *o = gw_sgd(s, gw_parameters(s, module_of(s, 1)), .lr = 0.1);
    int64_t *milestones = gw_alloc(s, (size_t)count * sizeof *milestones);
    for (int i = 0; i < count; i++) milestones[i] = i + 1;
    gw_scheduler *c =
        gw_multi_step_lr(s, o, .milestones = milestones, .milestone_count = count, .gamma = 0.999);
    for (int i = 0; i < count; i++) gw_scheduler_step(s, c);
}

static void open_schedules(gw_scope *s, int count) {
    gw_optimizer *o = gw_sgd(s, gw_parameters(s, module_of(s, 1)), .lr = 0.1);
    gw_scheduler *first = gw_step_lr(s, o, .step_size = 1, .gamma = 0.9);
    for (int i = 1; i < count; i++) gw_step_lr(s, o, .step_size = 1, .gamma = 0.9);
    gw_scheduler_step(s, first);
}

static void load_optimizers(gw_scope *s, int count) {
    gw_list *all = gw_parameters(s, module_of(s, count));
    gw_optimizer *o = gw_adam(s, all, .lr = 0.1);
    for (int i = 0; i < count; i++) {
        gw_tensor *x = gw_tensor_of(s, gw_list_get(s, all, i));
        gw_set_grad(s, x, gw_ones(s, GW_F32, 3));
    }
    gw_optimizer_step(s, o);
    gw_optimizer_load_state_dict(s, o, gw_optimizer_state_dict(s, o));
}

static void begin_at_many_roots(gw_scope *s, int count) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32));
    gw_tensor **roots = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; i < count; i++) roots[i] = gw_mul(s, x, (double)i);
    gw_backward_roots(s, roots, count);
}

static void draw_samples(gw_scope *s, int count) {
    gw_dataset *d = gw_dataset_open(s, "items", count, item_of, NULL);
    for (int i = 0; i < count; i++)
        gw_random_sampler(s, gw_subset(s, d, gw_zeros(s, GW_I64, 1)), 1);
    gw_sampler_indices(s, gw_random_sampler(s, d, 1));
    gw_sampler_indices(s,
                       gw_distributed_sampler(s, d, .num_replicas = 2, .rank = 1, .shuffle = true));
}

static void format_texts(gw_scope *s, int count) {
    for (int i = 0; i < count; i++) gw_scope_label(s, "step %d", i);
    for (int i = 0; i < count; i++) gw_format(s, "%d", i);
}

// ---- In a job -----------------------------------------------------------------------------------

GW_FUNCTION(growth_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

typedef struct counter {
    int64_t count;
} counter;

static void counter_open(gw_scope *own, counter *self, const gw_args *a) {
    self->count = gw_arg_int(own, a, 0);
}

GW_CLASS(counter, counter_open, "int");

GW_METHOD(counter, add, GW_INLINE, "int") {
    self->count += gw_arg_int(s, a, 0);
    return gw_value_of(self->count);
}

static gw_future **start_calls(gw_scope *s, int count) {
    gw_future **all = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    for (int i = 0; all && i < count; i++) all[i] = gw_rpc_async(s, 1, "growth_echo", i);
    return all;
}

static void wait_in_order(gw_scope *s, int count) {
    gw_future **all = start_calls(s, count);
    for (int i = 0; all && i < count; i++) gw_wait(s, all[i]);
}

static void wait_in_reverse(gw_scope *s, int count) {
    gw_future **all = start_calls(s, count);
    for (int i = count; all && i-- > 0;) gw_wait(s, all[i]);
}

static void wait_for_all(gw_scope *s, int count) {
    gw_future **all = start_calls(s, count);
    if (all) gw_wait_all(s, all, count);
}

static gw_value next(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    return v;
}

static void chain_futures(gw_scope *s, int count) {
    gw_future *f = gw_rpc_async(s, 1, "growth_echo", 1);
    for (int i = 0; i < count; i++) f = gw_then(s, f, next, NULL);
    gw_wait(s, f);
}

static void follow_one_future(gw_scope *s, int count) {
    gw_future *f = gw_rpc_async(s, 1, "growth_echo", 1), *last = f;
    for (int i = 0; i < count; i++) last = gw_then(s, f, next, NULL);
    gw_wait(s, last);
}

static void count_one(gw_scope *s, gw_future *f, void *context) {
    (void)s, (void)f;
    ++*(int *)context;
}

static void await_one_future(gw_scope *s, int count) {
    int *done = gw_alloc(s, sizeof *done);
    gw_future *f = gw_future_open(s);
    *done = 0;
    for (int i = 0; i < count; i++) gw_on_done(s, f, count_one, done);
    gw_future_set(s, f, 1);
    gw_wait(s, f);
    assert_int_equal(*done, count);
}

// Pending futures leave their list in any order.
static void drop_followers(gw_scope *s, int count, bool cancels) {
    gw_future *f = gw_future_open(s), **all = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    for (int i = 0; i < count; i++) all[i] = gw_then(s, f, next, NULL);
    for (int i = count; i-- > 0;) {
        gw_future *one = all[(int64_t)i * 7 % count];
        if (cancels)
            gw_cancel(s, one);
        else
            gw_drop(s, one);
    }
    gw_future_set(s, f, 1);
}

static void drop_futures_of_one(gw_scope *s, int count) {
    drop_followers(s, count, false);
}

static void cancel_futures_of_one(gw_scope *s, int count) {
    drop_followers(s, count, true);
}

static void cancel_calls(gw_scope *s, int count) {
    gw_future **all = start_calls(s, count);
    for (int i = count; all && i-- > 0;) gw_cancel(s, all[i]);
}

static void collect_futures(gw_scope *s, int count) {
    gw_future **all = start_calls(s, count);
    if (!all) return;
    gw_future *ends[] = { gw_collect_all(s, all, count), gw_collect_fail_fast(s, all, count),
                          gw_collect_first(s, all, count) };
    gw_wait_all(s, ends, 3);
    gw_wait_any(s, all, count);
}

static void await_losses(gw_scope *s, int count) {
    gw_worker other = gw_rpc_worker(s, 1);
    gw_future **all = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    for (int i = 0; all && i < count; i++) all[i] = gw_member_lost(s, &other, 1);
    for (int i = count; all && i-- > 0;) gw_drop(s, all[i]);
}

static gw_group *group_of_self(gw_scope *s) {
    gw_worker self = gw_rpc_self(s);
    return gw_group_open(s, &self, 1);
}

// Sent before they are received, or received before they are sent; each with a tag.
static void exchange_by_tag(gw_scope *s, int count, bool sends_first) {
    gw_group *g = group_of_self(s);
    gw_tensor *x = gw_ones(s, GW_F32);
    gw_future **all = gw_alloc(s, 2 * (size_t)count * sizeof(gw_future *));
    for (int i = 0; all && i < count; i++)
        all[i] = sends_first ? gw_isend(s, g, x, 0, .tag = i) : gw_irecv(s, g, 0, .tag = i);
    for (int i = count; all && i-- > 0;)
        all[count + i] = sends_first ? gw_irecv(s, g, 0, .tag = i) : gw_isend(s, g, x, 0, .tag = i);
    if (all) gw_wait_all(s, all, 2 * count);
}

static void receive_by_tag_later(gw_scope *s, int count) {
    exchange_by_tag(s, count, true);
}

static void receive_by_tag_before(gw_scope *s, int count) {
    exchange_by_tag(s, count, false);
}

static void exchange_at_once(gw_scope *s, int count) {
    gw_group *g = group_of_self(s);
    gw_tensor *x = gw_ones(s, GW_F32);
    gw_message *all = gw_alloc(s, 2 * (size_t)count * sizeof *all);
    for (int i = 0; all && i < count; i++) {
        all[i] = (gw_message){ .send = x, .tag = i };
        all[2 * count - 1 - i] = (gw_message){ .tag = i };
    }
    if (all) gw_batch(s, g, all, 2 * count);
}

static void sum_many(gw_scope *s, int count) {
    gw_tensor **all = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; i < count; i++) all[i] = gw_ones(s, GW_F32, 3);
    gw_all_reduce_coalesced(s, group_of_self(s), all, count, GW_SUM);
}

static void sum_under_keys(gw_scope *s, int count) {
    gw_group *g = group_of_self(s);
    for (int i = 0; i < count; i++) gw_all_reduce(s, g, gw_ones(s, GW_F32), GW_SUM, .key = i + 1);
}

static void open_named_groups(gw_scope *s, int count) {
    gw_worker self = gw_rpc_self(s);
    for (int i = 0; i < count; i++)
        gw_barrier(s, gw_group_open(s, &self, 1, .name = name_of(s, i)));
}

static void train_replicas(gw_scope *s, int count) {
    gw_module *m = module_of(s, count);
    gw_ddp *d = gw_ddp_open(s, m, .group = group_of_self(s));
    (void)d;
    gw_tensor *sum = gw_zeros(s, GW_F32, 3);
    gw_list *all = gw_parameters(s, m);
    for (int i = 0; i < count; i++) sum = gw_add(s, sum, gw_tensor_of(s, gw_list_get(s, all, i)));
    gw_backward(s, gw_sum(s, sum));
}

// One reference that is passed on and returned.
static void forward_one_reference(gw_scope *s, int count) {
    gw_rref *r = gw_remote(s, 1, "growth_echo", 1);
    gw_rref **all = gw_alloc(s, (size_t)count * sizeof(gw_rref *));
    for (int i = 0; all && i < count; i++)
        all[i] = gw_rref_of(s, gw_rpc_sync(s, 1, "growth_echo", r));
    for (int i = count; all && i-- > 0;) gw_drop(s, all[i]);
}

static void refer_to_own_values(gw_scope *s, int count) {
    gw_rref **all = gw_alloc(s, (size_t)count * sizeof(gw_rref *));
    for (int i = 0; all && i < count; i++) all[i] = gw_rref_open(s, i);
    for (int i = 0; all && i < count; i++) gw_drop(s, all[(int64_t)i * 7 % count]);
}

static void refer_to_values(gw_scope *s, int count) {
    gw_rref **all = gw_alloc(s, (size_t)count * sizeof(gw_rref *));
    for (int i = 0; all && i < count; i++) all[i] = gw_remote(s, 1, "growth_echo", i);
    for (int i = 0; all && i < count; i++) gw_to_here_value(s, all[i]);
    for (int i = count; all && i-- > 0;) gw_drop(s, all[i]);
}

static void open_objects(gw_scope *s, int count) {
    gw_rref **all = gw_alloc(s, (size_t)count * sizeof(gw_rref *));
    for (int i = 0; all && i < count; i++) all[i] = gw_remote(s, 1, "counter", i);
    for (int i = 0; all && i < count; i++) gw_rpc_sync(s, all[i], "add", 1);
}

static void name_references(gw_scope *s, int count) {
    // A name stays with its value, which outlives this scope.
    for (int i = 0; i < count; i++)
        gw_rref_set_name(s, gw_rref_open(s, i), gw_format(s, "n%d.%d", count, i));
    for (int i = 0; i < count; i++) gw_named(s, 0, gw_format(s, "n%d.%d", count, i));
}

static void open_watches(gw_scope *s, int count) {
    for (int i = 0; i < count; i++) gw_watch_open(s);
}

static void open_groups(gw_scope *s, int count) {
    gw_worker self = gw_rpc_self(s);
    for (int i = 0; i < count; i++) gw_barrier(s, gw_group_open(s, &self, 1));
}

static void join_many(gw_scope *s, int count) {
    gw_worker self = gw_rpc_self(s);
    gw_group *g = gw_group_open(s, &self, 1);
    gw_joinable *parts = gw_alloc(s, (size_t)(count + 1) * sizeof *parts);
    gw_module *m = module_of(s, 1);
    for (int i = 0; parts && i < count; i++)
        parts[i] = (gw_joinable){ .optimizer = gw_sgd(s, gw_parameters(s, m), .lr = 0.1) };
    if (parts) parts[count] = (gw_joinable){ .group = g };
    gw_join_close(s, gw_join_open(s, parts, count + 1));
}

// ---- Collectives and point-to-point messages ----------------------------------------------------

static gw_group *group_of_both(gw_scope *s) {
    gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, 1) };
    return gw_group_open(s, both, 2);
}

static void reduce_at_once(gw_scope *s, int count) {
    gw_group *g = group_of_both(s);
    gw_future **all = gw_alloc(s, (size_t)count * sizeof(gw_future *));
    for (int i = 0; all && i < count; i++) {
        all[i] = gw_all_reduce_async(s, g, gw_ones(s, GW_F32), GW_SUM);
        if (i % 100 == 99) gw_wait_all(s, &all[i - 99], 100);  // LIMIT_RUNS
    }
}

static void reduce_under_keys(gw_scope *s, int count) {
    gw_group *g = group_of_both(s);
    for (int i = 0; i < count; i++) gw_all_reduce(s, g, gw_ones(s, GW_F32), GW_SUM, .key = i + 1);
}

static void exchange_with_other(gw_scope *s, int count) {
    gw_group *g = group_of_both(s);
    int other = 1 - gw_group_rank(g);
    gw_future **all = gw_alloc(s, 2 * (size_t)count * sizeof(gw_future *));
    for (int i = 0; all && i < count; i++)
        all[i] = gw_isend(s, g, gw_ones(s, GW_F32), other, .tag = i);
    for (int i = 0; all && i < count; i++)
        all[count + i] = gw_irecv_any(s, g, .tag = (int64_t)i * 7 % count);
    if (all) gw_wait_all(s, all, 2 * count);
}

typedef void work_of_two(gw_scope *s, int count);
static work_of_two *const of_two[] = { reduce_at_once, reduce_under_keys, exchange_with_other };

GW_FUNCTION(growth_join_in, GW_POOL, "int, int") {
    of_two[gw_arg_int(s, a, 0)](s, (int)gw_arg_int(s, a, 1));
    return gw_none();
}

static void do_with_other(gw_scope *s, int which, int count) {
    gw_future *other = gw_rpc_async(s, 1, "growth_join_in", which, count);
    of_two[which](s, count);
    gw_wait(s, other);
}

static void reduce_at_once_with_other(gw_scope *s, int count) {
    do_with_other(s, 0, count);
}

static void reduce_under_keys_with_other(gw_scope *s, int count) {
    do_with_other(s, 1, count);
}

static void exchange_messages_with_other(gw_scope *s, int count) {
    do_with_other(s, 2, count);
}

static void pass_references(gw_scope *s, int count) {
    gw_list *all = gw_list_open(s);
    for (int i = 0; i < count; i++) gw_list_add(s, all, gw_rref_open(s, i));
    gw_rpc_sync(s, 1, "growth_echo", all);
}

static void split_groups(gw_scope *s, int count) {
    gw_group *g = group_of_self(s);
    for (int i = 0; i < count; i++) gw_group_split(s, g, 0, 0);
}

static void shard_parameters(gw_scope *s, int count) {
    gw_list *all = gw_parameters(s, module_of(s, count));
    gw_optimizer *o = gw_adam(s, all, .lr = 0.1);
    gw_optimizer_shard(s, o, .group = group_of_self(s));
    gw_average_parameters(s, group_of_self(s), all);
    for (int i = 0; i < count; i++)
        gw_set_grad(s, gw_tensor_of(s, gw_list_get(s, all, i)), gw_ones(s, GW_F32, 3));
    gw_optimizer_step(s, o);
    gw_optimizer_consolidate(s, o, 0);
}

static void open_deadlines(gw_scope *s, int count) {
    for (int i = 0; i < count; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_scope_set_timeout(t, 100000 + i * 7919 % count);
        gw_rpc_async(t, 1, "growth_echo", i);
    }
}

static void backward_through_calls(gw_scope *s, int count) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2)), *sum = x;
    for (int i = 0; i < count; i++)
        sum = gw_add(s, sum, gw_tensor_of(s, gw_rpc_sync(s, 1, "gw.mul", x, 2.0)));
    gw_backward(s, gw_sum(s, sum));
    gw_grad(s, x);
}

// ---- Reading ------------------------------------------------------------------------------------

static const subject alone[] = {
    { "parameters of a module", register_parameters },
    { "modules of a module", register_modules },
    { "parameters in a list", list_parameters },
    { "parameters by number", number_parameters },
    { "parameters with a state", load_states },
    { "groups of parameters", open_parameter_groups },
    { "parameters of a step", train_once },
    { "sibling scopes", open_sibling_scopes },
    { "scopes in each other", open_scopes_in_each_other },
    { "handles dropped in order", drop_handles_in_order },
    { "handles dropped in reverse", drop_handles_in_reverse },
    { "handles dropped in any order", drop_handles_in_any_order },
    { "handles in one slot", keep_the_last },
    { "handles of a window", move_a_window },
    { "one handle kept often", keep_one_handle_often },
    { "handles kept outside", keep_what_inner_scopes_made },
    { "elements of lists and maps", fill_lists_and_maps },
    { "lists in lists", put_lists_into_lists },
    { "lists twice in lists", put_lists_twice_into_lists },
    { "functions", register_functions },
    { "classes and methods", register_classes },
    { "hooks of a tensor", register_hooks },
    { "hooks of a module", register_module_hooks },
    { "modules in each other", nest_modules },
    { "entries of a checkpoint", save_entries },
    { "items of a dataset", read_items },
    { "milestones of a schedule", schedule_rates },
    { "schedules of an optimizer", open_schedules },
    { "parameters of an optimizer's state", load_optimizers },
    { "roots of a pass", begin_at_many_roots },
    { "samplers and samples", draw_samples },
    { "texts", format_texts },
};

static const subject in_job[] = {
    { "calls awaited in order", wait_in_order },
    { "calls awaited in reverse", wait_in_reverse },
    { "calls awaited together", wait_for_all },
    { "futures of futures", chain_futures },
    { "futures of one future", follow_one_future },
    { "functions that await one future", await_one_future },
    { "futures of one future dropped", drop_futures_of_one },
    { "futures of one future cancelled", cancel_futures_of_one },
    { "calls cancelled", cancel_calls },
    { "futures collected", collect_futures },
    { "losses awaited", await_losses },
    { "messages received by tag later", receive_by_tag_later },
    { "messages received by tag before", receive_by_tag_before },
    { "messages at once", exchange_at_once },
    { "tensors of one sum", sum_many },
    { "keys of a group", sum_under_keys },
    { "groups with a name", open_named_groups },
    { "parameters of replicas", train_replicas },
    { "references to one value", forward_one_reference },
    { "references to own values", refer_to_own_values },
    { "references", refer_to_values },
    { "objects", open_objects },
    { "names", name_references },
    { "watches", open_watches },
    { "groups", open_groups },
    { "joinables", join_many },
    { "collectives of two", reduce_at_once_with_other },
    { "keys of two", reduce_under_keys_with_other },
    { "messages of two", exchange_messages_with_other },
    { "references in a call", pass_references },
    { "groups split", split_groups },
    { "parameters in shards", shard_parameters },
    { "deadlines", open_deadlines },
    { "calls of a backward pass", backward_through_calls },
};

// Includes the end of the scope, which frees everything.
static uint64_t steps_of(const subject *x, gw_scope *parent, int count) {
    uint64_t before = steps_so_far();
    gw_scope *s = gw_scope_open(parent);
    x->work(s, count);
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("%s: %s", x->name, e.text);
    return steps_so_far() - before;
}

static bool grows_slowly(const subject *x, uint64_t once, uint64_t twice) {
    bool slowly = (double)twice < RATIO_MAX * (double)once;
    if (!slowly)
        print_message("%s: %llu steps for %d, %llu for %d\n", x->name, (unsigned long long)once,
                      MANY, (unsigned long long)twice, 2 * MANY);
    return slowly;
}

static void twice_as_many_take_twice_the_steps(void **state) {
    (void)state;
    bool all = true;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        steps_of(&alone[i], NULL, 10);  // objects that are made once
        uint64_t once = steps_of(&alone[i], NULL, MANY);
        all = grows_slowly(&alone[i], once, steps_of(&alone[i], NULL, 2 * MANY)) && all;
    }
    assert_true(all);
}

typedef struct measured {
    const subject *subject;
    uint64_t once, twice;
} measured;

static void measure(gw_scope *root, int rank, void *context) {
    measured *m = context;
    if (rank) return;
    steps_of(m->subject, root, 10);
    m->once = steps_of(m->subject, root, MANY);
    m->twice = steps_of(m->subject, root, 2 * MANY);
}

static void twice_as_many_take_twice_the_steps_in_a_job(void **state) {
    (void)state;
    bool all = true;
    for (size_t i = 0; i < sizeof in_job / sizeof *in_job; i++) {
        measured m = { .subject = &in_job[i] };
        testing_note("%s", m.subject->name);
        cluster_run(1, (cluster_options){ .world_size = 2 }, measure, &m);
        all = grows_slowly(m.subject, m.once, m.twice) && all;
    }
    assert_true(all);
}

static void the_square_is_found(void **state) {
    (void)state;
    const subject square = { "the square", NULL };
    assert_false(grows_slowly(&square, 1000000, 4000000));
}

GW_TESTS(growth, twice_as_many_take_twice_the_steps, twice_as_many_take_twice_the_steps_in_a_job,
         the_square_is_found);
