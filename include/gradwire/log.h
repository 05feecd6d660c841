// The log: lines for the person who runs the program.
//
// Changes of workers and connections, and errors that no caller gets, are one line each. They go to stderr, with
// "gradwire: " in front, unless the program sets another sink:
//
//     gw_log_set_level(GW_LOG_WARNING);
//     gw_log_set_sink(NULL, NULL);
//
// The environment sets the same: GW_LOG is a level, a comma and the path of a file that lines are added to, or one of
// both: GW_LOG=warning,/var/log/job.log or GW_LOG=,job.log or GW_LOG=none. What the program sets has priority.
//
// GW_TRACE_ERRORS=1 logs the first error of each scope as it happens, with the file and line of the program: of the
// remote call, or, by addr2line in a program that was built with -g, of the operation. GW_ABORT_ON_ERROR=1 ends the
// process there, for a debugger or a core. Both are for looking at one program: some errors are expected and handled.
//
// GW_CHECK=1 is the checked mode: a mistake that is silent otherwise ends the process with an error text and a core: the
// use of a scope after it was closed, and of a tensor that a closed scope held, a second close, two threads in one scope
// at once, writing through a pointer of gw_data_for_write after the next operation, and gradients that an inner pass
// leaves in the scope of a hook (gradwire/autograd.h). A checked program is a few per cent slower.
//
// Malformed values in the environment, such as GW_LOG=loud or GW_LEND=off, and names similar to one of the library's,
// such as GW_LOGS, are a warning when the program opens its first root scope, or when they are first read.
//
// Threads: both functions are called before gw_rpc_init. A sink is called on any thread, also on several at once.
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
    GW_LOG_INFO,     ///< which worker waits for which: the default, which is all
} gw_log_level;

/// Sets the least important level that is written.
GW_API void gw_log_set_level(gw_log_level level);

/// Sets where lines go.
///
/// sink: is called with each line, without a line end, instead of stderr; NULL: stderr. The line is valid until the sink
/// returns. The sink does not call gradwire.
GW_API void gw_log_set_sink(void (*sink)(void *context, gw_log_level level, const char *line),
                            void *context);

#ifdef __cplusplus
}
#endif
#endif
