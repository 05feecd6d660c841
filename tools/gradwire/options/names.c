#include "options/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "options/option.h"
#include "options/parse.h"
#include "options/torchrun.h"

static const struct option own_names[] = {
    { "nproc-per-node", required_argument, NULL, 'n' },
    { "on-failure", required_argument, NULL, OPTION_ON_FAILURE },
    { "max-restarts", required_argument, NULL, OPTION_MAX_RESTARTS },
    { "restart-window", required_argument, NULL, OPTION_RESTART_WINDOW },
    { "backoff", required_argument, NULL, OPTION_BACKOFF },
    { "min-success", required_argument, NULL, OPTION_MIN_SUCCESS },
    { "health-check", required_argument, NULL, OPTION_HEALTH_CHECK },
    { "host-cooldown", required_argument, NULL, OPTION_HOST_COOLDOWN },
    { "straggler", required_argument, NULL, OPTION_STRAGGLER },
    { "progress-timeout", required_argument, NULL, OPTION_PROGRESS_TIMEOUT },
    { "master-port", required_argument, NULL, 'p' },
    { "grace", required_argument, NULL, 'g' },
    { "bind", no_argument, NULL, 'b' },
    { "no-prefix", no_argument, NULL, 'x' },
    { "log-dir", required_argument, NULL, OPTION_LOG_DIR },
    { "checkpoint-dir", required_argument, NULL, OPTION_CHECKPOINT_DIR },
    { "redirects", required_argument, NULL, OPTION_REDIRECTS },
    { "tee", required_argument, NULL, OPTION_TEE },
    { "local-ranks-filter", required_argument, NULL, OPTION_LOCAL_RANKS_FILTER },
    { "dry-run", no_argument, NULL, 'd' },
    { "nnodes", required_argument, NULL, OPTION_NNODES },
    { "node-rank", required_argument, NULL, OPTION_NODE_RANK },
    { "standalone", no_argument, NULL, OPTION_STANDALONE },
    { "master-addr", required_argument, NULL, OPTION_MASTER_ADDR },
    { "rdzv-backend", required_argument, NULL, OPTION_RDZV_BACKEND },
    { "rdzv-conf", required_argument, NULL, OPTION_RDZV_CONF },
    { "rdzv-endpoint", required_argument, NULL, OPTION_RDZV_ENDPOINT },
    { "rdzv-id", required_argument, NULL, OPTION_RDZV_ID },
    { "rescale", required_argument, NULL, OPTION_RESCALE },
    { "rdzv-timeout", required_argument, NULL, OPTION_RDZV_TIMEOUT },
    { "flight-dir", required_argument, NULL, OPTION_FLIGHT_DIR },
    { "forward-signals", required_argument, NULL, OPTION_FORWARD_SIGNALS },
    { "on-signal", required_argument, NULL, OPTION_ON_SIGNAL },
    { "hang-after", required_argument, NULL, OPTION_HANG_AFTER },
    { "monitor", optional_argument, NULL, OPTION_MONITOR },
    { "metrics-listen", required_argument, NULL, OPTION_METRICS_LISTEN },
    { "metrics-token-file", required_argument, NULL, OPTION_METRICS_TOKEN_FILE },
    { "trace", required_argument, NULL, OPTION_TRACE },
    { "key", required_argument, NULL, 'k' },
    { "insecure", no_argument, NULL, 'I' },
    { "help", no_argument, NULL, 'h' },
};
enum { OWN_COUNT = sizeof own_names / sizeof own_names[0] };

const char names_short[] = "+:n:r:t:mh";

const struct option *names_all(void) {
    static struct option all[OWN_COUNT + TORCHRUN_COUNT + 1];
    if (!all[0].name) {
        memcpy(all, own_names, sizeof own_names);
        torchrun_names(all + OWN_COUNT);
    }
    return all;
}

int names_long_form(int option) {
    if (option == 'r') return OPTION_REDIRECTS;
    if (option == 't') return OPTION_TEE;
    if (option != 'm') return option;
    const struct option *o = names_all();
    while (strcmp(o->name, "module") != 0) o++;
    return o->val;
}

void names_write(int option, char out[NAME_BYTES]) {
    const struct option *o = names_all();
    while (o->val != option) o++;
    snprintf(out, NAME_BYTES, option == 'n' ? "-n" : "--%s", o->name);
}

bool names_write_variable(const struct option *option, char out[NAME_BYTES]) {
    if (option->val == 'h' || option->val == 'd') return false;
    int size = snprintf(out, NAME_BYTES, "PET_%s", option->name);
    for (int i = 0; i < size; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
    return true;
}

bool names_refuse(const char *given) {
    char name[64];
    const char *bare = given + strspn(given, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    nearest n = nearest_to(name);
    for (const struct option *o = names_all(); o->name; o++) nearest_offer(&n, o->name);
    return parse_complain("\"%s\" is not an option; see gradwire run --help%s", given,
                          nearest_words(&n));
}
