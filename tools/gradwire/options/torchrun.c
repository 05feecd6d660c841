#include "options/torchrun.h"

#include <stdio.h>
#include <string.h>

#include "options/option.h"
#include "options/parse.h"
#include "options/roles.h"

static bool take_local_address(const char *name, const char *text, run_options *out) {
    (void)name;  // the workers check it
    out->local_addr = text;
    return true;
}

// Each of torchrun's ways to divide the processors is taken for --bind.
static bool take_binding(const char *name, const char *text, run_options *out) {
    static const char *const ways[] = { "node", "socket", "exclusive", "core-complex" };
    for (int i = 0; i < 4; i++)
        if (strcmp(text, ways[i]) == 0) return out->bind = true;
    return parse_complain("%s is node, socket, exclusive or core-complex, not \"%s\"", name, text);
}

// A row without a function and a sentence is accepted: the launcher does it always.
static const struct {
    const char *name;
    bool has_value;
    bool (*take)(const char *name, const char *text, run_options *out);
    const char *ignored, *refused;  // the end of a sentence that begins with the option
} rows[TORCHRUN_COUNT] = {
    { "role", true, .take = roles_take },
    { "local-addr", true, .take = take_local_address },
    { "numa-binding", true, .take = take_binding },
    { .name = "no-python" },
    { "monitor-interval", true, .ignored = "the launcher detects at once that a rank ends" },
    { "start-method", true, .ignored = "the launcher always executes the program anew" },
    { "event-log-handler", true, .ignored = "--log-dir writes events.jsonl" },
    { "logs-specs", true, .ignored = "--log-dir, -r and -t choose the files" },
    { "signals-to-handle", true,
      .ignored = "SIGINT, SIGTERM, SIGHUP and SIGQUIT end the job; --on-signal has the effects of "
                 "SIGUSR1 and SIGUSR2" },
    { "module", false, .refused = "runs a Python module: give \"python -m NAME\" as the program" },
    { "run-path", false, .refused = "runs a Python script: give \"python FILE\" as the program" },
    { "virtual-local-rank", false, .refused = "is for GPUs, which gradwire does not use" },
};

void torchrun_names(struct option out[TORCHRUN_COUNT]) {
    for (int i = 0; i < TORCHRUN_COUNT; i++)
        out[i] = (struct option){ rows[i].name, rows[i].has_value, NULL, OPTION_TORCHRUN + i };
}

bool torchrun_take(int option, const char *name, const char *text, run_options *out) {
    int i = option - OPTION_TORCHRUN;
    if (rows[i].take) return rows[i].take(name, text, out);
    if (rows[i].refused) return parse_complain("%s %s", name, rows[i].refused);
    if (rows[i].ignored)
        fprintf(stderr, "gradwire run: %s is ignored: %s\n", name, rows[i].ignored);
    return true;
}
