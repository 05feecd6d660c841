// The machinery of options: a program writes options by name, and an option that is left out has its default. See
// docs/decisions/0012-options.md.
//
// In C a macro calls each function with options. The macro writes the initialisers of one struct: first the defaults,
// then the options that the caller names. For this struct only, the compiler does not warn that a later initialiser
// overrides an earlier one, and an option without a name is an error.
#ifndef GRADWIRE_DETAIL_OPTIONS_H
#define GRADWIRE_DETAIL_OPTIONS_H

#include <stddef.h>

// The public headers declare a short form as follows:
//
//     gw_x *gw_f(gw_scope *s, gw_f_options options GW_DEFAULT({})) GW_CALLS(gw_f_with);
//     #define gw_f(...) GW_FORM_1(gw_f, gw_f_options, __VA_ARGS__)
//     GW_TYPE_OF(gw_f) gw_f_with;
//
// The prototype of gw_f, the name that users write, declares the symbol gw_f_with. GW_FORM_n is for a function with n
// arguments before the options. In C, GW_FORM_AT_n also sets .origin to the source line of the call.
#define GW_CALLS(function) __asm__(#function)
#define GW_TYPE_OF(function) __typeof__(function)

#ifdef __cplusplus
// Follows each member of a struct of options.
#define GW_DEFAULT(...) = __VA_ARGS__
#define GW_BY_NAME
#define GW_ONLY_NAMES

// In C++ the defaults are those of the struct. Inside the macro |name|, the preprocessor does not expand |name| again:
// |name| is then the function.
// clang-format off
#define GW_FORM_1(name, type, ...)    name(__VA_ARGS__)
#define GW_FORM_2(name, type, ...)    name(__VA_ARGS__)
#define GW_FORM_3(name, type, ...)    name(__VA_ARGS__)
#define GW_FORM_4(name, type, ...)    name(__VA_ARGS__)
#define GW_FORM_5(name, type, ...)    name(__VA_ARGS__)
#define GW_FORM_AT_2(name, type, ...) name(__VA_ARGS__)
#define GW_FORM_AT_3(name, type, ...) name(__VA_ARGS__)
#define GW_FORM_AT_4(name, type, ...) name(__VA_ARGS__)
#define GW_FORM_AT_5(name, type, ...) name(__VA_ARGS__)
// clang-format on
#else
#define GW_DEFAULT(...)

// GW_BY_NAME marks a struct whose members must be initialised by name. gcc warns of each initialiser without a name;
// clang warns only of more initialisers than members. GW_ONLY_NAMES makes these warnings errors.
#ifdef __clang__
#define GW_BY_NAME
#define GW_ONLY_NAMES _Pragma("GCC diagnostic error \"-Wexcess-initializers\"")
#else
#define GW_BY_NAME __attribute__((designated_init))
#define GW_ONLY_NAMES _Pragma("GCC diagnostic error \"-Wdesignated-init\"")
#endif

// GW_NAMED_2(f, type, a, b, .name = value, ..., ) expands to f(a, b, options). A form passes __VA_ARGS__ and then an
// empty argument, so that a call may name no option. Each |type| is a struct GW_BY_NAME. Its defaults are a macro that
// ends with the last member of the struct: if a value without a name follows, there are more initialisers than members.
// clang-format off
#define GW_FORM_1(name, type, ...)         GW_NAMED_1(name##_with, type, __VA_ARGS__, )
#define GW_FORM_2(name, type, ...)         GW_NAMED_2(name##_with, type, __VA_ARGS__, )
#define GW_FORM_3(name, type, ...)         GW_NAMED_3(name##_with, type, __VA_ARGS__, )
#define GW_FORM_4(name, type, ...)         GW_NAMED_4(name##_with, type, __VA_ARGS__, )
#define GW_FORM_5(name, type, ...)         GW_NAMED_5(name##_with, type, __VA_ARGS__, )
#define GW_FORM_AT_2(name, type, ...)      GW_NAMED_2(name##_with, type, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_FORM_AT_3(name, type, ...)      GW_NAMED_3(name##_with, type, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_FORM_AT_4(name, type, ...)      GW_NAMED_4(name##_with, type, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_FORM_AT_5(name, type, ...)      GW_NAMED_5(name##_with, type, __VA_ARGS__, .origin = GW_ORIGIN, )
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
