// The bigram model, a baseline.
#include "text.h"

#include <math.h>
#include <stdlib.h>

static const double discount = 0.75;

// Counts of a text. V: the vocabulary.
typedef struct counts {
    int64_t vocabulary, kinds;
    int32_t *pairs;  // V V: how often the second follows the first
    int64_t *firsts,
        *followers;  // of each word: how often something follows it, and how many different words do
    int64_t *preceders;  // how many different words it follows
} counts;

static counts count_pairs(gw_scope *s, const text *t) {
    size_t v = (size_t)t->vocabulary;
    counts c = { .vocabulary = t->vocabulary,
                 .pairs = gw_alloc(s, v * v * sizeof *c.pairs),
                 .firsts = gw_alloc(s, v * sizeof *c.firsts),
                 .followers = gw_alloc(s, v * sizeof *c.followers),
                 .preceders = gw_alloc(s, v * sizeof *c.preceders) };
    for (int64_t i = 0; i + 1 < t->train.count && gw_ok(s); i++) {
        int64_t first = t->train.ids[i], second = t->train.ids[i + 1];
        c.firsts[first]++;
        if (c.pairs[first * t->vocabulary + second]++ > 0) continue;
        c.followers[first]++;
        c.preceders[second]++;
        c.kinds++;
    }
    return c;
}

static double probability(const counts *c, int64_t first, int64_t second) {
    double v = (double)c->vocabulary;
    double alone = ((double)c->preceders[second] + 1) / ((double)c->kinds + v);
    if (c->firsts[first] == 0) return alone;
    double count = (double)c->pairs[first * c->vocabulary + second] - discount;
    double left = discount * (double)c->followers[first] * alone;
    return ((count > 0 ? count : 0) + left) / (double)c->firsts[first];
}

double text_bigram_perplexity(gw_scope *s, const text *t) {
    gw_scope *own = gw_scope_open(s);
    counts c = count_pairs(own, t);
    double sum = 0;
    for (int64_t i = 0; i + 1 < t->held_out.count && gw_ok(own); i++)
        sum -= log(probability(&c, t->held_out.ids[i], t->held_out.ids[i + 1]));
    gw_scope_close_up(own);
    return exp(sum / (double)(t->held_out.count - 1));
}
