// The same library from C++17: overloads and templates stand in for C's generic macros.
//
//     gradwire run -n 2 -- hello_cpp
#include <cstdio>
#include <gradwire.h>
#include <stdexcept>
#include <string>

GW_FUNCTION(scale, GW_INLINE, "tensor, float") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_arg_float(s, a, 1)));
}

// An exception becomes the error of the call.
GW_FUNCTION(risky, GW_POOL, "int") {
    throw std::out_of_range("no room for " + std::to_string(gw_arg_int(s, a, 0)));
}

struct counter {
    int64_t n;
};
GW_CLASS(counter, counter_open, counter_close, "int");
static void counter_open(gw_scope *own, counter *self, const gw_args *a) {
    self->n = gw_arg_int(own, a, 0);
}
static void counter_close(counter *) {}
GW_METHOD(counter, add, GW_INLINE, "int") {
    return gw_value_of(self->n += gw_arg_int(s, a, 0));
}

int main() {
    gw_scope *root = gw_scope_open(nullptr);
    gw_rpc_init(root);
    if (gw_rpc_self(root).rank == 0) {
        gw_tensor *x = gw_full(root, GW_F32, 1.5, 2, 2);
        gw_print(root, gw_tensor_of(root, gw_rpc_sync(root, 1, "scale", x, 2.0)));
        gw_rref *c = gw_remote(root, "worker1", "counter", 40);
        gw_rpc_sync(root, c, "add", 1);
        std::printf("counted to %lld\n",
                    static_cast<long long>(gw_int_of(root, gw_rpc_sync(root, c, "add", 1))));
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, 1, "risky", 9);
        std::printf("as expected, %s\n", gw_scope_close(s).text);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
