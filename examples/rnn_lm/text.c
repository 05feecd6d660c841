#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WORD_MAX = 40, STRETCH = 200, STRETCHES = 10 };

// A distinct word of the text.
typedef struct spelling {
    int64_t count;  // in the training text
    int64_t id;
    int64_t first;  // its first position; the earlier of two equally frequent words ranks first
    char text[WORD_MAX + 1];
} spelling;

typedef struct token {
    spelling *word;
    bool held_out, repeated;
} token;

typedef struct reader {
    gw_scope *s;
    void *tree;  // of spellings, by their text
    spelling **entries;
    int64_t entry_count, entry_room;
    token *tokens;
    int64_t token_count, token_room;
    int file_count;
} reader;

static int by_spelling(const void *a, const void *b) {
    return strcmp(((const spelling *)a)->text, ((const spelling *)b)->text);
}

static int by_frequency(const void *a, const void *b) {
    const spelling *x = *(spelling *const *)a, *y = *(spelling *const *)b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return x->first > y->first ? 1 : -1;
}

// Returns a larger copy of |old|, twice the size, for elements of |size|; it lives as long as the scope.
static void *grown(gw_scope *s, const void *old, int64_t count, int64_t *room, size_t size) {
    int64_t wanted = *room ? *room * 2 : 4096;
    void *more = gw_alloc(s, (size_t)wanted * size);
    if (!more) return NULL;
    if (count) memcpy(more, old, (size_t)count * size);
    *room = wanted;
    return more;
}

static spelling *find_word(reader *r, const spelling *key) {
    spelling **found = tfind(key, &r->tree, by_spelling);
    if (found) return *found;
    spelling *e = gw_alloc(r->s, sizeof *e);
    if (r->entry_count == r->entry_room && e)
        r->entries = grown(r->s, r->entries, r->entry_count, &r->entry_room, sizeof *r->entries);
    if (!gw_ok(r->s)) return NULL;
    *e = *key;
    e->first = r->entry_count;
    if (!tsearch(e, &r->tree, by_spelling)) {
        gw_fail(r->s, GW_NO_MEMORY, "no memory for words");
        return NULL;
    }
    return r->entries[r->entry_count++] = e;
}

static void add_word(reader *r, const spelling *key) {
    spelling *e = find_word(r, key);
    if (e && r->token_count == r->token_room)
        r->tokens = grown(r->s, r->tokens, r->token_count, &r->token_room, sizeof *r->tokens);
    if (gw_ok(r->s)) r->tokens[r->token_count++] = (token){ .word = e };
}

// Reads the next word of |f| into |out|. False at the end.
static bool next_word(FILE *f, spelling *out) {
    int c = getc(f), length = 0;
    while (isspace(c)) c = getc(f);
    if (c == EOF) return false;
    *out = (spelling){ 0 };
    int (*belongs)(int) = isalpha(c) ? isalpha : isdigit(c) ? isdigit : NULL;
    do {
        if (length < WORD_MAX) out->text[length++] = (char)tolower(c);
        c = getc(f);
    } while (belongs && c != EOF && belongs(c));
    if (c != EOF) ungetc(c, f);
    return true;
}

static void read_file(reader *r, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) {
        gw_fail(r->s, GW_SYSTEM, "%s: %s", path, strerror(errno));
        return;
    }
    for (spelling word; gw_ok(r->s) && next_word(f, &word);) add_word(r, &word);
    if (ferror(f)) gw_fail(r->s, GW_SYSTEM, "%s: %s", path, strerror(errno));
    fclose(f);
    r->file_count++;
}

// Reads the files of |pattern|. A pattern of several files skips links, which would read files twice.
static void read_pattern(reader *r, const char *pattern) {
    glob_t found;
    if (glob(pattern, 0, NULL, &found)) {
        gw_fail(r->s, GW_SYSTEM, "%s: No such file", pattern);
        return;
    }
    for (size_t i = 0; i < found.gl_pathc && gw_ok(r->s); i++) {
        struct stat is;
        if (found.gl_pathc > 1 && lstat(found.gl_pathv[i], &is) == 0 && !S_ISREG(is.st_mode))
            continue;
        read_file(r, found.gl_pathv[i]);
    }
    globfree(&found);
}

// ---- Passages -----------------------------------------------------------------------------------

// A hash set of passages, by their first words; half of its entries are free.
typedef struct passages {
    const token **met;
    uint64_t mask;
} passages;

