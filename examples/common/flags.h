// The command line of an example: a table of options yields --help, the values and the errors.
//
//     int rounds = 30;
//     const flag flags[] = {
//         { "rounds", "N", "rounds of training", .integer = &rounds, .min = 1, .max = 10000 },
//         { 0 },
//     };
//     int code = flags_parse("fedavg", "Learns digits with clients that join and leave.", flags, argc, argv);
//     if (code >= 0) return code;
#ifndef FLAGS_H
#define FLAGS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct flag {
    const char *name;      // without "--"
    const char *argument;  // its placeholder in --help; NULL if it takes none
    const char *help;

    // The destination, exactly one of them. Its initial value is the default; for a real, NaN is no default.
    int64_t *integer;
    double *real;
    const char **text;
    const char **file;  // to be written: refused where it cannot be
    bool *is_set;

    double min, max;           // of integer and real
    int writer;                // of a file: the rank that writes it, if there is a launcher
    const char *const *words;  // text is one of these, up to a NULL; or NULL: any
} flag;

// |about|: lines of text; |flags| end with a nameless one. Returns -1 if the program continues, else the exit code: 0
// after --help, 2 with one line that names the wrong option.
int flags_parse(const char *program, const char *about, const flag *flags, int argc, char **argv);

#endif
