#include "options/observe_options.h"

#include <string.h>

#include "options/parse.h"

// "USR1", "USR2" or "USR1,USR2", with or without "SIG". SIGUSR2 is always passed on.
static bool parse_signals(const char *name, const char *text, run_options *out) {
    for (const char *at = text;; at++) {
        const char *bare = strncmp(at, "SIG", 3) == 0 ? at + 3 : at;
        size_t size = strcspn(bare, ",");
        bool is_usr1 = size == 4 && memcmp(bare, "USR1", 4) == 0;
        if (!is_usr1 && !(size == 4 && memcmp(bare, "USR2", 4) == 0))
            return parse_complain("%s is USR1, USR2 or USR1,USR2, not \"%s\"", name, text);
        out->is_usr1_forwarded |= is_usr1;
        at = bare + size;
        if (!*at) return true;
    }
}

bool observe_options_take(run_option option, const char *name, const char *text, run_options *out) {
    switch ((int)option) {
    case OPTION_FORWARD_SIGNALS: return parse_signals(name, text, out);
    case OPTION_HANG_AFTER: return parse_seconds(name, text, &out->hang_after_ms);
    case OPTION_MONITOR: return monitor_options_take_port(name, text, &out->monitor);
    case OPTION_METRICS_LISTEN: return monitor_options_take_metrics(name, text, &out->monitor);
    case OPTION_METRICS_TOKEN_FILE: return monitor_options_take_token(name, text, &out->monitor);
    case OPTION_TRACE: return trace_option_parse(name, text, &out->trace);
    default:
        out->flight_dir = text;
        return *text || parse_complain("%s is empty, but must be the path of a folder", name);
    }
}
