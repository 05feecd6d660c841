// The implementation of the macros of gradwire/collective.h.
#ifndef GRADWIRE_DETAIL_COLLECTIVE_H
#define GRADWIRE_DETAIL_COLLECTIVE_H

#include <gradwire/collective.h>

#ifdef __cplusplus
template <class Result, class Type>
Result gw_collective_of(Result (*f)(gw_scope *, gw_group *, gw_value, gw_collective_options),
                        gw_scope *s, gw_group *g, Type x, gw_collective_options options = {}) {
    return f(s, g, gw_value_of(x), options);
}
template <class Result, class Type>
Result gw_collective_of(Result (*f)(gw_scope *, gw_group *, gw_value, int, gw_collective_options),
                        gw_scope *s, gw_group *g, Type x, int root,
                        gw_collective_options options = {}) {
    return f(s, g, gw_value_of(x), root, options);
}
#define GW_FORM_AT_VALUE_3(name, ...) gw_collective_of(name##_with, __VA_ARGS__)
#define GW_FORM_AT_VALUE_4(name, ...) gw_collective_of(name##_with, __VA_ARGS__)
#else
// clang-format off
#define gw_collective_options_defaults .key = 0, .timeout_ms = GW_GROUP_TIMEOUT, .factor = 1, .sizes = NULL, .into = NULL, .origin = NULL
#define gw_message_options_defaults .tag = 0, .timeout_ms = GW_GROUP_TIMEOUT, .origin = NULL
#define GW_FORM_AT_VALUE_3(name, ...) GW_COLLECTIVE_VALUE_3(name##_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_FORM_AT_VALUE_4(name, ...) GW_COLLECTIVE_VALUE_4(name##_with, __VA_ARGS__, .origin = GW_ORIGIN, )
#define GW_COLLECTIVE_VALUE_3(f, s, g, x, ...) \
    GW_NAMED_3(f, gw_collective_options, s, g, gw_value_of(x), __VA_ARGS__)
#define GW_COLLECTIVE_VALUE_4(f, s, g, x, root, ...) \
    GW_NAMED_4(f, gw_collective_options, s, g, gw_value_of(x), root, __VA_ARGS__)
// clang-format on
#endif

#endif
