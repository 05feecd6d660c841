// Recordings: values that PyTorch computed, to compare ours with. tools/record/record.py writes
// them.
//
// A recording is words between blanks and line ends; a '#' begins a comment up to the end of its
// line.
//
//     case softmax
//     arg f32 2x3 0.5 1 -2 0.25 3 1.5
//     arg int 1
//     out f32 2x3 ...
//
// A value is written as its kind and its contents: none, true, false, int 3, float 2.5, string mean, ints 2 3 4 (a
// count, then as many ints), list 2 (a count, then as many values), or a tensor: dtype, sizes ("scalar", "2x3") and
// numbers.
#ifndef TESTING_RECORDING_H
#define TESTING_RECORDING_H

#include <gradwire/tensor.h>
#include <stdbool.h>

typedef struct recording {
    char *text, *at;
} recording;

// recording_open(RECORDINGS "sgd.txt"). Fails the test if there is no such file.
#define RECORDINGS GW_SOURCE_DIR "/src/testing/recordings/"
recording recording_open(const char *path);
void recording_close(recording *r);

// The next word, valid until the recording is closed; NULL at the end.
const char *recording_word(recording *r);

// Whether the next word is |word|, which is then taken.
bool recording_takes(recording *r, const char *word);

double recording_number(recording *r);
gw_value recording_value(gw_scope *s, recording *r);
gw_tensor *recording_tensor(gw_scope *s, recording *r);

// Fails the test, naming |what|, unless shape and dtype of |x| are those of |expected| and each
// number is within |absolute| + |relative| x its size. NaN equals NaN.
void recording_compare(const char *what, const gw_tensor *x, const gw_tensor *expected,
                       double relative, double absolute);

#endif
