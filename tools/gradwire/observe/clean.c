#include "observe/clean.h"

#include <stdbool.h>
#include <string.h>

// The bytes of the character at |at|; 0: it is none, or a control character.
static size_t character_size(const unsigned char *at) {
    if (at[0] < 0x80) return at[0] >= 0x20 && at[0] != 0x7f;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    // Overlong forms, surrogates, what is beyond Unicode, and the control characters from U+0080 on.
    bool is_wrong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
                    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90) ||
                    (at[0] == 0xc2 && at[1] < 0xa0);
    return is_wrong ? 0 : size;
}

void clean_text(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t size = character_size(at);
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
}
