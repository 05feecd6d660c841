// Handwritten digits: 1,797 images of 8 x 8 pixels (examples/data/digits.txt names the source), and the model that the
// examples train on them.
//
//     digits_split d = digits_load(root, NULL);
//     gw_module *model = digits_model(root, 64);
//     gw_data_loader *loader = gw_data_loader_open(root, digits_dataset(root, d.train), .batch_size = 32);
//     while (gw_data_loader_next(root, loader))
//         gw_backward(s, digits_loss(s, model, digits_batch(s, loader)));
//
// Ownership: tensors belong to the scope.
#ifndef DIGITS_H
#define DIGITS_H

#include <gradwire.h>

enum { DIGITS_PIXELS = 64, DIGITS_CLASSES = 10, DIGITS_TEST_COUNT = 360 };

typedef struct digits {
    gw_tensor *images;  // N DIGITS_PIXELS, f32, 0 to 1
    gw_tensor *labels;  // N, i64
    int count;          // N
} digits;

typedef struct digits_split {
    digits train, test;  // 1,437 and 360, drawn once: the same on every worker
} digits_split;

// |path| NULL: the file of this repository.
digits_split digits_load(gw_scope *s, const char *path);

digits digits_slice(gw_scope *s, digits d, int64_t start, int64_t end);

// Piece |share| of |shares| pieces of equal size, give or take one.
digits digits_share(gw_scope *s, digits d, int share, int shares);

// The digits as a dataset whose items are an image and its label; and the current batch of a loader of it.
gw_dataset *digits_dataset(gw_scope *s, digits d);
digits digits_batch(gw_scope *s, gw_data_loader *loader);

// Two hidden layers of |width|: images, N 64 -> unnormalised log-probabilities of the digits, N 10.
gw_module *digits_model(gw_scope *s, int64_t width);
int64_t digits_model_parameters(int64_t width);  // number of its parameters

// A loader of whole batches of |d|, in the same order on all workers; and this worker's share of a batch.
gw_data_loader *digits_loader(gw_scope *s, digits d, int64_t batch);
digits digits_own_share(gw_scope *s, digits batch);

// The samples |part| of the batch of |step|, in an order that follows from the step alone: a program that continues at a
// step needs no other state. And the number of steps of an epoch.
digits digits_at(gw_scope *s, digits d, int64_t step, int64_t batch, gw_share part);
int64_t digits_steps(digits d, int64_t batch);

gw_tensor *digits_loss(gw_scope *s, gw_module *model, digits d);  // mean cross-entropy

// Makes one pass over |d| in a new order, with a step of |opt| for each |batch| digits. Returns the mean loss.
double digits_train_epoch(gw_scope *s, gw_module *model, gw_optimizer *opt, digits d,
                          int64_t batch);

double digits_accuracy(gw_scope *s, gw_module *model, digits d);  // 0 to 1

#endif
