#include "options/monitor_options.h"

#include <stddef.h>

#include "net/transport/address.h"
#include "options/parse.h"

bool monitor_options_take_port(const char *name, const char *text, monitor_options *out) {
    out->is_on = true;
    return !text || parse_int(name, text, 0, 65535, &out->port);
}

bool monitor_options_take_metrics(const char *name, const char *text, monitor_options *out) {
    gw_error error;
    out->is_on = true;
    out->metrics_listen = text;
    return !address_check(text, &error) || parse_complain("%s: %s", name, error.text);
}

bool monitor_options_take_token(const char *name, const char *text, monitor_options *out) {
    out->token_file = text;
    return *text || parse_complain("%s is empty, but must be the path of a file", name);
}

bool monitor_options_check(const monitor_options *o, bool insecure) {
    if (o->token_file && !o->metrics_listen)
        return parse_complain("--metrics-token-file is for --metrics-listen, which is missing");
    if (!o->metrics_listen || o->token_file || insecure) return true;
    return parse_complain("--metrics-listen needs --metrics-token-file=FILE, with the token that "
                          "readers send");
}
