// Printing secrets: into a file that is its owner's alone.
#ifndef GRADWIRE_SECRET_OUTPUT_H
#define GRADWIRE_SECRET_OUTPUT_H

#include <stdbool.h>

// Prints |text| as |command|'s output, closes the file to others if it is one, and wipes |text|. The
// exit code.
int secret_print(const char *command, char *text);

// How long a certificate is good: 1 to 36500.
bool days_parse(const char *text, int *out);

#endif
