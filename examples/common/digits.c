#include "digits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef EXAMPLES_DATA
#define EXAMPLES_DATA "examples/data"  // the build defines the absolute path
#endif

static int pixel_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'G') return c - 'A' + 10;
    return -1;
}

// Parses "5 00C..." into a label and its pixels.
static bool parse_line(const char *line, float *pixels, int64_t *label) {
    if (strlen(line) != 2 + DIGITS_PIXELS + 1 || line[0] < '0' || line[0] > '9') return false;
    *label = line[0] - '0';
    for (int i = 0; i < DIGITS_PIXELS; i++) {
        int pixel = pixel_of(line[2 + i]);
        if (pixel < 0) return false;
        pixels[i] = (float)pixel / 16;
    }
    return true;
}

// Reads up to |max| images and returns their number.
static int read_lines(gw_scope *s, FILE *f, const char *path, int max, float *pixels,
                      int64_t *labels) {
    char line[256];
    int count = 0;
    for (int number = 1; gw_ok(s) && fgets(line, sizeof line, f); number++) {
        if (line[0] == '#') continue;
        if (count == max)
            gw_fail(s, GW_INVALID, "%s:%d: more than %d digits", path, number, max);
        else if (!parse_line(line, pixels + count * DIGITS_PIXELS, labels + count))
            gw_fail(s, GW_INVALID,
                    "%s:%d: not a digit: a label 0 to 9, a space and %d pixels 0 to 9 or A to G",
                    path, number, DIGITS_PIXELS);
        else
            count++;
    }
    return count;
}

digits digits_slice(gw_scope *s, digits d, int64_t start, int64_t end) {
    return (digits){ gw_slice(s, d.images, 0, start, end, 1),
                     gw_slice(s, d.labels, 0, start, end, 1), (int)(end - start) };
}

// On a scope that has failed numbers are 0.
digits digits_share(gw_scope *s, digits d, int share, int shares) {
    if (shares < 1) return digits_slice(s, d, 0, 0);
    return digits_slice(s, d, (int64_t)d.count * share / shares,
                        (int64_t)d.count * (share + 1) / shares);
}

gw_dataset *digits_dataset(gw_scope *s, digits d) {
    return gw_tensor_dataset(s, "digits", d.images, d.labels);
}

gw_data_loader *digits_loader(gw_scope *s, digits d, int64_t batch) {
    return gw_data_loader_open(s, digits_dataset(s, d), .batch_size = batch, .shuffle = true,
                               .drop_last = true, .seed = 1);
}

digits digits_own_share(gw_scope *s, digits batch) {
    return digits_share(s, batch, gw_rpc_self(s).rank, gw_rpc_world_size(s));
}

digits digits_batch(gw_scope *s, gw_data_loader *loader) {
    gw_tensor *images = gw_data_loader_tensor(s, loader, 0);
    return (digits){ images, gw_data_loader_tensor(s, loader, 1), (int)gw_size(images, 0) };
}

// Fisher-Yates shuffle.
static digits shuffled(gw_scope *s, digits d) {
    gw_tensor *order = gw_arange(s, GW_I64, 0, d.count, 1);
    const float *chance = gw_data(gw_rand(s, GW_F32, d.count));
    int64_t *at = gw_data_for_write(s, order);
    for (int i = d.count - 1; i > 0 && gw_ok(s); i--) {
        int j = (int)(chance[i] * (float)(i + 1));
        int64_t held = at[i];
        at[i] = at[j];
        at[j] = held;
    }
    return (digits){ gw_index_select(s, d.images, 0, order), gw_index_select(s, d.labels, 0, order),
                     d.count };
}

