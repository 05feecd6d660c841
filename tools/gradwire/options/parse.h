// The values of options. Each function prints one line and returns false if a value is none.
#ifndef GRADWIRE_PARSE_H
#define GRADWIRE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

// The subcommand in these lines; set by main.
extern const char *parse_command;

// Prints the line. Returns false.
__attribute__((format(printf, 1, 2))) bool parse_complain(const char *format, ...);

// Whether |text| has only A-Z a-z 0-9 _ . -. Prints nothing.
bool is_plain_name(const char *text);

bool parse_int(const char *option, const char *text, int min, int max, int *out);

// Seconds, with a fraction or without, at most a day; rounded up.
bool parse_seconds(const char *option, const char *text, int64_t *out_ms);

#endif
