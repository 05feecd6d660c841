// How the language model's example splits a text: held-out text shares no passage with the rest.
#include "testing/testing.h"

#include "../../examples/rnn_lm/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Words outside a vocabulary become one word, so the tests use a vocabulary of all words.
enum { ALL_WORDS = 1000000 };

// How many passages of |a| are in |b| too, found by comparing each pair.
static int64_t count_shared(words a, words b) {
    int64_t shared = 0;
    for (int64_t i = 0; i + TEXT_PASSAGE <= a.count; i++)
        for (int64_t k = 0; k + TEXT_PASSAGE <= b.count; k++)
            if (a.ids[i] == b.ids[k] &&
                memcmp(&a.ids[i], &b.ids[k], TEXT_PASSAGE * sizeof *a.ids) == 0) {
                shared++;
                break;
            }
    return shared;
}

// Licences quote each other, word for word.
static void held_out_text_shares_no_passage_with_the_rest(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    text t = text_load(s, "/usr/share/common-licenses/*", ALL_WORDS);
    assert_true(gw_ok(s));
    assert_true(t.held_out.count > 2000 && t.train.count > 20000);
    assert_true(t.repeated > 10000);
    assert_int_equal(count_shared(t.held_out, t.train), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// |count| different words from |first| on.
static void write_words(FILE *f, int first, int count) {
    for (int i = first; i < first + count; i++) fprintf(f, "%d\n", i);
}

static void a_passage_is_kept_where_it_first_occurs(void **state) {
    (void)state;
    char path[] = "/tmp/text_split-test-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    write_words(f, 10000, 3000);
    write_words(f, 10500, 100);  // again
    write_words(f, 20000, 1000);
    write_words(f, 11000, TEXT_PASSAGE - 1);  // too short for a passage
    write_words(f, 30000, 1000);
    fclose(f);
    gw_scope *s = gw_scope_open(NULL);
    text t = text_load(s, path, ALL_WORDS);
    unlink(path);
    assert_int_equal(t.repeated, 100);
    assert_int_equal(t.train.count + t.held_out.count, 5000 + TEXT_PASSAGE - 1);
    assert_int_equal(t.held_out.count, 400);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// The words around a removed passage may form another repeated passage.
static void seams_make_no_repeated_passages(void **state) {
    (void)state;
    enum { HALF = TEXT_PASSAGE / 2 };
    char path[] = "/tmp/text_split-test-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    write_words(f, 40000, TEXT_PASSAGE);  // repeated below
    write_words(f, 10000, 2500);
    for (int i = 0; i < 2; i++) {
        write_words(f, 50000, HALF);
        write_words(f, i ? 10100 : 40000, TEXT_PASSAGE);
        write_words(f, 50000 + HALF, HALF);
        write_words(f, 60000 + 100 * i, 50);
    }
    fclose(f);
    gw_scope *s = gw_scope_open(NULL);
    text t = text_load(s, path, ALL_WORDS);
    unlink(path);
    assert_int_equal(t.train.count + t.held_out.count, TEXT_PASSAGE + 2500 + TEXT_PASSAGE + 100);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(example_text_split, held_out_text_shares_no_passage_with_the_rest,
         a_passage_is_kept_where_it_first_occurs, seams_make_no_repeated_passages);
