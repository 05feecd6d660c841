// The log: lines of text for the user of the program.
//
// The library writes a line when a worker or connection is lost or changes, and for each error that no caller gets.
// Lines go to stderr, with "gradwire: " in front, unless the program sets another sink:
//
//     gw_log_set_level(GW_LOG_WARNING);
//     gw_log_set_sink(NULL, NULL);
//
// The variable GW_LOG sets a level, the path of a file to which lines are appended, or both:
// GW_LOG=warning,/var/log/job.log or GW_LOG=,job.log or GW_LOG=none. What the program sets has priority over GW_LOG.
// With GW_LOG_TIME=1 lines have the seconds since the process first used the library, with GW_LOG_TIME=wall the time in UTC:
// "gradwire [12.345 s]: ...".
//
// GW_TRACE_ERRORS=1 logs the first error of each scope when it happens, with the source line of the remote call that
// failed, or, if the program was built with -g, of the operation (by addr2line). GW_ABORT_ON_ERROR=1 ends the process
// at that point, for a debugger or a core. Both variables are for debugging: they also report errors that the program
// expects and handles.
//
// GW_CHECK=1 is the checked mode. The checked mode ends the process with an error text and a core for mistakes that are
// not detected otherwise: using a scope after it was closed, using a tensor that a closed scope held, closing a scope
// twice, using a scope in two threads at once, writing through a pointer of gw_data_for_write after the next operation,
// and making, inside a hook, a backward pass whose gradients nothing reads (gradwire/autograd.h). A checked program is
// a few per cent slower.
//
// The log warns of variables with malformed values, such as GW_LOG=loud or GW_LEND=off, and of variables whose names
// are similar to those of the library, such as GW_LOGS. The log warns when the program opens its first root scope, or
// when the library first reads the variable.
//
// Threads: the program must call both functions before gw_rpc_init. A sink is called on any thread, also on several at
// once.
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How important a line is.
typedef enum gw_log_level {
    GW_LOG_NONE = 0,
    GW_LOG_ERROR,    ///< something failed, and no caller gets the error
    GW_LOG_WARNING,  ///< a worker is lost, or a connection is refused
    GW_LOG_INFO,     ///< also which worker waits for which other worker; the default: all lines
} gw_log_level;

/// Sets the level of the log: lines of |level| and more important lines are written.
GW_API void gw_log_set_level(gw_log_level level);

/// Sets where lines go.
///
/// sink: is called with each line, without a line end, instead of writing to stderr; NULL: stderr. The line is valid
/// until the sink returns. The sink must not call gradwire.
GW_API void gw_log_set_sink(void (*sink)(void *context, gw_log_level level, const char *line),
                            void *context);

#ifdef __cplusplus
}
#endif
#endif
