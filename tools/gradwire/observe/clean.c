#include "observe/clean.h"

#include <string.h>

#include "base/utf8.h"

void clean_text(char *text) {
    for (char *at = text; *at;) {
        size_t size = utf8_printable_size(at);
        if (!size) *at = '?';
        at += size ? size : 1;
    }
}

void clean_array(char *text, size_t size) {
    text[size - 1] = '\0';
    clean_text(text);
}

void clean_strings(char *strings, size_t size) {
    for (size_t at = 0; at < size; at += strlen(strings + at) + 1) clean_text(strings + at);
}

void clean_table(trace_table *table) {
    for (int i = 0; i < table->activity_count; i++) {
        trace_activity *a = &table->activities[i];
        clean_array(a->what, sizeof a->what);
        clean_array(a->in, sizeof a->in);
        clean_array(a->site, sizeof a->site);
    }
    for (int i = 0; i < table->peers.count; i++)
        clean_array(table->peers.of[i].transport, sizeof table->peers.of[i].transport);
    for (int k = 0; k < TRACE_SUM_KINDS; k++)
        for (int i = 0; i < table->sums[k].count; i++) {
            trace_sum *x = &table->sums[k].of[i];
            clean_array(x->name, sizeof x->name);
            clean_array(x->in, sizeof x->in);
        }
}
