// Rank 1 is in gw_rpc_shutdown, and rank 0 waits for it, without a timeout: gradwire run -n 2 -- case-recv_shutdown
// WHAT. Each ends at once with DISCONNECTED and the name of rank 1, except an agreement: that is OK among the remaining
// members, and names rank 1 as missing.
#include <gradwire.h>
#include <stdio.h>
#include <string.h>

static void wait_for_1(gw_scope *s, gw_group *g, const char *what) {
    gw_message messages[] = { { .peer = 1 } };
    gw_agreement made = { 0 };
    if (strcmp(what, "recv") == 0) gw_recv(s, g, 1);
    if (strcmp(what, "recv_any") == 0) gw_recv_any(s, g, NULL);
    if (strcmp(what, "send") == 0) gw_send(s, g, gw_ones(s, GW_F32, 3), 1);
    if (strcmp(what, "batch") == 0) gw_batch(s, g, messages, 1);
    if (strcmp(what, "barrier") == 0) gw_barrier(s, g);
    if (strcmp(what, "agree") == 0) made = gw_group_agree(s, g, 1);
    printf("%s: %s: %s, without %s\n", what, gw_status_name(gw_scope_error(s)->status),
           gw_scope_error(s)->text,
           made.missing_count ? gw_group_worker(s, g, made.missing[0]).name : "none");
}

int main(int argc, char **argv) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .timeout_ms = GW_NO_TIMEOUT);
    gw_group *g = gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT);
    if (gw_rpc_self(root).rank == 0) {
        gw_scope *s = gw_scope_open(root);
        wait_for_1(s, g, argc > 1 ? argv[1] : "recv");
        gw_error ended = gw_scope_close(s);
        (void)ended;
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
