// Operators as rows of one table: name, parameters, shape rule, kernel, derivative. The public
// functions of gradwire/ops.h are one-line calls of op_run; rpc serves every row as "gw.<name>";
// tests and docs iterate over the table.
//
// Running a row: op_run checks that the scope has no error, that the arguments fit |params| and that they are on one
// device, and casts them if the scope has autocast. Then op_run calls |infer| (which checks shapes and dtypes and makes
// the outputs), and |compute| or the device's kernel of the row (which fills them; NULL for views). Then op_run passes
// the call to the tape of the tensor arguments if one of them needs a gradient.
#ifndef TENSOR_OPS_OP_H
#define TENSOR_OPS_OP_H

#include "tensor/tensor.h"

enum {
    OP_ARGS_MAX = 8,
    OP_OUTPUTS_MAX = 2,
    OP_LIST = -1,             // for |results|: the number depends on the arguments
    OP_LIST_MAX = UINT16_MAX  // nodes of the graph count their outputs in 16 bits
};

typedef struct op_call op_call;
typedef struct op_grad op_grad;

// Casts of gw_autocast for the tensors of an operator (gradwire/amp.h).
typedef enum op_cast {
    OP_CAST_NONE = 0,
    OP_CAST_DOWN,          // to the scope's dtype
    OP_CAST_F32,           // to f32
    OP_CAST_F32_FROM_F16,  // to f32, if the scope's dtype is f16
} op_cast;

typedef struct op {
    const char *name;  // "add"; "gw.add" on the wire

    // "x:tensor other:operand dim:int": name:kind, a '?' behind the kind makes it optional (none),
    // and "?=0.1" gives its default. Kinds: tensor, operand (tensor or number), number, int,
    // float, bool, ints (sizes or dims; one alone may be an int), tensors (a list), dtype. See
    // op_param_next.
    const char *params;

    op_cast cast;

    // How many tensors a caller by name gets: 0 is one, OP_LIST a list of them. The row may have
    // more outputs, which only its derivative reads.
    int results;

    void (*infer)(op_call *c);
    void (*compute)(op_call *c);  // the CPU's kernel; those of other devices stand in their tables
    bool moves;                   // |compute| goes through tables of devices, for whatever devices
    void (*grad)(op_grad *g);     // NULL: not differentiable
    uint32_t
        saves;  // read by |grad|: OP_SAVE_ARG(0) | OP_SAVE_OUT(0); shapes and numbers are always saved

    // For functions that several rows have: which of these rows it is, often a loop of kernels/loops.h; and the loop
    // of its derivative.
    int variant, slope;

    // Makes the one output instead of |infer| and |compute| when an argument is sparse by rows;
    // nothing is recorded. NULL: no argument may be.
    void (*rows)(op_call *c);
} op;

#define OP_SAVE_ARG(i) (1u << (i))
#define OP_SAVE_OUT(i) (1u << (OP_ARGS_MAX + (i)))

struct op_call {
    gw_scope *scope;
    const op *op;
    const gw_value *args;  // as given; op_... accessors below read them
    int arg_count;
    gw_tensor **outputs;             // made by infer, one count each
    gw_tensor *few[OP_OUTPUTS_MAX];  // where they stand unless op_output_room made more room
    int output_count;
    bool has_rows;   // an argument is sparse by rows
    uint8_t device;  // of all tensors
    union {          // infer's findings for compute
        int64_t ints[8];
        double reals[8];
    } plan;
};

// One derivative: reads d_outputs, writes d_inputs. Written with the public operators, in g->scope,
// where nothing is recorded.
struct op_grad {
    gw_scope *scope;
    const op *op;
    const gw_value *args;  // numbers as given; tensors have shape and dtype, and values if saved
    int arg_count;
    gw_tensor *const *outputs;    // shape and dtype, and values if saved
    gw_tensor *const *d_outputs;  // NULL: that output has no gradient
    int output_count;
    gw_tensor *
        *d_inputs;  // by flat tensor input: tensor arguments in order, a list's tensors one by one
    const bool *wanted;  // by flat tensor input: skip the work if false
    int input_count;
};

extern const op *const op_table[];    // in the order of gradwire/ops.h; ends with NULL
const op *op_find(const char *name);  // without "gw."; NULL if there is none

// Runs |o|; the arguments are borrowed until it returns. Returns the first output, owned by the
// scope, or poison. |others| (may be NULL) receives further outputs.
gw_tensor *op_run(gw_scope *s, const op *o, const gw_value *args, int arg_count,
                  gw_tensor **others);

// The same for callers by name: the tensor, or a list of several.
gw_value op_run_value(gw_scope *s, const op *o, const gw_value *args, int arg_count);

// One parameter of a row.
typedef struct op_param {
    const char *name, *kind;  // inside |params|
    int name_size, kind_size;
    bool optional;
    const char *number;  // the number that it is if left out, inside |params|; NULL: none
} op_param;

// Reads the parameter at |*at|, and moves on to the next. False at the end.
bool op_param_next(const char **at, op_param *out);
bool op_param_fits(const op_param *p, gw_value v);
gw_value op_param_otherwise(const op_param *p);  // the default: none or a number

