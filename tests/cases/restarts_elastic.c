// An elastic job whose workers are started again by the launcher. Started with
// `gradwire run -n 3 --max-restarts M restarts_elastic RANKS WAY N`: the first N attempts of RANKS ("1", "12") end in the middle
// of the job. The others continue without them, and admit the next attempts. WAY: "kill", "stop", "exit0" and "exit3",
// "unlink" (kill, and the program is deleted), "crash" (the first attempt is killed, later ones exit with 5 before they join),
// "host" (the launcher is killed, and the others do not wait for a next attempt).
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3 };

static gw_group *enter(gw_scope *root, gw_launch place) {
    bool founds = place.creates;
    gw_rpc_init(root, .job = founds ? GW_JOB_CREATE : GW_JOB_JOIN);
    if (!gw_ok(root)) return NULL;
    if (!founds) return gw_group_join(root, "members");
    gw_worker self = gw_rpc_self(root);
    gw_group *alone = gw_group_open(root, &self, 1, .name = "members");
    return gw_group_reform(root, alone, .min = MEMBERS, .grow = true);
}

// Returns false if a member was lost.
static bool take_step(gw_scope *root, gw_group *group) {
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, group);
    gw_error e = gw_scope_close(s);
    if (e.status != GW_DISCONNECTED) gw_scope_fail(root, &e);
    return !e.status;
}

static void end(const char *program, const char *way) {
    fflush(NULL);
    if (!strcmp(way, "unlink")) unlink(program);
    if (!strcmp(way, "exit0")) _exit(0);
    if (!strcmp(way, "exit3")) _exit(3);
    if (!strcmp(way, "stop")) raise(SIGSTOP);
    if (!strcmp(way, "host")) kill(getppid(), SIGKILL);
    raise(SIGKILL);
}

// The remaining members take a step before they admit the next attempts.
static gw_group *continue_without(gw_scope *root, gw_group *group, int lost, int rank, bool grow) {
    while (gw_ok(root) && take_step(root, group)) continue;
    do group = gw_group_reform(root, group, .min = MEMBERS - lost);
    while (gw_ok(root) && !take_step(root, group));
    if (gw_ok(root)) printf("rank %d continues as one of %d\n", rank, gw_group_size(group));
    return grow ? gw_group_reform(root, group, .min = MEMBERS, .grow = true) : group;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    gw_launch place = gw_rpc_launched();
    bool is_victim = strchr(argv[1], '0' + place.rank);
    int deaths = (int)strtol(argv[3], NULL, 10), deaths_seen = is_victim ? place.attempt : 0;
    printf("rank %d attempt %d pid %d\n", place.rank, place.attempt, (int)getpid());
    if (is_victim && place.attempt && !strcmp(argv[2], "crash")) _exit(5);
    gw_scope *root = gw_scope_open(NULL);
    gw_group *group = enter(root, place);
    for (; gw_ok(root) && deaths_seen < deaths; deaths_seen++) {
        // Another one of RANKS may have ended before this step is over.
        if (is_victim) take_step(root, group);
        if (is_victim) end(argv[0], argv[2]);
        group = continue_without(root, group, (int)strlen(argv[1]), place.rank,
                                 strcmp(argv[2], "host") != 0);
    }
    for (int i = 0; i < 2 && gw_ok(root); i++)
        if (!take_step(root, group)) gw_fail(root, GW_DISCONNECTED, "a member is lost");
    if (gw_ok(root)) printf("rank %d is done as one of %d\n", place.rank, gw_group_size(group));
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
