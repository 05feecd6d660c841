// The short forms of gradwire/rpc.h, and what they are made of.
#ifndef GRADWIRE_DETAIL_RPC_H
#define GRADWIRE_DETAIL_RPC_H

#include <gradwire/rpc.h>

#ifndef GW_ORIGIN  // the place in the program where it stands, "src/train.c:12"; NULL in the library
#define GW_ORIGIN GW_ORIGIN_OF(__FILE__, __LINE__)
#endif
#define GW_ORIGIN_OF(file, line) GW_ORIGIN_TEXT(file, line)
#define GW_ORIGIN_TEXT(file, line) file ":" #line
#define gw_rpc_worker(s, to) gw_rpc_worker_with((s), gw_to(to))
#define gw_rpc_all_gather(s, workers, count, x)                                                    \
    gw_rpc_all_gather_with((s), (workers), (count), gw_value_of(x))

#ifdef __cplusplus
inline gw_target gw_to(const char *x) { return gw_to_name(x); }
inline gw_target gw_to(int x) { return gw_to_rank(x); }
inline gw_target gw_to(long x) { return gw_to_rank(x); }
inline gw_target gw_to(unsigned x) { return gw_to_rank(x); }
inline gw_target gw_to(long long x) { return gw_to_rank(x); }
inline gw_target gw_to(gw_worker x) { return gw_to_worker(x); }
inline gw_target gw_to(const gw_rref *x) { return gw_to_rref(x); }
inline gw_target gw_to(gw_target x) { return x; }

inline void gw_rpc_init(gw_scope *root, gw_rpc_options options = {}) {
    GW_CATCH_EXCEPTIONS();
    gw_rpc_init_with(root, options);
}

inline void gw_rpc_shutdown(gw_scope *root, gw_rpc_shutdown_options options = {}) {
    gw_rpc_shutdown_with(root, options);
}

#define GW_CALL_FORM(form, result)                                                                 \
    template <class Target, class... Args>                                                         \
    result form(gw_scope *s, Target to, const char *function, Args... args) {                      \
        return form##_with(s, gw_to(to), function, GW_ARGS(args...), gw_call_options());           \
    }
GW_CALL_FORM(gw_rpc_sync, gw_value)
GW_CALL_FORM(gw_rpc_async, gw_future *)
GW_CALL_FORM(gw_remote, gw_rref *)
GW_CALL_FORM(gw_rpc_notify, void)
#undef GW_CALL_FORM
#define GW_CALL_ALL_FORM(form, result)                                                             \
    template <class... Args>                                                                       \
    result form(gw_scope *s, const gw_worker *workers, int count, const char *function,            \
                Args... args) {                                                                    \
        return form##_with(s, gw_to_workers(workers, count), function, GW_ARGS(args...),           \
                           gw_call_options());                                                     \
    }
GW_CALL_ALL_FORM(gw_rpc_sync_all, gw_list *)
GW_CALL_ALL_FORM(gw_rpc_async_all, gw_future *)
#undef GW_CALL_ALL_FORM
template <class Type> void gw_future_set(gw_scope *s, gw_future *f, Type x) {
    gw_future_set_with(s, f, gw_value_of(x));
}
#else
#define gw_rpc_options_defaults                                                                    \
    .rank = -1, .world_size = -1, .timeout_ms = 60000, .join_timeout_ms = 300000, .threads = 4,    \
    .registry = NULL, .key = NULL, .insecure = false
#define gw_rpc_shutdown_options_defaults .timeout_ms = GW_NO_TIMEOUT
#define gw_call_options_defaults .timeout_ms = GW_AGENT_TIMEOUT, .origin = NULL
// clang-format off
#define gw_to(x)                                                                                                       \
    _Generic((x),                                                                                                      \
        char *: gw_to_name, const char *: gw_to_name,                                                                  \
        int: gw_to_rank, unsigned: gw_to_rank, long: gw_to_rank, unsigned long: gw_to_rank, long long: gw_to_rank,     \
        gw_worker: gw_to_worker,                                                                                       \
        gw_target: gw_to_target,                                                                                       \
        gw_rref *: gw_to_rref, const gw_rref *: gw_to_rref)(x)
static inline gw_target gw_to_target(gw_target x) { return x; }

#define gw_rpc_init(...)                     GW_NAMED_1(gw_rpc_init_with, gw_rpc_options, __VA_ARGS__, )
#define gw_rpc_shutdown(...)                 GW_NAMED_1(gw_rpc_shutdown_with, gw_rpc_shutdown_options, __VA_ARGS__, )
#define gw_rpc_sync(s, to, ...)              GW_CALL(gw_rpc_sync_with, s, gw_to(to), GW_ORIGIN, __VA_ARGS__, )
#define gw_rpc_async(s, to, ...)             GW_CALL(gw_rpc_async_with, s, gw_to(to), GW_ORIGIN, __VA_ARGS__, )
#define gw_remote(s, to, ...)                GW_CALL(gw_remote_with, s, gw_to(to), GW_ORIGIN, __VA_ARGS__, )
#define gw_rpc_notify(s, to, ...)            GW_CALL(gw_rpc_notify_with, s, gw_to(to), GW_ORIGIN, __VA_ARGS__, )
#define gw_rpc_sync_all(s, workers, count, ...)                                                                        \
    GW_CALL(gw_rpc_sync_all_with, s, gw_to_workers(workers, count), GW_ORIGIN, __VA_ARGS__, )
#define gw_rpc_async_all(s, workers, count, ...)                                                                       \
    GW_CALL(gw_rpc_async_all_with, s, gw_to_workers(workers, count), GW_ORIGIN, __VA_ARGS__, )
#define gw_future_set(s, f, x) gw_future_set_with((s), (f), gw_value_of(x))

// GW_CALL(f, s, target, place, function, args..., ): 0 to 12 arguments, and an empty one behind
// them.
#define GW_CALL(f, s, target, place, function, ...)                                                                    \
    f((s), target, (function), GW_VALUES(__VA_ARGS__),                                                                 \
      (gw_call_options){ .timeout_ms = GW_AGENT_TIMEOUT, .origin = place })
// clang-format on
#endif

#endif
