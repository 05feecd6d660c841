#include "program.h"

#include "workers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *plot;  // file; NULL: none
static bool has_missed;

void program_miss(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("not reached: ");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    has_missed = true;
}

gw_map *curve_save(gw_scope *s, void *context) {
    const curve *c = context;
    gw_map *state = gw_map_open(s);
    gw_list *values = gw_list_open(s);
    for (int i = 0; i < c->count; i++) gw_list_add(s, values, c->values[i]);
    gw_map_put(s, state, "curve", values);
    return state;
}

void curve_load(gw_scope *s, void *context, gw_map *state) {
    curve *c = context;
    gw_list *values = gw_list_of(s, gw_map_get(s, state, "curve"));
    for (int i = c->count; gw_ok(s) && i < gw_list_count(values); i++)
        curve_add(c, gw_float_of(s, gw_list_get(s, values, i)), "");
}

static void conclude(gw_scope *root, const program *p) {
    if (plot && !curve_plot(p->progress, plot))
        gw_fail(root, GW_SYSTEM, "--plot %s: %s", plot, strerror(errno));
    const curve_options *o = &p->progress->options;
    double scale = o->percent ? 100 : 1;
    if (!curve_has_reached(p->progress))
        program_miss("%s of %s %g%s", o->title, o->falls ? "at most" : "at least", o->goal * scale,
                     o->percent ? " %" : "");
}

static const char *name_of(const program *p, int rank) {
    if (!p->names) return "worker%d";
    const char *const *name = p->names;
    while (rank-- > 0 && name[1]) name++;
    return *name;
}

static void check_world_size(gw_scope *root, const program *p) {
    int n = gw_rpc_world_size(root), least = (int)(p->exactly ? p->workers : p->workers_min);
    if (gw_ok(root) && (n < least || (p->exactly && n > least)))
        gw_fail(root, GW_INVALID, "%s: gradwire run -n %d -- %s",
                p->roles ? p->roles : "too few workers", least, program_invocation_short_name);
}

static bool is_elastic(const program *p) {
    for (const flag *f = p->flags; f->name; f++)
        if (!strcmp(f->name, "elastic")) return *f->is_set;
    return p->restarts;
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const program *p = context;
    int rank = gw_rpc_launched().rank;
    gw_scope *root = gw_scope_open(NULL);
    curve_open(p->progress, rank == p->reporter ? stdout : NULL, p->progress->options);
    bool joins = init_method || !is_elastic(p);
    if (joins) gw_rpc_init(root, .name = name_of(p, rank), .init_method = init_method);
    if (joins) check_world_size(root, p);
    if (gw_ok(root)) p->work(root);
    if (gw_ok(root) && rank == p->reporter && (joins || p->progress->count)) conclude(root, p);
    curve_close(p->progress);
    if (joins) gw_rpc_shutdown(root);  // serves until all others are done
    int failed = gw_exit_code(gw_scope_close(root));
    return failed ? failed : has_missed ? PROGRAM_MISSED : 0;
}

// By the command next to this program. Returns only if that is not there.
static int run_launched(int64_t count, int restarts, char **argv) {
    char command[4096], ranks[32], all[32], *arguments[64];
    int folder = (int)(strlen(argv[0]) - strlen(program_invocation_short_name)), at = 0;
    snprintf(command, sizeof command, "%.*sgradwire", folder, argv[0]);
    snprintf(ranks, sizeof ranks, "-n%d", (int)count);
    snprintf(all, sizeof all, "--max-restarts=%d", restarts);
    char *const options[] = { command, "run", "--no-prefix", "--backoff=0", ranks, all, "--" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) arguments[at++] = options[i];
    while (*argv && at < 63) arguments[at++] = *argv++;
    arguments[at] = NULL;
    execvp(command, arguments);
    fprintf(stderr, "%s: %s\n", command, strerror(errno));
    return 1;
}

int program_run(int argc, char **argv, const program *p) {
    int64_t world_size = p->workers ? p->workers : 2;
    char about[1024];
    snprintf(about, sizeof about,
             "%s\nExit code: 0, or 3 if its goal is missed, 1 after an error, 2 for a "
             "wrong option.",
             p->about);
    flag all[PROGRAM_FLAGS_MAX + 3] = { 0 }, *end = all;
    for (const flag *own = p->flags; end - all < PROGRAM_FLAGS_MAX && own->name;) *end++ = *own++;
    if (!p->exactly)
        *end++ = (flag){ "world-size",
                         "N",
                         "processes, if it makes them",
                         .integer = &world_size,
                         .min = p->workers_min ? (double)p->workers_min : 1,
                         .max = 1024 };
    *end = (flag){ "plot", "FILE.svg", "draw the curve", .file = &plot, .writer = p->reporter };
    int code = flags_parse(program_invocation_short_name, about, all, argc, argv);
    if (code >= 0) return code;
    program context = *p;
    if (p->restarts && gw_rpc_launched().rank < 0)
        return run_launched(world_size, p->restarts, argv);
    return gw_rpc_launched().rank >= 0 ? run_worker(NULL, &context)
                                       : workers_run((int)world_size, run_worker, &context);
}
