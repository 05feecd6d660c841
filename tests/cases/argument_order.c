// The parameters of a model whose layers are arguments of one call, in C or in C++: all compilers give the same.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 1);
    gw_module *policy = gw_nn_sequential(
        s, gw_nn_linear(s, 4, 16), gw_nn_relu(s),
        gw_nn_sequential(s, gw_nn_linear(s, 16, 16), gw_nn_lstm(s, 16, 8)), gw_nn_linear(s, 8, 1));
    for (int i = 0; i < gw_module_parameter_count(policy); i++)
        printf("%s %.9f\n", gw_module_parameter_name(s, policy, i),
               gw_item(s, gw_sum(s, gw_module_parameter_at(s, policy, i))));
    return gw_exit_code(gw_scope_close(s));
}