// Whether the arguments fit |params| and none is poison; fails the scope if not. If
// an argument is omitted, the arguments are then |filled|, with the default of the row.
bool op_params_check(op_call *c, gw_value filled[OP_ARGS_MAX]);

// Arguments, inside infer, compute and grad (pass c->args or g->args). They were checked against
// |params|.
static inline gw_tensor *arg_tensor(const gw_value *args, int i) {
    return args[i].kind == GW_TENSOR ? args[i].as.tensor : NULL;
}
static inline double arg_number(const gw_value *args, int i) {
    return args[i].kind == GW_FLOAT  ? args[i].as.real
           : args[i].kind == GW_BOOL ? (double)args[i].as.boolean
                                     : (double)args[i].as.integer;
}
static inline int64_t arg_int(const gw_value *args, int i) {
    return args[i].kind == GW_BOOL ? args[i].as.boolean : args[i].as.integer;
}
static inline bool arg_bool(const gw_value *args, int i) {
    return args[i].as.boolean;
}
static inline bool arg_is_none(const gw_value *args, int i) {
    return args[i].kind == GW_NONE;
}
// The dimension in argument |i|, which op_dim has checked, of |x|; -1 of a scalar, which is a row of one.
static inline int arg_dim(const gw_value *args, int i, const gw_tensor *x) {
    int64_t dim = arg_int(args, i);
    return x->dims == 0 ? -1 : (int)(dim < 0 ? dim + x->dims : dim);
}
gw_dtype arg_dtype(const gw_value *args, int i);
int arg_ints(const gw_value *args, int i, int64_t out[GW_DIMS_MAX]);  // returns the count

// ---- For infer, and for kernels (op_output.c) ---------------------------------------------------

// Fails c->scope with "gw.<name>: " in front.
void op_fail(op_call *c, gw_status status, const char *format, ...) GW_PRINTF(3, 4);

// Make the next output, on the call's device. NULL with c->scope failed.
gw_tensor *op_output(op_call *c, gw_dtype dtype, int dims, const int64_t *sizes);
gw_tensor *op_output_like(op_call *c, const gw_tensor *x);  // of its dtype and shape
gw_tensor *op_output_of(op_call *c, gw_tensor *x);  // takes the count on |x|, which may be NULL
void op_infer_first(op_call *c);                    // the output, like argument 0
void op_infer_second(op_call *c);                   // like argument 1
bool op_output_room(op_call *c, int64_t count);     // for more outputs than OP_OUTPUTS_MAX
gw_tensor *op_output_view(op_call *c, const gw_tensor *base, int dims, const int64_t *sizes,
                          const int64_t *strides, int64_t offset);

// Whether |dtype| is one of floats; or is not bool. Fail if not.
bool op_check_float(op_call *c, gw_dtype dtype);
bool op_check_number(op_call *c, gw_dtype dtype);

// Whether argument |i| has these sizes and the dtype of argument 0, if there is one. Fails with its |name| if not.
bool op_check_parameter(op_call *c, const char *name, int i, int dims, const int64_t *sizes);

// A dimension counted from the end if negative. Fails with "dimension 3 of 2x4" when there is none
// such; a scalar has one for this purpose, as in PyTorch. Returns it, or -1 with the scope failed.
int op_dim(op_call *c, const gw_tensor *x, int64_t dim);

// The shape that |a| and |b| broadcast to. Fails and returns -1 if they do not, else returns the
// dims.
int op_broadcast(op_call *c, const gw_tensor *a, const gw_tensor *b, int64_t out[GW_DIMS_MAX]);

// The same with one shape in |sizes|, where the result goes.
int op_broadcast_to(op_call *c, int dims, int64_t sizes[GW_DIMS_MAX], const gw_tensor *x);

// For grad: the flat input of argument |i|, which is a tensor; and the sum of |d| over the broadcast
// dimensions, in the dtype of |x|: the way back of broadcasting.
int grad_input(const op_grad *g, int i);
gw_tensor *unbroadcast(gw_scope *s, gw_tensor *d, const gw_tensor *x);

// For grad: halves as f32, other dtypes unchanged, so that intermediate values of a derivative
// neither overflow nor round. Results are rounded once: by unbroadcast, or gw_to_dtype.
gw_value grad_wide(gw_scope *s, gw_value v);
gw_tensor *grad_wide_tensor(gw_scope *s, gw_tensor *x);

// A shape as an argument from C: int64s as bytes. From the wire it is a list of ints; arg_ints
// takes both.
static inline gw_value value_of_ints(gw_shape shape) {
    return gw_value_of_bytes(shape.sizes, (size_t)shape.count * sizeof(int64_t));
}

static inline gw_value value_of_optional(gw_tensor *x) {
    return x ? gw_value_of_tensor(x) : gw_none();
}

// Records operators for backward. Every tensor that needs a gradient has a pointer to it,
// which the room above gave it; so operators on tensors that need none use no tape.
typedef struct tape {
    void (*record)(
        op_call *c);  // links c->outputs to a new node of the graph; fails c->scope without memory
    void (*forget)(gw_tensor *x);  // gives back |node| and |hooks|
} tape;

#endif
