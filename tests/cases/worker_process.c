// A program that starts workers of itself: one that serves until the end; one that exits before it joins; one that prints a
// line and is killed; one that is killed at once, and one that is killed the moment it has joined; one that stops itself. Each wait for them ends with
// their outcome, no call waits for a worker that has ended, and a worker whose scope is closed ends with it.
//
// Right: ten lines, as in tests/process/worker_process_test.c, and exit code 0.
#include <gradwire.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

GW_FUNCTION(twice, GW_INLINE, "int") {
    return gw_value_of(2 * gw_arg_int(s, a, 0));
}

GW_FUNCTION(stop, GW_POOL, "") {
    (void)s, (void)a;
    raise(SIGSTOP);
    return gw_none();
}

static int be_worker(const char *url, const char *name, const char *how) {
    if (strcmp(how, "exits") == 0) return 3;
    if (strcmp(how, "prints") == 0) {
        printf("%s prints\n", name);
        raise(SIGKILL);
    }
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = name, .job = GW_JOB_JOIN, .init_method = url);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}

static gw_process *start(gw_scope *s, const char *url, const char *name, const char *how) {
    const char *const arguments[] = { url, name, how, NULL };
    return gw_process_start(s, name, arguments);
}

// Prints "serves: 0", or the error of |f|.
static void print_outcome(gw_scope *root, const char *what, gw_future *f) {
    gw_scope *s = gw_scope_open(root);
    int64_t x = gw_int_of(s, gw_wait(s, f));
    gw_error e = gw_scope_close(s);
    if (e.status)
        printf("%s: %s: %s\n", what, gw_status_name(e.status), e.text);
    else
        printf("%s: %d\n", what, (int)x);
}

int main(int argc, char **argv) {
    if (argc == 4) return be_worker(argv[1], argv[2], argv[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);  // in order with the output of its workers
    char path[64], url[80];
    snprintf(path, sizeof path, "/tmp/gradwire-case-%d", (int)getpid());
    snprintf(url, sizeof url, "file://%s", path);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "parent", .job = GW_JOB_CREATE, .init_method = url);

    gw_process *exits = start(root, url, "exits", "exits");
    print_outcome(root, "exits joins", gw_process_joined(exits));
    print_outcome(root, "exits ends", gw_process_ended(exits));

    gw_process *prints = start(root, url, "prints", "prints");
    print_outcome(root, "prints ends", gw_process_ended(prints));

    gw_process *killed = start(root, url, "killed", "serves");
    gw_process_kill(killed);
    print_outcome(root, "killed ends", gw_process_ended(killed));

    // Calls to the killed worker end, too; and another worker may take its name at once.
    for (int i = 0; i < 3; i++) {
        gw_process *joins = start(root, url, "joins", "serves");
        gw_wait(root, gw_process_joined(joins));
        gw_process_kill(joins);
        gw_future *call = gw_rpc_async(root, "joins", "twice", 4);
        gw_wait(root, gw_process_ended(joins));
        gw_scope *s = gw_scope_open(root);
        gw_wait(s, call);
        gw_error e = gw_scope_close(s);
        if (e.status != GW_OK && e.status != GW_DISCONNECTED) printf("call: %s\n", e.text);
    }

    gw_process *stops = start(root, url, "stops", "serves");
    gw_wait(root, gw_process_joined(stops));
    gw_rpc_notify(root, "stops", "stop");
    print_outcome(root, "stops ends", gw_process_ended(stops));

    gw_scope *s = gw_scope_open(root);
    gw_process *closed = start(s, url, "closed", "serves");
    int id = gw_process_id(closed);
    gw_scope_close_up(s);
    printf("closed is gone: %d\n", kill(id, 0) != 0 && errno == ESRCH);

    gw_process *serves = start(root, url, "serves", "serves");
    gw_wait(root, gw_process_joined(serves));
    print_outcome(root, "serves answers", gw_rpc_async(root, "serves", "twice", 4));
    gw_rpc_shutdown(root);
    print_outcome(root, "serves ends", gw_process_ended(serves));
    unlink(path);
    return gw_exit_code(gw_scope_close(root));
}
