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
        *(is_usr1 ? &out->on_usr1 : &out->on_usr2) = SIGNAL_FORWARD;
        at = bare + size;
        if (!*at) return true;
    }
}

// "USR1:dump", as in the help; |size| bytes.
static bool take_action(const char *text, size_t size, run_options *out) {
    static const char *const words[] = { ":dump", ":leave", ":forward" };
    size_t prefix = size > 3 && memcmp(text, "SIG", 3) == 0 ? 3 : 0;
    const char *name = text + prefix;
    if (size < prefix + 4 || memcmp(name, "USR", 3) != 0 || (name[3] != '1' && name[3] != '2'))
        return false;
    for (int i = 0; i < 3; i++) {
        if (size - prefix - 4 != strlen(words[i]) || memcmp(name + 4, words[i], strlen(words[i])))
            continue;
        *(name[3] == '1' ? &out->on_usr1 : &out->on_usr2) = (signal_action)i;
        return true;
    }
    return false;
}

static bool parse_actions(const char *name, const char *text, run_options *out) {
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        if (!take_action(at, size, out))
            return parse_complain("%s is a list such as USR1:leave,USR2:forward with the signals "
                                  "USR1 and USR2 and the actions dump, leave and forward, not "
                                  "\"%s\"",
                                  name, text);
        at += size;
        if (!*at) return true;
    }
}

bool observe_options_take(run_option option, const char *name, const char *text, run_options *out) {
    switch ((int)option) {
    case OPTION_FORWARD_SIGNALS: return parse_signals(name, text, out);
    case OPTION_ON_SIGNAL: return parse_actions(name, text, out);
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
