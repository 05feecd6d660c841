// The command lines of the subcommands that look at jobs: options, and what they are about.
//
//     const argument list[] = { { "--json", ARGUMENT_FLAG, .flag = &json }, { 0 } };
//     int code = arguments_read(&(arguments){ "ps", print_usage, list }, argc, argv);
#ifndef GRADWIRE_ARGUMENTS_H
#define GRADWIRE_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum argument_kind {
    ARGUMENT_FLAG,     // --json
    ARGUMENT_TEXT,     // --levels=L
    ARGUMENT_SECONDS,  // --last=2.5
    ARGUMENT_NUMBER,   // --last=N
    ARGUMENT_NEXT      // -o FILE: the text is the next argument
} argument_kind;

// Of an option; the pointer of its kind is set.
typedef struct argument {
    const char *name;  // NULL: the end of a list
    argument_kind kind;
    bool *flag;
    const char **text;
    int64_t *ms;
    int *number, min, max;
} argument;

typedef struct arguments {
    const char *command;
    void (*print_usage)(void);
    const argument *options;
    // results: what is no option, in order
    const char **wanted;  // room for |wanted_max|
    int wanted_max, wanted_count;
} arguments;

// Returns -1, or the exit code: after --help, or after an error was printed.
int arguments_read(arguments *x, int argc, char **argv);

#endif