static uint64_t hash_of(const token *words) {
    uint64_t hash = 0;
    for (int i = 0; i < TEXT_PASSAGE; i++)
        hash = (hash ^ (uint64_t)words[i].word->first) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static bool is_same(const token *a, const token *b) {
    for (int i = 0; i < TEXT_PASSAGE; i++)
        if (a[i].word != b[i].word) return false;
    return true;
}

// Returns whether the passage is a repetition; adds it if not.
static bool is_repeated(passages *p, const token *words) {
    uint64_t at = hash_of(words) & p->mask;
    for (; p->met[at]; at = (at + 1) & p->mask)
        if (is_same(p->met[at], words)) return true;
    p->met[at] = words;
    return false;
}

// Removes the words of all repeated passages. Returns their number.
static int64_t drop_repeated(reader *r) {
    int64_t kept = 0, count = r->token_count;
    passages p = { .mask = 1 };
    while (p.mask < 2 * (uint64_t)count) p.mask = 2 * p.mask + 1;
    gw_scope *s = gw_scope_open(r->s);
    p.met = gw_alloc(s, (p.mask + 1) * sizeof(token *));
    for (int64_t i = 0; i + TEXT_PASSAGE <= count && p.met; i++) {
        if (!is_repeated(&p, &r->tokens[i])) continue;
        for (int k = 0; k < TEXT_PASSAGE; k++) r->tokens[i + k].repeated = true;
    }
    gw_scope_close_up(s);
    for (int64_t i = 0; i < count; i++)
        if (!r->tokens[i].repeated) r->tokens[kept++] = r->tokens[i];
    r->token_count = kept;
    return count - kept;
}

static void hold_out(reader *r) {
    for (int64_t i = 0; i < r->token_count; i++) {
        token *t = &r->tokens[i];
        t->held_out = i / STRETCH % STRETCHES == STRETCHES - 1;
        t->word->count += !t->held_out;
    }
}

// The held-out words, or the others, by number.
static words words_of(gw_scope *s, const reader *r, bool held_out) {
    words w = { .ids = gw_alloc(s, (size_t)(r->token_count + 1) * sizeof *w.ids) };
    for (int64_t i = 0; i < r->token_count && w.ids; i++)
        if (r->tokens[i].held_out == held_out) w.ids[w.count++] = r->tokens[i].word->id;
    return w;
}

static void keep_node(void *node) {
    (void)node;  // belongs to the scope
}

text text_load(gw_scope *s, const char *paths, int64_t vocabulary) {
    reader r = { .s = s };
    text t = { 0 };
    size_t size = strlen(paths) + 1;
    char *list = gw_alloc(s, size), *rest = NULL;
    if (list) memcpy(list, paths, size);
    for (char *p = list ? strtok_r(list, " ", &rest) : NULL; p && gw_ok(s);
         p = strtok_r(NULL, " ", &rest))
        read_pattern(&r, p);
    t.files = r.file_count;
    // Removing words makes new neighbours, so new repetitions may appear.
    for (int64_t more; gw_ok(s) && (more = drop_repeated(&r));) t.repeated += more;
    if (gw_ok(s)) {
        hold_out(&r);
        qsort(r.entries, (size_t)r.entry_count, sizeof *r.entries, by_frequency);
        t.vocabulary = r.entry_count + 1 < vocabulary ? r.entry_count + 1 : vocabulary;
        for (int64_t i = 0; i < r.entry_count; i++) {
            bool is_in_vocabulary = i + 1 < vocabulary && r.entries[i]->count > 0;
            r.entries[i]->id = is_in_vocabulary ? i + 1 : 0;
        }
        t.train = words_of(s, &r, false);
        t.held_out = words_of(s, &r, true);
        if (t.held_out.count < STRETCH)
            gw_fail(s, GW_INVALID,
                    "%s: too short a text: %lld words in %d file%s without repeated passages, "
                    "of %d that it takes",
                    paths, (long long)r.token_count, t.files, t.files == 1 ? "" : "s",
                    STRETCH * STRETCHES);
    }
    tdestroy(r.tree, keep_node);
    return t;
}

gw_tensor *text_columns(gw_scope *s, words w, int64_t columns) {
    int64_t length = w.count / columns;
    return gw_contiguous(s, gw_transpose(s, gw_from(s, w.ids, columns, length), 0, 1));
}
