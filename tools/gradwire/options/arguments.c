#include "options/arguments.h"

#include <string.h>

#include "options/command.h"
#include "options/parse.h"
#include "options/usage.h"

enum { OPTIONS_MAX = 16 };

static int refuse(const arguments *x, const char *given) {
    const char *names[OPTIONS_MAX + 2] = { "--help" };
    for (int i = 0; i < OPTIONS_MAX && x->options[i].name; i++) names[i + 1] = x->options[i].name;
    return usage_refuse(x->command, given, names);
}

// The value of |o| in |given|, "" of a flag; NULL: |given| is another option.
static const char *value_of(const argument *o, const char *given) {
    size_t size = strlen(o->name);
    if (strncmp(given, o->name, size) != 0) return NULL;
    bool is_whole = !given[size];
    if (o->kind == ARGUMENT_FLAG || o->kind == ARGUMENT_NEXT) return is_whole ? "" : NULL;
    return given[size] == '=' ? given + size + 1 : NULL;
}

static bool take(const argument *o, const char *value) {
    switch (o->kind) {
    case ARGUMENT_FLAG: return *o->flag = true;
    case ARGUMENT_SECONDS: return parse_seconds(o->name, value, o->ms);
    case ARGUMENT_NUMBER: return parse_int(o->name, value, o->min, o->max, o->number);
    case ARGUMENT_TEXT:
    case ARGUMENT_NEXT: *o->text = value;
    }
    return true;
}

int arguments_read(arguments *x, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const argument *o = x->options;
        const char *value = NULL;
        if (strcmp(argv[i], "--help") == 0) {
            x->print_usage();
            return 0;
        }
        while (o->name && !(value = value_of(o, argv[i]))) o++;
        if (o->name && o->kind == ARGUMENT_NEXT) value = i + 1 < argc ? argv[i + 1] : NULL;
        if (o->name && value) {
            if (!take(o, value)) return EXIT_USAGE;
            i += o->kind == ARGUMENT_NEXT;
        } else if (argv[i][0] == '-' || x->wanted_count == x->wanted_max) {
            return refuse(x, argv[i]);
        } else {
            x->wanted[x->wanted_count++] = argv[i];
        }
    }
    return -1;
}
