// The error about an argument that a subcommand does not take.
#ifndef GRADWIRE_USAGE_H
#define GRADWIRE_USAGE_H

// Prints it with the nearest of |options|, "--days", of which NULL is the last. Returns EXIT_USAGE.
int usage_refuse(const char *subcommand, const char *given, const char *const *options);

#endif
