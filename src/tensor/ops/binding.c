// The table as bindings see it: made once of the rows, whose words it takes apart.
#include <gradwire/binding.h>

#include "base/process_number.h"
#include "tensor/ops/op.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum { ROWS_MAX = 256, NAME_BYTES_MAX = 16 * 1024 };

static gw_operator operators[ROWS_MAX];
static int operator_count;
static char name_bytes[NAME_BYTES_MAX];  // names of arguments, each with its NUL
static size_t name_byte_count;
static pthread_once_t operators_once = PTHREAD_ONCE_INIT;

static const char *name_of(const op_param *p) {
    char *name = name_bytes + name_byte_count;
    name_byte_count += (size_t)p->name_size + 1;
    assert(name_byte_count <= NAME_BYTES_MAX);
    memcpy(name, p->name, (size_t)p->name_size);
    return name;
}

// In the order of gw_argument_kind.
static const char *const kind_names[GW_ARGUMENT_KIND_COUNT] = {
    "tensor", "operand", "number", "int", "float", "bool", "ints", "tensors", "dtype",
};

static gw_argument_kind kind_of(const op_param *p) {
    size_t size = (size_t)p->kind_size;
    for (int kind = 0; kind < GW_ARGUMENT_KIND_COUNT; kind++)
        if (strlen(kind_names[kind]) == size && memcmp(kind_names[kind], p->kind, size) == 0)
            return (gw_argument_kind)kind;
    assert(!"a row has a kind that is none");
    return GW_ARGUMENT_TENSOR;
}

static void describe(gw_operator *o, const op *row) {
    _Static_assert(GW_OPERATOR_ARGUMENTS_MAX == (int)OP_ARGS_MAX, "a row's arguments have room");
    _Static_assert(GW_OPERATOR_LIST == (int)OP_LIST, "a list is a list");
    o->name = row->name;
    o->result_count = row->results ? row->results : 1;
    o->has_gradient = row->grad != NULL;
    const char *at = row->params;
    for (op_param p; op_param_next(&at, &p); o->argument_count++)
        o->arguments[o->argument_count] = (gw_operator_argument){
            .name = name_of(&p),
            .kind = kind_of(&p),
            .optional = p.optional,
            .otherwise = op_param_otherwise(&p),
        };
}

static void describe_all(void) {
    for (const op *const *row = op_table; *row; row++) {
        assert(operator_count < ROWS_MAX);
        describe(&operators[operator_count++], *row);
    }
}

int gw_operator_count(void) {
    pthread_once(&operators_once, describe_all);
    return operator_count;
}

const gw_operator *gw_operator_at(int index) {
    return index >= 0 && index < gw_operator_count() ? &operators[index] : NULL;
}

const gw_operator *gw_operator_find(const char *name) {
    const op *row = op_find(strncmp(name, "gw.", 3) == 0 ? name + 3 : name);
    for (int i = 0; row && i < gw_operator_count(); i++)
        if (op_table[i] == row) return &operators[i];
    return NULL;
}

gw_value gw_operator_call(gw_scope *s, const gw_operator *o, const gw_value *args, int count) {
    if (!scope_check_array(s, "gw_operator_call", args, count))
        return gw_value_of(tensor_poison_of(s));
    return op_run_value(s, op_table[o - operators], args, count);
}

// ---- Counts of handles --------------------------------------------------------------------------
gw_handle *gw_retain_handle(gw_handle *h) {
    return handle_retain(h);
}

void gw_release_handle(gw_handle *h) {
    if (!process_number) handle_release(h);
}
