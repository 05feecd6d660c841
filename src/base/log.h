// Lines for the person who runs the program: what happened to a peer or a connection, once, and
// what to do about it. Errors that some caller gets are not logged; who first decides that
// something is worth a line writes it.
//
// Threads: any.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <gradwire/log.h>

// Each writes one line, by default to stderr with "gradwire: " in front, in one piece. Control
// characters are shown as '?'. True if standard error has the line.
bool log_error(const char *format, ...) GW_PRINTF(1, 2);  // an error that no caller gets
void log_line(const char *format, ...) GW_PRINTF(1, 2);   // a warning
void log_info(const char *format, ...) GW_PRINTF(1, 2);
// A warning of at most 128 lines, to a file in one piece. Writes into |text|.
void log_block(char *text);

// Reads GW_LOG, which the first line does else, so that what is wrong with it is told at once.
void log_read_environment(void);

// Tests: gets the lines instead.
extern void (*log_hook)(const char *line);

#endif
