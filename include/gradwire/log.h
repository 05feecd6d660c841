// The log: lines of text for the user of the program.
//
// The library writes a line when a worker or a connection is lost or changes, and for each error that no caller gets.
// It writes lines to stderr, with "gradwire: " in front, unless the program sets a sink:
//
//     gw_log_set_level(GW_LOG_WARNING);
//     gw_log_set_sink(NULL, NULL);
//
// The environment variable GW_LOG sets a level, the path of a file, or both: GW_LOG=warning,/var/log/job.log or
// GW_LOG=,job.log or GW_LOG=none. Lines are appended to the file. The functions of this header have priority over
// GW_LOG. With GW_LOG_TIME=1 each line has the seconds since the process first used the library: "gradwire [12.345 s]:
// ...". With GW_LOG_TIME=wall each line has the time in UTC.
//
// GW_TRACE_ERRORS=1 logs the first error of each scope when the error happens. The line has the source line of the
// failed remote call. For other operations it has the source line if the program was built with -g and addr2line is
// installed. GW_ABORT_ON_ERROR=1 ends the process at that point, for a debugger or a core. Both variables also apply to
// errors that the program expects and handles.
//
// GW_CHECK=1 turns the checked mode on. It ends the process, with an error text and a core, for these mistakes, which
// are not detected otherwise:
// * using or closing a scope after it was closed
// * using a tensor of a scope that was closed
// * using a scope in two threads at once
// * writing through a pointer of gw_data_for_write after the next operation
// * making, inside a hook, a backward pass whose gradients are not read (gradwire/autograd.h)
//
// A checked program is a few per cent slower.
//
// The log warns of environment variables with malformed values, such as GW_LOG=loud or GW_LEND=off. It also warns of
// variables whose names are similar to those of the library, such as GW_LOGS. The warning is written when the program
// opens its first root scope, or when the library first reads the variable.
//
// Threads: the program must call both functions of this header before gw_rpc_init. Any thread may call the sink, also
// several threads at once.
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The importance of a line.
typedef enum gw_log_level {
    GW_LOG_NONE = 0,
    GW_LOG_ERROR,    ///< something failed, and no caller gets the error
    GW_LOG_WARNING,  ///< a worker is lost, or a connection is refused
    GW_LOG_INFO,  ///< all lines, for example which worker waits for which other worker; the default
} gw_log_level;

/// Sets the level of the log. The library writes lines of |level| and more important lines.
GW_API void gw_log_set_level(gw_log_level level);

/// Sets the function that receives the lines of the log.
///
/// sink: the library calls |sink| with each line, without a line end, instead of writing the line to stderr. NULL: the
/// library writes lines to stderr. The line is valid until the sink returns. The sink must not call gradwire.
GW_API void gw_log_set_sink(void (*sink)(void *context, gw_log_level level, const char *line),
                            void *context);

#ifdef __cplusplus
}
#endif
#endif
