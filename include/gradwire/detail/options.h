// How options are written: by name, and what is left out has its default. See
// docs/decisions/0012-options.md.
//
// In C a function with options is called through a macro, which puts the defaults before what the
// caller names, as initialisers of one struct. For just this struct the warning that a name
// overrides a default is turned off, and an option without a name is an error.
#ifndef GRADWIRE_DETAIL_OPTIONS_H
#define GRADWIRE_DETAIL_OPTIONS_H

#include <stddef.h>

#ifdef __cplusplus
// Behind each member of a struct of options.
#define GW_DEFAULT(...) = __VA_ARGS__
#define GW_BY_NAME
#define GW_ONLY_NAMES
#else
#define GW_DEFAULT(...)

// GW_BY_NAME marks a struct whose members are initialised by name, which gcc checks at each
// initialiser. clang checks those that are too many. GW_ONLY_NAMES makes an error of both.
#ifdef __clang__
#define GW_BY_NAME
#define GW_ONLY_NAMES _Pragma("GCC diagnostic error \"-Wexcess-initializers\"")
#else
#define GW_BY_NAME __attribute__((designated_init))
#define GW_ONLY_NAMES _Pragma("GCC diagnostic error \"-Wdesignated-init\"")
#endif

// Options made before the call that takes them: gw_sgd_options o = GW_OPTIONS(gw_sgd_options, .lr =
// 0.1);
#define GW_OPTIONS(...) GW_OPTIONS_OF(__VA_ARGS__, )

// GW_NAMED_2(f, type, a, b, .name = value, ..., ) is f(a, b, options). The caller passes
// __VA_ARGS__ and an empty argument behind them, so that there may be no name at all. Each |type|
// is a struct GW_BY_NAME with a macro of its defaults, which ends with the last member: what is
// given without a name is then one initialiser too many.
// clang-format off
#define GW_OPTIONS_OF(type, ...)           GW_QUIET((type){ type##_defaults, __VA_ARGS__ })
#define GW_NAMED_1(f, type, a, ...)        GW_QUIET(f((a), (type){ type##_defaults, __VA_ARGS__ }))
#define GW_NAMED_2(f, type, a, b, ...)     GW_QUIET(f((a), (b), (type){ type##_defaults, __VA_ARGS__ }))
#define GW_NAMED_3(f, type, a, b, c, ...)  GW_QUIET(f((a), (b), (c), (type){ type##_defaults, __VA_ARGS__ }))
#define GW_NAMED_4(f, type, a, b, c, d, ...) \
    GW_QUIET(f((a), (b), (c), (d), (type){ type##_defaults, __VA_ARGS__ }))
#define GW_NAMED_5(f, type, a, b, c, d, e, ...) \
    GW_QUIET(f((a), (b), (c), (d), (e), (type){ type##_defaults, __VA_ARGS__ }))

#define GW_QUIET(...)                                                                                                  \
    __extension__({                                                                                                    \
        _Pragma("GCC diagnostic push")                                                                                 \
        _Pragma("GCC diagnostic ignored \"-Woverride-init\"")                                                          \
        GW_ONLY_NAMES                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        _Pragma("GCC diagnostic pop")                                                                                  \
    })
// clang-format on
#endif

#endif
