// The options about the page and the metrics of a job, of gradwire run and gradwire monitor.
#ifndef GRADWIRE_MONITOR_OPTIONS_H
#define GRADWIRE_MONITOR_OPTIONS_H

#include <stdbool.h>

typedef struct monitor_options {
    bool is_on;
    int port;                    // of the page; 0: a free one
    const char *metrics_listen;  // "0.0.0.0:9400"; NULL: no server for other hosts
    const char *token_file;      // with what they are to send; NULL: none
} monitor_options;

// Each takes the value of an option; false after an error was printed. |text| NULL: it has none.
bool monitor_options_take_port(const char *name, const char *text, monitor_options *out);
bool monitor_options_take_metrics(const char *name, const char *text, monitor_options *out);
bool monitor_options_take_token(const char *name, const char *text, monitor_options *out);

// Whether they fit together. |insecure|: metrics may be served without a token.
bool monitor_options_check(const monitor_options *o, bool insecure);

#endif
