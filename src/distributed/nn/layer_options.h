// The options of a layer that a class makes: some arguments, then a map of options.
#ifndef DISTRIBUTED_NN_LAYER_OPTIONS_H
#define DISTRIBUTED_NN_LAYER_OPTIONS_H

#include "base/args.h"
#include <gradwire/nn.h>

#include <stddef.h>

// The form of a member of a struct of options in a map.
typedef enum layer_option_kind {
    LAYER_BOOL,
    LAYER_INT,    // int64_t
    LAYER_SMALL,  // int: larger values are no number of layers and no dimension
    LAYER_FLOAT,  // double
    LAYER_PAIR,   // int64_t[2]: a number, which counts for both, or a list of one or two
    LAYER_DTYPE,  // its name
    LAYER_WORD    // an enum: one of |words|, of which the first is 0
} layer_option_kind;

typedef struct layer_option {
    const char *name;  // NULL ends a table
    layer_option_kind kind;
    size_t offset;
    const char *const *words;  // ends with NULL
} layer_option;

// The member |member| of |type|, under its name.
#define LAYER_OPTION(type, member)                                                                 \
    {                                                                                              \
#member,                                                                                   \
            _Generic(((type *)NULL)->member, bool                                                  \
                     : LAYER_BOOL, int64_t                                                         \
                     : LAYER_INT, int                                                              \
                     : LAYER_SMALL, double                                                         \
                     : LAYER_FLOAT, int64_t *                                                      \
                     : LAYER_PAIR),                                                                \
            offsetof(type, member), NULL       \
    }
#define LAYER_OPTION_DTYPE(type)                                                                   \
    { "dtype", LAYER_DTYPE, offsetof(type, dtype), NULL }
#define LAYER_OPTION_OF(type, member, words)                                                       \
    { #member, LAYER_WORD, offsetof(type, member), words }

// Writes to the struct |out| the options in the map behind |count| arguments, if it is present. Fails |s|
// for anything else behind them, and for an option that is not in |options| (NULL: there are none).
void layer_read(gw_scope *s, const gw_args *a, int count, const layer_option *options, void *out);

// |value| as an int of C.
int layer_small(gw_scope *s, const gw_args *a, const char *name, int64_t value);

// ---- The layers ---------------------------------------------------------------------------------
typedef struct layer {
    const char *name;  // "linear"; NULL ends the table
    int count;         // of arguments before the options; below 0: any
    const layer_option *options;
    gw_module *(*open)(gw_scope *s, const gw_args *a);
} layer;

extern const layer layer_table[];

#endif
