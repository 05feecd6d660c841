// The command line of an example: a table of options, from which --help, the values and the errors
// come.
//
//     int rounds = 30;
//     const flag flags[] = {
//         { "rounds", "N", "rounds of training", .integer = &rounds, .min = 1, .max = 10000 },
//         { 0 },
//     };
//     int code = flags_parse("fedavg", "Learns digits with clients that come and go.", flags, argc, argv);
//     if (code >= 0) return code;
#ifndef FLAGS_H
#define FLAGS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct flag {
    const char *name;      // without "--"
    const char *argument;  // what stands for it in --help; NULL if it takes none
    const char *help;

    // Where it goes, exactly one of them. What is there before is the default; of a real, NaN is
    // none.
    int64_t *integer;
    double *real;
    const char **text;
    const char **file;  // to be written: refused where it cannot be
    bool *is_set;

    double min, max;           // of integer and real
    int writer;                // of a file: the rank that writes it, if there is a launcher
    const char *const *words;  // text is one of these, up to a NULL; or NULL: any
} flag;

// |about|: lines of text; |flags| end with a nameless one. Returns -1 to go on, else the exit code:
// 0 after --help, 2 with one sentence for what is wrong.
int flags_parse(const char *program, const char *about, const flag *flags, int argc, char **argv);

#endif
