// A job of a world size, all of whose ranks are started again by the launcher, and which continues from its checkpoint.
// Started with `gradwire run -n 3 --max-restarts M restarts_fixed FOLDER WAY [TEXT]`. In the first attempt rank 1 ends before
// the third of six steps. WAY: "kill"; "fail" (its root scope closes with TEXT as its error); "stays" (kill, and rank 0
// prints "asked" at SIGTERM and stays); "always" (kill, in every attempt); "twice" (kill, in two
// attempts, while rank 0 ignores SIGTERM and exits with 0 after it has left).
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 6, LAST_STEP = 3 };

static int64_t load(const char *folder, int rank) {
    char path[512];
    long step = 0;
    snprintf(path, sizeof path, "%s/step%d", folder, rank);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%ld", &step) != 1) step = 0;
    if (f) fclose(f);
    return step;
}

static void save(const char *folder, int rank, int64_t step) {
    char path[512], other[520];
    snprintf(path, sizeof path, "%s/step%d", folder, rank);
    snprintf(other, sizeof other, "%s.new", path);
    FILE *f = fopen(other, "we");
    if (!f) abort();
    fprintf(f, "%ld\n", (long)step);
    if (fclose(f) != 0 || rename(other, path) != 0) abort();
}

static void stay(int signal_number) {
    static const char text[] = "asked\n";
    (void)signal_number;
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) abort();
}

// In place of the end of a rank that has lost another one.
static void wait_for_request(void) {
    for (;;) pause();
}

// All ranks continue from the same step: the oldest that one of them has.
static int64_t agree(gw_scope *root, gw_group *world, int64_t own) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *step = gw_all_reduce(s, world, gw_full(s, GW_I64, own, 1), GW_MIN);
    int64_t oldest = gw_item_int(s, step);
    gw_scope_close_up(s);
    return oldest;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    gw_launch place = gw_rpc_launched();
    bool twice = !strcmp(argv[2], "twice"), always = !strcmp(argv[2], "always");
    bool is_victim = place.rank == 1 && (always || place.attempt < (twice ? 2 : 1));
    bool stays = !strcmp(argv[2], "stays") && place.rank == 0;
    if (stays) signal(SIGTERM, stay);
    if (twice && place.rank == 0) signal(SIGTERM, SIG_IGN);
    printf("rank %d attempt %d pid %d\n", place.rank, place.attempt, (int)getpid());
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *world = gw_group_world(root);
    int64_t step = agree(root, world, load(argv[1], place.rank));
    if (gw_ok(root)) printf("rank %d begins at step %d\n", place.rank, (int)step);
    for (; gw_ok(root) && step < STEPS; step++) {
        if (is_victim && step == LAST_STEP && !strcmp(argv[2], "fail"))
            gw_fail(root, GW_NOT_FOUND, "%s", argv[3]);
        else if (is_victim && step == LAST_STEP)
            raise(SIGKILL);
        gw_barrier(root, world);
        if (gw_ok(root)) save(argv[1], place.rank, step + 1);
    }
    if (gw_ok(root)) printf("rank %d is done\n", place.rank);
    if (stays && !gw_ok(root)) wait_for_request();
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    return twice && place.rank == 0 ? 0 : code;
}