digits_split digits_load(gw_scope *s, const char *path) {
    enum { MAX = 1797 };
    if (!path) path = EXAMPLES_DATA "/digits.txt";
    float *pixels = gw_alloc(s, sizeof(float[MAX][DIGITS_PIXELS]));
    int64_t *labels = gw_alloc(s, sizeof(int64_t[MAX]));
    FILE *f = fopen(path, "r");
    if (!f) gw_fail(s, GW_SYSTEM, "%s: %s", path, strerror(errno));
    int count = f ? read_lines(s, f, path, MAX, pixels, labels) : 0;
    if (f && ferror(f)) gw_fail(s, GW_SYSTEM, "%s: %s", path, strerror(errno));  // a directory
    if (f) fclose(f);
    if (gw_ok(s) && count <= DIGITS_TEST_COUNT)
        gw_fail(s, GW_INVALID, "%s: has %d digits, but needs more than the %d that are for testing",
                path, count, DIGITS_TEST_COUNT);

    gw_scope *once = gw_scope_open(s);  // its own seed
    gw_seed(once, 1998);
    digits all = { gw_from(once, pixels, count, DIGITS_PIXELS), gw_from(once, labels, count),
                   count };
    all = shuffled(once, all);
    digits_split d = { .test = digits_slice(s, all, 0, DIGITS_TEST_COUNT),
                       .train = digits_slice(s, all, DIGITS_TEST_COUNT, count) };
    gw_scope_close_up(once);
    return d;
}

gw_module *digits_model(gw_scope *s, int64_t width) {
    return gw_nn_sequential(s, gw_nn_linear(s, DIGITS_PIXELS, width), gw_nn_relu(s),
                            gw_nn_linear(s, width, width), gw_nn_relu(s),
                            gw_nn_linear(s, width, DIGITS_CLASSES));
}

int64_t digits_model_parameters(int64_t width) {
    return (DIGITS_PIXELS + 1) * width + (width + 1) * width + (width + 1) * DIGITS_CLASSES;
}

gw_tensor *digits_loss(gw_scope *s, gw_module *model, digits d) {
    return gw_cross_entropy(s, gw_module_call(s, model, d.images), d.labels);
}

double digits_train_epoch(gw_scope *s, gw_module *model, gw_optimizer *opt, digits d,
                          int64_t batch) {
    gw_scope *epoch = gw_scope_open(s);
    gw_data_loader *loader =
        gw_data_loader_open(epoch, digits_dataset(epoch, d), .batch_size = batch, .shuffle = true);
    double loss_sum = 0;
    while (gw_data_loader_next(epoch, loader)) {
        gw_scope *step = gw_scope_open(epoch);
        digits now = digits_batch(step, loader);
        gw_tensor *loss = digits_loss(step, model, now);
        gw_backward(step, loss);
        gw_optimizer_step(step, opt);
        loss_sum += gw_item(step, loss) * now.count;
        gw_scope_close_up(step);
    }
    gw_scope_close_up(epoch);
    return loss_sum / d.count;
}

double digits_accuracy(gw_scope *s, gw_module *model, digits d) {
    gw_scope *inference = gw_scope_open(s);
    gw_no_grad(inference);
    gw_span_open(inference, "evaluate");  // for gradwire trace, until the scope closes
    gw_tensor *guess = gw_argmax(inference, gw_module_call(inference, model, d.images), .dim = 1);
    double hits = gw_item(inference, gw_sum(inference, gw_eq(inference, guess, d.labels)));
    gw_scope_close_up(inference);
    return hits / d.count;
}

int64_t digits_steps(digits d, int64_t batch) {
    return d.count / batch;
}

digits digits_at(gw_scope *s, digits d, int64_t step, int64_t batch, gw_share part) {
    int64_t steps = digits_steps(d, batch), at = step % steps * batch + part.first;
    gw_sampler *order = gw_random_sampler(s, digits_dataset(s, d), 1);
    gw_sampler_set_epoch(s, order, step / steps);
    gw_tensor *chosen = gw_slice(s, gw_sampler_indices(s, order), 0, at, at + part.count, 1);
    return (digits){ gw_index_select(s, d.images, 0, chosen),
                     gw_index_select(s, d.labels, 0, chosen), (int)part.count };
}
