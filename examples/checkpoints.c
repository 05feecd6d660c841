// Training that continues where it was stopped, with any number of workers.
//
//     build/bin/gradwire run -n 3 -- build/bin/checkpoints saved 40       first to step 40
//     build/bin/gradwire run -n 2 -- build/bin/checkpoints saved 100      then, with two workers, to step 100
//
// Replicas of a small model. All workers begin a checkpoint after every tenth step, and write it while they continue: each
// writes its share into a folder of the step. It shows
//
//     gw_checkpoint_begin, whose future is read before the next one begins;
//     gw_checkpoint_restore, by another number of workers than those that have written;
//     a position in the data that is a count for all workers, so that it is right with any number of them.
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 8, BATCH = 12, EVERY = 10 };

// The part of a batch that this worker takes follows from the position and its rank.
static gw_tensor *loss_of(gw_scope *s, gw_module *model, gw_group *g, int64_t position) {
    int64_t count = BATCH / gw_group_size(g), first = position + count * gw_group_rank(g);
    gw_tensor *x = gw_arange(s, GW_F32, (double)first, (double)(first + count * FEATURES), 1);
    x = gw_sin(s, gw_reshape(s, x, count, FEATURES));
    gw_tensor *y = gw_sum(s, x, .dim = 1, .keepdim = true);
    return gw_mse(s, gw_module_call(s, model, x), y);
}

static gw_map *state_of(gw_scope *s, gw_module *model, gw_optimizer *opt, int64_t position) {
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "model", gw_module_state_dict(s, model));
    gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, opt));
    gw_map_put(s, all, "position", position);
    return all;
}

// Returns the position to continue at.
static int64_t restore(gw_scope *root, const char *folder, gw_group *g, gw_module *model,
                       gw_optimizer *opt) {
    gw_map *all = gw_checkpoint_restore(root, folder, g);
    if (!all) return 0;
    gw_module_load_state_dict(root, model, gw_map_of(root, gw_map_get(root, all, "model")));
    gw_optimizer_load_state_dict(root, opt, gw_map_of(root, gw_map_get(root, all, "optimizer")));
    return gw_int_of(root, gw_map_get(root, all, "position"));
}

static void learn(gw_scope *root, const char *folder, int64_t steps) {
    gw_group *g = gw_group_world(root);
    gw_module *model = gw_nn_linear(root, FEATURES, 1);
    gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 0.05);
    gw_ddp_open(root, model);
    int64_t position = restore(root, folder, g, model, opt);
    if (gw_ok(root) && gw_group_rank(g) == 0)
        printf("begins at step %lld\n", (long long)gw_optimizer_steps(opt));
    gw_future *saved = NULL;
    while (gw_ok(root) && gw_optimizer_steps(opt) < steps) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, loss_of(s, model, g, position));
        gw_optimizer_step(s, opt);
        position += BATCH;
        int64_t step = gw_optimizer_steps(opt);
        if (step % EVERY == 0) {
            if (saved) gw_wait(s, saved);
            gw_set(root, &saved,
                   gw_checkpoint_begin(s, folder, g, state_of(s, model, opt, position),
                                       .step = step, .keep = 2));
        }
        gw_scope_close_up(s);
    }
    if (saved) gw_wait(root, saved);
    gw_tensor *loss = gw_all_reduce(root, g, gw_detach(root, loss_of(root, model, g, 0)), GW_AVG);
    if (gw_ok(root) && gw_group_rank(g) == 0)
        printf("ends at step %lld with loss %.4f\n", (long long)gw_optimizer_steps(opt),
               gw_item(root, loss));
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "checkpoints FOLDER STEPS\n");
        return 2;
    }
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    learn(root, argv[1], strtoll(argv[2], NULL, 10));
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
