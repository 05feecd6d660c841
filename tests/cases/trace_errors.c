// Wrong uses of gw_trace_start and gw_trace_stop: prints a line for each error. `case-trace_errors FILE` is one worker, started
// by `gradwire run -n1`.
#include <gradwire.h>
#include <stdio.h>

// Ends |s| and prints its error.
static void end(gw_scope *s, const char *what) {
    gw_error e = gw_scope_close(s);
    printf("%s: %s: %s\n", what, gw_status_name(e.status), e.text);
}

int main(int argc, char **argv) {
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
    gw_trace_start(s);
    end(s, "no agent");
    gw_rpc_init(root);
    gw_trace_start(s = gw_scope_open(root), .levels = "call,calm");
    end(s, "level");
    gw_trace_start(s = gw_scope_open(root), .seconds = -1);
    end(s, "seconds");
    gw_trace_stop(s = gw_scope_open(root), "t.json");
    end(s, "not started");
    gw_trace_start(s = gw_scope_open(root));
    end(s, "first");
    gw_trace_start(s = gw_scope_open(root));
    end(s, "second");
    gw_trace_stop(s = gw_scope_open(root), "/no/such/folder/t.json");
    end(s, "folder");
    // Again, in a scope that has failed meanwhile.
    gw_trace_start(root);
    s = gw_scope_open(root);
    gw_fail(s, GW_INVALID, "the program fails");
    gw_mark(root, "failed");
    gw_trace_stop(s, argc > 1 ? argv[1] : "");
    end(s, "failed scope");
    gw_trace_start(root);  // is dropped at the end
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
