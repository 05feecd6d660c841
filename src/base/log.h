// Log lines for the person who runs the program: an event of a peer or a connection, once, and
// a remedy. Errors that a caller receives are not logged; the code that detects an event worth
// logging writes the line.
//
// Threads: any.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <gradwire/log.h>

// Each writes one line, by default to stderr with "gradwire: " in front, in one piece. Control
// characters are shown as '?'. True if standard error has the line.
bool log_error(const char *format, ...) GW_PRINTF(1, 2);  // an error that no caller receives
bool log_line(const char *format, ...) GW_PRINTF(1, 2);   // a warning
void log_info(const char *format, ...) GW_PRINTF(1, 2);
// A warning of at most 128 lines, to a file in one piece. Writes into |text|.
void log_block(char *text);

bool log_is_wanted(gw_log_level level);  // GW_LOG

// Reads GW_LOG now instead of at the first line, so that an invalid value is reported at once.
void log_read_environment(void);

// Tests: receives the lines instead.
extern void (*log_hook)(const char *line);

#endif
