// A rank that continues from one stage of a job to the next when a file exists. Started by `gradwire run -- stages
// FOLDER`: it prints "started PID", joins once FOLDER/join exists, prints "joined PID", leaves once FOLDER/leave or
// FOLDER/leave.RANK exists, prints "left PID", and ends once FOLDER/end or FOLDER/end.RANK exists, with exit code 0.
// When another rank is lost it ends with 1.
#include <gradwire.h>
#include <gradwire/membership.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *folder;
static int rank;

static bool file_exists(const char *format, const char *stage) {
    char path[512];
    snprintf(path, sizeof path, format, folder, stage, rank);
    return access(path, F_OK) == 0;
}

static bool may_continue(const char *stage) {
    return file_exists("%s/%s", stage) || file_exists("%s/%s.%d", stage);
}

static void reach(const char *stage) {
    printf("%s %d\n", stage, (int)getpid());
    fflush(stdout);
}

// Until |stage| may be left, or another rank has died: |w| is NULL while there are no others.
static void await(gw_scope *s, gw_watch *w, const char *stage) {
    while (gw_ok(s) && !may_continue(stage)) {
        poll(NULL, 0, 20);
        if (!w || !gw_watch_ready(w)) continue;
        gw_member_event e = gw_watch_next(s, w);
        if (e.kind == GW_MEMBER_DIED) gw_fail(s, GW_DISCONNECTED, "%s", e.why.text);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    rank = gw_rpc_launched().rank;
    gw_scope *root = gw_scope_open(NULL);
    reach("started");
    await(root, NULL, "join");
    gw_rpc_init(root);
    gw_watch *w = gw_watch_open(root);
    gw_barrier(root, gw_group_world(root));
    if (gw_ok(root)) reach("joined");
    await(root, w, "leave");
    gw_rpc_leave(root);
    if (gw_ok(root)) reach("left");
    await(root, NULL, "end");
    return gw_exit_code(gw_scope_close(root));
}
