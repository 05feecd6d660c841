#include "flags.h"

#include <gradwire.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_words(FILE *out, const flag *f, const char *between) {
    for (int i = 0; f->words[i]; i++) fprintf(out, "%s%s", i ? between : "", f->words[i]);
}

static void print_help(const char *program, const char *about, const flag *flags) {
    printf("usage: %s [options]\n\n%s\n\n", program, about);
    for (const flag *f = flags; f->name; f++) {
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", f->name, f->argument ? " " : "",
                 f->argument ? f->argument : "");
        printf("  %-26s %s", left, f->help);
        if (f->integer) printf(" (%lld)", (long long)*f->integer);
        if (f->real && !isnan(*f->real)) printf(" (%g)", *f->real);
        if (f->text && *f->text) printf(" (%s)", *f->text);
        putchar('\n');
    }
    printf("  %-26s this text\n", "--help");
}

// Edit distance: characters to add, remove or replace.
static int distance(const char *a, const char *b) {
    enum { LONGEST = 31 };
    int row[LONGEST + 1], size = (int)strlen(b);
    if (strlen(a) > LONGEST || size > LONGEST) return LONGEST;
    for (int j = 0; j <= size; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int above = row[0];
        row[0] = i;
        for (int j = 1; j <= size; j++) {
            int changed = above + (a[i - 1] != b[j - 1]);
            above = row[j];
            int one_more = 1 + (row[j - 1] < above ? row[j - 1] : above);
            row[j] = changed < one_more ? changed : one_more;
        }
    }
    return row[size];
}

static int no_such_option(const char *program, const flag *flags, const char *given) {
    char name[32];
    const char *nearest = "help";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    for (const flag *f = flags; f->name; f++)
        if (distance(name, f->name) < distance(name, nearest)) nearest = f->name;
    fprintf(stderr, "%s: %s: no such option, see --help", program, given);
    if (distance(name, nearest) * 3 <= (int)strlen(name))
        fprintf(stderr, "; did you mean \"--%s\"?", nearest);
    fputc('\n', stderr);
    return 2;
}

static int wrong(const char *program, const flag *f, const char *given) {
    fprintf(stderr, "%s: --%s %s: expected ", program, f->name, given);
    if (f->words)
        print_words(stderr, f, " or ");
    else
        fprintf(stderr, "%s%.15g to %.15g", f->integer ? "a whole number, " : "", f->min, f->max);
    fputc('\n', stderr);
    return 2;
}

static bool is_word(const flag *f, const char *given) {
    for (int i = 0; f->words && f->words[i]; i++)
        if (strcmp(f->words[i], given) == 0) return true;
    return !f->words;
}

// Checks without changing the file.
static bool can_write(const char *path) {
    bool is_new = access(path, F_OK) != 0;
    FILE *f = fopen(path, "a");
    if (!f) return false;
    fclose(f);
    if (is_new) unlink(path);
    return true;
}

// Checks the file before training, so that no result is lost. Other workers may run on other hosts.
static int take_file(const char *program, const flag *f, const char *given) {
    int rank = gw_rpc_launched().rank;
    *f->file = given;
    if ((rank >= 0 && rank != f->writer) || can_write(given)) return -1;
    fprintf(stderr, "%s: --%s %s: %s\n", program, f->name, given, strerror(errno));
    return 2;
}

static bool take(const flag *f, const char *given) {
    char *end = NULL;
    errno = 0;
    if (f->integer) {
        long long n = strtoll(given, &end, 10);
        if (errno || end == given || *end || (double)n < f->min || (double)n > f->max) return false;
        *f->integer = n;
    } else if (f->real) {
        double x = strtod(given, &end);
        if (errno || end == given || *end || !(x >= f->min && x <= f->max)) return false;
        *f->real = x;
    } else {
        if (!is_word(f, given)) return false;
        *f->text = given;
    }
    return true;
}

// The option that |argument| names, "--rounds" or "--rounds=3"; NULL if there is none.
static const flag *find(const flag *flags, const char *argument, size_t length) {
    for (const flag *f = flags; f->name; f++)
        if (strlen(f->name) == length && strncmp(f->name, argument, length) == 0) return f;
    return NULL;
}

int flags_parse(const char *program, const char *about, const flag *flags, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(program, about, flags);
            return 0;
        }
        bool is_option = strncmp(argv[i], "--", 2) == 0;
        size_t length = is_option ? strcspn(argv[i] + 2, "=") : 0;
        const flag *f = is_option ? find(flags, argv[i] + 2, length) : NULL;
        if (!f && is_option) return no_such_option(program, flags, argv[i]);
        if (!f) {
            fprintf(stderr, "%s: %s: takes no arguments, see --help\n", program, argv[i]);
            return 2;
        }
        const char *given = argv[i][2 + length] ? argv[i] + 2 + length + 1 : NULL;
        if (!f->argument && given) {
            fprintf(stderr, "%s: --%s takes no value\n", program, f->name);
            return 2;
        }
        if (!f->argument) {
            *f->is_set = true;
            continue;
        }
        if (!given) given = ++i < argc ? argv[i] : NULL;
        if (!given) {
            fprintf(stderr, "%s: --%s: expected %s\n", program, f->name, f->argument);
            return 2;
        }
        int code = f->file ? take_file(program, f, given) : -1;
        if (code >= 0) return code;
        if (!f->file && !take(f, given)) return wrong(program, f, given);
    }
    return -1;
}
