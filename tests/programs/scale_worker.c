// gradwire-scale-worker URL RANK WORLD_SIZE
//
// One of many workers: joins, and at a line "call" on standard input calls all others; at "leave" it leaves. After each
// step it prints a line, "joined", "called", "left", so that the test can measure it while it is idle.
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GW_FUNCTION(scale_square, GW_POOL, "int") {
    int64_t x = gw_arg_int(s, a, 0);
    return gw_value_of(x * x);
}

static void print_line(const char *what) {
    puts(what);
    fflush(stdout);
}

static void wait_for(const char *what) {
    char line[64];
    if (!fgets(line, sizeof line, stdin) || strncmp(line, what, strlen(what)) != 0) exit(3);
}

static void call_all(gw_scope *root, int rank, int world_size) {
    gw_scope *s = gw_scope_open(root);
    gw_future **fs = gw_alloc(s, (size_t)world_size * sizeof *fs);
    for (int to = 0; fs && to < world_size; to++) {
        int64_t x = rank * 1000 + to;
        fs[to] = gw_rpc_async(s, to, "scale_square", x);
    }
    for (int to = 0; fs && to < world_size && gw_ok(s); to++) {
        int64_t x = rank * 1000 + to;
        int64_t got = gw_int_of(s, gw_wait(s, fs[to]));
        if (gw_ok(s) && got != x * x) gw_fail(s, GW_REMOTE, "a wrong square");
    }
    gw_scope_close_up(s);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int rank = (int)strtol(argv[2], NULL, 10), world_size = (int)strtol(argv[3], NULL, 10);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = world_size, .init_method = argv[1], .threads = 1);
    if (gw_ok(root)) print_line("joined");
    wait_for("call");
    call_all(root, rank, world_size);
    if (gw_ok(root)) print_line("called");
    wait_for("leave");
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    if (!code) print_line("left");
    return code;
}
