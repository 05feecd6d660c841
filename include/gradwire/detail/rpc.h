// The machinery of gradwire/rpc.h.
#ifndef GRADWIRE_DETAIL_RPC_H
#define GRADWIRE_DETAIL_RPC_H

#include <gradwire/rpc.h>

#ifndef GW_ORIGIN  // the source line of the call, "src/train.c:12"; NULL in the library
#define GW_ORIGIN GW_ORIGIN_OF(__FILE__, __LINE__)
#endif
#define GW_ORIGIN_OF(file, line) GW_ORIGIN_TEXT(file, line)
#define GW_ORIGIN_TEXT(file, line) file ":" #line

#ifdef __cplusplus
inline gw_target gw_target_of(const char *x) { return gw_to_name(x); }
inline gw_target gw_target_of(int x) { return gw_to_rank(x); }
inline gw_target gw_target_of(long x) { return gw_to_rank(x); }
inline gw_target gw_target_of(unsigned x) { return gw_to_rank(x); }
inline gw_target gw_target_of(long long x) { return gw_to_rank(x); }
inline gw_target gw_target_of(gw_worker x) { return gw_to_worker(x); }
inline gw_target gw_target_of(const gw_rref *x) { return gw_to_rref(x); }
inline gw_target gw_target_of(gw_target x) { return x; }

#define GW_TO(x) gw_target_of(x)

template <class Result, class... Args>
Result gw_call(Result (*f)(gw_scope *, gw_target, const char *, gw_values, gw_call_options),
               gw_scope *s, gw_target to, const char *function, Args... args) {
    return f(s, to, function, gw_args_from(args...), gw_call_options());
}
#define GW_CALL(name, s, target, ...) gw_call(name##_with, (s), target, __VA_ARGS__)
#else
#define gw_rpc_options_defaults                                                                    \
    .rank = -1, .world_size = -1, .timeout_ms = 60000, .join_timeout_ms = 300000, .threads = 4,    \
    .registry = NULL, .key = NULL, .insecure = false, .serve_later = false
#define gw_then_options_defaults .where = GW_INLINE
#define gw_rpc_shutdown_options_defaults .timeout_ms = GW_NO_TIMEOUT
#define gw_call_options_defaults .timeout_ms = GW_AGENT_TIMEOUT, .origin = NULL
// clang-format off
#define GW_TO(x)                                                                                                       \
    _Generic((x),                                                                                                      \
        char *: gw_to_name, const char *: gw_to_name,                                                                  \
        int: gw_to_rank, unsigned: gw_to_rank, long: gw_to_rank, unsigned long: gw_to_rank, long long: gw_to_rank,     \
        gw_worker: gw_to_worker,                                                                                       \
        gw_target: gw_to_target,                                                                                       \
        gw_rref *: gw_to_rref, const gw_rref *: gw_to_rref)(x)
static inline gw_target gw_to_target(gw_target x) { return x; }

// GW_CALL_OF(f, s, target, place, function, args..., ): 0 to 12 arguments, and an empty argument after them.
#define GW_CALL(name, s, target, ...) GW_CALL_OF(name##_with, s, target, GW_ORIGIN, __VA_ARGS__, )
#define GW_CALL_OF(f, s, target, place, function, ...)                                                                    \
    f((s), target, (function), GW_VALUES(__VA_ARGS__),                                                                 \
      (gw_call_options){ .timeout_ms = GW_AGENT_TIMEOUT, .origin = place })
// clang-format on
#endif

#endif
