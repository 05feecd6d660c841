// A text as numbers: words, the vocabulary of the most frequent of them, and what a bigram model
// makes of it.
#ifndef TEXT_H
#define TEXT_H

#include <gradwire.h>

typedef struct words {
    int64_t *ids;  // of words of the vocabulary
    int64_t count;
} words;

// Of several passages of TEXT_PASSAGE words that are the same only the first is in it. Every tenth
// stretch of 200 words of what is left is held out; the vocabulary is of the rest.
enum { TEXT_PASSAGE = 8 };

typedef struct text {
    words train, held_out;
    int64_t vocabulary;  // 0, "<unk>", stands for all words that are not in it
    int files;
    int64_t repeated;  // words that were left out
} text;

// Reads |paths|, files apart by spaces, of which patterns ("*") are expanded and links are not read
// twice. Words are runs of letters, in lower case, runs of digits, and single other characters. At
// most |vocabulary| are told apart. INVALID if there is not enough to learn from.
text text_load(gw_scope *s, const char *paths, int64_t vocabulary);

// The perplexity on what is held out of the best model that looks at one word only: a bigram model
// with Kneser and Ney's smoothing, interpolated (Chen, Goodman 1999).
double text_bigram_perplexity(gw_scope *s, const text *t);

// T N: |columns| stretches of |w| side by side, as long as each other; what is left over is left
// out.
gw_tensor *text_columns(gw_scope *s, words w, int64_t columns);

#endif
