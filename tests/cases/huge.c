// Tensors with more elements than 32 bits count.
//
//     gradwire run -n 2 -- case-huge all_reduce 4294967297
//
// The operation, all_reduce, broadcast, all_gather, send or rpc, gives a tensor of so many bytes. Right: "ok" of each
// rank, and 0: every number is at its offset. Both processes together use up to 3 times as many bytes.
#include <gradwire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A tensor of zeros except at these offsets, which lie around each multiple of |SPACING| and at the end.
#define SPACING (INT64_C(1) << 28)

static bool is_marked(int64_t at, int64_t count) {
    return (at + 1) % SPACING <= 1 || at == count - 1;
}

static int64_t next_marked(int64_t at, int64_t count) {
    int64_t next = (at + 1) % SPACING == 0 ? at + 1 : (at / SPACING + 1) * SPACING - 1;
    return next < count ? next : count - 1;
}

static uint8_t mark_of(int64_t at, int rank) {
    return (uint8_t)(1 + (at >> 28) % 50 + rank);
}

static gw_tensor *open_marked(gw_scope *s, int64_t count, int rank) {
    gw_tensor *x = gw_zeros(s, GW_U8, count);
    uint8_t *bytes = gw_data_for_write(s, x);
    for (int64_t at = 0; bytes; at = next_marked(at, count)) {
        if (is_marked(at, count)) bytes[at] = mark_of(at, rank);
        if (at == count - 1) break;
    }
    return x;
}

static void check_marked(gw_scope *s, const uint8_t *bytes, int64_t count, int rank) {
    static const uint8_t zeros[1 << 16];
    int64_t at = 0;
    for (int64_t from = 0; at < count; at = next_marked(at, count)) {
        for (; from < at; from += (int64_t)sizeof zeros) {
            size_t size = (size_t)(at - from) < sizeof zeros ? (size_t)(at - from) : sizeof zeros;
            if (memcmp(bytes + from, zeros, size) != 0)
                gw_fail(s, GW_INVALID, "there is a number behind %lld", (long long)from);
        }
        int right = is_marked(at, count) ? mark_of(at, rank) : 0;
        if (bytes[at] != right)
            gw_fail(s, GW_INVALID, "%d for %d at %lld", bytes[at], right, (long long)at);
        if (at == count - 1 || !gw_ok(s)) return;
        from = at + 1;
    }
}

GW_FUNCTION(huge_check, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    check_marked(s, gw_data(x), gw_numel(x), 0);
    return gw_none();
}

static void work(gw_scope *s, const char *operation, int64_t count) {
    gw_group *g = gw_group_world(s);
    int rank = gw_group_rank(g);
    gw_tensor *y = NULL;
    if (strcmp(operation, "all_reduce") == 0) {
        // Each contributes one byte, expanded to the size without extra memory.
        gw_tensor *one = gw_full(s, GW_U8, rank + 1, 1);
        y = gw_all_reduce(s, g, gw_expand(s, one, count), GW_SUM);
        const uint8_t *bytes = gw_data(y);
        int64_t right = 0;
        while (gw_ok(s) && right < count && bytes[right] == 3) right++;
        if (right < count) gw_fail(s, GW_INVALID, "no sum at %lld", (long long)right);
    } else if (strcmp(operation, "broadcast") == 0) {
        gw_tensor *x = rank ? gw_expand(s, gw_zeros(s, GW_U8, 1), count) : open_marked(s, count, 0);
        y = gw_broadcast(s, g, x, 0);
        if (gw_ok(s)) check_marked(s, gw_data(y), count, 0);
    } else if (strcmp(operation, "all_gather") == 0) {
        y = gw_all_gather(s, g, open_marked(s, count / 2, rank));
        for (int i = 0; gw_ok(s) && i < 2; i++)
            check_marked(s, (const uint8_t *)gw_data(y) + i * (count / 2), count / 2, i);
    } else if (strcmp(operation, "send") == 0) {
        if (rank)
            y = gw_recv(s, g, 0);
        else
            gw_send(s, g, open_marked(s, count, 0), 1);
        if (gw_ok(s) && rank) check_marked(s, gw_data(y), count, 0);
    } else if (rank == 0)
        gw_rpc_sync(s, 1, "huge_check", open_marked(s, count, 0));
}

int main(int argc, char **argv) {
    int64_t count = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_scope *s = gw_scope_open(root);
    if (count > 0) work(s, argv[1], count);
    gw_scope_close_up(s);
    if (gw_ok(root)) printf("ok\n");
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
