// gradwire monitor: the page and the metrics of a job that runs.
#include <stdio.h>
#include <string.h>

#include "monitor/http.h"
#include "monitor/serve.h"
#include "options/command.h"
#include "options/usage.h"

static void print_usage(void) {
    printf("usage: gradwire monitor [--port=P] [--metrics-listen=ADDRESS:PORT] [JOB | PID]\n\n"
           "Serves a page about a job of this user that runs on this host, for a browser on this "
           "host: prints its address\n"
           "and runs until it is interrupted. JOB is its id, or the beginning of its mark; PID a "
           "process of a worker or\n"
           "launcher. The workers are not asked; those of other hosts are not seen. For a browser "
           "elsewhere:\n"
           "ssh -L P:127.0.0.1:P, with the port P.\n\n"
           "  --port=P                       the port of the page; by default a free one\n"
           "  --metrics-listen=ADDRESS:PORT  serves /metrics (Prometheus) and /healthz there, for "
           "other hosts, too\n"
           "  --metrics-token-file=FILE      which have to send this token (Authorization: "
           "Bearer)\n"
           "  --insecure                     or nothing\n\n"
           "Exit code: 0; 1 if there is no such job, or it cannot be served.\n");
}

typedef struct wish {
    const char *wanted;
    monitor_options options;
    bool insecure;
} wish;

static bool has_prefix(const char *text, const char *prefix, const char **out_rest) {
    size_t size = strlen(prefix);
    *out_rest = text + size;
    return strncmp(text, prefix, size) == 0;
}

// Returns -1, or the exit code.
static int read_arguments(int argc, char **argv, wish *w) {
    static const char *const options[] = { "--port",     "--metrics-listen", "--metrics-token-file",
                                           "--insecure", "--help",           NULL };
    const char *rest;
    for (int i = 1; i < argc; i++) {
        const char *x = argv[i];
        bool ok = true;
        if (strcmp(x, "--help") == 0) {
            print_usage();
            return 0;
        }
        if (strcmp(x, "--insecure") == 0)
            w->insecure = true;
        else if (has_prefix(x, "--port=", &rest))
            ok = monitor_options_take_port("--port", rest, &w->options);
        else if (has_prefix(x, "--metrics-listen=", &rest))
            ok = monitor_options_take_metrics("--metrics-listen", rest, &w->options);
        else if (has_prefix(x, "--metrics-token-file=", &rest))
            ok = monitor_options_take_token("--metrics-token-file", rest, &w->options);
        else if (x[0] == '-' || w->wanted)
            return usage_refuse("monitor", x, options);
        else
            w->wanted = x;
        if (!ok) return EXIT_USAGE;
    }
    return monitor_options_check(&w->options, w->insecure) ? -1 : EXIT_USAGE;
}

static int refuse(const char *why) {
    fprintf(stderr, "gradwire monitor: %s\n", why);
    return 1;
}

// The name of the one job, which stays the same when its processes change.
static bool find_name(const char *wanted, char out[FIND_KEY_SIZE], char *why, size_t why_size) {
    found f;
    if (!find_job(wanted, &f, why, why_size)) return false;
    find_key(&f.images[0], out);
    find_free(&f);
    return true;
}

int monitor_command(int argc, char **argv) {
    wish w = { 0 };
    monitor_site site;
    char why[FIND_WHY_SIZE], name[FIND_KEY_SIZE], address[128];
    int code = read_arguments(argc, argv, &w);
    if (code >= 0) return code;
    if (!http_is_available(why, sizeof why) || !find_name(w.wanted, name, why, sizeof why) ||
        !monitor_site_open(&site, &w.options, why, sizeof why))
        return refuse(why);
    monitor_site_address(&site, address, sizeof address);
    printf("%s\n", address);
    fflush(stdout);
    bool ok = serve(
        &(serve_options){
            .wanted = name, .name = name, .site = &site, .lifeline_fd = -1, .looks_fd = -1 },
        why, sizeof why);
    monitor_site_close(&site);
    return ok ? 0 : refuse(why);
}
