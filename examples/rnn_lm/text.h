// A text as numbers: words, the vocabulary of the most frequent words, and the perplexity of a bigram model.
#ifndef TEXT_H
#define TEXT_H

#include <gradwire.h>

typedef struct words {
    int64_t *ids;  // of words of the vocabulary
    int64_t count;
} words;

// Of equal passages of TEXT_PASSAGE words only the first is kept. Every tenth stretch of 200 words of the rest is held
// out; the vocabulary is that of the other words.
enum { TEXT_PASSAGE = 8 };

typedef struct text {
    words train, held_out;
    int64_t vocabulary;  // 0, "<unk>", stands for all words that are not in it
    int files;
    int64_t repeated;  // removed words
} text;

// Reads |paths|, files separated by spaces; patterns ("*") are expanded, and links are not read twice. Words are runs
// of letters, in lower case, runs of digits, and single other characters. The vocabulary has at most |vocabulary|
// words. Fails with INVALID if the text is too short.
text text_load(gw_scope *s, const char *paths, int64_t vocabulary);

// The perplexity of the best model of one preceding word on the held-out text: a bigram model with Kneser and Ney's
// smoothing, interpolated (Chen, Goodman 1999).
double text_bigram_perplexity(gw_scope *s, const text *t);

// T N: |columns| stretches of |w| of equal length; the remainder is dropped.
gw_tensor *text_columns(gw_scope *s, words w, int64_t columns);

#endif
